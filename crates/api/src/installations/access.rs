//! The rights that people have in Kubernetes: a SubjectAccessReview for each request, so that a
//! role that is taken away no longer counts for the next one.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};
use ludgate_cluster::deadline::with_deadline;
use ludgate_installs::resource_json::error::ResourceError;

use super::cluster_user::ClusterUser;

/// Deadline of a review.
const DEADLINE: Duration = Duration::from_secs(4);
/// The API group of installations.
const GROUP: &str = "apps.kubermatic.k8c.io";
/// The resource.
const INSTALLATIONS: &str = "applicationinstallations";

/// What a person wants to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedAccess<'a> {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> WantedAccess<'a> {
    /// A verb on the installations of a namespace. No name: any of them; no namespace: those of
    /// all.
    pub(super) fn installations(
        verb: &'static str,
        namespace: &'a str,
        name: &'a str,
    ) -> WantedAccess<'a> {
        WantedAccess {
            verb,
            group: GROUP,
            resource: INSTALLATIONS,
            namespace,
            name,
        }
    }

    /// The creation of a namespace. Kubernetes does not look at the names of new objects.
    pub(super) fn new_namespace() -> WantedAccess<'a> {
        WantedAccess {
            verb: "create",
            group: "",
            resource: "namespaces",
            namespace: "",
            name: "",
        }
    }

    fn review(self, user: &ClusterUser) -> SubjectAccessReview {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let attributes = ResourceAttributes {
            group: Some(self.group.to_owned()),
            resource: Some(self.resource.to_owned()),
            verb: Some(self.verb.to_owned()),
            namespace: some(self.namespace),
            name: some(self.name),
            ..ResourceAttributes::default()
        };
        SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                groups: Some(user.groups.clone()),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        }
    }

    /// The refusal, in the words of Kubernetes.
    fn forbidden(self, user: &ClusterUser) -> ResourceError {
        let dot = if self.group.is_empty() { "" } else { "." };
        let name = match self.name {
            "" => String::new(),
            name => format!(" \"{name}\""),
        };
        let scope = match self.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let WantedAccess {
            verb,
            group,
            resource,
            ..
        } = self;
        let user = &user.name;
        let message = format!(
            "{resource}{dot}{group}{name} is forbidden: User \"{user}\" cannot {verb} resource \
             \"{resource}\" in API group \"{group}\" {scope}"
        );
        ResourceError::new(403, message)
    }
}

/// Whether the person may. A review that fails is an error.
///
/// # Errors
/// The cluster did not answer.
pub(super) async fn is_allowed(
    client: &Client,
    user: &ClusterUser,
    wanted: WantedAccess<'_>,
) -> Result<bool, ResourceError> {
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let parameters = PostParams::default();
    let review = wanted.review(user);
    match with_deadline(DEADLINE, api.create(&parameters, &review)).await {
        Ok(reviewed) => {
            let status = reviewed.status.unwrap_or_default();
            Ok(status.allowed && status.denied != Some(true))
        }
        Err(error) => {
            tracing::warn!(%error, "cannot check the rights of a person");
            let text = "your rights cannot be checked now; please try again";
            Err(ResourceError::new(503, text))
        }
    }
}

/// Checks that the person may.
///
/// # Errors
/// They may not, or the cluster did not answer.
pub(super) async fn require(
    client: &Client,
    user: &ClusterUser,
    wanted: WantedAccess<'_>,
) -> Result<(), ResourceError> {
    match is_allowed(client, user, wanted).await? {
        true => Ok(()),
        false => Err(wanted.forbidden(user)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_words_of_kubernetes() {
        let user = ClusterUser {
            name: "john".to_owned(),
            groups: vec!["a".to_owned()],
        };
        for (wanted, message) in [
            (
                WantedAccess::installations("delete", "bob", "app-1"),
                "applicationinstallations.apps.kubermatic.k8c.io \"app-1\" is forbidden: User \
                 \"john\" cannot delete resource \"applicationinstallations\" in API group \
                 \"apps.kubermatic.k8c.io\" in the namespace \"bob\"",
            ),
            (
                WantedAccess::installations("list", "", ""),
                "applicationinstallations.apps.kubermatic.k8c.io is forbidden: User \"john\" \
                 cannot list resource \"applicationinstallations\" in API group \
                 \"apps.kubermatic.k8c.io\" at the cluster scope",
            ),
            (
                WantedAccess::new_namespace(),
                "namespaces is forbidden: User \"john\" cannot create resource \
                 \"namespaces\" in API group \"\" at the cluster scope",
            ),
        ] {
            let error = wanted.forbidden(&user);
            assert_eq!((error.code, error.message.as_str()), (403, message));
        }
        let review = WantedAccess::installations("list", "", "").review(&user);
        assert_eq!(review.spec.user.as_deref(), Some("john"));
        assert_eq!(review.spec.groups, Some(vec!["a".to_owned()]));
        let attributes = review.spec.resource_attributes.expect("attributes");
        assert_eq!((attributes.namespace, attributes.name), (None, None));
    }
}
