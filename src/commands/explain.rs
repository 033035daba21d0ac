//! `ludgate explain`: what a request would get, by the functions that a request runs through.

mod connect;
mod live_person;
mod rules;
mod sources;

use std::{net::Ipv4Addr, sync::Arc};

use http::{HeaderName, HeaderValue, Request, header, request::Parts};

use super::exit_code::{BAD_CONFIGURATION, DONE, FAILED};
use crate::{
    authorize::Permit,
    caller::Identified,
    catalog::{
        lookup::Lookup,
        snapshot::{Problem, Snapshot},
    },
    cli::{ExplainArgs, RequestKind},
    decide::{self, Decision, Target, head::Ingress, labels::DecisionLabel},
    forward::ForwardSettings,
    incoming::IncomingRequest,
    model::{
        access::{
            GroupName,
            clause::{ClaimPointer, ClaimTest},
        },
        app::{App, AppId, AppState},
        arrival::Arrival,
        authentication::AuthenticationEvent,
        caller::{Caller, Credential},
        client::Client,
        clock::Clock,
        known_claims::{KnownClaim, KnownClaims},
        principal::{PersonClaims, Principal},
        site::Site,
        vhost::VirtualHost,
    },
    ops::logging,
    route::{Route, host::parse_label, path},
    settings,
};
use sources::{Lookups, of_cluster};

/// Runs the command, and returns the exit code.
pub fn run(args: &ExplainArgs) -> u8 {
    let settings = match settings::load(&args.config) {
        Ok(settings) => settings,
        Err(mistakes) => {
            eprintln!("{}:\n{mistakes}", args.config.display());
            return BAD_CONFIGURATION;
        }
    };
    logging::start(&settings.log);
    let identity = settings.identity.as_ref();
    let admin_groups = identity.map(|identity| identity.admin_groups.clone());
    let admin_groups = admin_groups.unwrap_or_default();
    let kept_claims = identity.map(|identity| identity.claims.clone());
    let kept_claims = kept_claims.unwrap_or_default();
    let timeout = settings.forward.response_head;
    let arvados = settings.arvados.as_ref();
    let lookups = arvados.map(|arvados| Lookups::new(arvados, timeout));
    let site = settings.site.clone();
    let apps = settings.apps.clone();
    let snapshot = match settings.kubernetes {
        None => Snapshot::new(settings.site, settings.apps),
        Some(kubernetes) => of_cluster(kubernetes, site, apps, timeout).unwrap_or_else(|error| {
            eprintln!("kubernetes: {error:#}");
            Snapshot::incomplete(settings.site, settings.apps)
        }),
    };
    let parts = match request(args, snapshot.site()) {
        Ok(parts) => parts,
        Err(what) => {
            eprintln!("{what}");
            return BAD_CONFIGURATION;
        }
    };
    if let Some(Err(error)) = &lookups {
        eprintln!("arvados: {error:#}");
    }
    let person = match person(args) {
        Ok(person) => person,
        Err(error) => {
            eprintln!("{error:#}");
            return FAILED;
        }
    };
    let caller = match caller(args, person, &admin_groups, &kept_claims) {
        Ok(caller) => caller,
        Err(what) => {
            eprintln!("{what}");
            return BAD_CONFIGURATION;
        }
    };
    let look_up = |arrival: &mut Arrival| match &lookups {
        Some(Ok(lookups)) => lookups.look_up(arrival, &snapshot),
        // Without the source nothing is known of apps that cannot be listed.
        Some(Err(_)) => Lookup::Unavailable,
        None => snapshot.at(&arrival.vhost),
    };
    let explanation = explain(&parts, caller, &snapshot, look_up);
    print!("{}", explanation.text);
    if args.connect {
        try_connection(&explanation, settings.forward)
    } else {
        DONE
    }
}

