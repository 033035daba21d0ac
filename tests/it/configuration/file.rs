//! Configuration: all mistakes are reported at once, generated files are fresh, examples parse.

use std::{fs, path::Path, process::Command};

use crate::support::process::program;
use ludgate::settings::{self, reference};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn parse(text: &str) -> Result<settings::Settings, settings::ConfigErrors> {
    settings::parse(text, root(), std::iter::empty())
}

fn ludgate(arguments: &[&str]) -> std::process::Output {
    Command::new(program())
        .args(arguments)
        .output()
        .expect("the binary runs")
}

#[test]
fn the_generated_files_are_fresh() {
    for (file, fresh) in [
        ("config/ludgate.toml", reference::commented_file()),
        ("docs/configuration.md", reference::markdown()),
        (
            "config/crd/primehub.io.yaml",
            ludgate::commands::crd::documents(Some("primehub.io")).expect("YAML"),
        ),
        (
            "config/crd/kubeflow.org.yaml",
            ludgate::commands::crd::documents(Some("kubeflow.org")).expect("YAML"),
        ),
        (
            "config/crd/apps.kubermatic.k8c.io.yaml",
            ludgate::commands::crd::documents(Some("apps.kubermatic.k8c.io")).expect("YAML"),
        ),
    ] {
        let written = fs::read_to_string(root().join(file)).unwrap_or_default();
        assert!(written == fresh, "{file} is stale: run `make docs`");
    }
}

#[test]
fn the_printed_file_and_every_example_parse() {
    let printed = reference::commented_file();
    parse(&printed).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let every_key: String = printed
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .filter(|rest| rest.contains(" = ") || rest.starts_with('['))
                .unwrap_or(line)
        })
        .map(|line| format!("{line}\n"))
        .collect();
    // With every key switched on, all that is left to complain of are files that are not there.
    let mistakes = parse(&every_key).err().map(|m| m.0).unwrap_or_default();
    let unknown: Vec<_> = mistakes
        .iter()
        .filter(|m| m.what.contains("unknown") || m.key == "syntax")
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for entry in fs::read_dir(root().join("config/examples")).expect("examples") {
        let path = entry.expect("an entry").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            settings::load(&path)
                .unwrap_or_else(|mistakes| panic!("{}:\n{mistakes}", path.display()));
        }
    }
}

