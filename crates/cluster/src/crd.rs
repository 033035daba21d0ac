//! The custom resources that Ludgate reads: `PhApplication`, an app with its access rule,
//! `PhAppTemplate`, a template for such apps, `PVCViewer`, a web app that shows the files of a
//! volume, and `ApplicationDefinition` and `ApplicationInstallation`, apps from charts. The
//! definitions are generated from these types, so they cannot drift apart.

pub mod app_target;
pub mod application;
pub mod chart_source;
pub mod definition;
pub mod installation;
pub mod installation_status;
mod schema;
pub mod template;
pub mod viewer;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use application::PhApplication;
use definition::ApplicationDefinition;
use installation::ApplicationInstallation;
use template::PhAppTemplate;
use viewer::PVCViewer;

/// The definitions of all custom resources.
pub fn definitions() -> [CustomResourceDefinition; 5] {
    [
        PhApplication::crd(),
        PhAppTemplate::crd(),
        PVCViewer::crd(),
        ApplicationDefinition::crd(),
        ApplicationInstallation::crd(),
    ]
}
