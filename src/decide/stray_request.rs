//! Requests that pages of an app send to addresses outside of it, where nothing is. Most often the
//! app does not know its mount. Pure.

use std::sync::Arc;

use http::header;

use super::{
    decision::{Decision, Refusal},
    reason::Reason,
};
use crate::{
    catalog::snapshot::Snapshot,
    incoming::IncomingRequest,
    model::{app::App, header_values::single, vhost::VirtualHost},
    route::{
        Route,
        path::{lab, route},
    },
};

/// The decision for a request that leads to no app. Where nothing is at its address and a page of
/// an app sent it, the refusal names that app.
#[cold]
pub(super) fn attribute(
    decision: Decision,
    request: &IncomingRequest<'_>,
    snapshot: &Snapshot,
) -> Decision {
    let is_nowhere = |refusal: &Refusal| refusal.reason == Reason::NotFound;
    let on_the_site = request.arrival.vhost == VirtualHost::Site;
    if !on_the_site || !matches!(&decision, Decision::Refuse(refusal) if is_nowhere(refusal)) {
        return decision;
    }
    match sender(request, snapshot) {
        Some(app) => Refusal::at(app.clone(), Reason::OutsideApp).into(),
        None => decision,
    }
}

/// The app on a path whose page sent the request, as `Referer` says.
fn sender<'s>(request: &IncomingRequest<'_>, snapshot: &'s Snapshot) -> Option<&'s Arc<App>> {
    let site = snapshot.site();
    let referer = single(request.headers(), &header::REFERER)?;
    let target = referer.to_str().ok()?.strip_prefix(&*site.origin.text)?;
    let path = target.split(['?', '#']).next()?;
    if let Some(app) = lab(path, site).and_then(|lab| snapshot.lab(lab.username)) {
        return Some(app);
    }
    match route(path, site) {
        Route::App { id, .. } | Route::AppWithoutSlash { id } => snapshot.find(id),
        Route::Launcher
        | Route::ToLauncher
        | Route::Endpoint(_)
        | Route::Api
        | Route::Console
        | Route::NotAnId
        | Route::Nowhere => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue, uri::PathAndQuery};

    use super::*;
    use crate::{
        catalog::lookup::Lookup,
        decide::locate,
        model::{
            access::Access,
            app::{AppId, AppSpec, Upstream, UpstreamScheme},
            arrival::Arrival,
            client::Client,
            cookie_names::CookieNames,
            site::{Site, WebOrigin},
        },
    };

    fn snapshot() -> Snapshot {
        let origin = WebOrigin::new(true, "gw.test", 443);
        let site = Site::with_default_paths(origin, CookieNames::new(true, "c", &[]));
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "localhost".into(),
            port: 1,
        };
        let id = AppId::new("gr").expect("an id");
        let spec = AppSpec::new(id, upstream, Access::User, Duration::from_secs(1));
        Snapshot::new(Arc::new(site), [spec])
    }

    /// The reason of the refusal of a request with these headers, and the app that it names.
    fn refused(target: &'static str, referers: &[&'static str]) -> String {
        let snapshot = snapshot();
        let target = PathAndQuery::from_static(target);
        let arrival = Arrival::navigation(VirtualHost::Site, target);
        let mut headers = HeaderMap::new();
        for referer in referers {
            headers.append(header::REFERER, HeaderValue::from_static(referer));
        }
        let client = Client::at("10.0.0.1".parse().expect("an address"));
        let id = HeaderValue::from_static("1");
        let request = IncomingRequest::new(arrival, &headers, snapshot.site(), id, client);
        match locate(&request, &snapshot, &Lookup::Site) {
            Err(Decision::Refuse(refusal)) => {
                let app = refusal
                    .app
                    .map_or(String::new(), |app| format!(" {}", app.id()));
                format!("{}{app}", refusal.reason.as_str())
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_page_of_an_app_is_named_by_its_own_address_alone() {
        for referer in [
            "https://gw.test/apps/gr/",
            "https://gw.test/apps/gr/page?q=1",
            "https://gw.test/apps/gr",
        ] {
            assert_eq!(refused("/static/app.js", &[referer]), "outside_app gr");
            assert_eq!(refused("/.ludgate/x", &[referer]), "outside_app gr");
            assert_eq!(refused("/apps/none/", &[referer]), "unknown_app");
        }
        for referer in [
            "",
            "null",
            "/apps/gr/",
            "https://gw.test/",
            "https://gw.test/apps/none/",
            "https://gw.test/apps/gr2/",
            "https://gw.test.evil.test/apps/gr/",
            "https://gw.test:444/apps/gr/",
            "http://gw.test/apps/gr/",
            "https://evil.test/https://gw.test/apps/gr/",
        ] {
            assert_eq!(
                refused("/static/app.js", &[referer]),
                "not_found",
                "{referer}"
            );
        }
        let page = "https://gw.test/apps/gr/";
        assert_eq!(refused("/static/app.js", &[]), "not_found");
        assert_eq!(refused("/static/app.js", &[page, page]), "not_found");
    }
}
