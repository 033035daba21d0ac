//! Operations for every kind of process: readiness, drain, logging, metrics, the admin server, file
//! watching, clients for HTTPS with their credentials and rules, and the connection to Redis.
//! Nothing here depends on the gateway; [`process::Process`] puts it together.

pub mod admin;
pub mod auth_challenge;
pub mod configuration_status;
pub mod core_dumps;
pub mod dependency;
pub mod docker_config;
pub mod drain;
pub mod file_watch;
pub mod http_client;
pub mod http_server;
pub mod line_sink;
pub mod logging;
pub mod metrics;
pub mod optional_gauge;
pub mod private_file;
pub mod process;
pub mod public_address;
pub mod readiness;
pub mod redis;
pub mod request_metrics;
pub mod tls_client;
