//! The gateway's routes on the admin listener: its apps, their last use, and its sessions.

mod activity;
mod sessions;

use std::sync::Arc;

use http::{Method, Request};
use serde_json::json;

use crate::{
    catalog::snapshot::{Problem, Snapshot},
    gateway::Gateway,
    model::{access::Access, app::App, vhost::VirtualHost},
    ops::admin::{self, AdminServer, Reply},
};

/// Adds the gateway's routes, and its lines on the verbose readiness probe.
pub fn routes(server: AdminServer, gateway: &Arc<Gateway>) -> AdminServer {
    let apps_of = gateway.clone();
    let activity_of = gateway.clone();
    let sessions_of = gateway.clone();
    let provider_of = gateway.clone();
    let count_of = gateway.clone();
    server
        .route("/apps", &[Method::GET], move |_| {
            let reply = apps(&apps_of);
            async { reply }
        })
        .route("/activity", &[Method::GET], move |request: Request<()>| {
            let reply = activity::list(&activity_of, request.uri());
            async { reply }
        })
        .route(
            "/sessions",
            &[Method::GET, Method::DELETE],
            move |request: Request<()>| {
                let gateway = sessions_of.clone();
                async move {
                    match *request.method() {
                        Method::DELETE => sessions::end(&gateway, request.uri()).await,
                        _ => sessions::list(&gateway, request.uri()).await,
                    }
                }
            },
        )
        .status("identity provider", move || {
            provider(&provider_of).to_owned()
        })
        .status("apps", move || count_of.catalog.load().len().to_string())
}

/// The state of the provider. It does not affect readiness: only sign-in needs the provider.
fn provider(gateway: &Gateway) -> &'static str {
    match &gateway.oidc {
        None => "not configured",
        Some(oidc) if oidc.is_ready() => "known",
        Some(_) => "not known yet",
    }
}

fn apps(gateway: &Gateway) -> Reply {
    let snapshot = gateway.catalog.load();
    let site = snapshot.site();
    let mut apps: Vec<_> = snapshot.apps().collect();
    apps.sort_by_key(|app| app.id().clone());
    let list: Vec<_> = apps
        .into_iter()
        .map(|app| {
            let problem = match &app.spec.access {
                Access::Unknown(written) => Some(format!(
                    "access {written:?} is not understood: everybody is denied"
                )),
                Access::Public
                | Access::User
                | Access::Group(_)
                | Access::Owner(_)
                | Access::Admins => snapshot.note_on(app),
            };
            json!({
                "id": app.id().as_str(),
                "path": format!("{}/", app.mount),
                "host": app.host.map(|label| site.url(&VirtualHost::Host(label), "/")),
                "ports": ports(&snapshot, app),
                "upstream": app.spec.upstream.to_string(),
                "access": app.spec.access.to_string(),
                "state": app.spec.state.as_str(),
                "problem": problem,
            })
        })
        .collect();
    let problems: Vec<_> = snapshot
        .problems()
        .iter()
        .map(
            |Problem {
                 id,
                 object,
                 what,
                 kept,
             }| {
                json!({ "id": id, "object": object, "problem": what, "still_published": kept })
            },
        )
        .collect();
    let body = json!({ "apps": list, "problems": problems, "complete": snapshot.is_complete() });
    admin::json(&body)
}

/// The published ports of an app, each with its own rule.
fn ports(snapshot: &Snapshot, app: &App) -> Vec<serde_json::Value> {
    let ports = snapshot.ports_of(app).map(|(label, port)| {
        json!({
            "id": port.id().as_str(),
            "host": snapshot.site().url(&VirtualHost::Host(label), "/"),
            "upstream": port.spec.upstream.to_string(),
            "access": port.spec.access.to_string(),
        })
    });
    ports.collect()
}
