//! Paths of the site and of hosts, in all spellings.

use std::{path::Path, sync::Arc, time::Duration};

use super::*;
use crate::model::{
    app::{App, Upstream},
    cookie_names::CookieNames,
    site::{Site, WebOrigin},
};

fn site() -> Site {
    let origin = WebOrigin::new(false, "gw.test", 80);
    Site::with_default_paths(origin, CookieNames::new(false, "c", &[]))
}

#[test]
fn logs_are_ours_where_they_are_served_and_by_names_that_pods_can_have() {
    let with = Site {
        serves_logs: true,
        ..site()
    };
    for path in [
        "/api/logs/pods/app-a-7d9",
        "/api/logs/phapplications/app-a-7d9.x",
    ] {
        assert_eq!(
            route(path, &with),
            Route::Endpoint(Endpoint::Logs),
            "{path}"
        );
        assert_eq!(route(path, &site()), Route::Nowhere, "{path}");
    }
    for path in [
        "/api/logs/pods/",
        "/api/logs/pods/a/b",
        "/api/logs/pods/..",
        "/api/logs/pods/A",
        "/api/logs/pods/a%2Fb",
        "/api/logs/images/x",
        "/api/logs/jupyterhub",
    ] {
        assert_eq!(route(path, &with), Route::Nowhere, "{path}");
    }
}

#[test]
fn the_api_has_its_paths_where_there_is_one() {
    let upstream = Upstream::unix(Path::new("/run/api.sock"));
    let api = App::api(upstream, Duration::from_secs(1)).map(Arc::new);
    let with = Site { api, ..site() };
    for path in [
        "/api/graphql",
        "/api/logs/pods/app-a-7d9",
        "/oidc/auth-flow/request",
        "/oidc/auth-flow/device/token",
        "/api/v2/applicationdefinitions",
        "/api/v2/applicationdefinitions/a",
        "/api/v2/clusters/self/applicationinstallations",
        "/api/v2/clusters/self/applicationbundle",
        "/api/v2/projects/p/clusters/self/applicationinstallations/n/a",
    ] {
        assert_eq!(route(path, &with), Route::Api, "{path}");
        assert_eq!(route(path, &site()), Route::Nowhere, "{path}");
    }
    for path in [
        "/api",
        "/api/",
        "/api/graphql/",
        "/api/graphqlx",
        "/api/v2/",
        "/api/v2/users",
        "/api/v2/clusters/self/nodes",
        "/api/v2/projects/p/clusters/self",
        "/api/v2/projects/p/applicationinstallations",
        "/oidc/auth-flow",
    ] {
        assert_eq!(route(path, &with), Route::Nowhere, "{path}");
    }
}

#[test]
fn a_path_is_routed_by_its_raw_bytes() {
    let site = site();
    for (path, expected) in [
        ("/", Route::ToLauncher),
        ("/apps", Route::ToLauncher),
        ("/apps/", Route::Launcher),
        ("/apps/a", Route::AppWithoutSlash { id: "a" }),
        ("/apps/a/", Route::App { id: "a", root: 7 }),
        ("/apps/a/b%2Fc//d", Route::App { id: "a", root: 7 }),
        ("/apps/a-1//x", Route::App { id: "a-1", root: 9 }),
        ("/apps/A/", Route::NotAnId),
        ("/apps/a%2D1/x", Route::NotAnId),
        ("/apps/a;x/", Route::NotAnId),
        ("/apps//a/", Route::NotAnId),
        ("/apps/../a/", Route::NotAnId),
        ("/apps;x/grp/", Route::Nowhere),
        ("//apps/grp/", Route::Nowhere),
        ("/Apps/a/", Route::Nowhere),
        ("/%61pps/a/", Route::Nowhere),
        ("/appsx", Route::Nowhere),
        ("/oauth2/start", Route::Endpoint(Endpoint::Start)),
        ("/oauth2/start/", Route::Nowhere),
        ("/oauth2/callback", Route::Endpoint(Endpoint::Callback)),
        ("/oauth2/callback/corp", Route::Endpoint(Endpoint::Callback)),
        ("/oauth2/callback/", Route::Nowhere),
        ("/oauth2/callback/corp/", Route::Nowhere),
        ("/oauth2/callback/default", Route::Nowhere),
        ("/oauth2/callback/Corp", Route::Nowhere),
        ("/oauth2/callback%2Fcorp", Route::Nowhere),
        ("/oauth2/callback//corp", Route::Nowhere),
        ("/oauth2//callback/corp", Route::Nowhere),
        ("/oauth2/start/corp", Route::Nowhere),
        ("/oauth2//start", Route::Nowhere),
        ("/oauth2/", Route::Nowhere),
        ("/oauth2", Route::Nowhere),
        ("/.ludgate/enter", Route::Nowhere),
        ("/.ludgate/jwks.json", Route::Endpoint(Endpoint::Jwks)),
        (
            "/.ludgate/session",
            Route::Endpoint(Endpoint::SessionStatus),
        ),
        ("/.ludgate/session/", Route::Nowhere),
        ("/.ludgate/jwks.json/", Route::Nowhere),
        ("/.ludgate/jwks%2Ejson", Route::Nowhere),
        ("/.ludgate/sign_out", Route::Endpoint(Endpoint::SignOut)),
        ("/.ludgate/userinfo", Route::Endpoint(Endpoint::Userinfo)),
        ("/.ludgate/start", Route::Nowhere),
    ] {
        assert_eq!(route(path, &site), expected, "{path:?}");
    }
}

