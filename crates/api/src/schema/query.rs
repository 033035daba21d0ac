//! The queries.

use async_graphql::{Context, Object, Result};

use super::{
    app_template::AppTemplate,
    application::Application,
    call::CallContext,
    connection::AppsConnection,
    inputs::{AppFilter, AppId, AppOrder, GroupId, InstanceTypeId, TemplateFilter, TemplateId},
    instance_type::InstanceTypeNode,
    people::{GroupNode, User},
};
use crate::{
    error::OperationError,
    paging::{Order, PageRequest, Place, RowsPage, paginate},
};

/// The root of all queries.
pub struct Query;

/// Reads of apps, templates, and the person who calls.
#[Object]
impl Query {
    /// The person who calls.
    async fn me(&self, context: &Context<'_>) -> Result<Option<User>> {
        let call = context.data::<CallContext>()?;
        Ok(Some(User(call.person.clone())))
    }

    #[graphql(complexity = "10 + child_complexity")]
    async fn ph_application(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] wanted: AppId,
    ) -> Result<Option<Application>> {
        let call = context.data::<CallContext>()?;
        let app = call.operations.get(&call.person, &wanted.id).await?;
        Ok(Some(app.into()))
    }

    #[graphql(complexity = "10 + child_complexity")]
    #[expect(clippy::too_many_arguments)]
    async fn ph_applications(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] filter: Option<AppFilter>,
        before: Option<String>,
        after: Option<String>,
        first: Option<i32>,
        last: Option<i32>,
        page: Option<i32>,
        order_by: Option<AppOrder>,
    ) -> Result<Vec<Option<Application>>> {
        let request = PageRequest {
            first,
            after,
            last,
            before,
            page,
        };
        let page = apps(context, filter, order_by, request).await?;
        Ok(page.rows.into_iter().map(Some).collect())
    }

    #[graphql(complexity = "10 + child_complexity")]
    #[expect(clippy::too_many_arguments)]
    async fn ph_applications_connection(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] filter: Option<AppFilter>,
        before: Option<String>,
        after: Option<String>,
        first: Option<i32>,
        last: Option<i32>,
        page: Option<i32>,
        order_by: Option<AppOrder>,
    ) -> Result<AppsConnection> {
        let request = PageRequest {
            first,
            after,
            last,
            before,
            page,
        };
        Ok(AppsConnection(
            apps(context, filter, order_by, request).await?,
        ))
    }

    #[graphql(complexity = "10 + child_complexity")]
    async fn ph_app_template(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] wanted: TemplateId,
    ) -> Result<Option<AppTemplate>> {
        let call = context.data::<CallContext>()?;
        let template = call.operations.objects.template(&wanted.id).await?;
        Ok(Some(AppTemplate(template)))
    }

    #[graphql(complexity = "10 + child_complexity")]
    #[expect(clippy::too_many_arguments)]
    async fn ph_app_templates(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] filter: Option<TemplateFilter>,
        before: Option<String>,
        after: Option<String>,
        first: Option<i32>,
        last: Option<i32>,
        page: Option<i32>,
    ) -> Result<Vec<Option<AppTemplate>>> {
        let call = context.data::<CallContext>()?;
        let filter = filter.unwrap_or_default();
        if let Some(id) = &filter.id {
            let template = call.operations.objects.template(id).await?;
            return Ok(vec![Some(AppTemplate(template))]);
        }
        let name = |template: &AppTemplate| {
            let name = template.0["spec"]["name"].as_str();
            name.unwrap_or_default().to_owned()
        };
        let all = call.templates().await?.iter().cloned().map(AppTemplate);
        let wanted = all.filter(|template| filter.wants(&name(template)));
        let place = |template: &AppTemplate| Place {
            name: name(template),
            id: template.id().to_owned(),
        };
        let request = PageRequest {
            first,
            after,
            last,
            before,
            page,
        };
        let page = paginate(wanted.collect(), place, Order::Ascending, &request)?;
        Ok(page.rows.into_iter().map(Some).collect())
    }

    /// A group that the person is in; administrators see every group.
    async fn group(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] wanted: GroupId,
    ) -> Result<Option<GroupNode>> {
        let groups = visible_groups(context)?;
        let is_it = |(name, _): &(String, GroupNode)| GroupNode::id_of(name) == *wanted.id;
        match groups.into_iter().find(is_it) {
            Some((_, group)) => Ok(Some(group)),
            None => Err(OperationError::NotFound {
                kind: "group",
                name: wanted.id.0,
            }
            .into()),
        }
    }

    /// The groups that the person is in; administrators see every group.
    async fn groups(&self, context: &Context<'_>) -> Result<Vec<Option<GroupNode>>> {
        let groups = visible_groups(context)?;
        Ok(groups.into_iter().map(|(_, group)| Some(group)).collect())
    }

    /// For administrators. Others see those of their groups, in `me`.
    #[graphql(complexity = "10 + child_complexity")]
    async fn instance_type(
        &self,
        context: &Context<'_>,
        #[graphql(name = "where")] wanted: InstanceTypeId,
    ) -> Result<Option<InstanceTypeNode>> {
        let types = all_instance_types(context).await?;
        let mut types = types.into_iter();
        match types.find(|it| it.offered.size.name == *wanted.id) {
            Some(found) => Ok(Some(found)),
            None => Err(OperationError::NotFound {
                kind: "instancetypes.primehub.io",
                name: wanted.id.0,
            }
            .into()),
        }
    }

    /// For administrators. Others see those of their groups, in `me`.
    #[graphql(complexity = "10 + child_complexity")]
    async fn instance_types(&self, context: &Context<'_>) -> Result<Vec<Option<InstanceTypeNode>>> {
        let types = all_instance_types(context).await?;
        Ok(types.into_iter().map(Some).collect())
    }
}

async fn apps(
    context: &Context<'_>,
    filter: Option<AppFilter>,
    order: Option<AppOrder>,
    request: PageRequest,
) -> Result<RowsPage<Application>> {
    let call = context.data::<CallContext>()?;
    let filter = filter.unwrap_or_default();
    let order = order.and_then(|order| order.display_name);
    let order = Order::parse(order.as_deref())?;
    let wanted: Vec<Application> = match &filter.id {
        Some(id) => vec![call.operations.get(&call.person, id).await?.into()],
        None => {
            let all = call.apps().await?.iter();
            let wanted = all.filter(|app| filter.wants(app)).cloned();
            wanted.map(Application::from).collect()
        }
    };
    Ok(paginate(wanted, Application::place, order, &request)?)
}

fn visible_groups(context: &Context<'_>) -> Result<Vec<(String, GroupNode)>> {
    let call = context.data::<CallContext>()?;
    let node = |(name, group): (&str, _)| (name.to_owned(), GroupNode::new(name, group));
    if call.person.is_admin {
        let all = call.platform.groups.iter();
        return Ok(all.map(|(name, group)| node((name, group))).collect());
    }
    Ok(call.platform.groups_of(&call.person).map(node).collect())
}

async fn all_instance_types(context: &Context<'_>) -> Result<Vec<InstanceTypeNode>> {
    let call = context.data::<CallContext>()?;
    if !call.person.is_admin {
        return Err(OperationError::NotAuthorised.into());
    }
    let offered = call.instance_types().await?.iter().cloned();
    let node = |offered: crate::platform::OfferedInstanceType| InstanceTypeNode {
        is_global: call.platform.is_global(&offered.size.name),
        offered,
    };
    Ok(offered.map(node).collect())
}
