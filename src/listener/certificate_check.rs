//! Served certificates that clients refuse now, or will refuse soon.

use std::{fmt, time::Duration};

use x509_parser::parse_x509_certificate;

/// A certificate is reported this long before it expires.
const NOTICE: Duration = Duration::from_secs(14 * DAY);
const DAY: u64 = 24 * 3600;

/// The validity of one served certificate; in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateDates {
    /// Path of the certificate file.
    pub file: String,
    /// Valid from here on.
    pub not_before: i64,
    /// Valid until here.
    pub not_after: i64,
}

impl CertificateDates {
    /// The dates of a certificate (DER; RFC 5280 section 4.1.2.5). `None`: it cannot be parsed.
    pub fn parse(file: String, der: &[u8]) -> Option<CertificateDates> {
        let (_, certificate) = parse_x509_certificate(der).ok()?;
        let validity = certificate.validity();
        Some(CertificateDates {
            file,
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
        })
    }

    /// Why clients refuse it at this time, or will refuse it soon.
    pub fn warning(&self, now: i64) -> Option<CertificateWarning> {
        let file = self.file.clone();
        let left = self.not_after.saturating_sub(now);
        if left < 0 {
            return Some(CertificateWarning::Expired {
                file,
                date: date(self.not_after),
            });
        }
        if now < self.not_before {
            return Some(CertificateWarning::NotYetValid {
                file,
                date: date(self.not_before),
            });
        }
        let left = Duration::from_secs(left.unsigned_abs());
        (left < NOTICE).then(|| CertificateWarning::ExpiresSoon {
            file,
            date: date(self.not_after),
            days: left.as_secs() / DAY,
        })
    }
}

/// Why clients refuse a served certificate, or will refuse it soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateWarning {
    /// It has expired.
    Expired {
        /// Path of the certificate file.
        file: String,
        /// When.
        date: String,
    },
    /// It is not valid yet.
    NotYetValid {
        /// Path of the certificate file.
        file: String,
        /// When it becomes valid.
        date: String,
    },
    /// It expires within fourteen days.
    ExpiresSoon {
        /// Path of the certificate file.
        file: String,
        /// When.
        date: String,
        /// Whole days until then.
        days: u64,
    },
    /// No certificate covers a name that is served.
    NotCovered {
        /// The name, or the pattern of the apps' hosts.
        name: String,
    },
}

impl fmt::Display for CertificateWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateWarning::Expired { file, date } => {
                write!(f, "{file} has expired on {date}")
            }
            CertificateWarning::NotYetValid { file, date } => {
                write!(f, "{file} is not valid before {date}")
            }
            CertificateWarning::ExpiresSoon { file, date, days } => {
                let unit = if *days == 1 { "day" } else { "days" };
                write!(f, "{file} expires in {days} {unit}, on {date}")
            }
            CertificateWarning::NotCovered { name } => {
                write!(f, "no certificate covers {name}")
            }
        }
    }
}

fn date(seconds: i64) -> String {
    chrono::DateTime::from_timestamp(seconds, 0)
        .unwrap_or_default()
        .to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_reported_fourteen_days_before_it_expires() {
        let day = i64::try_from(DAY).expect("small");
        let dates = CertificateDates {
            file: "site.crt".into(),
            not_before: 100 * day,
            not_after: 200 * day,
        };
        for (now, said) in [
            (99 * day, Some("site.crt is not valid before 1970-04-11")),
            (100 * day, None),
            (186 * day, None),
            (186 * day + 1, Some("site.crt expires in 13 days")),
            (199 * day, Some("site.crt expires in 1 day, on 1970-07-20")),
            (200 * day, Some("site.crt expires in 0 days, on 1970-07-20")),
            (200 * day + 1, Some("site.crt has expired on 1970-07-20")),
            (i64::MAX, Some("site.crt has expired")),
        ] {
            let warning = dates.warning(now).map(|warning| warning.to_string());
            match (&warning, said) {
                (Some(warning), Some(said)) => assert!(warning.starts_with(said), "{warning}"),
                (warning, said) => assert_eq!(warning.as_deref(), said, "{now}"),
            }
        }
    }

    #[test]
    fn dates_are_those_of_the_certificate() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 12, 31);
        let certificate = params.self_signed(&key).expect("a certificate");
        let dates = CertificateDates::parse("a.crt".into(), certificate.der()).expect("parsed");
        assert_eq!(
            (dates.not_before, dates.not_after),
            (1_577_836_800, 1_609_372_800)
        );
        assert_eq!(CertificateDates::parse("a.crt".into(), b"none"), None);
    }
}
