//! Connections: rows of a list with their cursors.

use async_graphql::{Object, SimpleObject};

use super::application::Application;
use crate::paging::RowsPage;

/// A part of the list of apps.
pub(super) struct AppsConnection(pub(super) RowsPage<Application>);

/// Which part of a list it is.
#[derive(SimpleObject)]
struct PageInfo {
    /// The number of the page, if it was asked for by number.
    current_page: Option<i32>,
    total_page: Option<i32>,
    has_next_page: bool,
    has_previous_page: bool,
    start_cursor: Option<String>,
    end_cursor: Option<String>,
}

/// An app and its place in the list.
#[derive(SimpleObject)]
#[graphql(name = "PhApplicationEdge", serial)]
struct AppEdge {
    node: Application,
    cursor: String,
}

/// A part of the list of apps.
#[Object(name = "PhApplicationsConnection", serial)]
impl AppsConnection {
    async fn page_info(&self) -> PageInfo {
        let page = &self.0;
        let cursor = |app: Option<&Application>| app.map(|app| app.place().cursor());
        PageInfo {
            current_page: page.current,
            total_page: page.total,
            has_next_page: page.has_next,
            has_previous_page: page.has_previous,
            start_cursor: cursor(page.rows.first()),
            end_cursor: cursor(page.rows.last()),
        }
    }

    async fn edges(&self) -> Vec<AppEdge> {
        let edge = |app: &Application| AppEdge {
            cursor: app.place().cursor(),
            node: app.clone(),
        };
        self.0.rows.iter().map(edge).collect()
    }
}
