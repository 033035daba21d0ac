//! The API by which a JupyterHub adds and removes its routes, on a listener of its own: that of
//! configurable-http-proxy.
//!
//! Invariant: without the token no route is read or changed.

mod inactive_since;
mod response;

use std::{convert::Infallible, error::Error, net::SocketAddr, sync::Arc};

use http::{HeaderMap, Method, Request, StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{body::Incoming, service::service_fn};
use serde_json::{Map, Value};
use tokio::net::TcpListener;

use crate::{
    catalog::hub_routes::{HubRouteError, HubRouteSettings, HubRoutes, route_path::RoutePath},
    model::{path_prefix::below, secret::Secret},
    ops::{
        admin::{self, Reply},
        drain::DrainWatcher,
        http_server,
    },
};
use inactive_since::inactive_since;
use response::{empty, plain};

/// The path of the routes.
const ROUTES: &str = "/api/routes";
/// Open connections; further ones wait. A hub has ten requests under way.
const MAX_CONNECTIONS: usize = 256;
/// Largest body of a request, in bytes: the data of one route.
const MAX_BODY: usize = 16 * 1024;
/// The scheme of the token, with the space after it.
const SCHEME: &[u8] = b"token ";

/// The settings of the API.
#[derive(Clone, Debug)]
pub struct HubProxySettings {
    /// The address of its listener.
    pub address: SocketAddr,
    /// The token of the hub.
    pub token: Secret,
    /// What all routes have in common.
    pub routes: HubRouteSettings,
}

/// The API.
#[derive(Debug)]
pub struct HubProxyApi {
    token: Secret,
    routes: Arc<HubRoutes>,
}

impl HubProxyApi {
    /// An API that changes these routes.
    pub fn new(token: Secret, routes: Arc<HubRoutes>) -> HubProxyApi {
        HubProxyApi { token, routes }
    }

    /// Serves the listener until the process drains.
    pub async fn serve(self, listener: TcpListener, drain: DrainWatcher) {
        let api = Arc::new(self);
        http_server::serve(listener, MAX_CONNECTIONS, drain, |_| {
            let api = api.clone();
            service_fn(move |request: Request<Incoming>| {
                let api = api.clone();
                async move { Ok::<_, Infallible>(api.answer(request).await) }
            })
        })
        .await;
    }

    async fn answer<B>(&self, request: Request<B>) -> Reply
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let Some(path) = below(parts.uri.path(), ROUTES) else {
            return plain(StatusCode::NOT_FOUND, "there is nothing at this path");
        };
        // Before the body is read.
        if !self.admits(&parts.headers) {
            return empty(StatusCode::FORBIDDEN);
        }
        let is_for_all = path.is_empty() || path == "/";
        match parts.method {
            Method::GET if is_for_all => self.list(&parts),
            Method::GET => self.get(path),
            Method::DELETE => self.remove(path),
            Method::POST => match read_object(body).await {
                Ok(data) => self.add(path, data),
                Err((status, what)) => plain(status, what),
            },
            _ => plain(StatusCode::METHOD_NOT_ALLOWED, "GET, POST or DELETE only"),
        }
    }

    /// Checks `Authorization: token …`.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(header::AUTHORIZATION);
        let parts = value.and_then(|value| value.as_bytes().split_at_checked(SCHEME.len()));
        parts.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case(SCHEME) && self.token.matches(token.trim_ascii())
        })
    }

    fn list(&self, parts: &Parts) -> Reply {
        match inactive_since(parts.uri.query()) {
            Ok(since) => admin::json(&Value::Object(self.routes.list(since))),
            Err(error) => plain(StatusCode::BAD_REQUEST, error.to_string()),
        }
    }

    fn get(&self, path: &str) -> Reply {
        // An invalid path has no route.
        let route = RoutePath::parse(path).ok();
        match route.and_then(|path| self.routes.get(&path)) {
            Some(route) => admin::json(&route),
            None => empty(StatusCode::NOT_FOUND),
        }
    }

    fn remove(&self, path: &str) -> Reply {
        let route = RoutePath::parse(path).ok();
        let removed = route.filter(|path| self.routes.remove(path));
        match removed {
            Some(path) => {
                tracing::info!(route = path.key(), "the hub removed a route");
                empty(StatusCode::NO_CONTENT)
            }
            None => empty(StatusCode::NOT_FOUND),
        }
    }

    fn add(&self, path: &str, data: Map<String, Value>) -> Reply {
        let parsed = RoutePath::parse(path).map_err(HubRouteError::from);
        let added = parsed.and_then(|path| {
            self.routes.add(&path, data)?;
            Ok(path)
        });
        match added {
            Ok(path) => {
                tracing::info!(route = path.key(), "the hub added a route");
                empty(StatusCode::CREATED)
            }
            Err(error) => {
                tracing::warn!(path, %error, "refused a route of the hub");
                plain(status_of(&error), error.to_string())
            }
        }
    }
}

fn status_of(error: &HubRouteError) -> StatusCode {
    match error {
        // Hubs try again for half a minute after 5xx.
        HubRouteError::Full | HubRouteError::TooMuchData => StatusCode::CONFLICT,
        HubRouteError::Path(_)
        | HubRouteError::Outside { .. }
        | HubRouteError::NoTarget
        | HubRouteError::Target(_) => StatusCode::BAD_REQUEST,
    }
}

/// Reads a body that is a JSON object.
///
/// # Errors
/// The status and the text of the response.
async fn read_object<B>(body: B) -> Result<Map<String, Value>, (StatusCode, String)>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let what = format!("the body may have {MAX_BODY} bytes");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, what));
        }
        Err(_) => {
            return Err((
                StatusCode::BAD_REQUEST,
                "the body cannot be read".to_owned(),
            ));
        }
    };
    serde_json::from_slice(&body).map_err(|error| {
        let what = format!("Body not valid JSON: {error}");
        (StatusCode::BAD_REQUEST, what)
    })
}

#[cfg(test)]
mod tests;