/// Connects to the app that the request reaches, and returns the exit code.
fn try_connection(explanation: &Explanation, settings: ForwardSettings) -> u8 {
    let Some(app) = &explanation.app else {
        println!("connect   not tried: the request reaches no app");
        return DONE;
    };
    match connect::connect(app, settings) {
        Ok(attempt) => {
            print!("{}", attempt.text);
            if attempt.is_connected { DONE } else { FAILED }
        }
        Err(error) => {
            eprintln!("{error:#}");
            FAILED
        }
    }
}

/// The decision for a request, explained.
pub struct Explanation {
    /// The decision's label: allow, ours, redirect, sign_in, deny or malformed.
    pub decision: &'static str,
    /// Its reason.
    pub reason: &'static str,
    /// The status of the answer, where the decision alone determines it.
    pub status: Option<u16>,
    /// The app that the request reaches.
    pub app: Option<Arc<App>>,
    /// The steps, a line each.
    pub text: String,
}

/// Explains a request, step by step; `look_up` says what is at the origin that it arrived at.
pub fn explain(
    parts: &Parts,
    caller: Caller,
    snapshot: &Snapshot,
    look_up: impl FnOnce(&mut Arrival) -> Lookup,
) -> Explanation {
    let mut text = format!("request   {} {}\n", parts.method, parts.uri);
    text += &origin(parts, snapshot.site());
    let handled = handle(parts, caller, snapshot, look_up, &mut text);
    let (decision, reason, status, answer) = match &handled {
        Ok(permit) => {
            text += &rules::admitted_by(permit);
            (
                DecisionLabel::Allow,
                permit.grounds().as_str(),
                None,
                forwarded(permit),
            )
        }
        Err(decision) => {
            text += &rules::denied_by(decision);
            let hidden = hidden(decision);
            let shown = hidden.as_ref().unwrap_or(decision);
            (
                decision.label(),
                decision.reason().as_str(),
                shown.status().map(|status| status.as_u16()),
                answer(shown),
            )
        }
    };
    let app = handled.as_ref().ok().map(|permit| permit.app().clone());
    let decision = decision.as_str();
    text += &format!("decision  {decision} ({reason})\nanswer    {answer}\n");
    Explanation {
        decision,
        reason,
        status,
        app,
        text,
    }
}

/// The refusal that hides the app's existence, for a person without a token that may read the app's
/// record. `None`: the decision hides nothing.
fn hidden(decision: &Decision) -> Option<Decision> {
    let Decision::Refuse(refusal) = decision else {
        return None;
    };
    let app = refusal.hideable()?;
    app.tenant()?;
    Some(refusal.clone().hidden_unless(false).into())
}

/// The steps of a request, up to the permit.
fn handle(
    parts: &Parts,
    caller: Caller,
    snapshot: &Snapshot,
    look_up: impl FnOnce(&mut Arrival) -> Lookup,
    text: &mut String,
) -> Result<Permit, Decision> {
    let site = snapshot.site();
    let ingress = Ingress {
        redirects: false,
        certificate_fits: true,
    };
    let arrival = decide::head(parts, true, site, ingress).inspect_err(|decision| {
        if let Decision::Refuse(refusal) = decision {
            *text += &format!("incoming  {}\n", refusal.reason.sentence());
        }
    })?;
    let client = Client::at(Ipv4Addr::LOCALHOST.into());
    let id = HeaderValue::from_static("explain");
    let mut request = IncomingRequest::new(arrival, &parts.headers, site, id, client);
    let lookup = look_up(&mut request.arrival);
    *text += &routed(&request.arrival, snapshot);
    let target = decide::locate(&request, snapshot, &lookup)?;
    *text += &found(&target, &caller);
    let identified = Identified::without_session(caller);
    let now = target.destination.app.decision_time(&Clock::system());
    decide::authorize(target, &identified, &request.arrival, site, now)
}

fn origin(parts: &Parts, site: &Site) -> String {
    match parts.headers.get(header::ORIGIN) {
        Some(origin) => format!("origin    {}\n", String::from_utf8_lossy(origin.as_bytes())),
        // The request counts as a program's: a browser always sends an Origin with a WebSocket.
        None if parts.headers.contains_key(header::UPGRADE) => {
            let host = parts.headers.get(header::HOST);
            let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
            let own = format!("{}://{host}", site.origin.scheme());
            format!("origin    none; a browser sends one: --origin {own}\n")
        }
        None => String::new(),
    }
}

