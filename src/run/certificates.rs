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
        file_watch::poll(self.clock.clone(), || {
            let has_changed = self.reload(&metrics);
            let now = self.clock.now();
            if has_changed || is_due(checked, now) {
                self.report(&metrics);
                checked = now;
            }
        })
        .await;
    }

    /// Reads the files again. Returns whether any has changed.
    fn reload(&self, metrics: &ListenerMetrics) -> bool {
        let mut has_changed = false;
        for certificates in &self.all {
            match certificates.renew() {
                Ok(false) => {}
                Ok(true) => {
                    has_changed = true;
                    metrics.certificates_fine.set(1);
                    tracing::info!("reloaded the certificates");
                }
                Err(error) => {
                    has_changed = true;
                    metrics.certificates_fine.set(0);
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
    use super::*;
    use crate::model::{cookie_names::CookieNames, site::WebOrigin};

    #[test]
    fn certificates_must_cover_the_site_and_the_hosts_of_apps() {
        let site = |url: &str, apps_domain: Option<&str>| Site {
            apps_domain: apps_domain.map(Into::into),
            ..Site::with_default_paths(
                WebOrigin::parse(url).expect("an origin"),
                CookieNames::new(true, "c", &[]),
            )
        };
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
