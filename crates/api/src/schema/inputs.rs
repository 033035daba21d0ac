//! The inputs of operations.

use async_graphql::{ID, InputObject};
use serde_json::Value;

use crate::app_input::{WrittenApp, WrittenChange};

/// Names one app.
#[derive(InputObject)]
#[graphql(name = "PhApplicationWhereUniqueInput")]
pub(super) struct AppId {
    pub(super) id: ID,
}

/// Names one template.
#[derive(InputObject)]
#[graphql(name = "PhAppTemplateWhereUniqueInput")]
pub(super) struct TemplateId {
    pub(super) id: ID,
}

/// Names one group.
#[derive(InputObject)]
#[graphql(name = "GroupWhereUniqueInput")]
pub(super) struct GroupId {
    pub(super) id: ID,
}

/// Names one instance type.
#[derive(InputObject)]
#[graphql(name = "InstanceTypeWhereUniqueInput")]
pub(super) struct InstanceTypeId {
    pub(super) id: ID,
}

/// Which apps are wanted. An id overrides everything else.
#[derive(Default, InputObject)]
#[graphql(name = "PhApplicationWhereInput")]
pub(super) struct AppFilter {
    pub(super) id: Option<ID>,
    /// A part of the template's name.
    #[graphql(name = "appName_contains")]
    pub(super) app_name_contains: Option<String>,
    /// Names of groups.
    #[graphql(name = "groupName_in")]
    pub(super) group_name_in: Option<Vec<Option<String>>>,
    /// A part of the id, the template's name or the name for people; case does not matter.
    pub(super) search: Option<String>,
}

/// Which templates are wanted. An id overrides everything else.
#[derive(Default, InputObject)]
#[graphql(name = "PhAppTemplateWhereInput")]
pub(super) struct TemplateFilter {
    pub(super) id: Option<ID>,
    /// A part of the name for people.
    #[graphql(name = "name_contains")]
    pub(super) name_contains: Option<String>,
}

/// The order of apps.
#[derive(InputObject)]
#[graphql(name = "PhApplicationOrderBy")]
pub(super) struct AppOrder {
    /// `asc` or `desc`.
    pub(super) display_name: Option<String>,
}

/// A new app.
#[derive(InputObject)]
#[graphql(name = "PhApplicationCreateInput")]
pub(super) struct CreateInput {
    template_id: Option<String>,
    id: ID,
    display_name: Option<String>,
    group_name: Option<String>,
    /// A list of objects with `name` and `value`.
    env: Option<Value>,
    instance_type: Option<String>,
    /// `public`, `primehub` (everybody who signs in) or `group`.
    scope: Option<String>,
}

/// A change of an app. What is absent stays as it is.
#[derive(InputObject)]
#[graphql(name = "PhApplicationUpdateInput")]
pub(super) struct UpdateInput {
    /// All variables, as a list of objects with `name` and `value`.
    env: Option<Value>,
    instance_type: Option<String>,
    scope: Option<String>,
    display_name: Option<String>,
}

impl From<CreateInput> for WrittenApp {
    fn from(input: CreateInput) -> WrittenApp {
        WrittenApp {
            id: input.id.0,
            template: input.template_id,
            display_name: input.display_name,
            group: input.group_name,
            instance_type: input.instance_type,
            scope: input.scope,
            env: input.env,
        }
    }
}

impl From<UpdateInput> for WrittenChange {
    fn from(input: UpdateInput) -> WrittenChange {
        WrittenChange {
            display_name: input.display_name,
            instance_type: input.instance_type,
            scope: input.scope,
            env: input.env,
        }
    }
}
