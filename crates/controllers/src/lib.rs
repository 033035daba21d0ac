//! The controllers of Ludgate.
//!
//! In each, `desired` computes the objects that should exist, and `status` the status from those
//! that do, both without IO. Only `reconcile` reads and writes the cluster.

pub mod application;
pub mod children;
pub mod error;
pub mod events;
pub mod idle;
pub mod leader;
pub mod metrics;
pub mod network_policy;
pub mod pod_policy;
pub mod pods;
pub mod requests;
pub mod viewer;
pub mod watched;
pub mod webhook;
