//! The custom resources that Ludgate reads: `PhApplication`, an app and who may reach it, and
//! `PhAppTemplate`, what such apps are made from. Their definitions are made of these types, so the
//! two cannot drift apart.

pub mod application;
pub mod template;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};

use application::PhApplication;
use template::PhAppTemplate;

/// The definitions of all of them.
pub fn definitions() -> [CustomResourceDefinition; 2] {
    [PhApplication::crd(), PhAppTemplate::crd()]
}

/// A part that belongs to Kubernetes and is accepted whole: whatever this cluster's version knows,
/// and more.
fn whole(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
