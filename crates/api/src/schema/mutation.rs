//! The mutations.

use async_graphql::{Context, Object, Result};

use super::{
    application::Application,
    call::CallContext,
    inputs::{AppId, CreateInput, UpdateInput},
};

/// The root of all mutations.
pub struct Mutation;

/// Changes of apps.
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
}
