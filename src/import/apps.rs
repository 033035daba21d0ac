//! The tables `[[apps]]`: one for each upstream.

use super::{
    access::{AccessDraft, closed},
    draft::{self, DraftTable, list, quoted},
    given::GivenOptions,
    headers::HeaderDraft,
    report::ImportOutcome::Default as Same,
    routes::{Methods, OpenRoutes},
    upstream::UpstreamDraft,
    value::duration_text,
};
use crate::{
    model::{access::compound::WrittenRule, app::AppId, path_prefix::below},
    route::host::is_reserved,
};

/// Longest id that is made from a path.
const MAX_ID: usize = 40;

/// What all apps have.
pub(crate) struct AppDefaults<'d> {
    /// The access rule.
    pub(crate) access: &'d AccessDraft,
    /// Paths that need no sign-in.
    pub(crate) routes: &'d OpenRoutes,
    /// Headers of requests.
    pub(crate) headers: &'d HeaderDraft,
    /// The host of the site, to name the first app.
    pub(crate) host: Option<&'d str>,
}

/// A rule for paths.
struct PathDraft {
    prefix: String,
    methods: Methods,
    access: WrittenRule,
}

/// The tables.
pub(crate) fn apps(
    options: &GivenOptions,
    upstreams: &[UpstreamDraft],
    defaults: &AppDefaults<'_>,
) -> Vec<DraftTable> {
    let preflight = options.switch("skip_auth_preflight") == Some(true);
    answer_switches(options, preflight);
    let mut ids: Vec<String> = Vec::new();
    let mut tables = Vec::new();
    for upstream in upstreams {
        let address = match &upstream.address {
            Ok(address) => address,
            Err(reason) => {
                upstream.answer(options, Err(*reason));
                continue;
            }
        };
        let id = free_id(upstream, defaults.host, &ids);
        ids.push(id.clone());
        upstream.answer(options, Ok(id.as_str()));
        let mut table = DraftTable::new("[[apps]]");
        table.set("id", quoted(&id));
        table.set("upstream", quoted(address));
        access(&mut table, upstream, defaults);
        table.comment("The app gets the paths that it got from oauth2-proxy.");
        table.set("strip_prefix", "true");
        if upstream.passes_host == Some(false) {
            table.set("rewrite_host", "true");
        }
        defaults.headers.write(&mut table);
        if preflight {
            table.set("cors_preflight", "true");
        }
        if let Some(timeout) = upstream.timeout.filter(|timeout| *timeout > 0) {
            table.set("timeout", quoted(&duration_text(timeout)));
        }
        paths(&mut table, upstream, upstreams, defaults);
        tables.push(table);
    }
    if tables.is_empty() {
        options.miss("apps: no upstream that Ludgate could forward to");
    }
    tables
}

/// The app's own rule. Outside of the upstream's route no path was served.
fn access(table: &mut DraftTable, upstream: &UpstreamDraft, defaults: &AppDefaults<'_>) {
    if upstream.route.is_empty() {
        if let Some(comment) = defaults.access.comment {
            table.comment(comment);
        }
        table.set("access", draft::rule(&defaults.access.rule));
    } else {
        table.comment("Only the paths below have been served. This rule admits no one.");
        table.set("access", draft::rule(&closed()));
    }
}

/// The rules for paths of an app.
fn paths(
    table: &mut DraftTable,
    upstream: &UpstreamDraft,
    all: &[UpstreamDraft],
    defaults: &AppDefaults<'_>,
) {
    let mut rules = open_paths(upstream, all, defaults.routes);
    let is_open = |prefix: &str, rules: &[PathDraft]| {
        let mut rules = rules.iter();
        rules.any(|rule| rule.prefix == prefix && rule.methods.is_empty())
    };
    let others = all.iter().map(|other| &other.route);
    let mut shadowed: Vec<&String> = others
        .filter(|route| is_below(route, &upstream.route) && **route != upstream.route)
        .collect();
    shadowed.sort();
    shadowed.dedup();
    let own = Some(&upstream.route).filter(|route| !route.is_empty());
    let own = own.map(|route| (route, defaults.access.rule.clone()));
    // Another upstream had these paths.
    let shadowed = shadowed.into_iter().map(|route| (route, closed()));
    for (prefix, access) in own.into_iter().chain(shadowed) {
        if !is_open(prefix, &rules) {
            rules.push(PathDraft {
                prefix: prefix.clone(),
                methods: Methods::new(),
                access,
            });
        }
    }
    for rule in rules {
        table.start("[[apps.paths]]");
        if rule.access == defaults.access.rule
            && let Some(comment) = defaults.access.comment
        {
            table.comment(comment);
        }
        table.set("prefix", quoted(&rule.prefix));
        if !rule.methods.is_empty() {
            table.set("methods", list(&rule.methods));
        }
        table.set("access", draft::rule(&rule.access));
    }
    for (prefix, methods) in &defaults.routes.suggestions {
        if serves(upstream, all, prefix) {
            suggest(table, prefix, methods);
        }
    }
}

