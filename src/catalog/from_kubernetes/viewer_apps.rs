//! The viewers of a namespace as apps, by the access rule of this moment.

use std::time::Duration;

use super::{
    access_template::{AccessTemplate, ViewerIdentity},
    namespace::WatchedNamespace,
    ready_pods::ReadyPods,
    viewer::PublishedViewer,
};
use crate::{
    catalog::snapshot::Problem,
    cluster::crd::viewer::VIEWER_PREFIX,
    model::{
        access::Access,
        app::{AppSpec, Upstream, UpstreamScheme},
    },
};

/// The port of a viewer's Service, which names its pods' port.
const SERVICE_PORT: u16 = 80;

/// What all viewers have in common.
#[derive(Clone, Copy)]
pub struct ViewerDefaults<'s> {
    /// The access rule.
    pub access: &'s AccessTemplate,
    /// Deadline for response headers of a viewer that sets none.
    pub timeout: Duration,
}

/// The apps of one namespace; problems are added to the list.
pub fn specs(
    namespace: &WatchedNamespace,
    pods: &ReadyPods<'_>,
    defaults: ViewerDefaults<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<AppSpec> {
    let mut specs = Vec::new();
    for (name, seen) in namespace.viewers.sorted() {
        let id = format!("{}/{name}", namespace.name());
        let mut problem = |what: String, kept| {
            problems.push(Problem {
                object: format!("PVCViewer {id}"),
                id: id.clone(),
                what,
                kept,
            });
        };
        if let Some(what) = &seen.problem {
            problem(what.clone(), seen.published.is_some());
        }
        let Some(published) = &seen.published else {
            continue;
        };
        // Computed for each snapshot, since labels of the namespace change without the viewer.
        let identity = ViewerIdentity {
            namespace: namespace.name(),
            name,
            metadata: namespace.metadata.get(namespace.name()),
        };
        let access = defaults.access.access(identity).unwrap_or_else(|missing| {
            let what = format!("the namespace has no {missing}");
            problem(format!("{what}: everybody is denied"), true);
            Access::Unknown(what.into())
        });
        let service = format!("{VIEWER_PREFIX}{name}");
        let port_of = PublishedViewer::port_of;
        let ready = pods.ready_addresses(namespace.name(), &service, port_of);
        if ready.contested {
            let what = "some of its pods' addresses are also those of another app's pods: not used";
            problem(what.to_owned(), true);
        }
        let upstream = Upstream {
            scheme: UpstreamScheme::Pods(ready.addresses.into()),
            host: format!("{service}.{}.svc", namespace.name()).into(),
            port: SERVICE_PORT,
        };
        specs.push(spec(published, upstream, access, defaults.timeout));
    }
    specs
}

fn spec(
    published: &PublishedViewer,
    upstream: Upstream,
    access: Access,
    timeout: Duration,
) -> AppSpec {
    let has_ready_pods = match &upstream.scheme {
        UpstreamScheme::Pods(pods) => !pods.is_empty(),
        UpstreamScheme::Http
        | UpstreamScheme::Https
        | UpstreamScheme::Unix(_)
        | UpstreamScheme::Attested(_) => false,
    };
    // For Istio, a timeout of zero is none.
    let own_timeout = published.timeout.filter(|timeout| !timeout.is_zero());
    AppSpec {
        name: Some(published.title.clone()),
        path_rewrite: published.rewrite.clone(),
        state: published.state(has_ready_pods),
        message: published.message().map(Into::into),
        ..AppSpec::new(
            published.id.clone(),
            upstream,
            access,
            own_timeout.unwrap_or(timeout),
        )
    }
}
