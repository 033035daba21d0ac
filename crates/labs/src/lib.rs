//! Labs: one JupyterLab per person, in a namespace of its own.
//!
//! [`service`] talks to registries, clusters and people. All other modules are without IO. They
//! compute menus, answers and Kubernetes objects from the configuration, the tags of a registry,
//! the nodes of a cluster and the request of a hub.

pub mod config;
pub mod dialect;
pub mod discovery;
pub mod environment;
pub mod error;
pub mod events;
pub mod form;
pub mod images;
pub mod metadata;
pub mod names;
pub mod objects;
pub mod options;
mod python_json;
pub mod quantity;
pub mod rebuild;
pub mod service;
pub mod size;
pub mod state;
pub mod tag;
pub mod user;
