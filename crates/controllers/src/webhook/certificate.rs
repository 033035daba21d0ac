//! The certificate of the webhook, and the authority that signs it. No IO: reads and writes the
//! fields of a Secret, makes keys and certificates, and decides when to renew.
//!
//! Invariant: while a certificate is valid, its authority is in the bundle. So replicas that
//! still serve the old certificate are trusted after a renewal.

use k8s_openapi::{
    ByteString,
    api::core::v1::Secret,
    jiff::{SignedDuration, Timestamp, tz::TimeZone},
};
use kube::ResourceExt;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Annotation of the Secret with the names and dates of its certificates.
const RECORD_ANNOTATION: &str = "ludgate/webhook-certificate";
/// Lifetime of a certificate, and the remaining time at which it is renewed.
const LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Lifetime of an authority. It is renewed while it still outlives each certificate that it signs.
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(5 * 365 * 24);
const AUTHORITY_RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Common name of the authority.
const AUTHORITY_NAME: &str = "Ludgate webhook";

/// The certificate, as the Secret has it.
#[derive(Clone, PartialEq)]
pub struct WebhookCertificate {
    /// The certificates of the authorities that clients must trust, PEM, the current one first.
    pub bundle: String,
    /// The certificate that is served, PEM.
    pub certificate: String,
    /// Its key, PEM.
    pub key: String,
    authority_key: String,
    record: Record,
}

/// What is known of the certificates without parsing them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    names: Vec<String>,
    expires: Timestamp,
    authority_expires: Timestamp,
}

impl WebhookCertificate {
    /// Reads a Secret; `None`: it has no complete certificate.
    pub fn from_secret(secret: &Secret) -> Option<WebhookCertificate> {
        let data = secret.data.as_ref()?;
        let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
        let record = secret.annotations().get(RECORD_ANNOTATION)?;
        Some(WebhookCertificate {
            bundle: text("ca.crt")?,
            certificate: text("tls.crt")?,
            key: text("tls.key")?,
            authority_key: text("ca.key")?,
            record: serde_json::from_str(record).ok()?,
        })
    }

    /// The fields of the Secret, as a merge patch.
    pub fn to_patch(&self) -> Value {
        let data = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
        let record = serde_json::to_string(&self.record).unwrap_or_default();
        json!({
            "metadata": { "annotations": { RECORD_ANNOTATION: record } },
            "data": {
                "ca.crt": data(&self.bundle),
                "ca.key": data(&self.authority_key),
                "tls.crt": data(&self.certificate),
                "tls.key": data(&self.key),
            },
        })
    }

    /// A new certificate, if the stored one is absent, is for other names, or expires soon.
    ///
    /// # Errors
    /// A name is neither a DNS name nor an IP address, or no key can be made.
    pub fn renewed(
        stored: Option<&WebhookCertificate>,
        names: &[String],
        now: Timestamp,
    ) -> Result<Option<WebhookCertificate>, rcgen::Error> {
        let lasts = |until: Timestamp, at_least| until.duration_since(now) > at_least;
        let authority = stored.filter(|stored| {
            lasts(stored.record.authority_expires, AUTHORITY_RENEW_BEFORE)
                && KeyPair::from_pem(&stored.authority_key).is_ok()
        });
        if authority.is_some_and(|stored| {
            stored.record.names == names && lasts(stored.record.expires, RENEW_BEFORE)
        }) {
            return Ok(None);
        }
        let (bundle, authority_key, authority_expires) = match authority {
            Some(stored) => (
                stored.bundle.clone(),
                KeyPair::from_pem(&stored.authority_key)?,
                stored.record.authority_expires,
            ),
            None => {
                let (certificate, key, expires) = new_authority(now)?;
                let old = stored.map(|stored| first_certificate(&stored.bundle));
                (certificate + old.unwrap_or_default(), key, expires)
            }
        };
        let key = KeyPair::generate()?;
        let expires = now + LIFETIME;
        let issuer = Issuer::new(authority_params(now, authority_expires)?, &authority_key);
        let certificate = server_params(names, now, expires)?.signed_by(&key, &issuer)?;
        Ok(Some(WebhookCertificate {
            bundle,
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            authority_key: authority_key.serialize_pem(),
            record: Record {
                names: names.to_vec(),
                expires,
                authority_expires,
            },
        }))
    }
}

