//! The world that tests run in: a real gateway, recording backends, a provider, a browser, a clock
//! by hand.

pub mod api_relay;
pub mod arvados;
pub mod backend;
pub mod browser;
pub mod chromium;
pub mod cluster;
pub mod console;
pub mod http2;
pub mod http2_app;
pub mod kube_namespace;
pub mod kubernetes_api;
pub mod message;
pub mod oidc_provider;
pub mod open_streams;
pub mod oracles;
pub mod origins;
pub mod process;
pub mod raw;
pub mod redis;
pub mod replicas;
pub mod secure;
pub mod tls_app;
pub mod unix_app;
pub mod until;
pub mod world;
