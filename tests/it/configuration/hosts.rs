//! Hosts of apps and published ports.

use std::path::Path;

use ludgate::settings;

fn parse(text: &str) -> Result<settings::Settings, settings::ConfigErrors> {
    settings::parse(text, Path::new("."), std::iter::empty())
}

#[test]
fn hosts_and_published_ports_are_read_and_every_mistake_about_them_is_named() {
    let site = "[site]\nurl = \"https://hub.example.com\"\n";
    let app = "[[apps]]\nid = \"web\"\nupstream = \"http://10.0.0.1:5000\"\naccess = \"user\"\n";
    let domain = "apps_domain = \"apps.example.net\"\n";
    let ports =
        "published_ports = { \"80\" = { access = \"public\", label = \"Web\" }, \"9\" = {} }\n";
    let fine = parse(&format!("{site}{domain}{app}{ports}"))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert!(fine.warnings.is_empty(), "{:?}", fine.warnings);
    let read: Vec<_> = fine.apps[0]
        .published_ports
        .iter()
        .map(|port| (port.port, port.access.to_string()))
        .collect();
    assert_eq!(read, [(80, "public".to_owned()), (9, "user".to_owned())]);
    let near = parse(&format!("{site}apps_domain = \"apps.example.com\"\n")).expect("allowed");
    assert!(
        near.warnings[0].contains("both under example.com"),
        "{:?}",
        near.warnings
    );
    let clear = parse("[site]\napps_domain = \"apps.example.com\"\n").expect("allowed");
    assert!(
        clear.warnings[0].contains("travel in clear"),
        "{:?}",
        clear.warnings
    );
    assert!(
        parse("[site]\napps_domain = \"localhost\"\n")
            .expect("allowed")
            .warnings
            .is_empty()
    );
    let long = "a".repeat(59);
    for (text, key, what) in [
        (
            format!("{site}{app}{ports}"),
            "site.apps_domain",
            "is needed",
        ),
        (
            format!("{site}{app}isolation = \"host\"\n"),
            "site.apps_domain",
            "is needed",
        ),
        (
            format!("{site}{domain}{app}isolation = \"own\"\n"),
            "apps[0].isolation",
            "no isolation",
        ),
        (
            format!("{site}apps_domain = \"hub.example.com\"\n"),
            "site.apps_domain",
            "for example apps_domain = \"apps.example.net\"",
        ),
        (
            "[site]\nurl = \"http://localhost:8100\"\napps_domain = \"localhost\"\n".to_owned(),
            "site.apps_domain",
            "url = \"http://hub.localhost:8100\" and apps_domain = \"localhost\"",
        ),
        (
            format!("{site}apps_domain = \".example.com\"\n"),
            "site.apps_domain",
            "no lower-case host name",
        ),
        (
            format!(
                "{site}apps_domain = \"example.com\"\n{}",
                app.replace("web", "hub")
            ),
            "site.apps_domain",
            "gives the app hub the host of site.url",
        ),
        (
            format!(
                "{site}{domain}{}",
                app.replace("web", "zzzzz-dz642-xqhgmzqm1tyc3bs")
            ),
            "apps[0].id",
            "has the form of an Arvados uuid",
        ),
        (
            format!("{site}{domain}{app}published_ports = {{ \"080\" = {{}} }}\n"),
            "apps[0].published_ports",
            "is no port",
        ),
        (
            format!(
                "{site}{domain}{}published_ports = {{ \"10000\" = {{}} }}\n",
                app.replace("web", &long)
            ),
            "apps[0].published_ports",
            "longer than the 63 characters",
        ),
        (
            format!("{site}{domain}{app}published_ports = {{ \"80\" = {{ acess = \"user\" }} }}\n"),
            "apps[0].published_ports.80.acess",
            "did you mean access?",
        ),
        (
            format!(
                "{site}{domain}{app}published_ports = {{ \"80\" = {{ access = \"Public\" }} }}\n"
            ),
            "apps[0].published_ports.80.access",
            "is no access rule",
        ),
        (
            format!("{site}{domain}{app}published_ports = {{ \"80\" = true }}\n"),
            "apps[0].published_ports.80",
            "expected a table",
        ),
        (
            format!("{site}{domain}{app}published_ports = [80]\n"),
            "apps[0].published_ports",
            "expected a table",
        ),
        (
            format!("{site}{domain}[arvados]\napi = \"https://a.test/x\"\n"),
            "arvados.api",
            "must be an origin",
        ),
        (
            format!("{site}{domain}[arvados]\napi = \"http://a.test\"\n"),
            "arvados.api",
            "plain http",
        ),
        (
            format!("{site}{domain}[arvados]\napi = \"https://a.test\"\n"),
            "arvados.root_token_file",
            "is required",
        ),
    ] {
        let said = parse(&text).expect_err("a mistake").to_string();
        assert!(
            said.contains(key) && said.contains(what),
            "{key}: {what}\n{said}\n{text}"
        );
    }
}
