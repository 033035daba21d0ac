//! The integration tests, one binary: a real gateway on loopback, real sockets, a clock by hand.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

mod support;

mod admin;
mod app_limits;
mod arvados_access;
mod arvados_lookups;
mod arvados_stand_in;
mod arvados_tokens;
mod arvados_upstream;
mod bare_path;
mod bearer;
mod certificates;
mod chromium_demo;
mod chromium_driver;
mod chromium_isolation;
mod chromium_ports;
mod chromium_waiting;
mod clock_jumps;
mod configuration;
mod connections;
mod console_token;
mod cookies;
mod crd;
mod deadlines;
mod decision_table;
mod demo;
mod descriptors;
mod differential;
mod farewell;
mod faults;
mod floods;
mod forged_headers;
mod forwarded_for;
mod forwarding;
mod groups_elsewhere;
mod grpc;
mod hand_over;
mod hosts;
mod http2;
mod http2_frames;
mod kube;
mod kubernetes_api;
mod kubernetes_api_objects;
mod kubernetes_api_outages;
mod kubernetes_api_pods;
mod kubernetes_api_watches;
mod listeners;
mod logout;
mod malformed;
mod parked;
mod paths;
mod port_range;
mod provider_trouble;
mod proxy_protocol;
mod proxy_protocol_out;
mod real_apps;
mod real_clients;
mod real_provider;
mod real_wire;
mod recheck;
mod reload;
mod renew;
mod replacement;
mod replicas;
mod replicas_restored;
mod replicas_store_away;
mod replicas_under_load;
mod session_hand_over;
mod session_store;
mod sessions;
mod sidecar;
mod sign_in;
mod sign_out;
mod signals;
mod streams;
mod upstream_configuration;
mod upstream_tls;
mod upstream_unix;
mod upstreams;
mod userinfo;
mod websocket_tunnel;
mod websockets;
mod wire_matrix;
