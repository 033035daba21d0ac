//! Calls about installations. Each checks the person's rights at Kubernetes before it reads or
//! writes objects.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use ludgate_cluster::crd::{
    definition::ApplicationDefinition, installation::ApplicationInstallation,
};
use ludgate_installs::{
    conditions::READY,
    controller::annotations::{TARGET_LABEL, selector_name, target_name},
    resource_json::{error::ResourceError, installation},
    validation::deletion,
};
use ludgate_model::{dns::is_subdomain, principal::Principal};
use serde_json::{Value, json};

use super::{
    access::{self, WantedAccess},
    answer::{Answer, from_cluster, not_found},
    bundle,
    call::{Change, HOME, InstallCall, InstallationName},
    cluster_user::ClusterUser,
    home_cluster::HomeCluster,
    objects::{self, INSTALLATIONS},
    preparation::{self, NewForm},
    request_body::RequestBody,
    spec_history,
};

/// Attempts to change an object, in case of conflicts with concurrent changes.
const MAX_ATTEMPTS: usize = 5;
/// Maximum of namespaces that are reviewed one by one, for a person who may not list all.
const MAX_NAMESPACES: usize = 100;
/// Concurrent reviews.
const REVIEWS: usize = 8;

/// Installations on one target, for one person. Those on other targets count as absent.
pub(super) struct InstallationCalls<'a> {
    /// The cluster that stores the objects.
    pub(super) home: &'a HomeCluster,
    /// The name of the target.
    pub(super) target: &'a str,
    /// The name of the cluster that stores the objects, in the selectors of definitions.
    pub(super) cluster_name: &'a str,
    pub(super) person: &'a Principal,
    /// The person's name and groups for Kubernetes.
    pub(super) user: &'a ClusterUser,
}

