//! Ludgate: an authenticating gateway for the apps that a platform hosts.
//!
//! A request is one function, `handle` in [`handler`]: parse the head, find the app, identify the
//! caller, authorize, forward. ARCHITECTURE.md shows it, and the shared state.
//!
//! On the way of a request:
//! - [`listener`] accepts connections and speaks HTTP with clients.
//! - [`proxy_protocol`] reads and writes the header that names the client behind a balancer.
//! - [`net`] is what connections to clients and to apps share.
//! - [`peer`] finds the client behind trusted proxies.
//! - [`incoming`] parses the head once, or refuses it.
//! - [`route`] reads which app or endpoint a path or a host names.
//! - [`catalog`] holds the apps of this moment.
//! - [`decide`] holds the pure steps, and the decisions that end a request early.
//! - [`caller`] identifies the caller by session, token or another credential.
//! - [`integrations`] adds the apps and credentials of other systems.
//! - [`authorize`] checks the access rule and creates the permit.
//! - [`forward`] sends a permitted request to its app; [`health_checks`] find failing upstreams.
//! - [`endpoints`] answers our own paths; [`return_to`] checks where a browser may go afterwards.
//! - [`saved_form`] keeps a form over a sign-in; [`body_budget`] bounds what is read for that.
//! - [`respond`] renders decisions, with the templates of [`pages`].
//! - [`access_log`] writes one line per request.
//! - [`streams`] lists the open streams of a thread; [`stream_policy`] is their rule.
//! - [`gateway`] is what all data threads share.
//!
//! Around it:
//! - [`settings`] resolves the configuration file.
//! - [`import`] translates configurations of other proxies.
//! - [`run`] starts the threads, listeners and background tasks.
//! - [`admin`] serves apps and sessions to operators.
//! - [`hub_proxy`] lets a JupyterHub add routes.
//! - [`demo`] is a provider with sample apps.
//! - `testing` lets tests look inside, with the feature of that name.
//! - [`cli`] and [`commands`] are the command line.
//!
//! The modules below are in the order of their imports: each imports only from those above it.

pub use ludgate_api as api;
pub use ludgate_client as client;
pub use ludgate_cluster as cluster;
pub use ludgate_controllers as controllers;
pub use ludgate_identity as identity;
pub use ludgate_identity::session;
pub use ludgate_installs as installs;
pub use ludgate_labs as labs;
pub use ludgate_model as model;
pub use ludgate_ops as ops;

pub mod net;
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
pub mod health_checks;
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
pub mod hub_proxy;

pub mod settings;

pub mod import;
pub mod run;

pub mod demo;
#[cfg(feature = "testing")]
pub mod testing;

pub mod cli;
pub mod commands;
