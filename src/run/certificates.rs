//! Watches the certificates of all listeners: reloads changed files, and reports certificates that
//! clients refuse, or will refuse soon.

use std::{sync::Arc, time::Duration};

use crate::{
    listener::{
        certificate_check::CertificateWarning, metrics::ListenerMetrics, tls::Certificates,
    },
    model::{
        clock::{Clock, Moment},
        site::Site,
    },
    ops::{dependency::DependencyStatus, file_watch},
};

/// Certificates are checked this often, and whenever their files change.
const CHECK_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The certificates of all listeners, and the names that they are for.
pub(super) struct ServedCertificates {
    pub(super) all: Vec<Arc<Certificates>>,
    pub(super) site: Arc<Site>,
    pub(super) clock: Clock,
}

impl ServedCertificates {
    /// Whether and why clients refuse certificates; `None`: no listener has any.
    pub(super) fn status(&self) -> Option<DependencyStatus> {
        if self.all.is_empty() {
            return None;
        }
        let warnings: Vec<String> = self.warnings().iter().map(ToString::to_string).collect();
        Some(if warnings.is_empty() {
            DependencyStatus::Fine("valid".to_owned())
        } else {
            let warnings = warnings.join("; ");
            DependencyStatus::Degraded(format!(
                "{warnings}; clients refuse certificates that are not valid"
            ))
        })
    }

    /// Reloads changed files and reports, for as long as the process runs.
    pub(super) async fn watch(self: Arc<Self>, metrics: Arc<ListenerMetrics>) {
        if self.all.is_empty() {
            return;
        }
        metrics.certificates_fine.set(1);
        self.report(&metrics);
        let mut checked = self.clock.now();
        let mut are_valid = vec![true; self.all.len()];
        file_watch::poll(self.clock.clone(), || {
            let has_changed = self.reload(&mut are_valid);
            metrics
                .certificates_fine
                .set(are_valid.iter().all(|valid| *valid).into());
            let now = self.clock.now();
            if has_changed || is_due(checked, now) {
                self.report(&metrics);
                checked = now;
            }
        })
        .await;
    }

    /// Reads the files again. Returns whether any has changed. `are_valid` says of each listener
    /// whether its files were valid when they were read last.
    fn reload(&self, are_valid: &mut [bool]) -> bool {
        let mut has_changed = false;
        for (certificates, is_valid) in self.all.iter().zip(are_valid) {
            match certificates.renew() {
                Ok(false) => {}
                Ok(true) => {
                    has_changed = true;
                    *is_valid = true;
                    tracing::info!("reloaded the certificates");
                }
                Err(error) => {
                    has_changed = true;
                    *is_valid = false;
                    tracing::warn!(%error, "cannot load the changed certificates; the old ones stay in use");
                }
            }
        }
        has_changed
    }

    fn report(&self, metrics: &ListenerMetrics) {
        let dates = self
            .all
            .iter()
            .flat_map(|certificates| certificates.dates());
        if let Some(first) = dates.map(|dates| dates.not_after).min() {
            metrics.certificate_expires.set(first);
        }
        for warning in self.warnings() {
            tracing::warn!(%warning, "clients refuse a certificate, or will refuse it soon");
        }
    }

    fn warnings(&self) -> Vec<CertificateWarning> {
        let now = self.clock.wall_seconds();
        let dates = self
            .all
            .iter()
            .flat_map(|certificates| certificates.dates());
        let mut warnings: Vec<_> = dates.filter_map(|dates| dates.warning(now)).collect();
        let uncovered = served_names(&self.site).into_iter().filter(|served| {
            let covers = |certificates: &Arc<Certificates>| certificates.covers(&served.host);
            !self.all.iter().any(covers)
        });
        warnings
            .extend(uncovered.map(|served| CertificateWarning::NotCovered { name: served.name }));
        warnings
    }
}

fn is_due(checked: Moment, now: Moment) -> bool {
    now >= checked.after(CHECK_INTERVAL)
}

/// A name that certificates must cover.
#[derive(Debug, PartialEq, Eq)]
struct ServedName {
    /// As operators know it.
    name: String,
    /// A host that it stands for.
    host: String,
}

/// The names under which browsers open a site. None without https: then a proxy, or no person, sees
/// the certificates.
fn served_names(site: &Site) -> Vec<ServedName> {
    if !site.origin.secure {
        return Vec::new();
    }
    let exact = |host: &str| ServedName {
        name: host.to_owned(),
        host: host.trim_matches(['[', ']']).to_owned(),
    };
    let mut names = vec![exact(&site.origin.host)];
    names.extend(site.apps_domain.as_deref().map(|domain| ServedName {
        name: format!("*.{domain}"),
        // Any label is like any other to a wildcard certificate.
        host: format!("app.{domain}"),
    }));
    names.extend(site.ports.as_ref().map(|ports| exact(&ports.host)));
    names
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{
        listener::tls::{CertificateFiles, TlsSettings},
        model::{cookie_names::CookieNames, site::WebOrigin},
    };

    fn site(url: &str, apps_domain: Option<&str>) -> Site {
        Site {
            apps_domain: apps_domain.map(Into::into),
            ..Site::with_default_paths(
                WebOrigin::parse(url).expect("an origin"),
                CookieNames::new(true, "c", &[]),
            )
        }
    }

    /// Writes a new certificate, with its key.
    fn write(folder: &Path, listener: &str) -> CertificateFiles {
        let made = rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]);
        let made = made.expect("a certificate");
        let files = CertificateFiles {
            certificate: folder.join(format!("{listener}.crt")),
            key: folder.join(format!("{listener}.key")),
        };
        fs::write(&files.certificate, made.cert.pem()).expect("written");
        fs::write(&files.key, made.signing_key.serialize_pem()).expect("written");
        files
    }

    #[test]
    fn a_listener_with_invalid_files_counts_until_they_are_valid() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = tempfile::tempdir().expect("a folder");
        let listener = |name: &str| {
            let files = vec![write(folder.path(), name)];
            match TlsSettings::from_files(files, None).expect("certificates") {
                TlsSettings::On { certificates, .. } => certificates,
                TlsSettings::Off => unreachable!("certificates are given"),
            }
        };
        let served = ServedCertificates {
            all: vec![listener("a"), listener("b")],
            site: Arc::new(site("https://gw.test", None)),
            clock: Clock::system(),
        };
        let mut are_valid = [true, true];
        assert!(!served.reload(&mut are_valid));
        fs::write(folder.path().join("a.key"), "half a key").expect("written");
        assert!(served.reload(&mut are_valid));
        assert_eq!(are_valid, [false, true]);
        write(folder.path(), "b");
        assert!(served.reload(&mut are_valid));
        assert_eq!(are_valid, [false, true]);
        write(folder.path(), "a");
        assert!(served.reload(&mut are_valid));
        assert_eq!(are_valid, [true, true]);
    }

    #[test]
    fn certificates_must_cover_the_site_and_the_hosts_of_apps() {
        for (site, wanted) in [
            (site("http://localhost", None), vec![]),
            (
                site("https://hub.example.com", None),
                vec![("hub.example.com", "hub.example.com")],
            ),
            (
                site("https://hub.example.com:8443", Some("apps.example.com")),
                vec![
                    ("hub.example.com", "hub.example.com"),
                    ("*.apps.example.com", "app.apps.example.com"),
                ],
            ),
            (site("https://[::1]", None), vec![("[::1]", "::1")]),
        ] {
            let names = served_names(&site);
            let names: Vec<_> = names
                .iter()
                .map(|served| (&*served.name, &*served.host))
                .collect();
            assert_eq!(names, wanted);
        }
    }
}
