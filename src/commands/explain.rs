//! `ludgate explain`: what a request would get, by the same functions that judge requests.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Request, header, request::Parts};

use super::{BAD_CONFIGURATION, DONE};
use crate::{
    arvados::{self, client::Api},
    catalog::{
        from_arvados::Containers,
        from_kubernetes::Feeder,
        lookup::Lookup,
        snapshot::{Problem, Snapshot},
    },
    cli::{Explain, Kind},
    cluster::Cluster,
    forward,
    gateway::{
        decide,
        decision::{Decision, Early},
        locate::locate,
    },
    incoming,
    model::{
        access::GroupName,
        app::{AppSpec, AppState},
        arrival::Arrival,
        caller::{Caller, Credential},
        clock::Clock,
        principal::{PersonClaims, Principal},
        site::Site,
        vhost::VirtualHost,
    },
    ops::{http_client::CallCounter, logging},
    route::{Route, host::parse_label, path::route},
    settings::{self, resolve_kubernetes::Kubernetes},
};

/// The API of a cluster has this long for the list of its apps.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs it.
pub fn run(args: &Explain) -> u8 {
    let settings = match settings::load(&args.config) {
        Ok(settings) => settings,
        Err(mistakes) => {
            eprintln!("{}:\n{mistakes}", args.config.display());
            return BAD_CONFIGURATION;
        }
    };
    let admin_groups = settings
        .identity
        .as_ref()
        .map(|identity| identity.admin_groups.clone())
        .unwrap_or_default();
    logging::start(&settings.log);
    let containers = settings
        .arvados
        .as_ref()
        .map(|arvados| Lookups::new(arvados, &settings.forward));
    let snapshot = match settings.kubernetes {
        None => Snapshot::new(settings.site, settings.apps),
        Some(kubernetes) => {
            let timeout = settings.forward.response_head;
            match of_cluster(
                kubernetes,
                settings.site.clone(),
                settings.apps.clone(),
                timeout,
            ) {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    eprintln!("kubernetes: {error:#}");
                    Snapshot::incomplete(settings.site, settings.apps)
                }
            }
        }
    };
    let parts = match request(args, snapshot.site()) {
        Ok(parts) => parts,
        Err(what) => {
            eprintln!("{what}");
            return BAD_CONFIGURATION;
        }
    };
    let caller = caller(args, &admin_groups);
    let look = |vhost: &VirtualHost| match &containers {
        Some(Ok(containers)) => containers.look(vhost, &snapshot),
        // Without its source nothing is known of what cannot be listed.
        Some(Err(_)) => Lookup::Unavailable,
        None => snapshot.at(vhost),
    };
    if let Some(Err(error)) = &containers {
        eprintln!("arvados: {error:#}");
    }
    print!("{}", explain(&parts, &caller, &snapshot, look).text);
    DONE
}

/// The apps of the cluster as they are now. A gateway that runs may know more: the last good form
/// of what is broken.
fn of_cluster(
    Kubernetes {
        cluster,
        isolation,
        logs: _,
    }: Kubernetes,
    site: Arc<Site>,
    own: Vec<AppSpec>,
    timeout: Duration,
) -> anyhow::Result<Snapshot> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let cluster = Cluster::new(cluster, Clock::system()).await?;
        let (_, own) = tokio::sync::watch::channel(own);
        let feeder = Feeder::new(
            site,
            own,
            timeout,
            isolation,
            &cluster.settings().namespaces,
        );
        let listed = tokio::time::timeout(PATIENCE, feeder.once(&cluster)).await;
        listed.map_err(|_| {
            anyhow::anyhow!("the API gave no whole list within {} s", PATIENCE.as_secs())
        })
    })
}

/// Asks the source of what cannot be listed, as the gateway would.
struct Lookups {
    runtime: tokio::runtime::Runtime,
    containers: Arc<Containers>,
}