#[test]
fn unknown_keys_and_twelve_kinds_of_wrong_values_are_reported_in_one_run() {
    let file = root().join("tests/data/many-mistakes.toml");
    let output = ludgate(&["config", "check", file.to_str().expect("a path")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for (line, key, what) in [
        (3, "listen.adress", "did you mean address?"),
        (4, "listen.trusted_proxies", "0.0.0.0/0 is everybody"),
        (7, "admin.address", "is not an address and port"),
        (10, "site.url", "plain http is accepted on loopback only"),
        (11, "site.apps_prefix", "must be a path"),
        (12, "site.apps_domain", "no lower-case host name"),
        (15, "identity.issuer", "must be https"),
        (17, "identity.client_secret_file", "cannot be read"),
        (18, "identity.scopes", "expected a list of texts"),
        (21, "session.idle", "expected a duration"),
        (22, "session.lifetime", "expected a duration"),
        (23, "session.store", "is no database"),
        (24, "session.keys_file", "sample or is guessable"),
        (27, "limits.head_fields", "must be between 10 and 1000"),
        (28, "limits.head_bytes", "expected a size"),
        (31, "log.requests", "expected true or false"),
        (32, "log.level", "is no level"),
        (35, "apps[0].id", "lower-case letters"),
        (36, "apps[0].upstream", "must not have a path"),
        (37, "apps[0].access", "\"Public\" is no access rule"),
        (38, "apps[0].timout", "did you mean timeout?"),
        (44, "apps[2].id", "is given twice"),
        (49, "kubernets", "unknown key"),
    ] {
        let found = said
            .lines()
            .any(|row| row.starts_with(&format!("line {line}: {key}: ")));
        assert!(
            found && said.contains(what),
            "line {line}: {key}: {what}\n{said}"
        );
    }
    assert!(
        said.contains("apps[1].upstream: is required")
            && said.contains("apps[1].access: is required"),
        "{said}"
    );
    assert!(!said.contains("CANARY"), "a secret is not repeated");
}

#[test]
fn a_file_that_is_no_toml_or_not_there_is_said_so() {
    let output = ludgate(&["config", "check", "/nowhere/ludgate.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = "/nowhere/ludgate.toml:\nthe file: cannot be read: ";
    assert!(said.starts_with(expected), "{said}");
    let mistakes = parse("[listen\naddress = 1")
        .expect_err("no TOML")
        .to_string();
    assert!(mistakes.contains("line 1: syntax"), "{mistakes}");
    assert_eq!(
        ludgate(&["demo", "--listen", "0.0.0.0:0"]).status.code(),
        Some(2),
        "loopback only"
    );
}

#[test]
fn services_take_their_file_as_an_argument_or_with_config_and_not_both() {
    for service in ["gateway", "controller", "api", "labs"] {
        for arguments in [&["/nowhere"][..], &["--config", "/nowhere"]] {
            let output = ludgate(&[&[service][..], arguments].concat());
            assert_eq!(output.status.code(), Some(2), "{service} {arguments:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            let expected = "/nowhere:\nthe file: cannot be read: ";
            assert!(said.starts_with(expected), "{said}");
        }
        for (arguments, expected) in [
            (
                &["/nowhere", "--config", "/nowhere"][..],
                "cannot be used with",
            ),
            (&[], "required arguments were not provided"),
        ] {
            let output = ludgate(&[&[service][..], arguments].concat());
            assert_eq!(output.status.code(), Some(2), "bad usage: {service}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                said.contains(expected) && said.contains("--config <FILE>"),
                "{said}"
            );
        }
    }
}

#[test]
fn the_environment_overrides_scalars_and_nothing_else() {
    let with = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        settings::parse("[session]\nidle = \"1h\"\n", root(), pairs.into_iter())
    };
    let settings = with(&[
        ("LUDGATE_SESSION__IDLE", "10m"),
        ("LUDGATE_LISTEN__ADDRESS", "127.0.0.1:0"),
        ("LUDGATE_LOG__REQUESTS", "false"),
        ("PATH", "x"),
        ("LUDGATE_X", "y"),
    ]);
    let settings = settings.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(settings.session.idle.as_secs(), 600);
    assert!(!settings.log.requests);
    for (name, value) in [
        ("LUDGATE_SESSION__IDLE", "soon"),
        ("LUDGATE_SESSION__IDEL", "1m"),
        ("LUDGATE_SITE__CONSOLE_COOKIES", "a"),
        ("LUDGATE_NO__SUCH", "x"),
        ("LUDGATE_APPS__ACCESS", "public"),
    ] {
        let mistakes = with(&[(name, value)]).expect_err(name).to_string();
        assert!(mistakes.contains(name), "{mistakes}");
    }
}

#[test]
fn every_key_stands_in_the_printed_file_and_in_the_reference() {
    let (printed, reference) = (reference::commented_file(), reference::markdown());
    for key in settings::keys::all() {
        assert!(
            printed.contains(&format!("{} = ", key.name)),
            "{}.{}",
            key.section,
            key.name
        );
        assert!(
            reference.contains(&format!("| `{}` |", key.name)),
            "{}.{}",
            key.section,
            key.name
        );
    }
}

#[test]
fn what_could_only_fail_later_is_a_mistake_now() {
    for (text, key) in [
        ("[session]\ncookie = \"ludgate\"\n", "session.cookie"),
        ("[session]\ncookie = \"ludgate-bind\"\n", "session.cookie"),
        (
            "[session]\ncookie = \"a\"\n[site]\nconsole_cookies = [\"A\"]\n",
            "session.cookie",
        ),
        ("[limits]\nconnect = \"0s\"\n", "limits.connect"),
        ("[limits]\nresponse_head = \"0s\"\n", "limits.response_head"),
        ("[limits]\nrequest_head = \"0s\"\n", "limits.request_head"),
        (
            "[listen]\naddress = \"127.0.0.1:1\"\n[admin]\naddress = \"127.0.0.1:1\"\n",
            "admin.address",
        ),
        ("[log]\nlevel = \"warning\"\n", "log.level"),
        (
            "[listen]\nproxy_protocol_from = [\"0.0.0.0/0\"]\n",
            "listen.proxy_protocol_from",
        ),
        (
            "[listen]\nproxy_protocol_from = [\"::/0\"]\n",
            "listen.proxy_protocol_from",
        ),
        (
            "[listen]\nproxy_protocol_from = [\"balancer\"]\n",
            "listen.proxy_protocol_from",
        ),
        (
            "[limits]\nconnections_per_client = 0\n",
            "limits.connections_per_client",
        ),
        (
            "[site]\napps_prefix = \"/a\"\nendpoints = \"/a/b\"\n",
            "site.endpoints",
        ),
    ] {
        let mistakes = parse(text).expect_err(text);
        assert_eq!(mistakes.0.len(), 1, "{text}: {mistakes}");
        assert_eq!(mistakes.0[0].key, key, "{text}");
    }
    assert!(parse("[site]\napps_prefix = \"/apps\"\nendpoints = \"/apps-auth\"\n").is_ok());
    let wrong_kind = parse("[identity]\nissuer = 3\nclient_id = 3\n").expect_err("numbers");
    assert_eq!(wrong_kind.0.len(), 2, "once each: {wrong_kind}");
}

#[test]
fn everything_has_a_default_and_without_identity_there_is_none() {
    let settings = parse("").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert!(settings.identity.is_none() && settings.apps.is_empty());
    assert_eq!(&*settings.site.origin.text, "http://127.0.0.1:8080");
}

#[test]
fn secrets_are_not_in_what_debug_prints() {
    let text = "[identity]\nissuer = \"https://id.example\"\nclient_id = \"x\"\nclient_secret = \"CANARY-SECRET\"\n";
    let settings = parse(text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert!(!format!("{settings:?}").contains("CANARY"));
}

#[test]
fn explain_says_step_by_step_what_a_request_gets() {
    let file = root().join("config/examples/static.toml");
    let file = file.to_str().expect("a path");
    for (arguments, expected) in [
        (
            &["http://127.0.0.1:8080/apps/mlflow/x"][..],
            "decision  sign_in (anonymous)",
        ),
        (
            &["/apps/mlflow/x", "--user", "alice", "--group", "phusers"],
            "decision  allow (group)",
        ),
        (
            &["/apps/mlflow/x", "--user", "bob"],
            "decision  deny (not_in_group)",
        ),
        (
            &["/apps/mlflow/x", "--as", "fetch"],
            "decision  deny (anonymous)",
        ),
        (
            &[
                "/apps/mlflow/ws",
                "--as",
                "websocket",
                "--user",
                "a",
                "--group",
                "/phusers",
                "--origin",
                "http://127.0.0.1:8080",
            ],
            "decision  allow (group)",
        ),
        (
            &[
                "/apps/mlflow/ws",
                "--as",
                "websocket",
                "--user",
                "a",
                "--group",
                "phusers",
            ],
            "--origin http://127.0.0.1:8080\nclass     websocket\nroute     app mlflow\n",
        ),
        (
            &[
                "/apps/mlflow/ws",
                "--as",
                "websocket",
                "--user",
                "a",
                "--group",
                "phusers",
            ],
            "decision  deny (foreign_origin)",
        ),
        (
            &[
                "/apps/mlflow/ws",
                "--as",
                "websocket",
                "--user",
                "a",
                "--group",
                "phusers",
                "--origin",
                "http://evil",
            ],
            "decision  deny (foreign_origin)",
        ),
        (
            &[
                "/apps/notebook/",
                "--user",
                "carol",
                "--group",
                "platform-admins",
            ],
            "decision  allow (admin)",
        ),
        (
            &["/apps/docs/", "--method", "POST"],
            "decision  allow (public)",
        ),
        (
            &["/apps/docs/../mlflow/"],
            "decision  malformed (path_climbs)",
        ),
        (
            &["http://evil.example/apps/docs/"],
            "decision  malformed (unknown_host)",
        ),
        (&["/apps/none/"], "decision  deny (unknown_app)"),
        (&["/apps/mlflow"], "answer    308 to /apps/mlflow/"),
    ] {
        let output = ludgate(&[&["explain", "--config", file], arguments].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            said.contains(expected),
            "{arguments:?}: wanted {expected:?} in\n{said}"
        );
        assert!(
            !said.contains('{') && !said.contains('"'),
            "no text of ours for programmers: {said}"
        );
    }
}
