//! Manifests of charts in a registry.

use serde::Deserialize;

use crate::source::{checksum::is_sha256_hex, error::SourceError};

/// The media type of a chart's configuration, which says that this is a chart.
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
/// The media types of a chart's archive; the second one is that of old versions of Helm.
const ARCHIVE: [&str; 2] = [
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
    "application/tar+gzip",
];

#[derive(Deserialize)]
struct Manifest {
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

/// The layer with the archive of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArchiveLayer {
    /// `sha256:` and 64 digits.
    pub(super) digest: String,
    /// In bytes.
    pub(super) size: u64,
}

/// The archive that a manifest names.
///
/// # Errors
/// Permanent, if it is not the manifest of a chart, or the archive exceeds a size in bytes.
pub(super) fn archive_layer(manifest: &[u8], max: usize) -> Result<ArchiveLayer, SourceError> {
    let manifest: Manifest = serde_json::from_slice(manifest)
        .map_err(|_| SourceError::permanent("the registry's manifest is not as expected"))?;
    let is_chart = |config: Descriptor| config.media_type == CONFIG;
    if !manifest.config.is_some_and(is_chart) {
        return Err(SourceError::permanent("the registry has no chart there"));
    }
    let is_archive = |layer: &Descriptor| ARCHIVE.contains(&layer.media_type.as_str());
    let mut archives = manifest.layers.into_iter().filter(is_archive);
    let (Some(layer), None) = (archives.next(), archives.next()) else {
        let what = "the registry's manifest does not have exactly one archive of a chart";
        return Err(SourceError::permanent(what));
    };
    let digest = layer.digest.strip_prefix("sha256:");
    if !digest.is_some_and(is_sha256_hex) {
        let what = "the digest of the chart's archive is no SHA-256";
        return Err(SourceError::permanent(what));
    }
    if layer.size > max as u64 {
        let what = format!("the chart's archive is larger than {max} bytes");
        return Err(SourceError::permanent(what));
    }
    Ok(ArchiveLayer {
        digest: layer.digest,
        size: layer.size,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn digest() -> String {
        format!("sha256:{}", "ab".repeat(32))
    }

    fn layer(media_type: &str, size: u64) -> Value {
        json!({"mediaType": media_type, "digest": digest(), "size": size})
    }

    fn found(config: &str, layers: Vec<Value>) -> Result<ArchiveLayer, SourceError> {
        let config = json!({"mediaType": config, "digest": digest(), "size": 2});
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        archive_layer(manifest.to_string().as_bytes(), 100)
    }

    #[test]
    fn the_one_archive_of_a_chart_is_found() {
        let provenance = "application/vnd.cncf.helm.chart.provenance.v1.prov";
        for archive in ARCHIVE {
            let layers = vec![layer(provenance, 7), layer(archive, 100)];
            let layer = found(CONFIG, layers).expect("an archive");
            assert_eq!((layer.digest, layer.size), (digest(), 100));
        }
    }

    #[test]
    fn other_manifests_are_refused() {
        let archive = ARCHIVE[0];
        let mut other_digest = layer(archive, 1);
        other_digest["digest"] = json!("sha512:00");
        for (config, layers, wanted) in [
            (
                "application/vnd.oci.image.config.v1+json",
                vec![layer(archive, 1)],
                "no chart there",
            ),
            (CONFIG, vec![], "exactly one archive"),
            (CONFIG, vec![layer("text/plain", 1)], "exactly one archive"),
            (
                CONFIG,
                vec![layer(archive, 1), layer(archive, 1)],
                "exactly one archive",
            ),
            (CONFIG, vec![layer(archive, 101)], "larger than 100 bytes"),
            (CONFIG, vec![other_digest], "no SHA-256"),
        ] {
            let error = found(config, layers).expect_err("refused");
            assert!(error.message().contains(wanted), "{error}");
        }
        for text in ["", "[]", "{}", r#"{"manifests": []}"#] {
            assert!(archive_layer(text.as_bytes(), 100).is_err(), "{text}");
        }
    }
}
