//! The tables of listeners, of the site and of the log.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use url::Url;

use super::{
    draft::{DraftTable, list, quoted},
    given::GivenOptions,
    report::ImportOutcome::{Default as Same, NotNeeded},
};
use crate::model::{path_prefix::below, site::WebOrigin};

/// Where oauth2-proxy listens if the input does not say so.
const HTTP_ADDRESS: &str = "127.0.0.1:4180";
/// The same with a certificate.
const HTTPS_ADDRESS: &str = ":443";
/// Where operators connect if the file does not say so.
const ADMIN_ADDRESS: &str = "127.0.0.1:9090";
/// Prefix of Ludgate's own paths, which is that of oauth2-proxy.
const ENDPOINTS: &str = "/oauth2";
/// Path of all apps.
const APPS: &str = "/apps";

/// The tables.
pub(crate) struct SiteDraft {
    /// The tables, in the order of the file.
    pub(crate) tables: Vec<DraftTable>,
    /// The host of the site, if it is known.
    pub(crate) host: Option<String>,
}

/// Reads the options.
pub(crate) fn site(options: &GivenOptions) -> SiteDraft {
    let (listen, address) = listen(options);
    let mut table = DraftTable::new("[site]");
    let endpoints = endpoints(options);
    let origin = public_origin(options, &endpoints);
    match &origin {
        Some(origin) => table.set("url", quoted(&origin.to_string())),
        None => {
            options.miss("site.url: the address that people open, such as https://hub.example.com");
            table.comment("The address that people open, without a path:");
            table.suggest(&["url = \"https://hub.example.com\"".to_owned()]);
        }
    }
    if endpoints != ENDPOINTS {
        table.set("endpoints", quoted(&endpoints));
    }
    let mut log = DraftTable::new("[log]");
    if let Some(is_on) = options.switch("request_logging") {
        log.set("requests", is_on.to_string());
        options.mapped("request_logging", "log.requests");
    }
    let tables = [listen, admin(options, &address), table, log];
    SiteDraft {
        tables: tables.into_iter().filter(DraftTable::has_content).collect(),
        host: origin.map(|origin| origin.host.to_string()),
    }
}

/// The prefix of Ludgate's own paths.
fn endpoints(options: &GivenOptions) -> String {
    let Some(prefix) = options.text("proxy_prefix") else {
        return ENDPOINTS.to_owned();
    };
    let is_segment = |segment: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        !segment.is_empty() && !segment.starts_with('.') && segment.bytes().all(is_plain)
    };
    let segments = prefix.strip_prefix('/');
    let is_path = segments.is_some_and(|segments| segments.split('/').all(is_segment));
    let is_apps = below(&prefix, APPS).is_some();
    if prefix == ENDPOINTS {
        options.answer("proxy_prefix", Same, "");
    } else if is_path && !is_apps {
        options.mapped("proxy_prefix", "site.endpoints");
        return prefix;
    } else {
        let what = "it must be a plain path outside of /apps; /oauth2 is used";
        options.not_supported("proxy_prefix", what);
    }
    ENDPOINTS.to_owned()
}

/// The origin of the redirect URI, where sign-in happens.
fn public_origin(options: &GivenOptions, endpoints: &str) -> Option<WebOrigin> {
    let written = options.text("redirect_url")?;
    let url = Url::parse(&written).ok();
    let origin = url
        .as_ref()
        .and_then(|url| WebOrigin::parse(&url.origin().ascii_serialization()).ok());
    let (Some(url), Some(origin)) = (url, origin) else {
        let what = "it must be an address with https, or with http on loopback";
        options.not_supported("redirect_url", what);
        return None;
    };
    let callback = format!("{endpoints}/callback");
    if url.path() == callback || url.path() == "/" {
        options.mapped("redirect_url", "site.url");
    } else {
        options.mapped("redirect_url", "site.url, for its origin");
        let what = format!("register {origin}{callback} at the provider: the path is fixed");
        options.not_supported("redirect_url", what);
    }
    Some(origin)
}

