//! The REST calls about applications from Helm charts.

use serde_json::Value;

use crate::{
    connection::{SiteConnection, segment},
    error::ClientError,
    installed_app::{InstalledApp, InstalledRevision, OfferedApplication},
};

/// Where installations are: a namespace of a cluster.
#[derive(Clone, Debug)]
pub struct InstallPlace {
    /// The cluster: the name of a target, or `self`.
    pub target: String,
    /// The namespace.
    pub namespace: String,
}

impl InstallPlace {
    fn path(&self, name: &str) -> String {
        let installations = installations(&self.target);
        format!(
            "{installations}/{}/{}",
            segment(&self.namespace),
            segment(name)
        )
    }
}

impl SiteConnection {
    /// The applications that can be installed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn offered_applications(&self) -> Result<Vec<OfferedApplication>, ClientError> {
        let path = "/api/v2/applicationdefinitions";
        self.parse(self.rest("GET", path, None).await?)
    }

    /// One of them, with its versions.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn offered_application(&self, name: &str) -> Result<OfferedApplication, ClientError> {
        let path = format!("/api/v2/applicationdefinitions/{}", segment(name));
        self.parse(self.rest("GET", &path, None).await?)
    }

    /// The installations on a cluster that the person may see; those of one namespace if it is
    /// given.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn installed_apps(
        &self,
        target: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<InstalledApp>, ClientError> {
        let mut path = installations(target);
        if let Some(namespace) = namespace {
            path.push_str("?namespace=");
            path.push_str(&segment(namespace));
        }
        self.parse(self.rest("GET", &path, None).await?)
    }

    /// An installation.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn installed_app(
        &self,
        place: &InstallPlace,
        name: &str,
    ) -> Result<InstalledApp, ClientError> {
        self.parse(self.rest("GET", &place.path(name), None).await?)
    }

    /// Makes an installation.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn install_app(
        &self,
        target: &str,
        new: &Value,
    ) -> Result<InstalledApp, ClientError> {
        let path = installations(target);
        self.parse(self.rest("POST", &path, Some(new)).await?)
    }

    /// Changes an installation by a merge patch.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn patch_installed_app(
        &self,
        place: &InstallPlace,
        name: &str,
        patch: &Value,
    ) -> Result<InstalledApp, ClientError> {
        self.parse(self.rest("PATCH", &place.path(name), Some(patch)).await?)
    }

    /// Deletes an installation. The app is uninstalled afterwards.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn uninstall_app(&self, place: &InstallPlace, name: &str) -> Result<(), ClientError> {
        self.rest("DELETE", &place.path(name), None).await?;
        Ok(())
    }

    /// The versions and values that an installation has and had, oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn installed_revisions(
        &self,
        place: &InstallPlace,
        name: &str,
    ) -> Result<Vec<InstalledRevision>, ClientError> {
        let path = format!("{}/history", place.path(name));
        self.parse(self.rest("GET", &path, None).await?)
    }
}

fn installations(target: &str) -> String {
    format!(
        "/api/v2/clusters/{}/applicationinstallations",
        segment(target)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_segment_of_a_path() {
        let place = InstallPlace {
            target: "self".to_owned(),
            namespace: "a/../b".to_owned(),
        };
        assert_eq!(
            place.path("x?y"),
            "/api/v2/clusters/self/applicationinstallations/a%2F..%2Fb/x%3Fy"
        );
    }
}
