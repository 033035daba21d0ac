//! Which of an app's rules apply to a request: by its path below the app, and its method. Pure.
//!
//! Where programs may read the path in different ways, every rule applies that one of them may
//! choose. So no spelling of a path gives more access than another.

use http::Method;

use crate::{
    incoming::path_prefix::{PrefixMatch, compare},
    model::{
        app::App,
        arrival::Arrival,
        destination::Destination,
        path_rule::{PathRule, RuleSet},
    },
};

/// The destination with the rules that apply to the request. Most apps have one rule.
pub(super) fn with_rules(destination: Destination, arrival: &Arrival) -> Destination {
    let spec = &destination.app.spec;
    let is_free_preflight = spec.cors_preflight && arrival.is_preflight;
    if spec.paths.is_empty() && !is_free_preflight {
        return destination;
    }
    let path = destination.path();
    let rules = rules_for(&destination.app, path, &arrival.method, is_free_preflight);
    destination.with_rules(rules)
}

/// The rules of an app for this path below its root. `is_free_preflight`: a CORS preflight to an
/// app that takes them without a person.
pub fn rules_for(app: &App, path: &str, method: &Method, is_free_preflight: bool) -> RuleSet {
    let mut rules = RuleSet::NONE;
    let mut is_decided = false;
    for (index, rule) in app.spec.paths.iter() {
        let by_path = compare(path, rule.prefix());
        let fit = weaker(by_path, by_method(rule, method));
        if fit != PrefixMatch::No {
            rules = rules.with(index);
        }
        // Rules come the most specific first, so the others are for no reader.
        if fit == PrefixMatch::Yes {
            is_decided = true;
            break;
        }
    }
    if !is_decided {
        rules = rules.with_own();
    }
    if is_free_preflight {
        rules.for_preflight()
    } else {
        rules
    }
}

/// Whether a rule is for the method. `HEAD` is a `GET` without a body, so a rule for `GET` is for
/// both. Some programs read `delete` as `DELETE`.
fn by_method(rule: &PathRule, method: &Method) -> PrefixMatch {
    let methods = rule.methods();
    let has_get = || methods.contains(&Method::GET);
    if methods.is_empty() || methods.contains(method) || (method == Method::HEAD && has_get()) {
        return PrefixMatch::Yes;
    }
    let is_alike = |known: &Method| known.as_str().eq_ignore_ascii_case(method.as_str());
    if methods.iter().any(is_alike) || (is_alike(&Method::HEAD) && has_get()) {
        PrefixMatch::Maybe
    } else {
        PrefixMatch::No
    }
}

