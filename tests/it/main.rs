//! The integration tests, one binary: a real gateway on loopback, real sockets, a clock by hand.

#![allow(clippy::expect_used, clippy::panic, reason = "a test's helper fails the test")]

mod support;

mod admin;
mod arvados_access;
mod arvados_lookups;
mod arvados_stand_in;
mod arvados_tokens;
mod arvados_upstream;
mod bearer;
mod certificates;
mod chromium_demo;
mod chromium_driver;
mod chromium_isolation;
mod chromium_ports;
mod configuration;
mod connections;
mod console_token;
mod cookies;
mod crd;
mod decision_table;
mod demo;
mod descriptors;
mod farewell;
mod faults;
mod forwarding;
mod hand_over;
mod hosts;
mod kube;
mod kubernetes_api;
mod kubernetes_api_objects;
mod kubernetes_api_outages;
mod kubernetes_api_pods;
mod kubernetes_api_watches;
mod malformed;
mod paths;
mod port_range;
mod provider_trouble;
mod proxy_protocol;
mod real_clients;
mod real_provider;
mod reload;
mod sessions;
mod sidecar;
mod sign_in;
mod sign_out;
mod streams;
mod upstream_configuration;
mod upstream_tls;
mod upstream_unix;
mod upstreams;
mod websockets;