impl InstallationCalls<'_> {
    /// Answers a call.
    ///
    /// # Errors
    /// See [`ResourceError`].
    pub(super) async fn answer(
        &self,
        call: InstallCall,
        body: RequestBody<'_>,
    ) -> Result<Answer, ResourceError> {
        match call {
            InstallCall::List(namespace) => self.list(namespace.as_deref()).await,
            InstallCall::Create => self.create(&body.json()?).await,
            InstallCall::Get(name) => {
                self.require("get", &name).await?;
                Ok(Answer::ok(shown(&self.get(&name).await?)))
            }
            InstallCall::History(name) => {
                self.require("get", &name).await?;
                Ok(Answer::ok(spec_history::list(&self.get(&name).await?)))
            }
            InstallCall::Export(namespace) => {
                let installations = self.visible(namespace.as_deref()).await?;
                Ok(Answer::ok(bundle::export(&installations)))
            }
            InstallCall::Import => self.import(&body.json()?).await,
            InstallCall::Change(name, Change::Replace) => {
                self.require("update", &name).await?;
                let whole = body.json()?;
                self.change(&name, NewForm::Whole(&whole)).await
            }
            InstallCall::Change(name, Change::Patch) => {
                self.require("patch", &name).await?;
                self.change(&name, NewForm::Patch(body.text()?)).await
            }
            InstallCall::Change(name, Change::Delete) => {
                self.require("delete", &name).await?;
                self.delete(&name).await
            }
        }
    }

    async fn list(&self, namespace: Option<&str>) -> Result<Answer, ResourceError> {
        let installations = self.visible(namespace).await?;
        let entries = installations.iter().map(|it| {
            let mut entry = installation::list_entry(it);
            complete(&mut entry, it);
            entry
        });
        Ok(Answer::ok(Value::Array(entries.collect())))
    }

    /// The installations that the person may list, in the order of their names.
    async fn visible(
        &self,
        namespace: Option<&str>,
    ) -> Result<Vec<ApplicationInstallation>, ResourceError> {
        let client = &self.home.client;
        let wanted = WantedAccess::installations("list", namespace.unwrap_or_default(), "");
        let allowed = access::require(client, self.user, wanted).await;
        let mut installations = match (allowed, namespace) {
            (Ok(()), _) => self.all_on_target(namespace).await?,
            (Err(refusal), None) if refusal.code == 403 => self.permitted(refusal).await?,
            (Err(error), _) => return Err(error),
        };
        installations.sort_by_key(|it| (it.namespace(), it.name_any()));
        Ok(installations)
    }

    /// The installations on the target in a namespace; `None`: in all.
    async fn all_on_target(
        &self,
        namespace: Option<&str>,
    ) -> Result<Vec<ApplicationInstallation>, ResourceError> {
        let mut all = objects::installations(&self.home.client, namespace).await?;
        all.retain(|installation| target_name(installation) == self.target);
        Ok(all)
    }

    /// The installations of those namespaces in which the person may list them.
    async fn permitted(
        &self,
        refusal: ResourceError,
    ) -> Result<Vec<ApplicationInstallation>, ResourceError> {
        let client = &self.home.client;
        let mut all = self.all_on_target(None).await?;
        let namespaces: BTreeSet<String> = all.iter().filter_map(ResourceExt::namespace).collect();
        if namespaces.len() > MAX_NAMESPACES {
            let mut error = refusal;
            error.details.push("name one with ?namespace=".to_owned());
            return Err(error);
        }
        let reviews = namespaces.into_iter().map(|namespace| async move {
            let wanted = WantedAccess::installations("list", &namespace, "");
            let allowed = access::is_allowed(client, self.user, wanted).await?;
            Ok::<_, ResourceError>(allowed.then_some(namespace))
        });
        let reviews: Vec<_> = stream::iter(reviews).buffered(REVIEWS).collect().await;
        let mut permitted = BTreeSet::new();
        for review in reviews {
            permitted.extend(review?);
        }
        if permitted.is_empty() {
            return Err(refusal);
        }
        all.retain(|installation| {
            let namespace = installation.namespace();
            namespace.is_some_and(|namespace| permitted.contains(&namespace))
        });
        Ok(all)
    }

    async fn create(&self, body: &Value) -> Result<Answer, ResourceError> {
        let new = self.prepare(body).await?;
        let created = self.install(&new).await?;
        Ok(Answer::created(shown(&created)))
    }

    /// Creates the missing installations of a bundle. All are checked before the first is written.
    async fn import(&self, body: &Value) -> Result<Answer, ResourceError> {
        let mut prepared = Vec::new();
        for entry in bundle::entries(body)? {
            prepared.push(self.prepare(entry).await?);
        }
        let mut made = Vec::new();
        for new in &prepared {
            match self.install(new).await {
                Ok(created) => made.push(shown(&created)),
                Err(error) if error.code == 409 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Answer::ok(Value::Array(made)))
    }

    /// A new installation with its defaults, if the person may create it.
    async fn prepare(&self, body: &Value) -> Result<ApplicationInstallation, ResourceError> {
        let mut new = preparation::read_installation(body)?;
        let namespace = new.namespace().unwrap_or_default();
        // Without a name: Kubernetes does not check rules with resource names on create.
        let wanted = WantedAccess::installations("create", &namespace, "");
        access::require(&self.home.client, self.user, wanted).await?;
        if self.target != HOME {
            let labels = new.metadata.labels.get_or_insert_default();
            labels.insert(TARGET_LABEL.to_owned(), self.target.to_owned());
        }
        let named = self.named(&new).await?;
        preparation::new_installation(new, named.as_ref())
    }

    /// Writes a new installation, and its namespace if there is none.
    async fn install(
        &self,
        new: &ApplicationInstallation,
    ) -> Result<ApplicationInstallation, ResourceError> {
        let name = name_of(new);
        let created = match self.write_new(new).await {
            Err(error) if error.code == 404 => {
                self.create_namespace(&name.namespace).await?;
                self.write_new(new).await?
            }
            other => other?,
        };
        self.log(&name, "create");
        Ok(created)
    }

    async fn write_new(
        &self,
        new: &ApplicationInstallation,
    ) -> Result<ApplicationInstallation, ResourceError> {
        let created = objects::create(&self.home.writer, new).await;
        created.map_err(from_cluster)
    }

    /// Creates the namespace of an installation, if the person may. A namespace that exists is no
    /// error: the 404 had another cause, and the next write returns it.
    async fn create_namespace(&self, namespace: &str) -> Result<(), ResourceError> {
        let wanted = WantedAccess::new_namespace();
        access::require(&self.home.client, self.user, wanted).await?;
        let created = objects::create_namespace(&self.home.writer, namespace).await;
        match created.map_err(from_cluster) {
            Err(error) if error.code != 409 => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// After a conflict, the object is read and the change is applied again.
    async fn change(
        &self,
        name: &InstallationName,
        form: NewForm<'_>,
    ) -> Result<Answer, ResourceError> {
        let mut attempt = 1;
        loop {
            let stored = self.get(name).await?;
            let changed = preparation::changed_installation(&stored, form)?;
            let named = self.named(&changed).await?;
            let mut changed = preparation::updated_installation(changed, &stored, named.as_ref())?;
            spec_history::record(&stored, &mut changed, &Timestamp::now().to_string());
            let written = objects::change(&self.home.writer, &stored, &changed).await;
            match written.map_err(from_cluster) {
                Ok(written) => {
                    self.log(name, "update");
                    return Ok(Answer::ok(shown(&written)));
                }
                Err(error) if error.code == 409 && attempt < MAX_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn delete(&self, name: &InstallationName) -> Result<Answer, ResourceError> {
        let stored = self.get(name).await?;
        let named = self.named(&stored).await?;
        let target = selector_name(self.target, self.cluster_name);
        deletion::check_installation(&stored, named.as_ref(), target)
            .map_err(|refusal| ResourceError::new(403, refusal))?;
        let deleted = objects::delete(&self.home.writer, &stored).await;
        deleted.map_err(from_cluster)?;
        self.log(name, "delete");
        Ok(Answer::ok(json!({})))
    }

    async fn require(
        &self,
        verb: &'static str,
        name: &InstallationName,
    ) -> Result<(), ResourceError> {
        let wanted = WantedAccess::installations(verb, &name.namespace, &name.name);
        access::require(&self.home.client, self.user, wanted).await
    }

    async fn get(&self, name: &InstallationName) -> Result<ApplicationInstallation, ResourceError> {
        let found = objects::installation(&self.home.client, name).await?;
        let found = found.filter(|found| target_name(found) == self.target);
        found.ok_or_else(|| not_found(INSTALLATIONS, &name.name))
    }

    /// The definition that an installation names.
    async fn named(
        &self,
        installation: &ApplicationInstallation,
    ) -> Result<Option<ApplicationDefinition>, ResourceError> {
        let name = &installation.spec.application_ref.name;
        match is_subdomain(name) {
            true => objects::definition(&self.home.client, name).await,
            false => Ok(None),
        }
    }

    fn log(&self, name: &InstallationName, operation: &'static str) {
        tracing::info!(
            target: "audit",
            event = "installation_change",
            subject = &*self.person.subject,
            cluster = self.target,
            namespace = name.namespace,
            name = name.name,
            operation
        );
    }
}

fn name_of(object: &ApplicationInstallation) -> InstallationName {
    InstallationName {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

fn shown(object: &ApplicationInstallation) -> Value {
    let mut shown = installation::detail(object);
    complete(&mut shown, object);
    shown
}

/// Adds `current`, whether the status is about the current spec: the conditions in this form have
/// no `observedGeneration`.
fn complete(shown: &mut Value, object: &ApplicationInstallation) {
    spec_history::hide(shown);
    let generation = object.metadata.generation.unwrap_or_default();
    let status = object.status.as_ref();
    let ready = status.and_then(|status| status.conditions.get(READY));
    let is_current = ready.is_some_and(|ready| ready.observed_generation == generation);
    if let Some(status) = shown.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("current".to_owned(), is_current.into());
    }
    if object.metadata.deletion_timestamp.is_some() {
        shown["deletionTimestamp"] = json!(object.metadata.deletion_timestamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whether_it_is_about_the_spec_as_it_is() {
        for (generation, is_current) in [(1, false), (2, true)] {
            let object = json!({
                "metadata": { "name": "a", "namespace": "n", "generation": 2 },
                "spec": { "applicationRef": { "name": "example", "version": "1.0.0" } },
                "status": { "conditions": { "Ready": {
                    "status": "True", "observedGeneration": generation,
                } } },
            });
            let object = serde_json::from_value(object).expect("an installation");
            assert_eq!(shown(&object)["status"]["current"], is_current);
        }
        let new = json!({
            "metadata": {
                "name": "a", "namespace": "n", "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": { "applicationRef": { "name": "example", "version": "1.0.0" } },
        });
        let new = shown(&serde_json::from_value(new).expect("an installation"));
        assert_eq!(new["status"], json!({ "conditions": [], "current": false }));
        assert_eq!(new["deletionTimestamp"], "2026-01-01T00:00:00Z");
    }
}
