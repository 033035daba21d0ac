//! Kubeconfigs that are accepted, and each reason to refuse one.

use super::*;

/// A change of a file.
type Change<'a> = &'a dyn Fn(&mut Value);

/// A PEM block in base64.
fn block(kind: &str) -> String {
    STANDARD.encode(format!(
        "-----BEGIN {kind}-----\nAQ==\n-----END {kind}-----\n"
    ))
}

fn file() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": "c",
        "clusters": [{ "name": "a", "cluster": {
            "server": "https://10.0.0.1:6443",
            "certificate-authority-data": block("CERTIFICATE"),
        } }],
        "users": [{ "name": "b", "user": { "token": "t0ken" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "a", "user": "b", "namespace": "x" } }],
    })
}

fn changed(change: impl FnOnce(&mut Value)) -> Result<TargetKubeconfig, String> {
    let mut file = file();
    change(&mut file);
    TargetKubeconfig::parse(&file.to_string()).map_err(|refused| refused.to_string())
}

#[test]
fn a_token_or_a_certificate_is_accepted() {
    let token = changed(|_| {}).expect("accepted");
    assert_eq!(token.server, "https://10.0.0.1:6443/");
    assert_eq!(
        token.to_value()["users"][0]["user"],
        json!({ "token": "t0ken" })
    );
    assert_eq!(
        format!("{token:?}"),
        "TargetKubeconfig { server: \"https://10.0.0.1:6443/\", .. }"
    );
    let (certificate, key) = (block("CERTIFICATE"), block("PRIVATE KEY"));
    let user = json!({ "client-certificate-data": certificate, "client-key-data": key });
    let with_certificate = changed(|file| file["users"][0]["user"] = user.clone());
    let with_certificate = with_certificate.expect("accepted");
    assert_eq!(with_certificate.to_value()["users"][0]["user"], user);
    let yaml = "clusters:\n- name: a\n  cluster: {server: 'https://h'}\nusers:\n- name: b\n  \
                user:\n    token: t\ncontexts:\n- name: c\n  context: {cluster: a, user: b}\n";
    let without = TargetKubeconfig::parse(yaml).expect("one context needs no name");
    assert_eq!((without.server.as_str(), without.ca), ("https://h/", None));
    let verified = |file: &mut Value| {
        file["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = false.into();
        file["users"][0]["user"]["extensions"] = json!([]);
    };
    assert!(changed(verified).is_ok());
}

#[test]
fn keys_that_start_programs_name_files_or_weaken_checks_are_refused() {
    for (list, key, value, reason) in [
        ("users", "exec", json!({ "command": "sh" }), STARTS_PROGRAM),
        (
            "users",
            "auth-provider",
            json!({ "name": "x" }),
            STARTS_PROGRAM,
        ),
        ("users", "tokenFile", json!("/token"), NAMES_FILE),
        ("users", "client-certificate", json!("/c"), NAMES_FILE),
        ("users", "client-key", json!("/k"), NAMES_FILE),
        ("users", "username", json!("u"), BASIC),
        ("users", "password", json!("p"), BASIC),
        ("users", "as", json!("admin"), IMPERSONATES),
        ("users", "as-groups", json!(["g"]), IMPERSONATES),
        ("users", "new", json!(1), "this key is not accepted"),
        (
            "clusters",
            "certificate-authority",
            json!("/ca"),
            NAMES_FILE,
        ),
        (
            "clusters",
            "insecure-skip-tls-verify",
            json!(true),
            "the server must be verified",
        ),
        (
            "clusters",
            "proxy-url",
            json!("http://p"),
            "a proxy is not accepted",
        ),
        (
            "clusters",
            "tls-server-name",
            json!("x"),
            "the certificate must have the name of the URL",
        ),
    ] {
        let part = list.trim_end_matches('s');
        let refused = changed(|file| file[list][0][part][key] = value.clone());
        let expected = format!("{list}[0].{part}.{key}: {reason}");
        assert_eq!(refused.expect_err("refused"), expected);
        // The same in an entry that no context names.
        let unused = changed(|file| {
            let mut entry = file[list][0].clone();
            entry["name"] = "unused".into();
            entry[part][key] = value.clone();
            file[list].as_array_mut().expect("a list").push(entry);
        });
        assert!(unused.expect_err("refused").contains("[1]"), "{key}");
    }
}

#[test]
fn what_is_missing_malformed_or_ambiguous_is_named() {
    let second = |file: &mut Value| {
        let context = json!({ "name": "d", "context": { "cluster": "a", "user": "b" } });
        file["contexts"]
            .as_array_mut()
            .expect("a list")
            .push(context);
    };
    let ambiguous = changed(|file| {
        second(file);
        file["current-context"] = Value::Null;
    });
    assert_eq!(
        ambiguous.expect_err("refused"),
        "the kubeconfig has no current-context, and not exactly one context"
    );
    let unknown = changed(|file| file["current-context"] = "z".into());
    assert_eq!(
        unknown.expect_err("refused"),
        "current-context names no context, or several"
    );
    let twice = changed(|file| {
        let cluster = file["clusters"][0].clone();
        file["clusters"]
            .as_array_mut()
            .expect("a list")
            .push(cluster);
    });
    assert!(
        twice
            .expect_err("refused")
            .starts_with("contexts[0].context.cluster is")
    );
    let cases: [(&str, Change<'_>); 10] = [
        ("clusters ", &|file| file["clusters"] = json!({})),
        ("users ", &|file| file["users"] = Value::Null),
        ("clusters[0].cluster ", &|file| {
            file["clusters"][0] = json!({ "name": "a" })
        }),
        ("contexts[0].context.user ", &|file| {
            file["contexts"][0]["context"]["user"] = "z".into();
        }),
        ("clusters[0].cluster.server ", &|file| {
            file["clusters"][0]["cluster"]["server"] = "http://h".into();
        }),
        ("clusters[0].cluster.server ", &|file| {
            file["clusters"][0]["cluster"]["server"] = "https://u:p@h".into();
        }),
        ("clusters[0].cluster.certificate-authority-data ", &|file| {
            file["clusters"][0]["cluster"]["certificate-authority-data"] = "/etc/ca".into();
        }),
        ("users[0].user ", &|file| {
            file["users"][0]["user"] = json!({})
        }),
        ("users[0].user ", &|file| {
            file["users"][0]["user"]["client-key-data"] = block("PRIVATE KEY").into();
        }),
        ("users[0].user.client-key-data ", &|file| {
            file["users"][0]["user"]["client-key-data"] = "AQ==".into();
        }),
    ];
    for (path, change) in cases {
        let refused = changed(change).expect_err("refused");
        assert!(refused.starts_with(path), "{refused}");
        assert!(
            !refused.contains("u:p") && !refused.contains("t0ken"),
            "{refused}"
        );
    }
}

#[test]
fn texts_that_are_no_kubeconfig_are_refused() {
    let long = format!("{}\n# {}", file(), "x".repeat(LONGEST));
    for text in ["", "a", "[1]", "{", long.as_str()] {
        let refused = TargetKubeconfig::parse(text).expect_err("refused");
        assert_eq!(refused, TargetRefused::Unreadable);
    }
}

#[tokio::test]
async fn a_configuration_has_the_server_and_deadlines_and_no_files() {
    let target = changed(|_| {}).expect("accepted");
    let silence = Duration::from_secs(7);
    let config = target.config(silence).await.expect("a configuration");
    assert_eq!(config.cluster_url, "https://10.0.0.1:6443/");
    assert_eq!(config.root_cert, Some(vec![vec![1]]));
    assert_eq!(config.read_timeout, Some(silence));
    assert!(!config.accept_invalid_certs && config.auth_info.exec.is_none());
    assert!(config.auth_info.token.is_some() && config.auth_info.token_file.is_none());
}
