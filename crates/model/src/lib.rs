//! The nouns. No IO, no configuration, no policy: every other room speaks in these types,
//! and none of them can be made without holding its invariant.

pub mod access;
pub mod app;
pub mod arrival;
pub mod bare_path;
pub mod caller;
pub mod client;
pub mod clock;
pub mod container;
pub mod cookie_names;
pub mod destination;
pub mod grpc;
pub mod identity_headers;
pub mod load;
pub mod lookup_limit;
pub mod policy_changes;
pub mod principal;
pub mod secret;
pub mod site;
pub mod upstream_tls;
pub mod uuid;
pub mod vhost;
