//! Labs: one JupyterLab per person, in a namespace of its own.
//!
//! All functions here are without IO. They compute menus, answers and Kubernetes objects from the
//! configuration, the tags of a registry, the nodes of a cluster and the request of a hub.

pub mod tag;
