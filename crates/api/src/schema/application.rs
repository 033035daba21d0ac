//! `PhApplication`.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result, SimpleObject};

use super::{
    app_template::{AppTemplate, DefaultVariable, default_variables},
    call::CallContext,
    instance_type::InstanceTypeNode,
};
use crate::{app_record::AppRecord, paging::Place, platform::OfferedInstanceType};

/// An app.
#[derive(Clone)]
pub(super) struct Application(pub(super) Arc<AppRecord>);

/// An environment variable.
#[derive(SimpleObject)]
pub(super) struct EnvVar {
    name: Option<String>,
    value: Option<String>,
}

/// A pod of an app.
#[derive(SimpleObject)]
#[graphql(name = "Pod")]
struct PodNode {
    name: Option<String>,
    /// The URL of its log.
    log_endpoint: Option<String>,
}

impl Application {
    /// Its place in lists.
    pub(super) fn place(&self) -> Place {
        Place {
            name: self.0.display_name().to_owned(),
            id: self.0.id.clone(),
        }
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.0.spec_text(field)
    }

    fn template_text(&self, field: &str) -> Option<&str> {
        self.0.template["spec"][field].as_str()
    }
}

/// An app that was made by hand has no template, and what comes from it is null.
#[Object(name = "PhApplication", serial)]
impl Application {
    async fn id(&self) -> ID {
        self.0.id.as_str().into()
    }

    async fn display_name(&self) -> &str {
        self.0.display_name()
    }

    /// The name of its template.
    async fn app_name(&self) -> Option<&str> {
        self.0.template_name()
    }

    async fn app_version(&self) -> Option<&str> {
        self.template_text("version")
    }

    /// The picture of its template as it is now, or as it was when the app was made.
    async fn app_icon(&self, context: &Context<'_>) -> Result<Option<String>> {
        if let Some(icon) = self.template_text("icon") {
            return Ok(Some(icon.to_owned()));
        }
        let Some(name) = self.0.template_name() else {
            return Ok(None);
        };
        let templates = context.data::<CallContext>()?.templates().await?;
        let template = templates.iter().find(|it| it["metadata"]["name"] == name);
        let icon = template.and_then(|it| it["spec"]["icon"].as_str());
        Ok(icon.map(str::to_owned))
    }

    async fn app_default_env(&self) -> Vec<DefaultVariable> {
        default_variables(&self.0.template)
    }

    /// The template as it was when the app was made.
    async fn app_template(&self) -> Option<AppTemplate> {
        let template = &self.0.template;
        template.is_object().then(|| AppTemplate(template.clone()))
    }

    async fn group_name(&self) -> Option<&str> {
        self.text("groupName")
    }

    async fn instance_type(&self) -> Option<&str> {
        self.text("instanceType")
    }

    /// The instance type as it is now, or as it was when it was chosen.
    async fn instance_type_spec(&self, context: &Context<'_>) -> Result<Option<InstanceTypeNode>> {
        let Some(name) = self.text("instanceType") else {
            return Ok(None);
        };
        let call = context.data::<CallContext>()?;
        let offered = call.instance_types().await?;
        let current = offered.iter().find(|it| it.size.name == name).cloned();
        let chosen = &self.0.chosen_instance_type;
        let is_chosen = chosen["metadata"]["name"] == name;
        let former = || OfferedInstanceType::from_object(name, &chosen["spec"]).ok();
        let known = current.or_else(|| if is_chosen { former() } else { None });
        Ok(known.map(|offered| InstanceTypeNode {
            is_global: call.platform.is_global(name),
            offered,
        }))
    }

    async fn scope(&self) -> Option<&str> {
        self.text("scope")
    }

    /// Where people open it.
    async fn app_url(&self, context: &Context<'_>) -> Result<String> {
        let platform = &context.data::<CallContext>()?.platform;
        Ok(format!(
            "{}{}",
            platform.site_url,
            platform.app_path(&self.0.id)
        ))
    }

    /// Where other pods of its group reach it.
    async fn internal_app_url(&self, context: &Context<'_>) -> Result<Option<String>> {
        let platform = &context.data::<CallContext>()?.platform;
        let origin = self.0.internal_origin();
        Ok(origin.map(|origin| format!("{origin}{}", platform.app_path(&self.0.id))))
    }

    /// The hosts and ports of its Service, once there is one.
    async fn svc_endpoints(&self) -> Option<Vec<String>> {
        self.0.endpoints()
    }

    /// What people have set; the template's own variables are not among these.
    async fn env(&self) -> Vec<EnvVar> {
        let variables = self.0.variables().into_iter();
        let variable = |it: crate::variables::Variable| EnvVar {
            name: Some(it.name),
            value: Some(it.value),
        };
        variables.map(variable).collect()
    }

    async fn stop(&self) -> bool {
        self.0.is_stopped()
    }

    /// The phase: Starting, Ready, Updating, Stopping, Stopped or Error.
    async fn status(&self) -> &str {
        self.0.phase()
    }

    async fn message(&self) -> Option<&str> {
        self.0.message()
    }

    /// Where its data is mounted, if that is not the usual place.
    async fn app_root(&self) -> Option<&str> {
        self.text("appRoot")
    }

    async fn rewrite(&self) -> bool {
        self.0.spec["rewrite"].as_bool().unwrap_or(false)
    }

    async fn pods(&self, context: &Context<'_>) -> Result<Vec<PodNode>> {
        let call = context.data::<CallContext>()?;
        let label = self.0.pod_label();
        let pods = call
            .pods()
            .await?
            .iter()
            .filter(|pod| pod.app_label == label);
        let site = &call.platform.site_url;
        let node = |name: &str| PodNode {
            name: Some(name.to_owned()),
            log_endpoint: Some(format!("{site}/api/logs/phapplications/{name}")),
        };
        Ok(pods.map(|pod| node(&pod.name)).collect())
    }
}

impl From<AppRecord> for Application {
    fn from(record: AppRecord) -> Application {
        Application(Arc::new(record))
    }
}
