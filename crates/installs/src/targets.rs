//! Access to the namespaces that charts are installed in, of this cluster and of others.

pub mod kubeconfig;
pub mod namespace;
pub mod token;
