//! The account that Helm uses in one namespace. It has the rights of one configured ClusterRole
//! there, and none elsewhere, so a chart cannot write more than that.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::RoleBinding,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, PostParams},
};
use ludgate_cluster::{
    deadline::{ApiCallError, with_deadline},
    writer::{NamespacedName, Writer},
};
use ludgate_model::secret::Secret;
use serde_json::{Value, json};

/// The name of the account and of its RoleBinding.
pub const ACCOUNT: &str = "ludgate-installs";

/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(20);
/// API servers refuse shorter lifetimes.
const MIN_LIFETIME: Duration = Duration::from_secs(600);
/// No token is valid for longer.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// Time of an operation outside of Helm's waits: rendering, hooks, the start and the end.
const BESIDE_WAITS: Duration = Duration::from_secs(120);
/// The longest timeout of an operation: what the longest token leaves.
const MAX_TIMEOUT: Duration = Duration::from_secs(3480);

/// Why a namespace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceAccessError {
    /// The API refused, or cannot be reached.
    #[error(transparent)]
    Api(#[from] ApiCallError),
    /// No token can be valid for so long.
    #[error("a timeout of {} s is too long; at most {} s are possible",
        .0.as_secs(), MAX_TIMEOUT.as_secs())]
    TimeoutTooLong(Duration),
    /// The API server gave a token that ends too early.
    #[error("the API server limits tokens to a lifetime that is shorter than the operation")]
    ShortToken,
}

/// The account of one namespace.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceAccount<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The ClusterRole whose rights the account has in the namespace.
    pub cluster_role: &'a str,
}

impl NamespaceAccount<'_> {
    /// Makes the account, and binds it to its role.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn apply(&self, writer: &Writer) -> Result<(), ApiCallError> {
        let name = NamespacedName {
            namespace: self.namespace,
            name: ACCOUNT,
        };
        let accounts = ApiResource::erase::<ServiceAccount>(&());
        writer.apply(&accounts, name, &self.account()).await?;
        let bindings = ApiResource::erase::<RoleBinding>(&());
        // The role of a binding cannot be changed, and an old one must not stay in force.
        if let Some(live) = writer.get(&bindings, name).await?
            && live.data["roleRef"]["name"] != self.cluster_role
        {
            let uid = live.uid().unwrap_or_default();
            writer.delete(&bindings, name, &uid).await?;
        }
        writer.apply(&bindings, name, &self.binding()).await?;
        Ok(())
    }

    /// Takes the role away from the account. People who may create pods in the namespace can use
    /// the account, so it should have rights only while a release needs them.
    ///
    /// # Errors
    /// See [`ApiCallError`].
    pub async fn unbind(&self, writer: &Writer) -> Result<(), ApiCallError> {
        let name = NamespacedName {
            namespace: self.namespace,
            name: ACCOUNT,
        };
        let bindings = ApiResource::erase::<RoleBinding>(&());
        let Some(live) = writer.get(&bindings, name).await? else {
            return Ok(());
        };
        let uid = live.uid().unwrap_or_default();
        writer.delete(&bindings, name, &uid).await
    }

    /// A new token of the account, for an operation with this timeout.
    ///
    /// # Errors
    /// See [`NamespaceAccessError`].
    pub async fn request_token(
        &self,
        client: &Client,
        timeout: Duration,
    ) -> Result<Secret, NamespaceAccessError> {
        let lifetime = lifetime(timeout)?;
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: i64::try_from(lifetime.as_secs()).ok(),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), self.namespace);
        let parameters = PostParams::default();
        let call = accounts.create_token_request(ACCOUNT, &parameters, &request);
        let status = with_deadline(DEADLINE, call).await?.status;
        let status = status.ok_or(NamespaceAccessError::ShortToken)?;
        let ends = status.expiration_timestamp.0.as_second();
        match is_long_enough(ends, SystemTime::now(), timeout) {
            true => Ok(Secret::new(status.token)),
            false => Err(NamespaceAccessError::ShortToken),
        }
    }

    fn account(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": ACCOUNT, "namespace": self.namespace },
            // Pods of charts have no use for the account.
            "automountServiceAccountToken": false,
        })
    }

    fn binding(&self) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": ACCOUNT, "namespace": self.namespace },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": self.cluster_role,
            },
            "subjects": [{
                "kind": "ServiceAccount",
                "name": ACCOUNT,
                "namespace": self.namespace,
            }],
        })
    }
}

/// The lifetime of a token. An atomic operation may wait twice: for the new objects, and for those
/// that it restores.
fn lifetime(timeout: Duration) -> Result<Duration, NamespaceAccessError> {
    if timeout > MAX_TIMEOUT {
        return Err(NamespaceAccessError::TimeoutTooLong(timeout));
    }
    let wanted = timeout * 2 + BESIDE_WAITS;
    Ok(wanted.clamp(MIN_LIFETIME, MAX_LIFETIME))
}

/// Whether a token that ends at this Unix time lasts for an operation.
fn is_long_enough(ends: i64, now: SystemTime, timeout: Duration) -> bool {
    let needed = now + timeout;
    let needed = needed.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(ends).is_ok_and(|ends| ends >= needed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_longer_than_its_operation_and_at_most_an_hour() {
        assert_eq!(MAX_TIMEOUT + BESIDE_WAITS, MAX_LIFETIME);
        for (timeout, expected) in [
            (1, 600),
            (240, 600),
            (300, 720),
            (1740, 3600),
            (2000, 3600),
            (3480, 3600),
        ] {
            let lifetime = lifetime(Duration::from_secs(timeout)).expect("possible");
            assert_eq!(lifetime.as_secs(), expected, "{timeout}");
            assert!(lifetime.as_secs() > timeout);
        }
        let error = lifetime(Duration::from_secs(3481)).expect_err("too long");
        assert_eq!(
            error.to_string(),
            "a timeout of 3481 s is too long; at most 3480 s are possible"
        );
    }

    #[test]
    fn a_token_that_ends_before_its_operation_is_refused() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let minute = Duration::from_secs(60);
        assert!(is_long_enough(1060, now, minute));
        assert!(!is_long_enough(1059, now, minute));
        assert!(!is_long_enough(-1, now, minute));
    }

    #[test]
    fn the_account_is_bound_in_its_own_namespace_only() {
        let account = NamespaceAccount {
            namespace: "target",
            cluster_role: "admin",
        };
        let binding = account.binding();
        assert_eq!(binding["kind"], "RoleBinding");
        assert_eq!(binding["metadata"]["namespace"], "target");
        assert_eq!(binding["roleRef"]["name"], "admin");
        assert_eq!(
            binding["subjects"],
            json!([{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": "target" }])
        );
        assert_eq!(account.account()["automountServiceAccountToken"], false);
    }
}
