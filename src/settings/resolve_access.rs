//! Access rules of apps, of their published ports and of their paths.

use http::Method;

use super::{file::ConfigFile, keys, section::ConfigSection, values::MAX_CLAIMS};
use crate::{
    identity::oidc::OidcSettings,
    model::{
        access::{Access, clause::ClaimPointer},
        app::AppSpec,
        path_rule::{PathRule, PathRules},
    },
};

/// The rule of the key `access`, which is required. At run time an unknown rule denies; here its
/// author can still correct it.
pub(super) fn access(section: &ConfigSection<'_>) -> Option<Access> {
    let Some(written) = section.rule("access") else {
        // A value of the wrong kind was reported already.
        if !section.has("access") {
            section.missing("access");
        }
        return None;
    };
    match Access::from_written(&written) {
        Ok(access) => Some(access),
        Err(error) => {
            let example = keys::find(section.name, "access")
                .map(|key| format!("for example access = {}", key.example));
            section.wrong("access", error.to_string(), example);
            None
        }
    }
}

/// The rules of an app's paths. `None` only together with an error.
pub(super) fn path_rules(section: &ConfigSection<'_>) -> Option<PathRules> {
    let mut rules: Vec<PathRule> = Vec::new();
    let mut is_valid = true;
    section.each_path(|table| {
        let Some(rule) = path_rule(&table) else {
            is_valid = false;
            return;
        };
        if rules.iter().any(|other| other.conflicts_with(&rule)) {
            let what = "has another rule with a method of this one";
            table.wrong("prefix", what, None);
        }
        rules.push(rule);
    });
    let rules = PathRules::new(rules);
    if rules.is_none() {
        section.wrong("paths", "has more than 62 rules", None);
    }
    rules.filter(|_| is_valid)
}

fn path_rule(table: &ConfigSection<'_>) -> Option<PathRule> {
    let access = access(table);
    let methods = methods(table);
    let prefix = table.required("prefix", |text| {
        // Only the prefix can be wrong; the rest follows.
        PathRule::new(text, Vec::new(), Access::Public)
            .map(|_| text.to_owned())
            .map_err(str::to_owned)
    });
    PathRule::new(&prefix?, methods?, access?).ok()
}

/// The methods. They are case-sensitive, and all that are in use are upper-case.
fn methods(table: &ConfigSection<'_>) -> Option<Vec<Method>> {
    let read = |text: &String| {
        let is_upper = !text.bytes().any(|byte| byte.is_ascii_lowercase());
        let method = Method::from_bytes(text.as_bytes()).ok();
        let method = method.filter(|_| is_upper);
        if method.is_none() {
            table.wrong("methods", format!("{text:?} is no method"), None);
        }
        method
    };
    let texts = table.texts("methods").unwrap_or_default();
    texts.iter().map(read).collect()
}

/// The claims that are kept for access rules. `None` only together with an error.
pub(super) fn claims(identity: &ConfigSection<'_>) -> Option<Vec<ClaimPointer>> {
    let read = |text: &String| {
        let pointer = ClaimPointer::new(text);
        if pointer.is_none() {
            let what = format!("{text:?} is no JSON pointer without =, such as /department");
            identity.wrong("claims", what, None);
        }
        pointer
    };
    let texts = identity.texts("claims").unwrap_or_default();
    if texts.len() > MAX_CLAIMS {
        identity.wrong("claims", "are more than 16", None);
    }
    texts.iter().map(read).collect()
}

/// Checks that the claims are kept which the rules and headers of these apps name.
pub(super) fn check_claims(file: &ConfigFile<'_>, identity: &OidcSettings, apps: &[AppSpec]) {
    for app in apps {
        let in_headers = app.headers.iter().flat_map(|header| header.value.claims());
        for pointer in in_headers.filter(|pointer| !is_kept(identity, pointer)) {
            let what = format!("lacks {pointer}, which a header of {} names", app.id);
            file.section("identity").wrong("claims", what, None);
        }
        let paths = app.paths.iter().map(|(_, rule)| rule.access());
        let ports = app.published_ports.iter().map(|port| &port.access);
        for rule in std::iter::once(&app.access).chain(paths).chain(ports) {
            check_rule(file, identity, app.id.as_str(), rule);
        }
    }
}

/// Checks that the claims are kept which a rule names; `owner` has the rule.
pub(super) fn check_rule(
    file: &ConfigFile<'_>,
    identity: &OidcSettings,
    owner: &str,
    rule: &Access,
) {
    let named = rule.compound().into_iter().flat_map(|it| it.claims());
    for pointer in named.filter(|pointer| !is_kept(identity, pointer)) {
        let what = format!("lacks {pointer}, which an access rule of {owner} names");
        file.section("identity").wrong("claims", what, None);
    }
}

