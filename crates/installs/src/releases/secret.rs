//! The Secret of a revision: its labels, and its body.
//!
//! The body is JSON, compressed with gzip, in base64; the Secret adds its own base64.

use std::io::Read;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;

use crate::release::{MAX_NOTES, Release, ReleaseStatus};

/// The type of these Secrets.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";
/// The label selector of all revisions.
pub const SELECTOR: &str = "owner=helm";
/// The label that this program gives the revisions it makes: the uid of the installation.
pub const OWNER_LABEL: &str = "ludgate.dev/owner";

/// The longest body, in bytes of JSON. A release holds all files of its chart.
const MAX_BODY: u64 = 100 * 1024 * 1024;
/// The longest text of a release that is kept, in bytes. Longer ones are cut.
const MAX_TEXT: usize = 1024;
/// How a gzip stream begins (RFC 1952, section 2.3.1). The first versions of Helm 3 did not
/// compress.
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Why a Secret holds no release.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseReadError {
    /// It has no key `release`.
    #[error("the Secret of the release has no key `release`")]
    Missing,
    /// The body is not base64.
    #[error("the release is not base64")]
    Base64,
    /// The body is too long.
    #[error("the release has more than {} MiB", MAX_BODY / 1024 / 1024)]
    TooLong,
    /// The body is no JSON of a release.
    #[error("the release cannot be read: {0}")]
    Json(serde_json::Error),
}

/// What the labels of a Secret say about its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionLabels {
    /// The release.
    pub name: String,
    /// The number of the revision.
    pub revision: i64,
    /// Its state.
    pub status: ReleaseStatus,
    /// The uid of the installation that made it; `None`: another program made it.
    pub owner: Option<String>,
}

impl RevisionLabels {
    /// Reads the labels; `None`: the Secret is of no release.
    pub fn read(metadata: &ObjectMeta) -> Option<RevisionLabels> {
        let labels = metadata.labels.as_ref()?;
        let label = |key: &str| labels.get(key).map(String::as_str);
        if label("owner") != Some("helm") {
            return None;
        }
        Some(RevisionLabels {
            name: label("name")?.to_owned(),
            revision: label("version")?.parse().ok()?,
            status: ReleaseStatus::parse(label("status").unwrap_or_default()),
            owner: label(OWNER_LABEL).map(str::to_owned),
        })
    }

    fn write_to(self, release: &mut Release) {
        release.name = self.name;
        release.revision = self.revision;
        release.status = self.status;
        release.owner = self.owner;
    }
}

/// The body, as far as it is read. Helm writes null for what it does not know.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    name: String,
    namespace: String,
    version: i64,
    info: Option<Info>,
    chart: Option<Chart>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    first_deployed: Option<String>,
    last_deployed: Option<String>,
    deleted: Option<String>,
    description: Option<String>,
    status: Option<String>,
    notes: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Chart {
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    version: Option<String>,
    app_version: Option<String>,
}

impl From<Body> for Release {
    fn from(body: Body) -> Release {
        let info = body.info.unwrap_or_default();
        let metadata = body.chart.and_then(|chart| chart.metadata);
        let metadata = metadata.unwrap_or_default();
        Release {
            name: body.name,
            namespace: body.namespace,
            revision: body.version,
            status: ReleaseStatus::parse(info.status.as_deref().unwrap_or_default()),
            description: cut(info.description, MAX_TEXT),
            chart_name: cut(metadata.name, MAX_TEXT),
            chart_version: cut(metadata.version, MAX_TEXT),
            app_version: cut(metadata.app_version, MAX_TEXT),
            first_deployed: time(info.first_deployed),
            last_deployed: time(info.last_deployed),
            deleted: time(info.deleted),
            notes: Some(cut(info.notes, MAX_NOTES)).filter(|notes| !notes.is_empty()),
            owner: None,
        }
    }
}

fn cut(text: Option<String>, longest: usize) -> String {
    let text = text.unwrap_or_default();
    match text.len() > longest {
        // A copy: the rest must not stay in memory.
        true => text[..text.floor_char_boundary(longest)].to_owned(),
        false => text,
    }
}

/// Helm 3 writes an empty text for no time, and both may write the first day of the year one.
fn time(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty() && !text.starts_with("0001-01-01T"))
        .map(|text| cut(Some(text), MAX_TEXT))
}

/// Reads a revision: its body, and its owner and state from the labels, by which Helm finds it.
///
/// # Errors
/// See [`ReleaseReadError`].
pub fn decode(secret: &Secret) -> Result<Release, ReleaseReadError> {
    let data = secret.data.as_ref().and_then(|data| data.get("release"));
    let data = data.ok_or(ReleaseReadError::Missing)?;
    let mut release = decode_body(&data.0, MAX_BODY)?;
    if let Some(labels) = RevisionLabels::read(&secret.metadata) {
        labels.write_to(&mut release);
    }
    Ok(release)
}

/// Reads a revision; if its body cannot be read, what its labels say. `None`: it is of no release.
pub fn decode_or_labels(secret: &Secret) -> Option<Release> {
    let labels = RevisionLabels::read(&secret.metadata)?;
    let mut release = decode(secret).unwrap_or_default();
    labels.write_to(&mut release);
    release.namespace = secret.metadata.namespace.clone().unwrap_or_default();
    Some(release)
}

fn decode_body(text: &[u8], longest: u64) -> Result<Release, ReleaseReadError> {
    let packed = STANDARD
        .decode(text)
        .map_err(|_| ReleaseReadError::Base64)?;
    if packed.starts_with(&GZIP) {
        // Unpacked while it is parsed, so the manifest and the files of the chart are never in
        // memory as a whole.
        parse(GzDecoder::new(packed.as_slice()), longest)
    } else {
        parse(packed.as_slice(), longest)
    }
}

fn parse(body: impl Read, longest: u64) -> Result<Release, ReleaseReadError> {
    // One byte more shows that a body is too long.
    let mut limited = body.take(longest.saturating_add(1));
    let buffered = std::io::BufReader::new(&mut limited);
    let parsed = serde_json::from_reader::<_, Body>(buffered);
    if limited.limit() == 0 {
        return Err(ReleaseReadError::TooLong);
    }
    parsed.map(Release::from).map_err(ReleaseReadError::Json)
}

#[cfg(test)]
mod tests;
