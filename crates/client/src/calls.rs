//! The operations of the API.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    connection::SiteConnection,
    error::ClientError,
    hosted_app::{HostedApp, HostedAppChange, NewHostedApp, OfferedTemplate, OwnGroup},
};

/// The fields of [`HostedApp`].
const APP: &str = "fragment App on PhApplication { id displayName groupName appName appVersion instanceType scope status message appUrl env { name value } pods { name } }";
/// Apps of a page.
const PAGE: u32 = 100;

/// What is done to an app that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppOperation {
    /// Runs its pods.
    Start,
    /// Ends its pods.
    Stop,
    /// Removes it.
    Delete,
}

/// A page of apps.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    page_info: PageEnd,
    edges: Vec<Edge>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageEnd {
    has_next_page: bool,
    end_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Edge {
    node: HostedApp,
}

impl SiteConnection {
    /// The apps that the person may see, sorted by name.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn apps(&self, groups: &[String]) -> Result<Vec<HostedApp>, ClientError> {
        let document = format!(
            "query($where: PhApplicationWhereInput, $first: Int, $after: String) {{ phApplicationsConnection(where: $where, first: $first, after: $after) {{ pageInfo {{ hasNextPage endCursor }} edges {{ node {{ ...App }} }} }} }} {APP}"
        );
        let filter = match groups {
            [] => json!({}),
            groups => json!({ "groupName_in": groups }),
        };
        let mut apps = Vec::new();
        let mut after = Value::Null;
        loop {
            let variables = json!({ "where": filter, "first": PAGE, "after": after });
            let mut data = self.query(&document, variables).await?;
            let page: Page = self.parse(data["phApplicationsConnection"].take())?;
            apps.extend(page.edges.into_iter().map(|edge| edge.node));
            match page
                .page_info
                .end_cursor
                .filter(|_| page.page_info.has_next_page)
            {
                Some(cursor) => after = Value::String(cursor),
                None => return Ok(apps),
            }
        }
    }

    /// An app.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn app(&self, id: &str) -> Result<HostedApp, ClientError> {
        let document = format!(
            "query($where: PhApplicationWhereUniqueInput!) {{ app: phApplication(where: $where) {{ ...App }} }} {APP}"
        );
        self.one(&document, json!({ "where": { "id": id } })).await
    }

    /// Makes an app.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn create(&self, new: &NewHostedApp) -> Result<HostedApp, ClientError> {
        let document = format!(
            "mutation($data: PhApplicationCreateInput!) {{ app: createPhApplication(data: $data) {{ ...App }} }} {APP}"
        );
        self.one(&document, json!({ "data": new })).await
    }

    /// Changes an app.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn update(
        &self,
        id: &str,
        change: &HostedAppChange,
    ) -> Result<HostedApp, ClientError> {
        let document = format!(
            "mutation($where: PhApplicationWhereUniqueInput!, $data: PhApplicationUpdateInput!) {{ app: updatePhApplication(where: $where, data: $data) {{ ...App }} }} {APP}"
        );
        let variables = json!({ "where": { "id": id }, "data": change });
        self.one(&document, variables).await
    }

    /// Starts, stops or deletes an app.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn operate(
        &self,
        id: &str,
        operation: AppOperation,
    ) -> Result<HostedApp, ClientError> {
        let field = match operation {
            AppOperation::Start => "startPhApplication",
            AppOperation::Stop => "stopPhApplication",
            AppOperation::Delete => "deletePhApplication",
        };
        let document = format!(
            "mutation($where: PhApplicationWhereUniqueInput!) {{ app: {field}(where: $where) {{ ...App }} }} {APP}"
        );
        self.one(&document, json!({ "where": { "id": id } })).await
    }

    /// All templates.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn templates(&self) -> Result<Vec<OfferedTemplate>, ClientError> {
        let document = "{ phAppTemplates { id name version description defaultEnvs { name defaultValue optional description } } }";
        let mut data = self.query(document, json!({})).await?;
        self.parse(data["phAppTemplates"].take())
    }

    /// The person's groups.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn groups(&self) -> Result<Vec<OwnGroup>, ClientError> {
        let document = "{ me { effectiveGroups { name displayName instanceTypes { name cpuLimit memoryLimit gpuLimit } } } }";
        let mut data = self.query(document, json!({})).await?;
        self.parse(data["me"]["effectiveGroups"].take())
    }

    /// The person's name.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn username(&self) -> Result<String, ClientError> {
        let mut data = self.query("{ me { username } }", json!({})).await?;
        self.parse(data["me"]["username"].take())
    }

    async fn one(&self, document: &str, variables: Value) -> Result<HostedApp, ClientError> {
        let mut data = self.query(document, variables).await?;
        self.parse(data["app"].take())
    }
}
