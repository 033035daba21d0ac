//! The mutations.

use async_graphql::{Context, Object, Result};
use serde_json::Value;

use super::{
    application::Application,
    call::CallContext,
    inputs::{AppId, CreateInput, TemplateId, UpdateInput},
};

/// The root of all mutations.
pub struct Mutation;

/// Changes of apps and templates.
#[Object]
impl Mutation {
    #[graphql(complexity = "50 + child_complexity")]
    async fn create_ph_application(
        &self,
        context: &Context<'_>,
        data: CreateInput,
    ) -> Result<Application> {
        let call = context.data::<CallContext>()?;
        let created = call.operations.create(&call.person, data.into()).await?;
        Ok(created.into())
    }

    #[graphql(complexity = "50 + child_complexity")]
    async fn update_ph_application(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] wanted: AppId,
        data: UpdateInput,
    ) -> Result<Option<Application>> {
        let call = context.data::<CallContext>()?;
        let operations = &call.operations;
        let changed = operations
            .update(&call.person, &wanted.id, data.into())
            .await?;
        Ok(Some(changed.into()))
    }

    #[graphql(complexity = "50 + child_complexity")]
    async fn start_ph_application(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] wanted: AppId,
    ) -> Result<Option<Application>> {
        let call = context.data::<CallContext>()?;
        let operations = &call.operations;
        let changed = operations
            .set_stopped(&call.person, &wanted.id, false)
            .await?;
        Ok(Some(changed.into()))
    }

    #[graphql(complexity = "50 + child_complexity")]
    async fn stop_ph_application(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] wanted: AppId,
    ) -> Result<Option<Application>> {
        let call = context.data::<CallContext>()?;
        let operations = &call.operations;
        let changed = operations
            .set_stopped(&call.person, &wanted.id, true)
            .await?;
        Ok(Some(changed.into()))
    }

    /// Answers with the app as it was.
    #[graphql(complexity = "50 + child_complexity")]
    async fn delete_ph_application(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] wanted: AppId,
    ) -> Result<Option<Application>> {
        let call = context.data::<CallContext>()?;
        let deleted = call.operations.delete(&call.person, &wanted.id).await?;
        Ok(Some(deleted.into()))
    }

    /// Makes a template of the first one at a URL; for administrators, if the platform permits it.
    #[graphql(
        name = "importPhAppTemplateFromURL",
        complexity = "50 + child_complexity"
    )]
    async fn import_template(&self, context: &Context<'_>, url: String) -> Result<Option<Value>> {
        let call = context.data::<CallContext>()?;
        let operations = &call.operations;
        let created = operations.import_template(&call.person, &url).await?;
        Ok(Some(created))
    }

    /// Replaces a template by the first one at a URL, which has the same name; for administrators,
    /// if the platform permits it.
    #[graphql(
        name = "updatePhAppTemplateFromURL",
        complexity = "50 + child_complexity"
    )]
    async fn replace_template(
        &self,
        context: &Context<'_>,
        url: String,
        #[graphql(name = "where")] wanted: TemplateId,
    ) -> Result<Option<Value>> {
        let call = context.data::<CallContext>()?;
        let operations = &call.operations;
        let changed = operations
            .replace_template(&call.person, &wanted.id, &url)
            .await?;
        Ok(Some(changed))
    }
}