/// A rule that a reader may want, as a comment.
fn suggest(table: &mut DraftTable, prefix: &str, methods: &Methods) {
    table.comment("Not in effect: it would make this path and all paths below it public.");
    let mut lines = vec![
        "[[apps.paths]]".to_owned(),
        format!("prefix = {}", quoted(prefix)),
    ];
    if !methods.is_empty() {
        lines.push(format!("methods = {}", list(methods)));
    }
    lines.push("access = \"public\"".to_owned());
    table.suggest(&lines);
}

/// The paths of an upstream that need no sign-in.
fn open_paths(
    upstream: &UpstreamDraft,
    all: &[UpstreamDraft],
    routes: &OpenRoutes,
) -> Vec<PathDraft> {
    let mut found: Vec<PathDraft> = Vec::new();
    for (prefix, methods) in &routes.rules {
        let prefix = if serves(upstream, all, prefix) {
            prefix
        } else if is_below(&upstream.route, prefix) && !upstream.route.is_empty() {
            // The whole upstream is below the prefix.
            &upstream.route
        } else {
            continue;
        };
        let is_known = |rule: &PathDraft| rule.prefix == *prefix;
        if found.iter().any(is_known) {
            continue;
        }
        found.push(PathDraft {
            prefix: prefix.clone(),
            methods: methods.clone(),
            access: WrittenRule::Clause("public".to_owned()),
        });
    }
    found
}

/// Whether requests of a path go to this upstream: it has the longest route.
fn serves(upstream: &UpstreamDraft, all: &[UpstreamDraft], path: &str) -> bool {
    let routes = all.iter().map(|other| other.route.as_str());
    let longest = routes
        .filter(|route| is_below(path, route))
        .max_by_key(|route| route.len());
    longest == Some(upstream.route.as_str())
}

/// Whether a path is another one, or below it. Both are plain; `/` is the same as empty.
fn is_below(path: &str, other: &str) -> bool {
    below(path, other.trim_end_matches('/')).is_some()
}

/// An id that no app has yet.
fn free_id(upstream: &UpstreamDraft, host: Option<&str>, taken: &[String]) -> String {
    let first_label = host.and_then(|host| host.split('.').next());
    let is_named = |host: &&str| host.starts_with(|c: char| c.is_ascii_alphabetic());
    let source = match (&upstream.id, upstream.route.as_str()) {
        (Some(id), _) => id.as_str(),
        (None, "") => first_label.filter(is_named).unwrap_or("app"),
        (None, route) => route,
    };
    let mut id = String::new();
    for c in source.chars().take(MAX_ID) {
        match c.is_ascii_alphanumeric() {
            true => id.push(c.to_ascii_lowercase()),
            false if id.ends_with('-') => {}
            false => id.push('-'),
        }
    }
    let id = id.trim_matches('-');
    let is_usable = AppId::new(id).is_some() && !is_reserved(id);
    let id = if is_usable { id } else { "app" };
    let numbered = (2..).map(|number| format!("{id}-{number}"));
    let mut candidates = std::iter::once(id.to_owned()).chain(numbered);
    let is_free = |id: &String| !taken.contains(id);
    candidates.find(is_free).unwrap_or_else(|| id.to_owned())
}

/// Answers the options that are the same for all apps.
fn answer_switches(options: &GivenOptions, preflight: bool) {
    match preflight {
        true => options.mapped(
            "skip_auth_preflight",
            "apps.cors_preflight, for preflights and not for every OPTIONS",
        ),
        false => options.answer("skip_auth_preflight", Same, ""),
    }
    match options.switch("pass_host_header") {
        Some(false) => options.mapped("pass_host_header", "apps.rewrite_host"),
        Some(true) | None => options.answer("pass_host_header", Same, ""),
    }
    match options.milliseconds("upstream_timeout") {
        Some(0) => {
            let what = "a response has limits.response_head, 60 seconds, to begin";
            options.not_supported("upstream_timeout", what);
        }
        Some(_) | None => options.mapped("upstream_timeout", "apps.timeout"),
    }
    let what = "people sign in at the provider alone; give these people accounts there";
    options.not_supported("htpasswd_file", what);
}
