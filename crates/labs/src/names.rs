//! Names of the objects of a lab.

use crate::{config::LabConfig, dialect::Dialect, environment::is_secret};

/// Names of the objects of one person's lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabNames {
    /// The namespace, which holds nothing else.
    pub namespace: String,
    /// Pod, Secret, ResourceQuota and NetworkPolicy.
    pub lab: String,
    /// ConfigMap of the variables.
    pub env: String,
    /// ConfigMap of `/etc/passwd` and `/etc/group`.
    pub name_service: String,
    /// ConfigMap of files.
    pub files: String,
    /// Secret for pulling the image.
    pub pull_secret: String,
    /// Service of the pod.
    pub service: String,
}

/// Port of a lab.
pub const LAB_PORT: u16 = 8888;

impl LabNames {
    /// The names for a person.
    pub fn new(username: &str, config: &LabConfig, dialect: Dialect) -> LabNames {
        let prefix = config.namespace_prefix.as_deref().unwrap_or("nublado");
        let namespace = format!("{prefix}-{username}");
        let lab = match dialect {
            Dialect::Sqr066 => format!("nb-{username}"),
            Dialect::Nublado => format!("{username}-nb"),
        };
        let (pull_secret, service) = match dialect {
            Dialect::Sqr066 => (format!("{lab}-pull"), lab.clone()),
            Dialect::Nublado => ("pull-secret".to_owned(), "lab".to_owned()),
        };
        LabNames {
            namespace,
            env: format!("{lab}-env"),
            name_service: format!("{lab}-nss"),
            files: format!("{lab}-files"),
            lab,
            pull_secret,
            service,
        }
    }

    /// Where the hub reaches the lab: the path is the one at which the hub serves it.
    pub fn internal_url(&self, service_prefix: &str) -> String {
        let (service, namespace) = (&self.service, &self.namespace);
        format!("http://{service}.{namespace}:{LAB_PORT}{service_prefix}")
    }
}

/// Key of a variable of the hub in the Secret of a lab. Other keys have precedence.
pub(crate) fn secret_key(variable: &str, is_taken: impl Fn(&str) -> bool) -> String {
    debug_assert!(is_secret(variable));
    match is_taken(variable) {
        true => format!("env.{variable}"),
        false => variable.to_owned(),
    }
}
