//! Upstreams in the configuration: how a socket is written, what is said about TLS, and how
//! each mistake is reported in the terms of the file.

use std::path::Path;

use ludgate::settings::{self, ConfigErrors, Settings};

use crate::support::tls_app::{Authority, Certificate};

fn parse(folder: &Path, text: &str) -> Result<Settings, ConfigErrors> {
    settings::parse(text, folder, std::iter::empty())
}

fn app(upstream: &str, more: &str) -> String {
    format!("[[apps]]\nid = \"web\"\naccess = \"user\"\nupstream = \"{upstream}\"\n{more}")
}

const HOSTS: &str =
    "[site]\nurl = \"https://hub.example.com\"\napps_domain = \"apps.example.net\"\n";

#[test]
fn a_socket_is_unix_and_one_absolute_path() {
    let longest = format!("unix:/{}", "s".repeat(106));
    for good in [
        "unix:/run/app/app.sock",
        "unix:/s",
        "unix:/srv/Ä b/..x/.sock",
        &longest,
    ] {
        let settings =
            parse(Path::new("."), &app(good, "")).unwrap_or_else(|m| panic!("{good}: {m}"));
        assert_eq!(settings.apps[0].upstream.to_string(), good);
        assert_eq!(settings.apps[0].upstream.authority(), "localhost");
        let console = format!("[site]\nconsole = \"{good}\"\n");
        assert!(
            parse(Path::new("."), &console).is_ok_and(|settings| settings.site.console.is_some())
        );
    }
    let too_long = format!("unix:/{}", "s".repeat(107));
    for (bad, what) in [
        ("unix:", "an absolute path"),
        ("unix:app.sock", "an absolute path"),
        ("unix:./app.sock", "an absolute path"),
        ("unix:@app", "an absolute path"),
        ("unix://app/app.sock", "one slash before it"),
        ("unix:///run/app.sock", "one slash before it"),
        ("unix:/", "no empty names"),
        ("unix:/run/", "no empty names"),
        ("unix:/run//app.sock", "no empty names"),
        ("unix:/run/../app.sock", "no .. in it"),
        ("unix:/run/./app.sock", "no . and"),
        ("unix:/run/app.sock:/base", "anything but the socket's path"),
        ("unix:/run/app.sock?x", "anything but the socket's path"),
        ("unix:/run/app.sock#x", "anything but the socket's path"),
        ("unix:/run/app%2Esock", "anything but the socket's path"),
        (
            "unix:/run/app\\u0000.sock",
            "anything but the socket's path",
        ),
        ("unix:/run/app\\n.sock", "anything but the socket's path"),
        ("UNIX:/run/app.sock", "must begin with"),
        ("http+unix:/run/app.sock", "must begin with"),
        (&too_long, "longer than"),
    ] {
        for (text, key) in [
            (app(bad, ""), "apps[0].upstream"),
            (format!("[site]\nconsole = \"{bad}\"\n"), "site.console"),
            (
                format!(
                    "{HOSTS}{}published_ports = {{ \"80\" = {{ upstream = \"{bad}\" }} }}\n",
                    app("http://10.0.0.1", "")
                ),
                "apps[0].published_ports.80.upstream",
            ),
        ] {
            let mistakes = parse(Path::new("."), &text).expect_err(bad);
            assert_eq!(mistakes.0.len(), 1, "{bad}: {mistakes}");
            assert_eq!(mistakes.0[0].key, key, "{bad}");
            assert!(mistakes.0[0].what.contains(what), "{bad}: {mistakes}");
        }
    }
}

#[test]
fn a_port_beside_a_socket_says_where_it_is() {
    let port = |table: &str| {
        format!(
            "{HOSTS}{}published_ports = {{ \"80\" = {table} }}\n",
            app("unix:/s", "")
        )
    };
    let mistakes = parse(Path::new("."), &port("{}")).expect_err("nowhere");
    assert_eq!(mistakes.0[0].key, "apps[0].published_ports.80.upstream");
    assert_eq!(mistakes.0[0].what, "is required");
    let fine = parse(Path::new("."), &port("{ upstream = \"unix:/t\" }"))
        .unwrap_or_else(|m| panic!("{m}"));
    let (spec, published) = (&fine.apps[0], &fine.apps[0].published_ports[0]);
    assert_eq!(
        spec.port(published)
            .expect("somewhere")
            .upstream
            .to_string(),
        "unix:/t"
    );
    // However it came to be without one: it does not lead to the app, which others may reach.
    let mut nowhere = published.clone();
    nowhere.upstream = None;
    assert_eq!(spec.port(&nowhere), None);
}

