//! The static catalogue: `[[apps]]` tables become app specs. An invalid one is an error, never
//! skipped.

use std::{collections::BTreeSet, path::Path, time::Duration};

use super::{
    file::ConfigFile,
    resolve_access::{access, path_rules},
    resolve_app_headers,
    resolve_app_session::session_policy,
    resolve_assertion_keys, resolve_authentication, resolve_bearer, resolve_frames,
    resolve_upstream_tls::upstream_tls,
    resolve_upstreams::{AppUpstreams, health_check, upstreams},
    section::ConfigSection,
    values::{isolation, upstream},
};
use crate::{
    catalog::snapshot::published_label,
    model::{
        access::Access,
        app::{AppId, AppSpec, PathRewrite, Protocol, PublishedPort},
        vhost,
    },
    route::host::{RESERVED_ID, is_reserved},
};

/// Longest icon, in bytes: a few characters, not a picture.
const MAX_ICON: usize = 32;

/// All apps; ids must differ. `timeout` and `idle` are for apps and sessions without their own.
pub fn apps(
    file: &ConfigFile<'_>,
    folder: &Path,
    timeout: Duration,
    idle: Duration,
) -> Vec<AppSpec> {
    let mut specs = Vec::new();
    let mut ids = BTreeSet::new();
    file.each_app(|section| {
        let id = section.required("id", |text| {
            AppId::new(text)
                .ok_or("must be lower-case letters, digits and inner dashes, at most 59".to_owned())
        });
        if let Some(id) = id.as_ref().filter(|id| !ids.insert((*id).clone())) {
            section.wrong("id", format!("{id} is given twice"), None);
        }
        if id.as_ref().is_some_and(|id| is_reserved(id.as_str())) {
            section.wrong("id", RESERVED_ID, None);
        }
        let assertion = resolve_assertion_keys::is_on(file, &section);
        let bearer = resolve_bearer::bearer(file, &section);
        let frame_ancestors = resolve_frames::frame_ancestors(file, &section);
        let headers = resolve_app_headers::headers(&section);
        let basic_auth = resolve_app_headers::basic_auth(&section, folder);
        let pass_access_token = resolve_app_headers::pass_access_token(file, &section);
        let spec = app(&section, id, folder, timeout, idle);
        let authentication = resolve_authentication::authentication(file, &section, spec.as_ref());
        specs.extend(spec.map(|spec| AppSpec {
            assertion,
            bearer,
            authentication,
            frame_ancestors,
            headers,
            basic_auth,
            pass_access_token,
            ..spec
        }));
    });
    specs
}

fn app(
    section: &ConfigSection<'_>,
    id: Option<AppId>,
    folder: &Path,
    timeout: Duration,
    idle: Duration,
) -> Option<AppSpec> {
    let upstreams = upstreams(section);
    let health = health_check(section);
    let access = access(section);
    let paths = path_rules(section);
    let isolation = isolation(section);
    let session = session_policy(section, isolation, idle);
    let published_ports =
        published_ports(section, id.as_ref(), access.as_ref(), upstreams.as_ref());
    let icon = section.text("icon");
    if icon.as_ref().is_some_and(|icon| icon.len() > MAX_ICON) {
        section.wrong("icon", "is longer than 32 bytes", None);
    }
    let own_timeout = section.duration("timeout");
    if own_timeout.is_some_and(|timeout| timeout.is_zero()) {
        section.wrong("timeout", "must be longer than nothing", None);
    }
    let serves_bare_path = section.switch("serves_bare_path").unwrap_or(false);
    let strips_prefix = section.switch("strip_prefix").unwrap_or(false);
    if serves_bare_path && strips_prefix {
        section.wrong(
            "serves_bare_path",
            "cannot be combined with strip_prefix = true; remove one",
            None,
        );
    }
    let elsewhere = published_ports
        .iter()
        .filter_map(|port| port.upstream.as_ref());
    let first = upstreams.as_ref().map(|upstreams| &upstreams.first);
    let tls = upstream_tls(section, folder, first.into_iter().chain(elsewhere));
    let (first, further) = match upstreams {
        Some(AppUpstreams { first, further }) => (Some(first), further),
        None => (None, Vec::new()),
    };
    let spec = AppSpec {
        name: section.text("name").filter(|name| !name.is_empty()),
        icon,
        path_rewrite: match strips_prefix {
            true => PathRewrite::strip(),
            false => PathRewrite::Keep,
        },
        cors_preflight: section.switch("cors_preflight").unwrap_or(false),
        identity_headers: section.switch("identity_headers").unwrap_or(true),
        isolation,
        published_ports,
        rewrite_host: section.switch("rewrite_host").unwrap_or(false),
        serves_bare_path,
        keep_authorization: section.switch("keep_authorization").unwrap_or(false),
        protocol: section.required_or("protocol", Protocol::Http1, protocol),
        proxy_protocol: section.switch("proxy_protocol").unwrap_or(false),
        timeout: own_timeout.unwrap_or(timeout),
        max_body: section.size("max_body"),
        tls,
        session,
        further_upstreams: further,
        sticky: section.switch("sticky").unwrap_or(false),
        health,
        paths: paths?,
        ..AppSpec::new(id?, first?, access?, timeout)
    };
    Some(spec)
}

fn protocol(text: &str) -> Result<Protocol, String> {
    match text {
        "h1" => Ok(Protocol::Http1),
        "h2" => Ok(Protocol::Http2),
        _ => Err(format!("{text:?} is no protocol")),
    }
}

/// The published ports of an app. A port without an access rule has the app's.
fn published_ports(
    section: &ConfigSection<'_>,
    id: Option<&AppId>,
    of_the_app: Option<&Access>,
    app_runs_at: Option<&AppUpstreams>,
) -> Vec<PublishedPort> {
    let mut published = Vec::new();
    section.each_port(|number, table| {
        let Some(port) = vhost::parse_port(number.as_bytes()) else {
            section.wrong(
                "published_ports",
                format!("{number:?} is no port from 1 to 65535"),
                None,
            );
            return;
        };
        if id.is_some_and(|id| published_label(id, port).is_none()) {
            let what = format!(
                "<id>-{port} is longer than the 63 characters that a host's label can have"
            );
            section.wrong("published_ports", what, None);
        }
        let own = if table.has("access") {
            access(&table)
        } else {
            of_the_app.cloned()
        };
        let elsewhere = match table.text("upstream") {
            Some(_) => table.required("upstream", upstream).map(Some),
            None if app_runs_at.is_some_and(|upstreams| !upstreams.have_port(port)) => {
                table.missing("upstream");
                None
            }
            None => Some(None),
        };
        if let (Some(access), Some(upstream)) = (own, elsewhere) {
            let label = table.text("label").filter(|label| !label.is_empty());
            published.push(PublishedPort {
                port,
                access,
                label,
                upstream,
            });
        }
    });
    published
}
