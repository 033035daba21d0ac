//! Tables of sources, references and credentials.

use serde_json::{Value, json};

use super::*;

/// The texts of the errors of a source.
fn errors(source: Value) -> Vec<String> {
    let source = serde_json::from_value(source).expect("a source");
    let errors = validate_source(&source, "source", SourceRules::default());
    errors.into_iter().map(|error| error.text).collect()
}

fn helm(more: Value) -> Value {
    let mut source = json!({
        "url": "https://charts.example/x", "chartName": "c", "chartVersion": "1.0.0",
    });
    ludgate_cluster::merge_patch::apply(&mut source, &more);
    json!({ "helm": source })
}

fn git(more: Value) -> Value {
    let mut source = json!({ "remote": "https://git.example/a.git", "ref": { "branch": "main" } });
    ludgate_cluster::merge_patch::apply(&mut source, &more);
    json!({ "git": source })
}

fn no_errors() -> Vec<String> {
    Vec::new()
}

#[test]
fn there_is_exactly_one_source() {
    assert_eq!(errors(json!({})), ["no source provided"]);
    let mut both = helm(json!({}));
    ludgate_cluster::merge_patch::apply(&mut both, &git(json!({})));
    assert_eq!(errors(both), ["only one source type can be provided"]);
    assert_eq!(errors(helm(json!({}))), no_errors());
    assert_eq!(errors(git(json!({}))), no_errors());
}

#[test]
fn required_texts_are_not_empty() {
    for (source, count) in [
        (git(json!({ "remote": "" })), 1),
        (helm(json!({ "url": "" })), 2),
        (helm(json!({ "chartName": "" })), 1),
        (helm(json!({ "chartVersion": "" })), 1),
    ] {
        assert_eq!(errors(source.clone()).len(), count, "{source}");
    }
}

#[test]
fn a_repository_has_a_known_scheme_and_a_host() {
    let pattern = "should match '^(http|https|oci)://.+'";
    let valid = "value must be a valid URL";
    for (url, wanted) in [
        ("http://localhost/x", vec![]),
        ("https://e/x", vec![]),
        ("oci://localhost:5000/x", vec![]),
        ("", vec![pattern, valid]),
        ("http://", vec![pattern, valid]),
        ("https://", vec![pattern, valid]),
        ("oci://", vec![pattern, valid]),
        ("ssh://git.example/x", vec![pattern]),
    ] {
        assert_eq!(errors(helm(json!({ "url": url }))), wanted, "{url}");
    }
}

#[test]
fn flags_fit_to_the_scheme() {
    let (http, https, oci) = ("http://e.example", "https://e.example", "oci://e.example/x");
    let (local_https, local_oci) = ("https://localhost/x", "oci://localhost:5000/x");
    let (yes, no) = (Some(true), Some(false));
    // The address, `plainHTTP`, `insecure`, and whether the source is accepted.
    for (url, plain, insecure, wanted) in [
        (http, None, None, true),
        (http, yes, None, true),
        (http, no, None, false),
        (http, None, yes, false),
        (http, None, no, false),
        (http, yes, yes, false),
        (https, None, None, true),
        (local_https, None, None, false),
        (https, yes, None, false),
        (https, no, None, true),
        (https, None, yes, true),
        (https, None, no, true),
        (oci, None, None, true),
        (local_oci, None, None, true),
        (local_oci, no, None, false),
        (oci, yes, None, true),
        (oci, no, None, true),
        (oci, None, yes, true),
        (oci, None, no, true),
        (oci, yes, yes, false),
        (oci, yes, no, false),
    ] {
        let source = helm(json!({ "url": url, "plainHTTP": plain, "insecure": insecure }));
        let errors = errors(source.clone());
        assert_eq!(errors.is_empty(), wanted, "{source}: {errors:?}");
    }
}

#[test]
fn this_machine_has_several_names_and_tests_may_use_https_on_it() {
    for host in ["localhost", "LOCALHOST.", "127.0.0.1", "127.1.2.3", "[::1]"] {
        for url in [format!("https://{host}/x"), format!("oci://{host}/x")] {
            let source = helm(json!({ "url": url, "plainHTTP": false }));
            assert_eq!(errors(source).len(), 1, "{url}");
        }
    }
    let source = helm(json!({ "url": "https://localhost/x" }));
    let source = serde_json::from_value(source).expect("a source");
    let rules = SourceRules {
        allow_local_https: true,
    };
    assert_eq!(validate_source(&source, "source", rules), []);
}

