//! The integration tests, one binary: a real gateway on loopback, real sockets, a clock by hand.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

mod support;

mod differential;
mod kube;
mod real_apps;
mod real_cluster;

/// Connections and bytes: HTTP/1, HTTP/2, gRPC, TLS, PROXY protocol, deadlines and limits.
mod wire {
    mod after_the_response;
    mod certificates;
    mod connections;
    pub(super) mod curl;
    mod deadlines;
    mod descriptors;
    mod floods;
    mod grpc;
    mod http2;
    mod http2_floods;
    mod http2_frames;
    mod http2_heads;
    mod http2_streams;
    mod listeners;
    mod malformed;
    mod matrix;
    mod proxy_protocol;
    mod real_programs;
}

/// Which host and path lead to which app.
mod routing {
    mod hosts;
    mod hub_routes;
    mod path_only;
    mod paths;
    mod stray_requests;
    mod trailing_slash;
}

/// Access decisions, for requests and for open streams.
mod access {
    mod callers;
    mod decision_table;
    mod forward_auth;
    mod forward_auth_nginx;
    mod forward_auth_requests;
    mod frames;
    mod path_rules;
    mod rule_apps;
    pub(super) mod streams;
    mod unknown_groups;
}

/// Signing in, and every other way to prove an identity.
mod sign_in {
    mod bearer;
    mod callback;
    mod every_origin;
    mod groups_elsewhere;
    mod opaque_tokens;
    mod pages;
    mod programs_document;
    mod provider_trouble;
    mod real_provider;
    mod renew;
    mod saved_forms;
    mod saved_forms_unsent;
    mod service_tokens;
    mod session_notice;
    mod several_providers;
    mod step_up;
    mod tickets;
    mod trusted_issuers;
    mod userinfo;
}

/// How long a session lives, where it is stored, and what ends it.
mod sessions {
    mod app_idle;
    pub(super) mod back_channel_logout;
    mod clock_jumps;
    mod cookies;
    mod handoff_file;
    mod keep_alive;
    mod lifetimes;
    mod recheck;
    mod sign_out;
    pub(super) mod store;
}

/// What an app gets, what its client gets back, and how the app is reached.
mod forwarding {
    mod access_token;
    mod app_headers;
    mod app_limits;
    mod assertion;
    mod bodies;
    mod connections;
    mod faults;
    mod forged_headers;
    mod forwarded_for;
    mod headers;
    mod health_checks;
    mod proxy_protocol;
    mod public_locations;
    mod several_upstreams;
    mod tls;
    mod unix;
    pub(super) mod upstreams;
}

/// WebSockets: opening, traffic, closing.
mod websockets {
    mod closing;
    mod memory;
    mod opening;
    mod tunnel;
}

/// Several gateways that share a Redis.
mod replicas {
    mod restored;
    mod service_tokens;
    mod shared;
    mod store_access;
    mod store_away;
    mod under_load;
}

/// The Arvados catalogue, against a stand-in API.
mod arvados {
    mod access;
    mod lookups;
    mod port_range;
    mod stand_in;
    mod token_in_address;
    mod token_sessions;
    mod tokens;
    mod upstream;
}

/// The Kubernetes catalogue, against a stand-in API. `kube` tests the same with a real one.
mod kubernetes {
    mod crd;
    mod lists;
    mod objects;
    mod outages;
    mod pods;
    mod templates;
    mod viewers;
    mod viewers_idle;
    mod watches;
}

/// In front of a console that has a login of its own.
mod console {
    mod sidecar;
    mod token;
}

/// Configuration files, and what a reload changes.
mod configuration {
    mod compose;
    mod documents;
    mod file;
    mod hosts;
    mod installations;
    mod reload;
    mod served_viewers;
    mod several_upstreams;
    mod systemd;
    mod upstreams;
    mod viewers;
}

/// Admin endpoints, signals, replacement of a process.
mod operations {
    mod activity;
    mod admin;
    mod explain_live;
    mod replacement;
    mod signals;
}

/// `ludgate demo`.
mod demo {
    mod first_look;
}

/// A real browser.
mod chromium {
    mod demo;
    mod driver;
    mod isolation;
    mod ports;
    mod waiting;
}
