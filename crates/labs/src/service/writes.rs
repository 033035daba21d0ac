//! Calls to the API server for one operation: each is made again until it succeeds, is refused, or
//! the operation must end.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{
        ConfigMap, Namespace, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service,
        ServiceAccount,
    },
    networking::v1::NetworkPolicy,
};
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject},
};
use ludgate_cluster::{
    deadline::ApiCallError,
    writer::{NamespacedName, Writer},
};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    lab::Lab,
    outcome::{RefusedCall, Stopped},
    retry::{Call, Limits, is_ambiguous, with_retries},
    stores::{LabStores, is_ending, is_of_lab},
};

/// Seconds that a lab has to end.
const GRACE_SECONDS: u32 = 1;
/// Longest wait for the end of a pod before its namespace is deleted.
const MAX_POD_WAIT: Duration = Duration::from_secs(20);
/// What a deletion waits for.
const WAIT_GONE: &str = "waiting until the lab is deleted";

/// Calls to the API server for one operation on one lab.
pub(super) struct LabWrites<'o> {
    pub(super) writer: &'o Writer,
    pub(super) stores: &'o LabStores,
    pub(super) lab: &'o Lab,
    pub(super) limits: &'o Limits,
}

/// The kind of an object that a lab or a file server can have.
pub(super) fn kind_of(object: &Value) -> Option<ApiResource> {
    Some(match object["kind"].as_str()? {
        "ConfigMap" => ApiResource::erase::<ConfigMap>(&()),
        "Job" => ApiResource::erase::<Job>(&()),
        "NetworkPolicy" => ApiResource::erase::<NetworkPolicy>(&()),
        "PersistentVolumeClaim" => ApiResource::erase::<PersistentVolumeClaim>(&()),
        "Pod" => pods(),
        "ResourceQuota" => ApiResource::erase::<ResourceQuota>(&()),
        "Secret" => secrets(),
        "Service" => ApiResource::erase::<Service>(&()),
        _ => return None,
    })
}

pub(super) fn namespaces() -> ApiResource {
    ApiResource::erase::<Namespace>(&())
}

pub(super) fn pods() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}

pub(super) fn secrets() -> ApiResource {
    ApiResource::erase::<Secret>(&())
}

pub(super) fn accounts() -> ApiResource {
    ApiResource::erase::<ServiceAccount>(&())
}

/// `Pod userlabs-rachel/rachel-nb`, `Namespace userlabs-rachel`.
pub(super) fn shown(kind: &ApiResource, name: NamespacedName<'_>) -> String {
    let NamespacedName { namespace, name } = name;
    match namespace.is_empty() {
        true => format!("{} {name}", kind.kind),
        false => format!("{} {namespace}/{name}", kind.kind),
    }
}

fn cluster_wide(name: &str) -> NamespacedName<'_> {
    NamespacedName {
        namespace: "",
        name,
    }
}

