//! The controller of ApplicationInstallations: it downloads charts, runs Helm, and reports.
//!
//! [`crate::plan`] chooses each step, and [`crate::status`] computes the status, both without IO.
//! The modules here observe, and do the step. Helm and downloads run in tasks of their own, so a
//! chart that waits for its objects blocks no other installation.

pub mod annotations;
mod attempts;
mod context;
mod credentials;
mod defaults;
mod download;
mod initial;
mod metadata;
pub mod metrics;
mod namespace;
mod observe;
mod operation;
mod operations;
mod parsed;
mod reconcile;
mod report;
mod requests;
mod run;
pub mod settings;
mod stores;
mod target_cluster;
mod target_clusters;
mod tasks;
pub mod webhook;

pub use operations::RunningOperations;
pub use run::InstallationController;
pub use target_clusters::{HomeCluster, TargetClusters};

use crate::helm::environment::FOLDER_PREFIX as OPERATION_FOLDER_PREFIX;

/// How the names of folders begin that a killed process may leave.
pub const FOLDER_PREFIXES: [&str; 2] = [download::FOLDER_PREFIX, OPERATION_FOLDER_PREFIX];
