//! The gateway's routes on the admin listener: its apps, their last use, and its sessions.

mod activity;
mod dependencies;
mod sessions;

use std::{sync::Arc, time::Instant};

use http::{Method, Request};
use serde_json::json;

use crate::{
    catalog::snapshot::{Problem, Snapshot},
    gateway::Gateway,
    model::{
        access::Access,
        app::App,
        health_check::CheckStatus,
        upstream_group::{GroupMember, UpstreamGroup},
        vhost::VirtualHost,
    },
    ops::admin::{self, AdminServer, Reply},
};

/// Adds the gateway's routes, and its lines on the verbose readiness probe.
pub fn routes(server: AdminServer, gateway: &Arc<Gateway>) -> AdminServer {
    let apps_of = gateway.clone();
    let activity_of = gateway.clone();
    let sessions_of = gateway.clone();
    let count_of = gateway.clone();
    dependencies::add(server, gateway)
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
        .status("apps", move || count_of.catalog.load().len().to_string())
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
                | Access::Admins
                | Access::Person(_)
                | Access::Compound(_) => snapshot.note_on(app).or_else(|| failure(app)),
            };
            let mut listed = json!({
                "id": app.id().as_str(),
                "path": format!("{}/", app.mount),
                "host": app.host.map(|label| site.url(&VirtualHost::Host(label), "/")),
                "ports": ports(&snapshot, app),
                "upstream": app.spec.upstream.to_string(),
                "access": app.spec.access.to_string(),
                "state": app.spec.state.as_str(),
                "problem": problem,
            });
            if !app.spec.paths.is_empty() {
                listed["paths"] = paths(app).into();
            }
            if let Some(group) = &app.group {
                listed["upstreams"] = upstreams(group).into();
            }
            listed
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

/// The upstreams of an app that has several, or a health check.
fn upstreams(group: &UpstreamGroup) -> Vec<serde_json::Value> {
    let now = Instant::now();
    let upstream = |member: &GroupMember| {
        let (health, problem) = match member.check_status() {
            None => (None, None),
            Some(CheckStatus::Unknown) => (Some("unknown"), None),
            Some(CheckStatus::Passing) => (Some("passing"), None),
            Some(CheckStatus::Failing(failure)) => {
                let seconds = now.saturating_duration_since(failure.since).as_secs();
                let problem = format!("fails its health check, for {seconds} s: {}", failure.cause);
                (Some("failing"), Some(problem))
            }
        };
        let avoided = || "no connection could be opened in the last ten seconds".to_owned();
        json!({
            "upstream": member.upstream.to_string(),
            "in_progress": member.in_progress(),
            "health": health,
            "problem": problem.or_else(|| member.is_avoided(now).then(avoided)),
        })
    };
    group.members().iter().map(upstream).collect()
}

/// Why the last request to the app got no response.
fn failure(app: &App) -> Option<String> {
    let (failure, since) = app.upstream_health.failure()?;
    Some(format!(
        "{}, for {} s: {}",
        failure.outcome,
        since.elapsed().as_secs(),
        failure.cause
    ))
}

/// The rules of an app's paths, the most specific first.
fn paths(app: &App) -> Vec<serde_json::Value> {
    let rules = app.spec.paths.iter().map(|(_, rule)| {
        let methods: Vec<&str> = rule.methods().iter().map(Method::as_str).collect();
        json!({
            "prefix": format!("{}/", rule.prefix()),
            "methods": methods,
            "access": rule.access().to_string(),
        })
    });
    rules.collect()
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