impl LabWrites<'_> {
    /// Makes an object of a lab.
    pub(super) async fn apply(&self, object: &Value) -> Result<DynamicObject, Stopped> {
        apply_object(self.writer, self.limits, object).await
    }

    /// Reads an object.
    pub(super) async fn read(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
    ) -> Result<Option<DynamicObject>, Stopped> {
        let call = Call {
            action: "reading object",
            object: &shown(kind, name),
        };
        let writer = self.writer;
        with_retries(self.limits, call, |_| writer.get(kind, name)).await
    }

    /// Makes the namespace of the lab. One that is left over from an earlier lab is deleted before.
    pub(super) async fn make_namespace(&self, object: &Value) -> Result<(), Stopped> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let kind = namespaces();
        let shown = shown(&kind, cluster_wide(name));
        let call = Call {
            action: "creating namespace",
            object: &shown,
        };
        let before = self.stores.namespace(name).and_then(|it| it.uid());
        loop {
            // Whether one of the attempts may have made it, although it failed.
            let is_unclear = &AtomicBool::new(false);
            let (writer, kind) = (self.writer, &kind);
            let made = with_retries(self.limits, call, |_| async move {
                match writer.create(kind, "", object.clone()).await {
                    Ok(_) => Ok(true),
                    Err(error) if is_there(&error) => Ok(false),
                    Err(error) => {
                        is_unclear.fetch_or(is_ambiguous(&error), Ordering::Relaxed);
                        Err(error)
                    }
                }
            });
            if made.await? {
                return Ok(());
            }
            let Some(found) = self.read(kind, cluster_wide(name)).await? else {
                continue;
            };
            if !is_of_lab(&found, &self.lab.username) {
                return Err(Stopped::Refused(RefusedCall {
                    action: call.action,
                    object: shown,
                    status: Some(409),
                    reason: "it exists and does not belong to the lab controller".to_owned(),
                }));
            }
            let is_own = is_unclear.load(Ordering::Relaxed) && before != found.uid();
            if is_own && !is_ending(&found) {
                return Ok(());
            }
            self.delete_namespace(name, &found).await?;
        }
    }

    /// Deletes the pod of the lab and waits until it is gone, but leaves time for the namespace:
    /// its deletion goes on in the cluster, also if this operation fails, and ends the pod too.
    pub(super) async fn delete_pod(&self, name: NamespacedName<'_>) -> Result<(), Stopped> {
        let kind = pods();
        let found = match self.stores.pod(name.namespace, name.name) {
            Some(pod) => pod.uid(),
            None => self.read(&kind, name).await?.and_then(|pod| pod.uid()),
        };
        let Some(uid) = found else {
            return Ok(());
        };
        let call = Call {
            action: "deleting object",
            object: &shown(&kind, name),
        };
        let (writer, uid) = (self.writer, uid.as_str());
        let kind = &kind;
        with_retries(self.limits, call, |_| async move {
            let deleted = writer.delete_within(kind, name, uid, GRACE_SECONDS).await;
            other_is_gone(deleted)
        })
        .await?;
        let is_stored = || {
            let pod = self.stores.pod(name.namespace, name.name);
            pod.and_then(|pod| pod.uid()).as_deref() == Some(uid)
        };
        let gone = self.until_gone(kind, name, uid, is_stored);
        let longest = self.limits.cap_wait(MAX_POD_WAIT);
        timeout(longest, gone).await.unwrap_or_else(|_elapsed| {
            tracing::warn!(object = call.object, "the pod does not end in time");
            Ok(())
        })
    }

    /// The namespace, if it is of this lab. It is read, since a watch that is behind may show an
    /// earlier namespace of the same name. One that only the watch shows is returned too: a
    /// deletion waits until the watch has seen its end.
    pub(super) async fn own_namespace(&self, name: &str) -> Result<Option<DynamicObject>, Stopped> {
        let found = match self.read(&namespaces(), cluster_wide(name)).await? {
            Some(namespace) => Some(namespace),
            None => self.stores.namespace(name).map(|it| (*it).clone()),
        };
        Ok(found.filter(|found| is_of_lab(found, &self.lab.username)))
    }

    /// Deletes a namespace that was found, and waits until it is gone, also from the store.
    pub(super) async fn delete_namespace(
        &self,
        name: &str,
        found: &DynamicObject,
    ) -> Result<(), Stopped> {
        let uid = found.uid().unwrap_or_default();
        let kind = namespaces();
        let (writer, kind, uid) = (self.writer, &kind, uid.as_str());
        if !is_ending(found) {
            let call = Call {
                action: "deleting namespace",
                object: &shown(kind, cluster_wide(name)),
            };
            with_retries(self.limits, call, |_| async move {
                other_is_gone(writer.delete(kind, cluster_wide(name), uid).await)
            })
            .await?;
        }
        let is_stored = || {
            let namespace = self.stores.namespace(name);
            namespace.and_then(|it| it.uid()).as_deref() == Some(uid)
        };
        self.until_gone(kind, cluster_wide(name), uid, is_stored)
            .await?;
        self.lab.record().forget_namespace();
        Ok(())
    }

    /// Waits until an object is gone, by the watch. A watch that is behind may not have seen the
    /// object yet, so the end is read once.
    async fn until_gone(
        &self,
        kind: &ApiResource,
        name: NamespacedName<'_>,
        uid: &str,
        is_stored: impl Fn() -> bool,
    ) -> Result<(), Stopped> {
        let mut touched = self.lab.touched();
        loop {
            touched.borrow_and_update();
            if !is_stored() {
                let found = self.read(kind, name).await?;
                if found.and_then(|found| found.uid()).as_deref() != Some(uid) {
                    return Ok(());
                }
            }
            // The sender lives as long as the lab, which is borrowed here.
            let _ = self.limits.wait(WAIT_GONE, touched.changed()).await?;
        }
    }
}