fn new_authority(now: Timestamp) -> Result<(String, KeyPair, Timestamp), rcgen::Error> {
    let key = KeyPair::generate()?;
    let expires = now + AUTHORITY_LIFETIME;
    let certificate = authority_params(now, expires)?.self_signed(&key)?;
    Ok((certificate.pem(), key, expires))
}

fn authority_params(now: Timestamp, expires: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
        .distinguished_name
        .push(DnType::CommonName, AUTHORITY_NAME);
    set_dates(&mut params, now, expires);
    Ok(params)
}

fn server_params(
    names: &[String],
    now: Timestamp,
    expires: Timestamp,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_dates(&mut params, now, expires);
    Ok(params)
}

/// Whole days: from the day before, for clocks that are slow, to the day after.
fn set_dates(params: &mut CertificateParams, from: Timestamp, until: Timestamp) {
    let day = |time: Timestamp| {
        let date = time.to_zoned(TimeZone::UTC).date();
        date_time_ymd(
            date.year().into(),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    let one_day = SignedDuration::from_hours(24);
    params.not_before = day(from - one_day);
    params.not_after = day(until + one_day);
}

/// The first certificate of a PEM file, with its line breaks.
fn first_certificate(bundle: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----";
    let end = bundle.find(END).map_or(0, |at| at + END.len());
    &bundle[..bundle[end..]
        .find('-')
        .map_or(bundle.len(), |next| end + next)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn renewed(
        stored: Option<&WebhookCertificate>,
        names: &[String],
        now: Timestamp,
    ) -> Option<WebhookCertificate> {
        WebhookCertificate::renewed(stored, names, now).expect("keys can be made")
    }

    #[test]
    fn a_certificate_is_renewed_before_it_expires_and_for_other_names() {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let hub = names(&["ludgate-webhook.hub.svc", "127.0.0.1"]);
        let first = renewed(None, &hub, now).expect("made");
        let day = SignedDuration::from_hours(24);
        let at = |days: i32| now + day * days;
        assert!(renewed(Some(&first), &hub, at(59)).is_none());
        let second = renewed(Some(&first), &hub, at(61)).expect("renewed");
        assert_eq!(second.bundle, first.bundle, "the authority stays");
        assert_ne!(second.certificate, first.certificate);
        let other = renewed(Some(&second), &names(&["other.svc"]), at(62)).expect("other names");
        assert_eq!(other.bundle, first.bundle);
        let years = |count: i32| at(count * 365);
        assert!(
            renewed(Some(&first), &hub, years(3))
                .expect("expired")
                .bundle
                == first.bundle
        );
        let next = renewed(Some(&first), &hub, years(4) + day).expect("a new authority");
        assert!(
            next.bundle.ends_with(&first.bundle),
            "the old authority is still trusted"
        );
        let last = renewed(Some(&next), &hub, years(9)).expect("another one");
        assert_eq!(last.bundle.matches("BEGIN").count(), 2);
        assert!(!last.bundle.contains(&first.bundle));
    }

    #[test]
    fn a_secret_keeps_everything_and_an_empty_one_has_nothing() {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let made = renewed(None, &names(&["a.svc"]), now).expect("made");
        let secret: Secret = serde_json::from_value(made.to_patch()).expect("a Secret");
        assert!(WebhookCertificate::from_secret(&secret) == Some(made));
        assert!(WebhookCertificate::from_secret(&Secret::default()).is_none());
    }
}