fn weaker(one: PrefixMatch, other: PrefixMatch) -> PrefixMatch {
    match (one, other) {
        (PrefixMatch::No, _) | (_, PrefixMatch::No) => PrefixMatch::No,
        (PrefixMatch::Maybe, _) | (_, PrefixMatch::Maybe) => PrefixMatch::Maybe,
        (PrefixMatch::Yes, PrefixMatch::Yes) => PrefixMatch::Yes,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use proptest::prelude::*;

    use super::*;
    use crate::model::{
        access::Access,
        app::{AppId, AppSpec, Upstream, UpstreamScheme},
        path_rule::PathRules,
    };

    const RULES: [(&str, &[&str], &str); 6] = [
        ("/open", &[], "public"),
        ("/open/not", &[], "group:a"),
        ("/hook", &["POST"], "public"),
        ("/admin", &[], "group:admins"),
        ("/admin", &["GET"], "group:readers"),
        ("/data", &["DELETE", "GET"], "group:admins"),
    ];

    fn app() -> App {
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "app".into(),
            port: 80,
        };
        let id = AppId::new("app").expect("an id");
        let rules = RULES.map(|(prefix, methods, access)| {
            let methods = methods
                .iter()
                .map(|name| name.parse::<Method>().expect("a method"));
            let access = Access::parse(access);
            PathRule::new(prefix, methods.collect(), access).expect("a rule")
        });
        let paths = PathRules::new(rules.to_vec()).expect("few");
        let spec = AppSpec::new(id, upstream, Access::User, Duration::from_secs(1));
        App::on_host(AppSpec { paths, ..spec })
    }

    /// The rules that apply, as texts.
    fn rules(app: &App, method: &str, path: &str) -> BTreeSet<String> {
        let method: Method = method.parse().expect("a method");
        let rules = rules_for(app, path, &method, false);
        rules
            .iter()
            .map(|index| app.rule(index).to_string())
            .collect()
    }

    #[test]
    fn the_most_specific_rule_decides_where_all_readers_agree() {
        let app = app();
        for (method, path, wanted) in [
            ("GET", "", "user"),
            ("GET", "/", "user"),
            ("GET", "/x", "user"),
            ("GET", "/opener", "user"),
            ("GET", "/open", "public"),
            ("POST", "/open/", "public"),
            ("GET", "/open/a%20b", "public"),
            ("GET", "/open/a%2Fb", "public"),
            ("GET", "/open//x", "public"),
            ("GET", "/open/not", "group:a"),
            ("GET", "/open/not/x", "group:a"),
            ("GET", "/open/nothing", "public"),
            ("POST", "/hook", "public"),
            ("GET", "/hook", "user"),
            ("PUT", "/hook/x", "user"),
            ("GET", "/admin/x", "group:readers"),
            ("HEAD", "/admin/x", "group:readers"),
            ("PUT", "/admin/x", "group:admins"),
            ("DELETE", "/data/1", "group:admins"),
            ("HEAD", "/data/1", "group:admins"),
            ("POST", "/data/1", "user"),
            ("OPTIONS", "/data/1", "user"),
        ] {
            let wanted = BTreeSet::from([wanted.to_owned()]);
            assert_eq!(rules(&app, method, path), wanted, "{method} {path}");
        }
    }

    #[test]
    fn every_rule_applies_that_a_reader_may_choose() {
        let app = app();
        for (method, path, wanted) in [
            (
                "GET",
                "/Admin/x",
                &["group:readers", "group:admins", "user"][..],
            ),
            ("PUT", "/%61dmin", &["group:admins", "user"]),
            ("PUT", "/admin;x=y", &["group:admins", "user"]),
            ("PUT", "//admin", &["group:admins", "user"]),
            ("PUT", "/./admin", &["group:admins", "user"]),
            ("PUT", "/admin.json", &["group:admins", "user"]),
            ("PUT", "/admin%2Fx", &["group:admins", "user"]),
            ("PUT", "/admin%5Cx", &["group:admins", "user"]),
            ("PUT", "/%25%36%31dmin", &["group:admins", "user"]),
            ("PUT", "/open/Not", &["group:a", "public"]),
            ("PUT", "/OPEN/not", &["group:a", "public", "user"]),
            ("delete", "/data/1", &["group:admins", "user"]),
            (
                "PUT",
                "/open/../x",
                &["group:a", "group:admins", "public", "user"],
            ),
            (
                "POST",
                "/open/%2e%2e/x",
                &["group:a", "group:admins", "public", "user"],
            ),
        ] {
            let wanted = wanted.iter().map(|rule| (*rule).to_owned()).collect();
            assert_eq!(rules(&app, method, path), wanted, "{method} {path}");
        }
    }

    #[test]
    fn a_preflight_keeps_the_rules_that_it_would_have() {
        let app = app();
        let rules = |is_free| rules_for(&app, "/admin/x", &Method::OPTIONS, is_free);
        assert!(!rules(false).is_for_preflight());
        assert!(rules(true).is_for_preflight());
        assert!(rules(true).iter().eq(rules(false).iter()));
    }

    /// Spellings of one path, by which a client may try to get around a rule.
    const SPELLING: &str = "(a|A|%61|%2561|%41)(d|%64)min(;x|%3bx|%20|%00|%2500|\\.js|%09|)";
    const LEAD: &str = "(/|//|/\\./|/%2e/|/;/|/x/\\.\\./|/x/%2e%2e/|/open/\\.\\./|%2f|/%5c)";

    proptest! {
        #[test]
        fn no_spelling_escapes_the_rule_of_a_path(
            lead in LEAD,
            name in SPELLING,
            rest in "(|/|/x|%2fx|/\\.\\./admin)",
        ) {
            let path = format!("{lead}{name}{rest}");
            let applied = rules(&app(), "PUT", &path);
            prop_assert!(applied.contains("group:admins"), "{path}: {applied:?}");
        }

        #[test]
        fn a_path_is_never_open_that_may_lead_elsewhere(rest in "[a-z/.;%2eE5cf]{0,12}") {
            let path = format!("/open/{rest}");
            let applied = rules(&app(), "PUT", &path);
            let decoded: Vec<u8> = percent_encoding::percent_decode(path.as_bytes()).collect();
            let decoded = String::from_utf8_lossy(&decoded).into_owned();
            let url = url::Url::parse(&format!("http://app.test{decoded}"));
            let read = url.map_or_else(|_| path.clone(), |url| url.path().to_owned());
            let is_below = read == "/open" || read.starts_with("/open/");
            prop_assert!(is_below || applied.contains("user"), "{path} {read} {applied:?}");
        }
    }
}