#[test]
fn what_tls_towards_an_app_must_hold_is_tried_out_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &str| {
        std::fs::write(folder.path().join(name), content).expect("written");
    };
    let authority = Authority::new();
    let (ours, other) = (authority.sign(&["ludgate"]), Certificate::self_signed(&[]));
    write("ca.crt", &authority.pem());
    write("our.crt", &ours.pem);
    write("our.key", &ours.key_pem());
    write("other.key", &other.key_pem());
    write("empty", "");
    let pin = format!("certificate_pin = \"{}\"\n", ours.pin());
    let shown = |certificate: &str, key: &str| {
        format!("client_certificate = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n")
    };
    let all = format!(
        "ca = \"ca.crt\"\nserver_name = \"app.internal\"\n{pin}{}",
        shown("our.crt", "our.key")
    );
    let settings =
        parse(folder.path(), &app("https://10.0.0.1", &all)).unwrap_or_else(|m| panic!("{m}"));
    let tls = &settings.apps[0].tls;
    assert!(
        tls.ca.is_some() && tls.pin.is_some() && tls.client_certificate.is_some(),
        "{tls:?}"
    );
    assert_eq!(
        tls.server_name
            .as_ref()
            .map(|name| name.to_str().into_owned())
            .as_deref(),
        Some("app.internal")
    );
    let secret = ours.key_pem().lines().nth(1).expect("base64").to_owned();
    assert!(
        !format!("{settings:?}").contains(&secret),
        "a key is not in what Debug prints"
    );
    // For the ports of an app whose own upstream is plain.
    let port = "published_ports = { \"80\" = { upstream = \"https://10.0.0.1\" } }\n";
    assert!(
        parse(
            folder.path(),
            &format!("{HOSTS}{}{port}", app("http://10.0.0.1", &all))
        )
        .is_ok()
    );
    let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for (more, key, what) in [
        (
            "server_name = \"a b\"\n".to_owned(),
            "server_name",
            "\"a b\" is no host name",
        ),
        (
            "server_name = \"\"\n".to_owned(),
            "server_name",
            "is no host name",
        ),
        (
            "server_name = \"https://app\"\n".to_owned(),
            "server_name",
            "is no host name",
        ),
        (
            format!("certificate_pin = \"sha256:{hex}\"\n"),
            "certificate_pin",
            "must be sha256: and the base64",
        ),
        (
            "certificate_pin = \"\"\n".to_owned(),
            "certificate_pin",
            "must be sha256: and the base64",
        ),
        (
            "certificate_pin = 3\n".to_owned(),
            "certificate_pin",
            "expected text",
        ),
        (
            "client_certificate = \"our.crt\"\n".to_owned(),
            "client_certificate",
            "expected a table",
        ),
        (
            "client_certificate = { certificate = \"our.crt\" }\n".to_owned(),
            "client_certificate",
            "expected a table",
        ),
        (
            shown("none", "our.key"),
            "client_certificate",
            "none cannot be read",
        ),
        (
            shown("our.crt", "none"),
            "client_certificate",
            "none cannot be read",
        ),
        (
            shown("empty", "our.key"),
            "client_certificate",
            "no PEM certificate",
        ),
        (
            shown("our.crt", "empty"),
            "client_certificate",
            "no PEM private key",
        ),
        (
            shown("our.crt", "other.key"),
            "client_certificate",
            "cannot be used",
        ),
        (
            "ca = \"empty\"\n".to_owned(),
            "ca",
            "holds no PEM certificate",
        ),
    ] {
        let mistakes = parse(folder.path(), &app("https://10.0.0.1", &more)).expect_err(&more);
        assert_eq!(mistakes.0.len(), 1, "{more}: {mistakes}");
        assert_eq!(mistakes.0[0].key, format!("apps[0].{key}"), "{more}");
        assert!(mistakes.0[0].what.contains(what), "{more}: {mistakes}");
        assert!(
            !mistakes.to_string().contains(&secret),
            "a key is not repeated"
        );
    }
    for upstream in ["http://10.0.0.1", "unix:/s"] {
        let mistakes =
            parse(folder.path(), &app(upstream, &all)).expect_err("nothing to hold it against");
        let keys: Vec<_> = mistakes
            .0
            .iter()
            .map(|mistake| mistake.key.as_str())
            .collect();
        assert_eq!(
            keys,
            ["ca", "server_name", "certificate_pin", "client_certificate"]
                .map(|key| format!("apps[0].{key}"))
        );
        assert!(
            mistakes
                .0
                .iter()
                .all(|mistake| mistake.what == "is for an https upstream, and there is none")
        );
    }
}