#[test]
fn a_reference_is_a_branch_a_tag_or_a_commit_of_a_branch() {
    let none = "at least a branch, a tag  or a commint and branch must be defined";
    let tag = "tag can not be used in conjunction with branch or commit";
    let commit = "commit must be used in conjunction with branch";
    let pattern = "should match '^[a-f0-9]{40}$'";
    let sha = "0123456789abcdef0123456789abcdef01234567";
    let long = format!("{sha}0123456");
    let marked = sha.replace("012", "###");
    for (reference, wanted) in [
        (json!({ "branch": "main" }), None),
        (json!({ "tag": "v1" }), None),
        (json!({ "branch": "main", "commit": sha }), None),
        (json!({}), Some(none)),
        (json!({ "branch": "", "commit": "", "tag": "" }), Some(none)),
        (json!({ "tag": "v1", "commit": sha }), Some(tag)),
        (json!({ "tag": "v1", "branch": "main" }), Some(tag)),
        (json!({ "commit": sha }), Some(commit)),
        (json!({ "branch": "main", "commit": "abc" }), Some(pattern)),
        (json!({ "branch": "main", "commit": long }), Some(pattern)),
        (json!({ "branch": "main", "commit": marked }), Some(pattern)),
    ] {
        // A merge patch would keep the branch of the sample.
        let source = json!({ "git": { "remote": "https://git.example", "ref": reference } });
        let wanted: Vec<&str> = wanted.into_iter().collect();
        assert_eq!(errors(source), wanted, "{reference}");
    }
}

#[test]
fn credentials_of_a_repository_are_a_pair_or_a_file() {
    let secret = json!({ "name": "s", "key": "k" });
    let pair = "registryConfigFile can not be used in conjunction with username / password";
    let cases: [(&[&str], Option<&str>); 8] = [
        (&[], None),
        (&["username", "password"], None),
        (&["registryConfigFile"], None),
        (
            &["username"],
            Some("password must be specified with username"),
        ),
        (
            &["password"],
            Some("username must be specified  with password"),
        ),
        (&["username", "password", "registryConfigFile"], Some(pair)),
        (&["username", "registryConfigFile"], Some(pair)),
        (&["password", "registryConfigFile"], Some(pair)),
    ];
    for (fields, wanted) in cases {
        let credentials: Value = fields
            .iter()
            .map(|field| ((*field).to_owned(), secret.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let wanted: Vec<&str> = wanted.into_iter().collect();
        let found = errors(helm(json!({ "credentials": credentials })));
        assert_eq!(found, wanted, "{fields:?}");
    }
}

#[test]
fn credentials_of_a_git_server_fit_to_their_method() {
    let secret = json!({ "name": "s", "key": "k" });
    let cases: [(&str, &[&str], &[&str]); 9] = [
        ("token", &["token"], &[]),
        ("password", &["username", "password"], &[]),
        ("ssh-key", &["sshKey"], &[]),
        ("token", &[], &["token is required when method is token"]),
        (
            "password",
            &["password"],
            &["username is required when method is password"],
        ),
        (
            "password",
            &["username"],
            &["password is required when method is password"],
        ),
        (
            "password",
            &[],
            &[
                "username is required when method is password",
                "password is required when method is password",
            ],
        ),
        (
            "ssh-key",
            &[],
            &["sshKey is required when method is ssh-key"],
        ),
        (
            "unknown",
            &[],
            &[
                "Unsupported value: \"unknown\": supported values: \"password\", \"token\", \
                 \"ssh-key\"",
                "unknown method",
            ],
        ),
    ];
    for (method, fields, wanted) in cases {
        let mut credentials = json!({ "method": method });
        for field in fields {
            credentials[*field] = secret.clone();
        }
        let found = errors(git(json!({ "credentials": credentials })));
        assert_eq!(found, wanted, "{method} {fields:?}");
    }
}