impl Lookups {
    fn new(
        arvados: &arvados::ArvadosSettings,
        forward: &forward::ForwardSettings,
    ) -> anyhow::Result<Lookups> {
        let runtime = tokio::runtime::Runtime::new()?;
        let api = Api::new(arvados, CallCounter::default())?;
        let (system, clock, control) = (
            api.as_system(arvados),
            Clock::system(),
            runtime.handle().clone(),
        );
        let containers = Containers::new(arvados, system, forward.response_head, clock, control);
        Ok(Lookups {
            runtime,
            containers: Arc::new(containers),
        })
    }

    fn look(&self, vhost: &VirtualHost, snapshot: &Snapshot) -> Lookup {
        self.runtime.block_on(self.containers.beside(
            vhost,
            snapshot.at(vhost),
            Ipv4Addr::LOCALHOST.into(),
        ))
    }
}

/// What a request would get.
pub struct Explanation {
    /// The decision's label: allow, ours, redirect, sign_in, deny or malformed.
    pub decision: &'static str,
    /// Its reason.
    pub reason: &'static str,
    /// The status of the answer, where the decision alone determines it.
    pub status: Option<u16>,
    /// The steps, a line each.
    pub text: String,
}

/// Explains a request, step by step; `look` says what is at the place it arrived at.
pub fn explain(
    parts: &Parts,
    caller: &Caller,
    snapshot: &Snapshot,
    look: impl FnOnce(&VirtualHost) -> Lookup,
) -> Explanation {
    let site = snapshot.site();
    let mut text = format!("request   {} {}\n", parts.method, parts.uri);
    match parts.headers.get(header::ORIGIN) {
        Some(origin) => {
            text += &format!("origin    {}\n", String::from_utf8_lossy(origin.as_bytes()))
        }
        // The gate treats it as the program that it is: a browser always says where it opened a
        // WebSocket from.
        None if parts.headers.contains_key(header::UPGRADE) => {
            let host = parts
                .headers
                .get(header::HOST)
                .and_then(|host| host.to_str().ok())
                .unwrap_or_default();
            let own = format!("{}://{host}", site.origin.scheme());
            text += &format!("origin    none; a browser sends one: --origin {own}\n");
        }
        None => {}
    }
    let arrival = match incoming::parse(parts, true, site) {
        Ok(arrival) => arrival,
        Err(malformed) => {
            let status = malformed.status().as_u16();
            text += &format!(
                "incoming  refused: {malformed}\ndecision  malformed ({})\n",
                malformed.reason()
            );
            text += &format!("answer    {status}\n");
            return Explanation {
                decision: "malformed",
                reason: malformed.reason(),
                status: Some(status),
                text,
            };
        }
    };
    let lookup = look(&arrival.vhost);
    text += &steps(&arrival, caller, snapshot, &lookup);
    let decision = decide::decide(&arrival, caller, snapshot, &lookup);
    text += &format!("decision  {} ({})\n", decision.as_str(), decision.reason());
    text += &format!("answer    {}\n", answer(&decision));
    Explanation {
        decision: decision.as_str(),
        reason: decision.reason(),
        status: decision.status().map(|status| status.as_u16()),
        text,
    }
}

