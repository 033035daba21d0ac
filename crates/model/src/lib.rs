//! The types that all other crates share. No IO, no configuration, no policy. Constructors enforce
//! each type's invariant.

pub mod access;
pub mod activity;
pub mod app;
pub mod arrival;
pub mod attested;
pub mod caller;
pub mod client;
pub mod clock;
pub mod concurrency_limit;
pub mod cookie_names;
pub mod destination;
pub mod dns;
pub mod error_cause;
mod group_name;
pub mod grpc;
pub mod header_values;
pub mod health_check;
pub mod hex;
pub mod identity_headers;
pub mod known_claims;
pub mod last_activity;
pub mod lookup_limit;
pub mod path_rule;
pub mod policy_changes;
pub mod principal;
pub mod secret;
pub mod site;
pub mod text;
pub mod trailing_slash;
mod upstream;
pub mod upstream_group;
pub mod upstream_health;
pub mod upstream_tls;
pub mod uuid;
pub mod vhost;
