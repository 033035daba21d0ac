//! The controllers of Ludgate.
//!
//! In each, `desired` says what objects there should be and `status` says what became of them, both
//! without IO. Only `reconcile` reads and writes the cluster.

pub mod application;
pub mod children;
pub mod error;
pub mod leader;
pub mod metrics;
pub mod pod_policy;
pub mod watched;
