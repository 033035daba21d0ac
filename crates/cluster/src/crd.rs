//! The custom resources that Ludgate reads: `PhApplication`, an app with its access rule,
//! `PhAppTemplate`, a template for such apps, and `PVCViewer`, a web app that shows the files of a
//! volume. The definitions are generated from these types, so they cannot drift apart.

pub mod application;
mod schema;
pub mod template;
pub mod viewer;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use application::PhApplication;
use template::PhAppTemplate;
use viewer::PVCViewer;

/// The definitions of all custom resources.
pub fn definitions() -> [CustomResourceDefinition; 3] {
    [PhApplication::crd(), PhAppTemplate::crd(), PVCViewer::crd()]
}