fn routed(arrival: &Arrival, snapshot: &Snapshot) -> String {
    let mut text = format!("class     {}\n", arrival.class.as_str());
    let route = path::route(arrival.target.path(), snapshot.site());
    let lab = path::lab(arrival.target.path(), snapshot.site())
        .and_then(|lab| AppId::for_lab(lab.username));
    let is_running = lab
        .as_ref()
        .is_some_and(|id| snapshot.find(id.as_str()).is_some());
    text += &match (&arrival.vhost, &lab) {
        (VirtualHost::Site, Some(id)) if is_running => format!("route     {id}\n"),
        (VirtualHost::Site, Some(id)) => format!("route     {id} does not run; {route}\n"),
        (VirtualHost::Site, None) => format!("route     {route}\n"),
        (VirtualHost::Host(label), _) => {
            format!("route     host {label}: {}\n", parse_label(label))
        }
        (VirtualHost::Port(port), _) => format!("route     port {port}\n"),
    };
    let asked_for = match (route, &arrival.vhost) {
        (Route::App { id, .. } | Route::AppWithoutSlash { id }, VirtualHost::Site) => Some(id),
        (_, VirtualHost::Host(label)) => Some(label.as_str()),
        (_, VirtualHost::Site | VirtualHost::Port(_)) => None,
    };
    let is_asked_for = |problem: &&Problem| {
        Some(&*problem.id) == asked_for || lab.as_ref().is_some_and(|id| problem.id == id.as_str())
    };
    for problem in snapshot.problems().iter().filter(is_asked_for) {
        let Problem {
            object, what, kept, ..
        } = problem;
        let kept = if *kept {
            "; published in its last good form"
        } else {
            ""
        };
        text += &format!("problem   {object}: {what}{kept}\n");
    }
    text
}

fn found(target: &Target, caller: &Caller) -> String {
    let app = &target.destination.app;
    let mut text = format!("app       {} at {}\n", app.id(), app.spec.upstream_list());
    text += &rules::applied(
        &target.destination,
        caller.principal().map(|person| &**person),
    );
    if app.spec.state != AppState::Running {
        let why = app.spec.message.as_deref().unwrap_or("no reason given");
        // On one line, even if the author's text has line breaks.
        let why = why.escape_debug();
        text += &format!("state     {}: {why}\n", app.spec.state.as_str());
    }
    text += &match caller.principal() {
        _ if target.destination.is_open() => {
            "caller    not identified: the request needs no person\n".to_owned()
        }
        None => "caller    not signed in\n".to_owned(),
        Some(person) => {
            let groups: Vec<&str> = person.groups().iter().map(|group| group.as_str()).collect();
            format!("caller    {} in [{}]\n", person.subject, groups.join(", "))
        }
    };
    text
}

fn forwarded(permit: &Permit) -> String {
    match permit.destination().upstream_target() {
        Some(target) => format!(
            "what {} answers to {target}",
            permit.app().spec.upstream_list()
        ),
        None => "400".to_owned(),
    }
}

fn answer(decision: &Decision) -> String {
    let status = decision.status().map(|status| status.as_u16().to_string());
    let status = status.unwrap_or_default();
    match decision {
        Decision::Endpoint(endpoint) => format!("our endpoint {}", endpoint.as_str()),
        Decision::Launcher => format!("{status}, the launcher"),
        Decision::Redirect(redirect) => format!("{status} to {}", redirect.location),
        Decision::SignIn { return_to, refusal } => {
            let again = if refusal.reason.is_step_up() {
                " again"
            } else {
                ""
            };
            format!("{status} to sign in{again}, and back to {return_to}")
        }
        Decision::Refuse(refusal) => format!("{status}: {}", refusal.reason.sentence()),
        Decision::SaveForm(refusal) => {
            let sentence = refusal.reason.sentence();
            format!("{status}: {sentence} If the session expired lately, the form is saved.")
        }
        Decision::ForgetTenant { .. } => {
            format!("{status} to the same address, after the browser cleared what it stored")
        }
        Decision::DropToken { .. } => {
            format!("{status} to the same address without the token, with a session")
        }
        Decision::ResendForm(_) => "the saved form, sent to the app".to_owned(),
        Decision::Fault { fault, .. } => format!("{status}: {fault}"),
    }
}

