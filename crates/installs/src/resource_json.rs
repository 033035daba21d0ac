//! Definitions and installations as the REST API shows and accepts them. The shapes are those of
//! the API of the Kubermatic Kubernetes Platform, with a few fields more.

pub mod definition;
pub mod error;
pub mod installation;
mod patch;
