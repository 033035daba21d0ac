//! `[listen]` and `[limits]`: the public listeners, their deadlines and sizes.

use std::{net::SocketAddr, num::NonZeroU32, path::Path, sync::Arc, time::Duration};

use ipnet::IpNet;

use super::{file::ConfigFile, section::ConfigSection};
use crate::{
    forward,
    listener::{self, Timeouts, tls},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// `[limits]`, by the room that enforces them.
#[derive(Debug)]
pub struct Limits {
    /// Limits and deadlines of the forwarder.
    pub forward: forward::ForwardSettings,
    /// New connections are accepted for this long after SIGTERM.
    pub stop_grace: Duration,
    /// Burst of sign-ins per client.
    pub sign_ins: NonZeroU32,
    /// Anonymous requests count as uses of an idle app at most once in this time; `None`: never.
    pub anonymous_use_interval: Option<Duration>,
    timeouts: Timeouts,
    handshake: Duration,
    write_stall: Duration,
    head_fields: usize,
    streams: u32,
    connections: usize,
    connections_per_client: usize,
}

impl Limits {
    /// Reads `[limits]`, with defaults for absent keys.
    pub fn from_section(limits: &ConfigSection<'_>) -> Limits {
        let head_bytes = limits.size("head_bytes").unwrap_or(64 << 10);
        if !(8 << 10..=1 << 20).contains(&head_bytes) {
            limits.wrong("head_bytes", "must be between 8KiB and 1MiB", None);
        }
        let count = |name, default: u64, range: std::ops::RangeInclusive<u64>| {
            let value = limits.number(name).unwrap_or(default);
            if !range.contains(&value) {
                limits.wrong(
                    name,
                    format!("must be between {} and {}", range.start(), range.end()),
                    None,
                );
            }
            usize::try_from(value).unwrap_or(usize::MAX)
        };
        let small =
            |name, default, range| u32::try_from(count(name, default, range)).unwrap_or(u32::MAX);
        Limits {
            forward: forward::ForwardSettings {
                connect: limits.positive("connect", 3 * SECOND),
                response_head: limits.positive("response_head", MINUTE),
                idle: limits.positive("upstream_idle", 10 * SECOND),
                head_bytes: usize::try_from(head_bytes).unwrap_or(64 << 10),
                body_gap: limits.positive("body_gap", 30 * SECOND),
                body_rate: limits.size("body_rate").unwrap_or(1 << 10),
                response_gap: limits.positive("response_gap", 5 * MINUTE),
                stream_idle: limits.positive("stream_idle", HOUR),
                requests_per_app: count("requests_per_app", 1024, 1..=1_000_000),
                connections_per_app: count("connections_per_app", 1024, 1..=1_000_000),
                client_share: count("client_share", 25, 1..=100),
                own_ports: Arc::default(),
            },
            stop_grace: limits.duration("stop_grace").unwrap_or(5 * SECOND),
            sign_ins: NonZeroU32::new(small("sign_ins", 100, 1..=1_000_000))
                .unwrap_or(NonZeroU32::MIN),
            anonymous_use_interval: MINUTE.checked_div(small("anonymous_wakes", 6, 0..=6000)),
            timeouts: Timeouts {
                first_byte: limits.positive("first_byte", 10 * SECOND),
                head: limits.positive("request_head", 10 * SECOND),
                idle: limits.positive("keep_alive", MINUTE),
                idle_http2: limits.positive("http2_keep_alive", 5 * MINUTE),
                age: limits.positive("connection_age", HOUR),
            },
            handshake: limits.positive("handshake", 10 * SECOND),
            write_stall: limits.positive("write_stall", 30 * SECOND),
            head_fields: count("head_fields", 100, 10..=1000),
            streams: small("streams", 100, 1..=10_000),
            connections: count("connections", 20_000, 1..=1_000_000),
            connections_per_client: count("connections_per_client", 512, 1..=1_000_000),
        }
    }
}

/// All public listeners, at least one.
pub struct Listeners {
    /// The listener of `[listen]`, or the first `[[listen]]`: the one that people use.
    pub first: listener::ListenerSettings,
    /// Further `[[listen]]` tables.
    pub others: Vec<listener::ListenerSettings>,
}

impl Listeners {
    /// All listeners, the first one first.
    pub fn all(&self) -> impl Iterator<Item = &listener::ListenerSettings> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// Reads `[listen]`, or every `[[listen]]`. `None` only together with an error.
pub fn listen(file: &ConfigFile<'_>, limits: &Limits, folder: &Path) -> Option<Listeners> {
    let first = one(&file.section("listen"), limits, folder);
    if first.as_ref().is_some_and(|first| first.redirects) {
        let what = "is what the first listener cannot do: that is the one people use";
        file.section("listen")
            .wrong("redirect_to_https", what, None);
    }
    let mut others = Vec::new();
    file.other_listeners(|section| others.push(one(&section, limits, folder)));
    Some(Listeners {
        first: first?,
        others: others.into_iter().collect::<Option<_>>()?,
    })
}

fn one(
    listen: &ConfigSection<'_>,
    limits: &Limits,
    folder: &Path,
) -> Option<listener::ListenerSettings> {
    let address = address(listen, "127.0.0.1:8080");
    let clients = listen.text("client_ca").map(|file| folder.join(file));
    let tls = match listen.pairs("tls", "certificate", "key") {
        None => Some(tls::TlsSettings::Off),
        Some(pairs) => {
            let files = |(certificate, key): &(String, String)| tls::CertificateFiles {
                certificate: folder.join(certificate),
                key: folder.join(key),
            };
            let built =
                tls::TlsSettings::from_files(pairs.iter().map(files).collect(), clients.as_deref());
            built
                .map_err(|error| listen.wrong("tls", error.to_string(), None))
                .ok()
        }
    };
    if clients.is_some() && !listen.has("tls") {
        listen.wrong("client_ca", "means nothing without tls", None);
    }
    let redirects = listen.switch("redirect_to_https").unwrap_or(false);
    if redirects && listen.has("tls") {
        listen.wrong("redirect_to_https", "and tls are both given", None);
    }
    Some(listener::ListenerSettings {
        handshake: limits.handshake,
        timeouts: limits.timeouts.clone(),
        write_stall: limits.write_stall,
        head_bytes: limits.forward.head_bytes,
        head_fields: limits.head_fields,
        streams: limits.streams,
        connections: limits.connections,
        connections_per_client: limits.connections_per_client,
        proxy_protocol_from: networks(listen, "proxy_protocol_from"),
        trusted_proxies: networks(listen, "trusted_proxies"),
        h2c: listen.switch("h2c").unwrap_or(false),
        takeover: listen.switch("takeover").unwrap_or(false),
        redirects,
        address: address?,
        tls: tls?,
    })
}

/// The address and port of a section.
pub fn address(section: &ConfigSection<'_>, default: &str) -> Option<SocketAddr> {
    let text = section
        .text("address")
        .unwrap_or_else(|| default.to_owned());
    let parsed = text.parse();
    if parsed.is_err() {
        let suggestion = Some("for example address = \"127.0.0.1:8080\"".to_owned());
        section.wrong(
            "address",
            format!("{text:?} is not an address and port"),
            suggestion,
        );
    }
    parsed.ok()
}

/// Trusted networks. The whole internet is an error.
pub(super) fn networks(listen: &ConfigSection<'_>, name: &'static str) -> Vec<IpNet> {
    let mut networks: Vec<IpNet> = Vec::new();
    for text in listen.texts(name).unwrap_or_default() {
        let network = text
            .parse()
            .or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from));
        match network {
            Ok(network) if network.prefix_len() == 0 => {
                let suggestion = Some("name the networks of your own proxies".to_owned());
                listen.wrong(name, format!("{text} is everybody"), suggestion);
            }
            Ok(network) => networks.push(network),
            Err(_) => {
                let suggestion = Some("for example \"10.0.0.0/8\"".to_owned());
                listen.wrong(name, format!("{text:?} is no network"), suggestion);
            }
        }
    }
    networks
}

/// A warning about overlapping trusted networks.
pub fn warning(listen: &listener::ListenerSettings) -> Option<String> {
    let what = "listen.proxy_protocol_from and trusted_proxies overlap: where a balancer names no client, what that client \
                says about itself in X-Forwarded-For is believed";
    overlap(&listen.proxy_protocol_from, &listen.trusted_proxies).then(|| what.to_owned())
}

/// Whether the lists share an address.
fn overlap(one: &[IpNet], other: &[IpNet]) -> bool {
    let meet = |a: &IpNet, b: &IpNet| a.contains(&b.network()) || b.contains(&a.network());
    one.iter().any(|a| other.iter().any(|b| meet(a, b)))
}