/// The signed-in person of a request.
struct GivenPerson {
    subject: String,
    groups: Vec<String>,
}

/// The person of the arguments, or a person with the groups that a running gateway knows. `None`:
/// the request is anonymous.
///
/// # Errors
/// The gateway does not name the person's groups.
fn person(args: &ExplainArgs) -> anyhow::Result<Option<GivenPerson>> {
    if let (Some(admin), Some(subject), Some(token_file)) =
        (&args.admin, &args.subject, &args.admin_token_file)
    {
        return Ok(Some(GivenPerson {
            groups: live_person::groups(admin, token_file, subject)?,
            subject: subject.clone(),
        }));
    }
    Ok(args.user.as_ref().map(|user| GivenPerson {
        subject: user.clone(),
        groups: args.groups.clone(),
    }))
}

/// The caller that the arguments describe, with a value or none for each claim that is kept.
///
/// # Errors
/// Which argument is not valid.
fn caller(
    args: &ExplainArgs,
    person: Option<GivenPerson>,
    admin_groups: &[GroupName],
    kept_claims: &[ClaimPointer],
) -> Result<Caller, String> {
    let Some(GivenPerson { subject, groups }) = person else {
        return Ok(Caller::Anonymous);
    };
    let mut given = Vec::new();
    for text in &args.claims {
        let claim = ClaimTest::parse(text);
        let claim = claim.ok_or_else(|| format!("{text:?} is no <JSON pointer>=<value>"))?;
        if !kept_claims.contains(&claim.pointer) {
            return Err(format!("identity.claims lacks {}", claim.pointer));
        }
        given.push(claim);
    }
    let known = kept_claims.iter().map(|pointer| KnownClaim {
        pointer: pointer.clone(),
        values: given
            .iter()
            .filter(|claim| claim.pointer == *pointer)
            .map(|claim| claim.value.clone())
            .collect(),
    });
    let claims = PersonClaims {
        authentication: authentication(args)?,
        preferred_username: Some(subject.clone()),
        subject,
        email: args.email.clone(),
        is_email_verified: true,
        groups: groups
            .iter()
            .filter_map(|group| GroupName::new(group))
            .collect(),
        claims: KnownClaims::new(known.collect()),
        ..PersonClaims::default()
    };
    Ok(Caller::Person {
        principal: Arc::new(Principal::new(claims, admin_groups)),
        credential: Credential::Cookie,
    })
}

/// The authentication of the person; what the arguments do not say is not known.
///
/// # Errors
/// The age is no duration.
fn authentication(args: &ExplainArgs) -> Result<AuthenticationEvent, String> {
    let time = |text: &String| {
        let age = settings::parse_duration(text);
        let age = age.ok_or_else(|| format!("{text:?} is no duration, such as 10m"))?;
        let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        Ok::<_, String>(Clock::system().wall_seconds().saturating_sub(age))
    };
    let time = args.auth_age.as_ref().map(time).transpose()?;
    Ok(AuthenticationEvent::new(time, args.acr.as_deref()))
}

/// The request that a browser or a program would send.
///
/// # Errors
/// Why the arguments make no valid request.
fn request(args: &ExplainArgs, site: &Site) -> Result<Parts, String> {
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
        RequestKind::Navigation => {
            set("sec-fetch-mode", "navigate");
            set("sec-fetch-dest", "document");
            set("accept", "text/html");
        }
        RequestKind::Fetch => set("accept", "application/json"),
        RequestKind::Websocket => {
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