/// Whether a claim is kept of any issuer.
fn is_kept(identity: &OidcSettings, pointer: &ClaimPointer) -> bool {
    let others = identity.trusted_issuers.iter();
    let others = others.map(|issuer| &issuer.accounts.claims);
    let further = identity.providers.iter().map(|provider| &provider.claims);
    let mut others = others.chain(further);
    identity.claims.contains(pointer) || others.any(|claims| claims.contains(pointer))
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::*;
    use crate::settings::resolve_apps::apps;

    /// The access rules of the first app and of its paths, or the errors.
    fn read(keys: &str) -> Result<Vec<String>, String> {
        let text = format!("[[apps]]\nid = \"a\"\nupstream = \"http://a.test\"\n{keys}\n");
        let read = ConfigFile::read(&text, std::iter::empty(), |file| {
            let second = Duration::from_secs(1);
            apps(file, Path::new("."), second, second).pop()
        });
        let app = read.map_err(|errors| errors.to_string())?;
        let own = format!("{}", app.access);
        let paths = app.paths.iter().map(|(_, rule)| {
            let methods: Vec<&str> = rule.methods().iter().map(Method::as_str).collect();
            format!("{}{}/ {}", methods.join(" "), rule.prefix(), rule.access())
        });
        Ok(std::iter::once(own).chain(paths).collect())
    }

    #[test]
    fn a_rule_is_a_text_or_a_table() {
        for (keys, wanted) in [
            ("access = \"user\"", "user"),
            ("access = { any = [\"group:a\"] }", "group:a"),
            (
                "access = { any = [\"group:a\", { all = [\"user\", \"email:*@x.test\"] }] }",
                "any(group:a, all(user, email:*@x.test))",
            ),
            (
                "access.all = [\"user\", \"deny:owner:eve\"]",
                "user, deny:owner:eve",
            ),
        ] {
            assert_eq!(read(keys), Ok(vec![wanted.to_owned()]), "{keys}");
        }
        for (keys, wanted) in [
            ("", "apps[0].access: is required"),
            ("access = 7", "expected text, or a table with any or all"),
            (
                "access = [\"user\"]",
                "expected text, or a table with any or all",
            ),
            ("access = {}", "expected text, or a table with any or all"),
            (
                "access = { any = [], all = [] }",
                "expected text, or a table",
            ),
            (
                "access = { some = [\"user\"] }",
                "expected text, or a table",
            ),
            (
                "access = { any = [\"user\", 7] }",
                "expected text, or a table",
            ),
            ("access = { any = [] }", "has a list without a clause"),
            ("access = \"Public\"", "\"Public\" is no access rule"),
            (
                "access = { any = [\"user\", \"grp:a\"] }",
                "\"grp:a\" is no access rule",
            ),
            (
                "access = { any = [\"public\", \"deny:group:a\"] }",
                "without a sign-in",
            ),
            ("access = \"deny:group:a\"", "add \"user\""),
        ] {
            let errors = read(keys).expect_err(keys);
            assert!(errors.contains(wanted), "{keys}: {errors}");
        }
    }

    #[test]
    fn rules_of_paths_are_read_and_sorted() {
        let keys = "access = \"user\"\n\
                    [[apps.paths]]\nprefix = \"/\"\nmethods = [\"GET\"]\naccess = \"public\"\n\
                    [[apps.paths]]\nprefix = \"/hook\"\naccess = \"group:a\"\n\
                    [[apps.paths]]\nprefix = \"/hook\"\nmethods = [\"POST\", \"PUT\"]\naccess = \"public\"\n";
        let wanted = [
            "user",
            "POST PUT/hook/ public",
            "/hook/ group:a",
            "GET/ public",
        ];
        assert_eq!(read(keys), Ok(wanted.map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_claim_that_a_rule_names_must_be_kept() {
        let parse = |claims: &str, access: &str| {
            let text = format!(
                "[identity]\nissuer = \"http://127.0.0.1:9\"\nclient_id = \"ludgate\"\n{claims}\n\
                 [[apps]]\nid = \"a\"\nupstream = \"http://a.test\"\naccess = {access}\n"
            );
            let parsed = crate::settings::parse(&text, Path::new("."), std::iter::empty());
            parsed.map(|_| ()).map_err(|errors| errors.to_string())
        };
        let rule = "{ any = [\"group:a\", \"deny:claim:/d=x\"] }";
        assert_eq!(parse("claims = [\"/c\", \"/d\"]", rule), Ok(()));
        let errors = parse("claims = [\"/c\"]", rule).expect_err("refused");
        assert!(
            errors.contains("lacks /d, which an access rule of a names"),
            "{errors}"
        );
        let errors = parse("claims = [\"d\"]", "\"user\"").expect_err("refused");
        assert!(errors.contains("\"d\" is no JSON pointer"), "{errors}");
    }

    #[test]
    fn a_path_that_could_be_read_in_several_ways_is_no_prefix() {
        let rule = |keys: &str| read(&format!("access = \"user\"\n[[apps.paths]]\n{keys}"));
        for (keys, wanted) in [
            (
                "access = \"public\"",
                "apps[0].paths[0].prefix: is required",
            ),
            ("prefix = \"/a\"", "apps[0].paths[0].access: is required"),
            (
                "prefix = \"a\"\naccess = \"public\"",
                "must begin with a slash",
            ),
            (
                "prefix = \"/a/\"\naccess = \"public\"",
                "without a slash at the end",
            ),
            (
                "prefix = \"/%61\"\naccess = \"public\"",
                "must be a plain path",
            ),
            (
                "prefix = \"/a\"\naccess = \"public\"\nmethods = [\"get\"]",
                "\"get\" is no method",
            ),
            (
                "prefix = \"/a\"\naccess = \"public\"\nmethod = \"GET\"",
                "did you mean methods?",
            ),
            (
                "prefix = \"/a\"\naccess = \"public\"\n[[apps.paths]]\nprefix = \"/a\"\naccess = \"user\"",
                "has another rule with a method of this one",
            ),
        ] {
            let errors = rule(keys).expect_err(keys);
            assert!(errors.contains(wanted), "{keys}: {errors}");
        }
        let errors = read("access = \"user\"\npaths = \"/a\"").expect_err("refused");
        assert!(
            errors.contains("expected [[apps.paths]] tables"),
            "{errors}"
        );
    }
}
