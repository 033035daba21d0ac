//! What a person can do with apps. Each operation finds the app, checks the person, checks the
//! input, and writes last.

use std::sync::Arc;

use ludgate_model::principal::Principal;
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    app_input::{AppChange, NewApp, WrittenApp, WrittenChange},
    app_object,
    app_record::AppRecord,
    cluster_objects::{ClusterObjects, no_app},
    error::OperationError,
    platform::{OfferedInstanceType, PlatformSettings},
    template_import::{ImportSettings, ImportedTemplate},
};

/// Attempts to change an app that others change at the same time.
const MAX_ATTEMPTS: usize = 5;

/// The operations on apps. Clones share the settings.
#[derive(Clone)]
pub struct Operations {
    /// The objects in the cluster.
    pub objects: ClusterObjects,
    /// The settings in force.
    pub platform: watch::Receiver<Arc<PlatformSettings>>,
    /// How administrators import templates; `None`: they cannot.
    pub import: Option<ImportSettings>,
}

impl Operations {
    /// The settings in force.
    pub fn platform(&self) -> Arc<PlatformSettings> {
        self.platform.borrow().clone()
    }

    /// The apps that a person may see.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn list(&self, person: &Principal) -> Result<Vec<AppRecord>, OperationError> {
        let mut apps = self.objects.apps().await?;
        apps.retain(|app| PlatformSettings::may_manage(person, app.group()));
        Ok(apps)
    }

    /// One app. An app of a group that the person is not in is like one that does not exist.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], and others.
    pub async fn get(&self, person: &Principal, id: &str) -> Result<AppRecord, OperationError> {
        let app = self.objects.app(id).await?;
        match PlatformSettings::may_manage(person, app.group()) {
            true => Ok(app),
            false => Err(no_app(id)),
        }
    }

    /// Makes an app from a template.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn create(
        &self,
        person: &Principal,
        written: WrittenApp,
    ) -> Result<AppRecord, OperationError> {
        let platform = self.platform();
        let app = NewApp::parse(written, person, &platform)?;
        let template = self.objects.template(&app.template).await?;
        let instance_type = self
            .usable(&platform, &app.group, &app.instance_type)
            .await?;
        let home = self.objects.home();
        let object = app_object::new_object(&app, home, &template, &instance_type)?;
        let created = self.objects.create_app(&app.id, object).await?;
        log(person, &created.id, "create");
        Ok(created)
    }

    /// Changes an app. Another change at the same time is read, and this one is made again on top
    /// of it.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn update(
        &self,
        person: &Principal,
        id: &str,
        written: WrittenChange,
    ) -> Result<AppRecord, OperationError> {
        let app = self.get(person, id).await?;
        let change = AppChange::parse(written)?;
        let platform = self.platform();
        let instance_type = match &change.instance_type {
            Some(name) => Some(self.usable(&platform, app.group(), name).await?),
            None => None,
        };
        let mut current = app;
        let mut attempt = 1;
        let changed = loop {
            match self.patch(&current, &change, instance_type.as_ref()).await {
                Err(OperationError::Conflict(_)) if attempt < MAX_ATTEMPTS => attempt += 1,
                result => break result?,
            }
            current = self.get(person, id).await?;
        };
        log(person, id, "update");
        Ok(changed)
    }

    async fn patch(
        &self,
        app: &AppRecord,
        change: &AppChange,
        instance_type: Option<&OfferedInstanceType>,
    ) -> Result<AppRecord, OperationError> {
        let patch = app_object::patch(app, change, instance_type)?;
        self.objects.patch_app(app, &patch).await
    }

    /// Stops or starts an app.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn set_stopped(
        &self,
        person: &Principal,
        id: &str,
        is_stopped: bool,
    ) -> Result<AppRecord, OperationError> {
        let app = self.get(person, id).await?;
        let patch = app_object::stop_patch(is_stopped);
        let changed = self.objects.patch_app(&app, &patch).await?;
        log(person, id, if is_stopped { "stop" } else { "start" });
        Ok(changed)
    }

    /// Deletes an app, and returns what it was.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn delete(&self, person: &Principal, id: &str) -> Result<AppRecord, OperationError> {
        let app = self.get(person, id).await?;
        self.objects.delete_app(&app).await?;
        log(person, id, "delete");
        Ok(app)
    }

    /// Makes a template of the one at a URL.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn import_template(
        &self,
        person: &Principal,
        url: &str,
    ) -> Result<Value, OperationError> {
        let template = self.load_template(person, url).await?;
        let created = self.objects.create_template(&template).await?;
        log_template(person, &template.name, "create");
        Ok(created)
    }

    /// Replaces a template by the one at a URL.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn replace_template(
        &self,
        person: &Principal,
        id: &str,
        url: &str,
    ) -> Result<Value, OperationError> {
        let template = self.load_template(person, url).await?;
        if template.name != id {
            let name = template.name;
            let what = format!("where: the template at the URL is {name:?}, not {id:?}");
            return Err(OperationError::Invalid(what));
        }
        let changed = self.objects.replace_template(&template).await?;
        log_template(person, id, "replace");
        Ok(changed)
    }

    async fn load_template(
        &self,
        person: &Principal,
        url: &str,
    ) -> Result<ImportedTemplate, OperationError> {
        if !person.is_admin {
            return Err(OperationError::NotAuthorised);
        }
        let Some(import) = &self.import else {
            let what = "templates cannot be imported here: api.template_import is off";
            return Err(OperationError::Invalid(what.to_owned()));
        };
        import.load(url).await
    }

    /// An instance type that the apps of a group may have.
    async fn usable(
        &self,
        platform: &PlatformSettings,
        group: &str,
        name: &str,
    ) -> Result<OfferedInstanceType, OperationError> {
        let offered = self.objects.instance_types(platform).await?;
        let mut own = platform.of_group(group, offered);
        match own.iter().position(|it| it.size.name == name) {
            Some(at) => Ok(own.swap_remove(at)),
            None => {
                let names: Vec<&str> = own.iter().map(|it| it.size.name.as_str()).collect();
                Err(OperationError::Invalid(format!(
                    "instanceType: the group {group} has no instance type {name:?}; it has: {}",
                    names.join(", ")
                )))
            }
        }
    }
}

/// Who did what, for operators.
fn log(person: &Principal, app: &str, operation: &'static str) {
    tracing::info!(target: "audit", event = "app_change", subject = &*person.subject, app, operation);
}

fn log_template(person: &Principal, template: &str, operation: &'static str) {
    tracing::info!(target: "audit", event = "template_change", subject = &*person.subject, template, operation);
}