#[test]
fn installed_apps_have_ids_that_begin_with_a_slash() {
    let with = Site {
        installs_prefix: Some("/installs".into()),
        ..site()
    };
    let id = "/team/v";
    for (path, expected) in [
        ("/installs", Route::ToLauncher),
        ("/installs/team/", Route::ToLauncher),
        ("/installs/team/v", Route::AppWithoutSlash { id }),
        ("/installs/team/v/", Route::App { id, root: 16 }),
        ("/installs/team/v/x/../", Route::App { id, root: 16 }),
        ("/installs/team%2Fv/", Route::NotAnId),
        ("/installs//v/", Route::NotAnId),
        ("/installs/team/a.b/", Route::NotAnId),
        ("/installs/../v/", Route::NotAnId),
        ("/installsx/team/v/", Route::Nowhere),
    ] {
        assert_eq!(route(path, &with), expected, "{path:?}");
    }
    assert_eq!(route("/installs/team/v/", &site()), Route::Nowhere);
}

#[test]
fn viewers_have_a_prefix_of_their_own_with_a_namespace_and_a_name_below_it() {
    let with = Site {
        viewers_prefix: Some("/pvcviewers".into()),
        ..site()
    };
    let viewer = |root| Route::App { id: "team/v", root };
    for (path, expected) in [
        ("/pvcviewers", Route::ToLauncher),
        ("/pvcviewers/", Route::ToLauncher),
        ("/pvcviewers/team", Route::ToLauncher),
        ("/pvcviewers/team/", Route::ToLauncher),
        (
            "/pvcviewers/team/v",
            Route::AppWithoutSlash { id: "team/v" },
        ),
        ("/pvcviewers/team/v/", viewer(18)),
        ("/pvcviewers/team/v//x/y", viewer(18)),
        ("/pvcviewers/team/v/../x/", viewer(18)),
        ("/pvcviewers/team%2Fv/", Route::NotAnId),
        ("/pvcviewers/team%2fv", Route::NotAnId),
        ("/pvcviewers/team/v%2F", Route::NotAnId),
        ("/pvcviewers/team/v;x/", Route::NotAnId),
        ("/pvcviewers//v/", Route::NotAnId),
        ("/pvcviewers//", Route::NotAnId),
        ("/pvcviewers/team//", Route::NotAnId),
        ("/pvcviewers/team//v/", Route::NotAnId),
        ("/pvcviewers/../v/", Route::NotAnId),
        ("/pvcviewers/Team/v/", Route::NotAnId),
        ("/pvcviewers/team/a.b/", Route::NotAnId),
        ("/pvcviewersx/team/v/", Route::Nowhere),
        ("//pvcviewers/team/v/", Route::Nowhere),
        ("/PVCViewers/team/v/", Route::Nowhere),
        (
            "/apps/team/v/",
            Route::App {
                id: "team",
                root: 10,
            },
        ),
    ] {
        assert_eq!(route(path, &with), expected, "{path:?}");
        if path.starts_with("/pvcviewers") {
            assert_eq!(route(path, &site()), Route::Nowhere, "{path:?}");
        }
    }
}

#[test]
fn labs_have_a_prefix_that_may_lie_below_that_of_apps() {
    let with = Site {
        labs_prefix: Some("/apps/nb/user".into()),
        ..site()
    };
    let found = |username, root| Some(LabPath { username, root });
    for (path, wanted) in [
        ("/apps/nb/user/rachel/", found("rachel", Some(20))),
        ("/apps/nb/user/rachel/lab", found("rachel", Some(20))),
        ("/apps/nb/user/1a//x/..", found("1a", Some(16))),
        ("/apps/nb/user/rachel", found("rachel", None)),
        ("/apps/nb/user", None),
        ("/apps/nb/user/", None),
        ("/apps/nb/users/rachel/", None),
        ("/apps/nb/hub/rachel/", None),
    ] {
        assert_eq!(lab(path, &with), wanted, "{path:?}");
        assert_eq!(lab(path, &site()), None, "{path:?}");
        // Without the lab it is the path of the hub.
        let hub = Route::App { id: "nb", root: 8 };
        assert_eq!(route(path, &with), hub, "{path:?}");
    }
}

#[test]
fn below_the_prefix_of_labs_a_name_that_no_lab_has_leads_nowhere() {
    let with = Site {
        labs_prefix: Some("/apps/nb/user".into()),
        ..site()
    };
    for name in [
        "Rachel",
        "17",
        "a.b",
        "..",
        "a;x",
        "%72achel",
        "rachel%2F",
        "",
    ] {
        let path = format!("/apps/nb/user/{name}/lab");
        assert_eq!(lab(&path, &with), None, "{path:?}");
        assert_eq!(route(&path, &with), Route::NotAnId, "{path:?}");
    }
}
