//! Apps from Helm charts on a cluster: `ludgate controller` with the shipped rights, real Helm, and
//! pods that run.

mod document;
mod edge;
mod expose;
mod killed;
mod site;
mod sources;
mod targets;
mod troubles;
mod waiting;
