//! The keys `max_age` and `acr` of an app: what it requires of a sign-in.

use std::time::Duration;

use super::{file::ConfigFile, section::ConfigSection};
use crate::model::{
    access::Access,
    app::AppSpec,
    authentication::{AuthenticationRequirement, InvalidRequirement},
};

/// A person needs some time from the provider to the app, and clocks differ.
const SHORTEST: Duration = Duration::from_secs(60);

/// What an app requires; `spec` is the rest of the app, if that is valid.
pub(super) fn authentication(
    file: &ConfigFile<'_>,
    app: &ConfigSection<'_>,
    spec: Option<&AppSpec>,
) -> Option<Box<AuthenticationRequirement>> {
    let name = ["max_age", "acr"].into_iter().find(|name| app.has(name))?;
    if !file.has("identity") {
        app.wrong(name, "needs [identity], where people sign in again", None);
    }
    if spec.is_some_and(|spec| !needs_person(spec)) {
        let what = "means nothing for an app that is public: no one signs in for it";
        app.wrong(name, what, None);
    }
    let max_age = app.duration("max_age");
    if max_age.is_some_and(|age| age < SHORTEST) {
        app.wrong("max_age", "must be at least 1m", None);
    }
    let values = app.texts("acr").unwrap_or_default();
    if app.has("acr") && values.is_empty() {
        app.wrong("acr", "must name a value, such as \"phr\"", None);
    }
    let contexts: Vec<&str> = values.iter().map(String::as_str).collect();
    match AuthenticationRequirement::new(max_age, &contexts) {
        Ok(requirement) => requirement.map(Box::new),
        Err(error) => {
            let name = match error {
                InvalidRequirement::MaxAge => "max_age",
                InvalidRequirement::Context | InvalidRequirement::TooMany => "acr",
            };
            app.wrong(name, error.to_string(), None);
            None
        }
    }
}

/// Whether some rule of the app, of its paths or of its ports asks for a person.
fn needs_person(spec: &AppSpec) -> bool {
    let paths = spec.paths.iter().map(|(_, rule)| rule.access());
    let ports = spec.published_ports.iter().map(|port| &port.access);
    let mut rules = std::iter::once(&spec.access).chain(paths).chain(ports);
    rules.any(|rule| *rule != Access::Public)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings;

    const IDENTITY: &str = "[identity]\nissuer = \"https://id.test\"\nclient_id = \"ludgate\"\n";

    fn read(identity: &str, keys: &str) -> Result<Option<AuthenticationRequirement>, String> {
        let text =
            format!("{identity}[[apps]]\nid = \"a\"\nupstream = \"http://a.test\"\n{keys}\n");
        let read = settings::parse(&text, Path::new("."), std::iter::empty());
        let settings = read.map_err(|errors| errors.to_string())?;
        Ok(settings.apps[0].authentication.as_deref().cloned())
    }

    #[test]
    fn an_app_requires_nothing_of_a_sign_in_unless_written() {
        for (keys, wanted) in [
            ("access = \"user\"", None),
            (
                "access = \"user\"\nmax_age = \"15m\"",
                Some("at most 900 s ago"),
            ),
            (
                "access = \"user\"\nmax_age = \"1m\"",
                Some("at most 60 s ago"),
            ),
            (
                "access = \"user\"\nacr = [\"a\", \"urn:b\"]",
                Some("acr a or urn:b"),
            ),
            (
                "access = \"group:g\"\nmax_age = \"1h\"\nacr = [\"a\"]",
                Some("at most 3600 s ago, acr a"),
            ),
            // Another rule than the app's own asks for a person.
            (
                "access = \"public\"\nmax_age = \"1h\"\n\
                 paths = [{ prefix = \"/x\", access = \"user\" }]",
                Some("at most 3600 s ago"),
            ),
        ] {
            let requirement = read(IDENTITY, keys).expect(keys);
            let text = requirement.map(|requirement| requirement.to_string());
            assert_eq!(text.as_deref(), wanted, "{keys}");
        }
    }

    #[test]
    fn what_no_sign_in_could_meet_is_refused() {
        let many = "\"a\", ".repeat(9);
        for (identity, keys, wanted) in [
            (
                IDENTITY,
                "max_age = \"59s\"",
                "apps[0].max_age: must be at least 1m",
            ),
            (
                IDENTITY,
                "max_age = \"0s\"",
                "apps[0].max_age: must be at least 1m",
            ),
            (IDENTITY, "max_age = 900", "apps[0].max_age"),
            (IDENTITY, "max_age = \"50000d\"", "is no number of seconds"),
            (IDENTITY, "acr = []", "apps[0].acr: must name a value"),
            (IDENTITY, "acr = \"gold\"", "apps[0].acr"),
            (IDENTITY, "acr = [\"\"]", "printable ASCII"),
            (IDENTITY, "acr = [\"a b\"]", "printable ASCII"),
            (IDENTITY, &*format!("acr = [{many}]"), "more than 8 values"),
            (IDENTITY, "maxage = \"1h\"", "did you mean max_age?"),
            ("", "max_age = \"1h\"", "apps[0].max_age: needs [identity]"),
            ("", "acr = [\"a\"]", "apps[0].acr: needs [identity]"),
        ] {
            let errors = read(identity, &format!("access = \"user\"\n{keys}"));
            let errors = errors.expect_err(keys);
            assert!(errors.contains(wanted), "{keys}: {errors}");
        }
        let errors = read(IDENTITY, "access = \"public\"\nmax_age = \"1h\"");
        let errors = errors.expect_err("refused");
        assert!(
            errors.contains("means nothing for an app that is public"),
            "{errors}"
        );
    }
}
