//! Paths that oauth2-proxy opens without a sign-in.

use std::collections::BTreeMap;

use super::{
    given::GivenOptions,
    report::ImportOutcome::{Mapped, NotSupported},
    route_pattern::RoutePattern,
};

/// Maximum number of prefixes that become rules: an app has at most 62 rules.
const MAX_PREFIXES: usize = 40;

/// Methods of a rule; empty: all.
pub(crate) type Methods = Vec<String>;

/// The paths.
#[derive(Default)]
pub(crate) struct OpenRoutes {
    /// Rules by prefix.
    pub(crate) rules: BTreeMap<String, Methods>,
    /// Rules that would open more than oauth2-proxy does, for a reader to decide.
    pub(crate) suggestions: Vec<(String, Methods)>,
}

/// Reads the options. All that is no plain prefix stays protected.
pub(crate) fn open_routes(options: &GivenOptions) -> OpenRoutes {
    let mut routes = OpenRoutes::default();
    for expression in options.texts("skip_auth_regex") {
        routes.add(options, "skip_auth_regex", &expression, "", &expression);
    }
    for route in options.texts("skip_auth_routes") {
        // oauth2-proxy takes a route with `!=` in any place for a negation, and cuts the text at
        // the first `=` or `!=`.
        let is_negated = route.contains("!=");
        let (method, expression) = route.split_once('=').unwrap_or(("", route.as_str()));
        let is_method = method.bytes().all(|byte| byte.is_ascii_alphabetic());
        let has_empty_method = route.starts_with('=');
        if is_negated || !is_method || has_empty_method {
            let what = format!("{route}: stays protected: only METHOD=^/prefix can become a rule");
            options.not_supported("skip_auth_routes", what);
            continue;
        }
        let method = method.to_ascii_uppercase();
        routes.add(options, "skip_auth_routes", &route, &method, expression);
    }
    routes
}

impl OpenRoutes {
    fn add(
        &mut self,
        options: &GivenOptions,
        option: &str,
        written: &str,
        method: &str,
        expression: &str,
    ) {
        let methods = Some(method.to_owned()).filter(|method| !method.is_empty());
        let methods: Methods = methods.into_iter().collect();
        let (outcome, what) = match RoutePattern::parse(expression) {
            RoutePattern::Prefix(prefix) if self.rules.len() < MAX_PREFIXES => {
                self.insert(prefix, methods);
                (Mapped, "apps.paths")
            }
            RoutePattern::Prefix(_) => (
                NotSupported,
                "stays protected: an app has at most 62 rules for paths",
            ),
            RoutePattern::Narrower(prefix) => {
                self.suggestions.push((prefix, methods));
                (
                    NotSupported,
                    "stays protected: a rule would be for more paths",
                )
            }
            RoutePattern::NoPrefix => (
                NotSupported,
                "stays protected: it is no plain prefix such as ^/health",
            ),
        };
        options.answer(option, outcome, format!("{written}: {what}"));
    }

    /// Two rules of one prefix become one.
    fn insert(&mut self, prefix: String, methods: Methods) {
        let Some(known) = self.rules.get_mut(&prefix) else {
            self.rules.insert(prefix, methods);
            return;
        };
        if known.is_empty() || methods.is_empty() {
            known.clear();
            return;
        }
        let new = methods.into_iter().filter(|it| !known.contains(it));
        let new: Methods = new.collect();
        known.extend(new);
    }
}
