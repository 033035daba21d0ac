//! The API for people and their tools: apps by GraphQL, logs of their pods, and
//! API tokens.
//!
//! `app_input`, `app_object`, `app_record`, `variables` and `paging` are pure. `cluster_objects`
//! reads and writes Kubernetes, and `template_import` reads templates from URLs; `operations` joins
//! them, and `schema` is their GraphQL. `installations` is the REST API of applications from Helm
//! charts. `server` has the routes, and `authentication` the people.

pub mod app_input;
pub mod app_object;
pub mod app_record;
pub mod authentication;
pub mod cluster_objects;
mod device_endpoint;
pub mod error;
mod graphql_endpoint;
pub mod graphql_request;
pub mod installations;
mod log_endpoint;
pub mod operations;
pub mod paging;
pub mod platform;
mod response_order;
#[cfg(test)]
mod samples;
pub mod schema;
pub mod server;
pub mod state;
pub mod template_import;
mod token_endpoint;
mod token_page;
pub mod variables;
