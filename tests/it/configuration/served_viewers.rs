//! `[kubernetes.viewers]`: the prefix of viewers, and the template of their access rule.

use std::path::Path;

use ludgate::settings::{self, ConfigErrors, Settings};

fn parse(kubernetes: &str) -> Result<Settings, ConfigErrors> {
    let text = format!("[kubernetes]\nnamespace = \"hub\"\n{kubernetes}\n");
    settings::parse(&text, Path::new("."), std::iter::empty())
}

#[test]
fn viewers_have_a_prefix_and_an_access_rule() {
    let settings = parse("viewers = { access = \"group:ns-{namespace}\" }");
    let settings = settings.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(
        settings.site.viewers_prefix.as_deref(),
        Some("/pvcviewers"),
        "the default"
    );
    let warned = settings.warnings.join("\n");
    assert!(!warned.contains("viewer"), "{warned}");
    let settings = parse("viewers = { prefix = \"/data/view\" }");
    let settings = settings.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(settings.site.viewers_prefix.as_deref(), Some("/data/view"));
    let warned = settings.warnings.join("\n");
    assert!(warned.contains("nobody may open a viewer"), "{warned}");
    let settings = parse("").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(settings.site.viewers_prefix, None);
}

#[test]
fn a_wrong_prefix_or_access_rule_is_an_error_that_says_what_is_allowed() {
    let rule = "{label:<key>}";
    for (viewers, key, what) in [
        ("prefix = \"pvcviewers\"", "prefix", "plain segments"),
        ("prefix = \"/pvcviewers/\"", "prefix", "plain segments"),
        ("prefix = \"/apps\"", "prefix", "site.apps_prefix"),
        ("prefix = \"/apps/view\"", "prefix", "site.apps_prefix"),
        ("prefix = \"/oauth2\"", "prefix", "site.endpoints"),
        ("prefix = \"/api/view\"", "prefix", "/api"),
        ("prefix = \"/.ludgate/view\"", "prefix", "plain segments"),
        ("access = \"everybody\"", "access", rule),
        ("access = \"group:{team}\"", "access", rule),
        ("access = \"{label:access}\"", "access", rule),
        ("acces = \"user\"", "acces", "unknown key"),
    ] {
        let mistakes = parse(&format!("viewers = {{ {viewers} }}")).expect_err(viewers);
        assert_eq!(mistakes.0.len(), 1, "{viewers}: {mistakes}");
        let mistake = &mistakes.0[0];
        assert_eq!(mistake.key, format!("kubernetes.viewers.{key}"));
        assert!(mistake.what.contains(what), "{viewers}: {}", mistake.what);
    }
    let table = parse("viewers = true").expect_err("a switch");
    assert_eq!(table.0[0].key, "kubernetes.viewers");
}

#[test]
fn viewers_are_on_paths_so_they_exclude_isolation_by_host() {
    let text = "isolation = \"host\"\nviewers = {}\n[site]\napps_domain = \"apps.example.net\"";
    let mistakes = parse(text).expect_err("both");
    assert_eq!(mistakes.0.len(), 1, "{mistakes}");
    assert_eq!(mistakes.0[0].key, "kubernetes.viewers");
}