/// Makes an object, or sets the given fields of it.
pub(super) async fn apply_object(
    writer: &Writer,
    limits: &Limits,
    object: &Value,
) -> Result<DynamicObject, Stopped> {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let name = NamespacedName {
        namespace: text("namespace"),
        name: text("name"),
    };
    let kind = kind_of(object)
        .ok_or_else(|| Stopped::Impossible(format!("{} has an unknown kind", name.name)))?;
    let call = Call {
        action: "creating object",
        object: &shown(&kind, name),
    };
    let (kind, object) = (&kind, &with_protocols(object));
    with_retries(limits, call, |_| writer.apply(kind, name, object)).await
}

/// The object with the protocol of each port. It is part of the key of a port, and API servers
/// before 1.21 apply no port without it.
fn with_protocols(object: &Value) -> Value {
    let mut object = object.clone();
    let containers = ["/spec", "/spec/template/spec"]
        .into_iter()
        .flat_map(|pod| ["containers", "initContainers"].map(|list| format!("{pod}/{list}")));
    for list in containers {
        let containers = object.pointer_mut(&list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            set_protocols(container.get_mut("ports"));
        }
    }
    if object["kind"] == "Service" {
        set_protocols(object.pointer_mut("/spec/ports"));
    }
    object
}

fn set_protocols(ports: Option<&mut Value>) {
    let ports = ports.and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        port.entry("protocol").or_insert("TCP".into());
    }
}

/// Whether an object of this name exists.
fn is_there(error: &ApiCallError) -> bool {
    let ApiCallError::Api(kube::Error::Api(status)) = error else {
        return false;
    };
    status.code == 409 && status.reason == "AlreadyExists"
}

/// If there is another object of this name, the one with the uid is gone.
pub(super) fn other_is_gone(deleted: Result<(), ApiCallError>) -> Result<(), ApiCallError> {
    match deleted {
        Err(ApiCallError::Api(kube::Error::Api(status)))
            if status.code == 409 && status.message.contains("Precondition failed") =>
        {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_are_applied_with_their_protocols() {
        let tcp = json!({ "port": 8888, "protocol": "TCP" });
        let service = with_protocols(&json!({
            "kind": "Service",
            "spec": { "ports": [{ "port": 8888 }, { "port": 53, "protocol": "UDP" }] },
        }));
        let ports = &service["spec"]["ports"];
        assert_eq!(ports, &json!([tcp, { "port": 53, "protocol": "UDP" }]));
        let pod = json!({ "containers": [{ "ports": [{ "containerPort": 8888 }] }, {}] });
        let expected = json!([
            { "ports": [{ "containerPort": 8888, "protocol": "TCP" }] },
            {},
        ]);
        let made = with_protocols(&json!({ "kind": "Pod", "spec": pod }));
        assert_eq!(made["spec"]["containers"], expected);
        let made =
            with_protocols(&json!({ "kind": "Job", "spec": { "template": { "spec": pod } } }));
        assert_eq!(made["spec"]["template"]["spec"]["containers"], expected);
        let policy = json!({ "kind": "NetworkPolicy", "spec": { "ingress": [{ "ports": [{}] }] } });
        assert_eq!(with_protocols(&policy), policy);
    }
}
