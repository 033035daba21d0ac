//! `PhAppTemplate`.

use async_graphql::{ID, Object, SimpleObject};
use serde_json::Value;

/// A template, as an object of the cluster or as an app remembers it.
#[derive(Clone)]
pub(super) struct AppTemplate(pub(super) Value);

/// A variable that a template offers.
#[derive(SimpleObject)]
#[graphql(name = "DefaultEnvVar")]
pub(super) struct DefaultVariable {
    name: Option<String>,
    description: Option<String>,
    default_value: Option<String>,
    optional: Option<bool>,
}

impl AppTemplate {
    /// The name of the object.
    pub(super) fn id(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.0["spec"][field].as_str()
    }
}

/// The variables that a template offers.
pub(super) fn default_variables(template: &Value) -> Vec<DefaultVariable> {
    let offered = template["spec"]["defaultEnvs"].as_array();
    let text = |variable: &Value, field: &str| variable[field].as_str().map(str::to_owned);
    let variable = |variable: &Value| DefaultVariable {
        name: text(variable, "name"),
        description: text(variable, "description"),
        default_value: text(variable, "defaultValue"),
        optional: variable["optional"].as_bool(),
    };
    offered.into_iter().flatten().map(variable).collect()
}

/// A kind of app that people can make.
#[Object(name = "PhAppTemplate", serial)]
impl AppTemplate {
    #[graphql(name = "id")]
    async fn id_field(&self) -> ID {
        self.id().into()
    }

    async fn name(&self) -> Option<&str> {
        self.text("name")
    }

    async fn description(&self) -> Option<&str> {
        self.text("description")
    }

    async fn version(&self) -> Option<&str> {
        self.text("version")
    }

    async fn doc_link(&self) -> Option<&str> {
        self.text("docLink")
    }

    async fn icon(&self) -> Option<&str> {
        self.text("icon")
    }

    async fn default_envs(&self) -> Vec<DefaultVariable> {
        default_variables(&self.0)
    }

    /// The parts of an app that is made of it.
    async fn template(&self) -> Value {
        self.0["spec"]["template"].clone()
    }
}
