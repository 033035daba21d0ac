//! Lists of upstreams and health checks in the configuration, and how each mistake is reported.

use std::{path::Path, time::Duration};

use ludgate::settings::{self, ConfigErrors, Settings};

use crate::support::documents::blocks;

fn parse(keys: &str) -> Result<Settings, ConfigErrors> {
    let text = format!(
        "[site]\nurl = \"https://hub.example.com\"\napps_domain = \"apps.example.net\"\n\
         [[apps]]\nid = \"web\"\naccess = \"public\"\n{keys}\n"
    );
    settings::parse(&text, Path::new("."), std::iter::empty())
}

const SEVERAL: &str = "upstream = [\"http://10.0.0.1:80\", \"http://10.0.0.2:80\"]\n";

#[test]
fn one_upstream_is_a_text_or_a_list_and_several_are_a_list() {
    for one in ["\"http://10.0.0.1:81\"", "[\"http://10.0.0.1:81\"]"] {
        let settings =
            parse(&format!("upstream = {one}")).unwrap_or_else(|wrong| panic!("{wrong}"));
        let app = &settings.apps[0];
        assert_eq!(app.upstream_list().to_string(), "http://10.0.0.1:81");
        assert!(app.further_upstreams.is_empty() && !app.sticky && app.health.is_none());
    }
    let more = "sticky = true\nhealth = { path = \"/up\", interval = \"1m\", failures = 3 }";
    let settings = parse(&format!("{SEVERAL}{more}")).unwrap_or_else(|wrong| panic!("{wrong}"));
    let app = &settings.apps[0];
    let list = app.upstream_list().to_string();
    assert_eq!(list, "http://10.0.0.1, http://10.0.0.2");
    let health = app.health.as_ref().expect("a check");
    assert!(app.sticky);
    assert_eq!(
        (
            health.path.as_str(),
            health.interval,
            health.timeout,
            health.failures
        ),
        ("/up", Duration::from_secs(60), Duration::from_secs(2), 3)
    );
}

#[test]
fn wrong_lists_and_checks_are_mistakes_that_name_the_key() {
    let many = format!("upstream = {:?}", vec!["http://10.0.0.1"; 33]);
    let check = |keys: &str| format!("{SEVERAL}health = {{ {keys} }}");
    for (keys, key, what) in [
        (
            "upstream = []".to_owned(),
            "upstream",
            "must have from 1 to 32",
        ),
        (many, "upstream", "must have from 1 to 32"),
        (
            "upstream = [1]".to_owned(),
            "upstream",
            "expected text, or a list of texts",
        ),
        (
            "upstream = 1".to_owned(),
            "upstream",
            "expected text, or a list of texts",
        ),
        (
            "upstream = [\"http://a.test\", \"http://a.test:80\"]".to_owned(),
            "upstream",
            "is given twice",
        ),
        (
            "upstream = [\"http://a.test\", \"https://b.test\"]".to_owned(),
            "upstream",
            "of one scheme",
        ),
        (
            "upstream = [\"http://a.test\", \"http://b.test/x\"]".to_owned(),
            "upstream",
            "\"http://b.test/x\": must not have a path",
        ),
        (
            "upstream = \"http://a.test\"\nsticky = true".to_owned(),
            "sticky",
            "a list of upstreams",
        ),
        (
            format!("{SEVERAL}rewrite_host = true"),
            "rewrite_host",
            "one upstream",
        ),
        (
            format!("{SEVERAL}published_ports = {{ \"81\" = {{}} }}"),
            "published_ports.81.upstream",
            "is required",
        ),
        (
            format!("{SEVERAL}health = \"/up\""),
            "health",
            "expected a table",
        ),
        (check(""), "health.path", "is required"),
        (check("path = \"up\""), "health.path", "is no path"),
        (check("path = \"/a b\""), "health.path", "is no path"),
        (check("path = \"/a#b\""), "health.path", "is no path"),
        (
            check("path = \"http://a.test/\""),
            "health.path",
            "is no path",
        ),
        (
            check("path = \"/\", interval = \"99ms\""),
            "health.interval",
            "between 100ms and 1h",
        ),
        (
            check("path = \"/\", interval = \"2h\""),
            "health.interval",
            "between 100ms and 1h",
        ),
        (
            check("path = \"/\", timeout = \"0s\""),
            "health.timeout",
            "longer than nothing",
        ),
        (
            check("path = \"/\", timeout = \"61s\""),
            "health.timeout",
            "longer than 1m",
        ),
        (
            check("path = \"/\", failures = 0"),
            "health.failures",
            "between 1 and 100",
        ),
        (
            check("path = \"/\", pause = \"1s\""),
            "health.pause",
            "unknown key",
        ),
    ] {
        let mistakes = parse(&keys).expect_err(&keys);
        assert_eq!(mistakes.0.len(), 1, "{keys}: {mistakes}");
        assert_eq!(mistakes.0[0].key, format!("apps[0].{key}"), "{keys}");
        assert!(mistakes.0[0].what.contains(what), "{keys}: {mistakes}");
    }
}

#[test]
fn a_port_of_an_app_with_several_upstreams_has_one_of_its_own_and_no_check() {
    let port = "published_ports = { \"81\" = { upstream = \"http://10.0.0.3:81\" } }\n";
    let check = "sticky = true\nhealth = { path = \"/up\" }\n";
    let settings = parse(&format!("{SEVERAL}{check}{port}")).unwrap_or_else(|w| panic!("{w}"));
    let (app, published) = (&settings.apps[0], &settings.apps[0].published_ports[0]);
    let port = app.port(published).expect("an upstream");
    assert_eq!(port.upstream_list().to_string(), "http://10.0.0.3:81");
    assert!(port.health.is_none() && !port.sticky);
    // However it came to be without one: it does not lead to the app, whose rule differs.
    let mut nowhere = published.clone();
    nowhere.upstream = None;
    assert_eq!(app.port(&nowhere), None);
}

#[test]
fn the_documented_table_is_valid() {
    let document = include_str!("../../../docs/apps.md");
    let mut tables = blocks(document, "toml").into_iter();
    let table = tables.find(|table| table.contains("health ="));
    let table = table.expect("a table with a health check");
    let settings = settings::parse(table, Path::new("."), std::iter::empty());
    let settings = settings.unwrap_or_else(|wrong| panic!("{wrong}"));
    let app = &settings.apps[0];
    assert!(app.sticky && app.health.is_some() && app.further_upstreams.len() == 1);
}
