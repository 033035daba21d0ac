//! Ludgate: an authenticating gateway for the apps that a platform hosts.
//!
//! The modules in the order of a request: `peer` (who connected) → `incoming` (one validated
//! arrival) → `route` (which target) → `catalog` (which app) → caller (`session`, `identity`) →
//! `authorize` (a permit or a refusal) → `forward`. `gateway` is the straight line through them.

pub use ludgate_cluster as cluster;
pub use ludgate_identity as identity;
pub use ludgate_identity::session;
pub use ludgate_model as model;
pub use ludgate_ops as ops;

pub mod proxy_protocol;
pub mod streams;

pub mod authorize;
pub mod incoming;
pub mod listener;
pub mod peer;
pub mod route;

pub mod caller;
pub mod catalog;
pub mod forward;

pub mod decide;
pub mod integrations;

pub mod body_budget;

pub mod gateway;

pub mod access_log;
pub mod pages;
pub mod return_to;
pub mod saved_form;
pub mod stream_policy;

pub mod respond;

pub mod endpoints;

pub mod handler;

pub mod admin;

pub mod settings;

pub mod run;

pub mod demo;
#[cfg(feature = "testing")]
pub mod testing;

pub mod cli;
pub mod commands;