/// The listener, and its address.
fn listen(options: &GivenOptions) -> (DraftTable, String) {
    let mut table = DraftTable::new("[listen]");
    let files = (options.text("tls_cert_file"), options.text("tls_key_file"));
    let (option, default, other) = match files {
        (Some(_), Some(_)) => ("https_address", HTTPS_ADDRESS, "http_address"),
        (_, _) => ("http_address", HTTP_ADDRESS, "https_address"),
    };
    let written = options.text(option);
    let address = written
        .as_deref()
        .map_or_else(|| socket_address(default), socket_address);
    match &address {
        Some(_) => options.mapped(option, "listen.address"),
        None => {
            let what = "listen.address is an IP address and a port; sockets come from systemd \
                        (LISTEN_FDS)";
            options.not_supported(option, what);
        }
    }
    let address = address.unwrap_or_else(|| HTTP_ADDRESS.to_owned());
    table.set("address", quoted(&address));
    if let (Some(certificate), Some(key)) = &files {
        let (certificate, key) = (quoted(certificate), quoted(key));
        table.set(
            "tls",
            format!("{{ certificate = {certificate}, key = {key} }}"),
        );
        options.mapped("tls_cert_file", "listen.tls");
        options.mapped("tls_key_file", "listen.tls");
        let what = "with a certificate there is one listener";
        options.answer(other, NotNeeded, what);
    } else {
        let what = "without a certificate and its key it has no effect";
        for option in [other, "tls_cert_file", "tls_key_file"] {
            options.answer(option, NotNeeded, what);
        }
    }
    trusted_proxies(options, &mut table);
    (table, address)
}

fn trusted_proxies(options: &GivenOptions, table: &mut DraftTable) {
    let option = "trusted_proxy_ips";
    if options.switch("reverse_proxy") != Some(true) {
        options.answer("reverse_proxy", Same, "");
        options.answer(option, NotNeeded, "only with reverse_proxy");
        return;
    }
    let mut networks = Vec::new();
    for written in options.texts(option) {
        let network = written
            .parse()
            .or_else(|_| written.parse::<IpAddr>().map(IpNet::from));
        match network.ok().filter(|network| network.prefix_len() > 0) {
            Some(_) => networks.push(written),
            None => {
                let what = format!("{written}: name the networks of your own proxies");
                options.not_supported(option, what);
            }
        }
    }
    if networks.is_empty() {
        let what = "name the networks of the proxies in front in listen.trusted_proxies; until \
                    then limits and logs see the proxy as the client";
        options.not_supported("reverse_proxy", what);
        table.comment("The networks of the proxies in front:");
        table.suggest(&["trusted_proxies = [\"10.0.0.0/8\"]".to_owned()]);
    } else {
        options.mapped("reverse_proxy", "listen.trusted_proxies");
        options.mapped(option, "listen.trusted_proxies");
        table.set("trusted_proxies", list(&networks));
    }
}

/// The listener for operators, which serves the metrics.
fn admin(options: &GivenOptions, public: &str) -> DraftTable {
    let mut table = DraftTable::new("[admin]");
    let written = options.text("metrics_address");
    let address = written.as_deref().and_then(socket_address);
    match address.filter(|address| address != public) {
        Some(address) => {
            table.set("address", quoted(&address));
            options.mapped("metrics_address", "admin.address");
        }
        None => {
            let what = "admin.address is an IP address and a port of its own";
            options.not_supported("metrics_address", what);
            if public == ADMIN_ADDRESS {
                table.set("address", quoted("127.0.0.1:9091"));
            }
        }
    }
    table
}

/// An address and a port. Without an address, all addresses of IP version 4.
fn socket_address(written: &str) -> Option<String> {
    let written = written.trim();
    let bare = ["http://", "https://"]
        .iter()
        .find_map(|scheme| written.strip_prefix(scheme))
        .unwrap_or(written);
    let full = match bare.split_once(':') {
        Some(("", port)) => format!("0.0.0.0:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        Some(_) | None => bare.to_owned(),
    };
    let address: SocketAddr = full.parse().ok()?;
    Some(address.to_string())
}