fn steps(arrival: &Arrival, caller: &Caller, snapshot: &Snapshot, lookup: &Lookup) -> String {
    let mut text = format!("class     {}\n", arrival.class.as_str());
    text += &match &arrival.vhost {
        VirtualHost::Site => format!(
            "route     {}\n",
            route(arrival.target.path(), snapshot.site())
        ),
        VirtualHost::Host(label) => format!("route     host {label}: {}\n", parse_label(label)),
        VirtualHost::Port(port) => format!("route     port {port}\n"),
    };
    let asked_for = match (
        route(arrival.target.path(), snapshot.site()),
        &arrival.vhost,
    ) {
        (Route::App { id, .. } | Route::AppWithoutSlash { id }, VirtualHost::Site) => Some(id),
        (_, VirtualHost::Host(label)) => Some(label.as_str()),
        (_, VirtualHost::Site | VirtualHost::Port(_)) => None,
    };
    let problems = snapshot
        .problems()
        .iter()
        .filter(|problem| Some(&*problem.id) == asked_for);
    for Problem {
        object, what, kept, ..
    } in problems
    {
        let kept = if *kept {
            "; published in its last good form"
        } else {
            ""
        };
        text += &format!("problem   {object}: {what}{kept}\n");
    }
    if let Ok(destination) = locate(arrival, snapshot, lookup) {
        let app = &destination.app;
        text += &format!("app       {} at {}\n", app.id(), app.spec.upstream);
        text += &format!("access    {}\n", app.spec.access);
        if app.spec.state != AppState::Running {
            let why = app.spec.message.as_deref().unwrap_or("no reason given");
            // On one line, whatever its author wrote.
            text += &format!(
                "state     {}: {}\n",
                app.spec.state.as_str(),
                why.escape_debug()
            );
        }
        text += &match caller.principal() {
            _ if decide::is_open(&destination) => {
                "caller    not asked: the app is open to everybody\n".to_owned()
            }
            None => "caller    nobody is signed in\n".to_owned(),
            Some(person) => {
                let groups: Vec<&str> =
                    person.groups().iter().map(|group| group.as_str()).collect();
                format!("caller    {} in [{}]\n", person.subject, groups.join(", "))
            }
        };
    }
    text
}

fn answer(decision: &Decision) -> String {
    match decision {
        Decision::Forward(permit) => match permit.destination().upstream_target() {
            Some(target) => format!("what {} answers to {target}", permit.app().spec.upstream),
            None => "400".to_owned(),
        },
        Decision::Early(Early::Endpoint(endpoint)) => format!("our endpoint {}", endpoint.as_str()),
        Decision::Early(Early::Launcher) => "200, the launcher".to_owned(),
        Decision::Early(Early::Redirect { status, location }) => {
            format!("{} to {location}", status.as_u16())
        }
        Decision::Early(Early::SignIn { return_to }) => {
            format!("302 to sign in, and back to {return_to}")
        }
        Decision::Early(Early::Refuse(refusal)) => {
            format!(
                "{}: {}",
                refusal.reason.status().as_u16(),
                refusal.reason.sentence()
            )
        }
    }
}

fn caller(args: &Explain, admin_groups: &[GroupName]) -> Caller {
    let Some(user) = &args.user else {
        return Caller::Anonymous;
    };
    let claims = PersonClaims {
        subject: user.clone(),
        groups: args
            .groups
            .iter()
            .filter_map(|group| GroupName::new(group))
            .collect(),
        ..PersonClaims::default()
    };
    Caller::Person {
        principal: Arc::new(Principal::new(claims, admin_groups)),
        credential: Credential::Cookie,
    }
}

/// The request that a browser or a program would send.
///
/// # Errors
/// What cannot stand in a request.
fn request(args: &Explain, site: &Site) -> Result<Parts, String> {
    let (host, target) = match args.url.split_once("://") {
        None => (&*site.origin.authority, args.url.as_str()),
        Some((_, rest)) => match rest.find('/') {
            Some(slash) => (&rest[..slash], &rest[slash..]),
            None => (rest, "/"),
        },
    };
    let target = target.split('#').next().unwrap_or_default();
    let mut request = Request::builder()
        .method(args.method.as_str())
        .uri(target)
        .header(header::HOST, host)
        .body(())
        .map_err(|error| format!("no such request can be sent: {error}"))?;
    let headers = request.headers_mut();
    let mut set = |name: &'static str, value: &'static str| {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    };
    match args.kind {
        Kind::Navigation => {
            set("sec-fetch-mode", "navigate");
            set("sec-fetch-dest", "document");
            set("accept", "text/html");
        }
        Kind::Fetch => set("accept", "application/json"),
        Kind::Websocket => {
            set("connection", "Upgrade");
            set("upgrade", "websocket");
            set("sec-websocket-version", "13");
            set("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        }
    }
    if let Some(origin) = &args.origin {
        let value = HeaderValue::from_str(origin)
            .map_err(|_| "the origin cannot stand in a header".to_owned())?;
        headers.insert(header::ORIGIN, value);
    }
    Ok(request.into_parts().0)
}
