//! Small inputs, each with its outcome.

use super::super::options;
use super::{CANARY, ImportOutcome, import, import_with, outcomes, rules, settings_of};
use ImportOutcome::{Default as Same, Mapped, NotNeeded, NotSupported, Unknown};

/// An option, its outcome, and a part of the written file.
const SMALL: &[(&str, ImportOutcome, &str)] = &[
    (
        "email_domains = [\"a.test\", \"b.test\"]",
        Mapped,
        "access = { any = [\"email:*@a.test\", \"email:*@b.test\"] }",
    ),
    (
        "email_domains = \"a.test\"",
        Mapped,
        "access = \"email:*@a.test\"",
    ),
    (
        "email_domains = [\"*\"]",
        Mapped,
        "access = \"claim:/email_verified=true\"",
    ),
    (
        "email_domains = [\"*\"]",
        Mapped,
        "claims = [\"/email_verified\"]",
    ),
    (
        "email_domains = [\".a.test\"]",
        NotSupported,
        "access = \"email:no-access@example.invalid\"",
    ),
    (
        "allowed_groups = [\"x\", \"y\"]",
        Mapped,
        "access = { all = [\"email:*@example.com\", { any = [\"group:x\", \"group:y\"] }] }",
    ),
    (
        "google_groups = [\"x\"]",
        NotNeeded,
        "access = \"email:*@example.com\"",
    ),
    (
        "skip_auth_routes = [\"GET=^/health\"]",
        Mapped,
        "prefix = \"/health\"\nmethods = [\"GET\"]\naccess = \"public\"",
    ),
    (
        "skip_auth_routes = [\"^/health\"]",
        Mapped,
        "prefix = \"/health\"\naccess = \"public\"",
    ),
    ("skip_auth_routes = [\"!=^/health\"]", NotSupported, ""),
    ("skip_auth_routes = [\"GET!=^/health\"]", NotSupported, ""),
    ("skip_auth_routes = [\"GET=^/a!=b\"]", NotSupported, ""),
    ("skip_auth_routes = [\"^/a!=b\"]", NotSupported, ""),
    ("skip_auth_routes = [\"=^/health\"]", NotSupported, ""),
    (
        "skip_auth_regex = [\"^/health\"]",
        Mapped,
        "prefix = \"/health\"\naccess = \"public\"",
    ),
    ("skip_auth_regex = [\"/health\"]", NotSupported, ""),
    (
        "skip_auth_regex = [\"^/static/\"]",
        NotSupported,
        "# prefix = \"/static\"\n# access = \"public\"",
    ),
    (
        "skip_auth_preflight = true",
        Mapped,
        "cors_preflight = true",
    ),
    (
        "authenticated_emails_file = \"emails\"",
        NotSupported,
        "access = \"email:*@example.com\"",
    ),
    ("htpasswd_file = \"people\"", NotSupported, ""),
    ("trusted_ips = [\"10.0.0.0/8\"]", NotSupported, ""),
    ("api_routes = [\"^/api\"]", NotNeeded, ""),
    (
        "upstreams = [\"https://app.test:8443\"]",
        Mapped,
        "upstream = \"https://app.test:8443\"",
    ),
    (
        "upstreams = [\"unix:///run/app.sock\"]",
        Mapped,
        "upstream = \"unix:/run/app.sock\"",
    ),
    ("upstreams = [\"static://202\"]", NotSupported, ""),
    (
        "upstreams = [\"file:///var/www/#/static/\"]",
        NotSupported,
        "",
    ),
    ("upstreams = [\"http://u:p@app.test\"]", NotSupported, ""),
    ("upstream_timeout = \"1m30s\"", Mapped, "timeout = \"90s\""),
    ("pass_host_header = false", Mapped, "rewrite_host = true"),
    ("pass_host_header = true", Same, ""),
    (
        "pass_access_token = true",
        Mapped,
        "\npass_access_token = true",
    ),
    ("pass_access_token = false", Same, ""),
    ("set_xauthrequest = true", NotSupported, ""),
    ("ssl_upstream_insecure_skip_verify = true", NotSupported, ""),
    (
        "http_address = \":4180\"",
        Mapped,
        "address = \"0.0.0.0:4180\"",
    ),
    (
        "http_address = \"http://[::1]:4180\"",
        Mapped,
        "address = \"[::1]:4180\"",
    ),
    (
        "http_address = \"unix:///run/p.sock\"",
        NotSupported,
        "address = \"127.0.0.1:4180\"",
    ),
    (
        "https_address = \":443\"",
        NotNeeded,
        "address = \"127.0.0.1:4180\"",
    ),
    (
        "metrics_address = \"127.0.0.1:9100\"",
        Mapped,
        "[admin]\naddress = \"127.0.0.1:9100\"",
    ),
    ("proxy_prefix = \"/auth\"", Mapped, "endpoints = \"/auth\""),
    ("proxy_prefix = \"/apps/x\"", NotSupported, ""),
    (
        "redirect_url = \"http://hub.example.com/oauth2/callback\"",
        NotSupported,
        "# url = ",
    ),
    ("reverse_proxy = true", NotSupported, "# trusted_proxies = "),
    ("reverse_proxy = false", Same, ""),
    ("real_client_ip_header = \"X-Real-IP\"", NotSupported, ""),
    ("ping_path = \"/ping\"", NotSupported, ""),
    ("request_logging = false", Mapped, "[log]\nrequests = false"),
    (
        "cookie_expire = \"168h0m0s\"",
        Mapped,
        "lifetime = \"168h\"",
    ),
    (
        "cookie_expire = \"10m\"",
        Mapped,
        "lifetime = \"10m\"\nidle = \"10m\"",
    ),
    ("cookie_expire = \"0s\"", NotSupported, ""),
    ("cookie_refresh = \"1h\"", NotNeeded, ""),
    ("cookie_samesite = \"lax\"", Same, ""),
    ("cookie_samesite = \"none\"", NotSupported, ""),
    ("session_store_type = \"cookie\"", NotNeeded, ""),
    ("redis_connection_url = \"redis://r.test\"", NotNeeded, ""),
    (
        "client_secret_file = \"client-secret\"",
        Mapped,
        "client_secret_file = \"client-secret\"",
    ),
    (
        "scope = \"openid email\"",
        Mapped,
        "scopes = [\"openid\", \"email\"]",
    ),
    (
        "oidc_groups_claim = \"realm_access.roles\"",
        Mapped,
        "groups_claim = \"/realm_access/roles\"",
    ),
    ("oidc_groups_claim = \"groups\"", Same, ""),
    (
        "oidc_email_claim = \"upn\"",
        NotSupported,
        "access = \"email:no-access@example.invalid\"",
    ),
    (
        "skip_jwt_bearer_tokens = true",
        Mapped,
        "audiences = [\"web\"]",
    ),
    ("skip_jwt_bearer_tokens = false", Mapped, "audiences = []"),
    (
        "insecure_oidc_allow_unverified_email = true",
        NotSupported,
        "",
    ),
    ("insecure_oidc_skip_nonce = true", NotNeeded, ""),
    ("code_challenge_method = \"S256\"", Same, ""),
    ("code_challenge_method = \"plain\"", NotSupported, ""),
    ("provider = \"github\"", NotSupported, "# [identity]"),
    ("whitelist_domains = [\".example.com\"]", NotNeeded, ""),
    ("banner = \"Hello\"", NotSupported, ""),
    ("banner = \"\"", Same, ""),
    ("signature_key = \"sha1:x\"", NotSupported, ""),
    (
        "emial_domains = [\"*\"]",
        Unknown,
        "access = \"email:no-access@example.invalid\"",
    ),
    (
        "Allowed_Groups = [\"x\"]",
        Mapped,
        "access = { all = [\"email:*@example.com\", \"group:x\"] }",
    ),
    (
        "allowed_groups = [\"\", \" \"]",
        NotSupported,
        "access = \"email:no-access@example.invalid\"",
    ),
    (
        "allowed_groups = []",
        Same,
        "access = \"email:*@example.com\"",
    ),
];

#[test]
fn small_inputs_have_an_answer_and_a_valid_file() {
    for (input, outcome, written) in SMALL {
        let imported = import_with(input);
        let option = input.split(' ').next().expect("an option");
        let found = outcomes(&imported, option);
        assert_eq!(found.last(), Some(outcome), "{input}\n{}", imported.report);
        assert!(
            imported.file.contains(written),
            "{input}\n{}",
            imported.file
        );
        settings_of(&imported);
    }
}

#[test]
fn rules_of_several_options_are_one() {
    let routes =
        "skip_auth_routes = [\"GET=^/a\", \"POST=^/a\", \"^/b\", \"GET=^/b\", \"PUT=^/c$\"]";
    let settings = settings_of(&import_with(routes));
    let wanted = ["email:*@example.com", "GET,POST/a public", "/b public"];
    assert_eq!(rules(&settings, 0), wanted);
    let realm = "provider = \"keycloak-oidc\"\nallowed_groups = [\"/g\"]\n\
                 allowed_roles = [\"admin\", \"c:r\"]\nemail_domains = [\"*\"]";
    let imported = import_with(realm);
    let clauses = "{ all = [\"claim:/email_verified=true\", { any = [\"claim:/groups=/g\", \
                   \"claim:/realm_access/roles=admin\", \"claim:/resource_access/c/roles=r\"] }] }";
    assert!(imported.file.contains(clauses), "{}", imported.file);
    settings_of(&imported);
}

#[test]
fn lists_that_oauth2_proxy_ignores_for_a_provider_admit_no_one_more() {
    for (provider, lists, wanted) in [
        (
            "keycloak",
            "keycloak_groups = [\"k\"]\nallowed_groups = [\"a\"]",
            "claim:/groups=k",
        ),
        (
            "keycloak-oidc",
            "keycloak_groups = [\"k\"]\nallowed_groups = [\"a\"]",
            "claim:/groups=a",
        ),
        (
            "gitlab",
            "gitlab_groups = [\"g\"]\nallowed_groups = [\"a\"]",
            "group:g",
        ),
        (
            "gitlab",
            "gitlab_groups = [\"g\"]\ngitlab_projects = [\"p/q\"]",
            "group:g",
        ),
        (
            "oidc",
            "gitlab_groups = [\"g\"]\nallowed_groups = [\"a\"]",
            "group:a",
        ),
        // It restricts no one by these, for which they were not written.
        ("keycloak", "allowed_groups = [\"a\"]", "claim:/groups=a"),
        (
            "keycloak-oidc",
            "keycloak_groups = [\"k\"]",
            "claim:/groups=k",
        ),
        ("gitlab", "allowed_groups = [\"a\"]", "group:a"),
    ] {
        let options = format!("provider = \"{provider}\"\n{lists}");
        let settings = settings_of(&import_with(&options));
        let wanted = format!("all(email:*@example.com, {wanted})");
        assert_eq!(rules(&settings, 0), [wanted], "{options}");
    }
}

#[test]
fn groups_with_a_slash_are_compared_exactly() {
    for (claim, pointer) in [
        ("groups", "/groups"),
        ("realm_access.roles", "/realm_access/roles"),
        ("https://id.test/~g", "/https:~1~1id.test~1~0g"),
    ] {
        let options = format!("allowed_groups = [\"/g\"]\noidc_groups_claim = \"{claim}\"");
        let imported = import_with(&options);
        let rule = format!("all(email:*@example.com, claim:{pointer}=/g)");
        assert_eq!(rules(&settings_of(&imported), 0), [rule]);
        let claims = format!("claims = [\"{pointer}\"]");
        assert!(imported.file.contains(&claims), "{}", imported.file);
    }
}

#[test]
fn restrictions_that_cannot_be_kept_admit_no_one() {
    for options in [
        "provider = \"google\"\ngoogle_groups = [\"g@example.com\"]",
        "provider = \"github\"\ngithub_org = \"o\"",
        "provider = \"gitlab\"\ngitlab_projects = [\"a/b\"]",
        "provider = \"gitlab\"\ngitlab_projects = [\"a/b\"]\nallowed_groups = [\"a\"]",
        "provider = \"google\"\ngoogle_groups = [\"g@example.com\"]\nallowed_groups = [\"a\"]",
        "provider = \"entra-id\"\nentra_id_allowed_tenants = [\"t\"]",
        "provider = \"entra-id\"\nentra_id_allowed_tenants = [\"t\"]\nallowed_groups = [\"a\"]",
        "allowed_groups = [\"/\"]",
        "oidc_email_claim = \"upn\"\nemail_domains = [\"*\"]",
        "email_domains = []",
        "allowed_groups = [\" \"]",
        "email_domains = [\" \"]",
        "provider = \"google\"\ngoogle_groups = [\"\"]",
        "alowed_groups = [\"x\"]",
    ] {
        let settings = settings_of(&import_with(options));
        let closed = ["email:no-access@example.invalid"];
        assert_eq!(rules(&settings, 0), closed, "{options}");
    }
}

#[test]
fn each_upstream_serves_the_paths_that_it_served() {
    let upstreams = "upstreams = [\"http://127.0.0.1:1/\", \"http://127.0.0.1:2/api/v2/\", \
                     \"http://127.0.0.1:3/one\", \"file:///www/#/files/\"]\n\
                     skip_auth_routes = [\"^/api/v2/health\", \"GET=^/api\", \"^/ping\"]";
    let imported = import_with(upstreams);
    let settings = settings_of(&imported);
    let ids: Vec<&str> = settings.apps.iter().map(|app| app.id.as_str()).collect();
    assert_eq!(ids, ["hub", "api-v2"]);
    let closed = "email:no-access@example.invalid";
    let wanted = [
        "email:*@example.com".to_owned(),
        format!("/api/v2 {closed}"),
        format!("/files {closed}"),
        "/ping public".to_owned(),
        format!("/one {closed}"),
        "GET/api public".to_owned(),
    ];
    let mut found = rules(&settings, 0);
    let mut wanted = wanted.to_vec();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    let wanted = [
        closed,
        "/api/v2/health public",
        "GET/api/v2 public",
        "/api/v2 email:*@example.com",
    ];
    assert_eq!(rules(&settings, 1), wanted);
    let answers = [Mapped, Mapped, NotSupported, NotSupported];
    assert_eq!(outcomes(&imported, "upstreams"), answers);
}

#[test]
fn issuers_are_derived_where_one_is_certain() {
    for (options, issuer) in [
        ("provider = \"google\"", Some("https://accounts.google.com")),
        ("provider = \"gitlab\"", Some("https://gitlab.com")),
        (
            "provider = \"azure\"\nazure_tenant = \"t-1\"",
            Some("https://login.microsoftonline.com/t-1/v2.0"),
        ),
        ("provider = \"azure\"\nazure_tenant = \"common\"", None),
        (
            "provider = \"keycloak\"\nlogin_url = \"https://k.test/realms/r/protocol/openid-connect/auth\"",
            Some("https://k.test/realms/r"),
        ),
        ("provider = \"oidc\"", None),
        ("provider = \"linkedin\"", None),
        (
            "provider = \"entra-id\"\noidc_issuer_url = \"https://login.microsoftonline.com/common/v2.0\"",
            None,
        ),
        (
            "provider = \"oidc\"\noidc_issuer_url = \"http://id.test\"",
            None,
        ),
    ] {
        let text = format!("{options}\nclient_id = \"web\"\nemail_domains = [\"*\"]\n");
        let imported = import(&text);
        let found = settings_of(&imported).identity;
        let found = found.map(|identity| identity.issuer.as_str().to_owned());
        assert_eq!(found.as_deref(), issuer, "{options}");
        assert_eq!(
            issuer.is_none(),
            imported
                .report
                .missing
                .iter()
                .any(|missing| missing.starts_with("identity.issuer")),
            "{options}"
        );
    }
}

#[test]
fn a_redis_becomes_the_store_and_its_password_is_not_written() {
    for (options, written) in [
        (
            "redis_connection_url = \"redis://127.0.0.1:6379/1\"",
            Some("store = \"redis://127.0.0.1:6379/1\""),
        ),
        (
            "redis_connection_url = \"unix:///run/redis.sock\"",
            Some("store = \"redis+unix:///run/redis.sock\""),
        ),
        (
            "redis_connection_url = \"redis://:CANARY-5f3a@127.0.0.1\"",
            Some("store_file = \"session-store\""),
        ),
        (
            "redis_connection_url = \"redis://127.0.0.1\"\nredis_password = \"CANARY-5f3a\"",
            Some("store_file = \"session-store\""),
        ),
        (
            "redis_connection_url = \"redis://127.0.0.1\"\nredis_use_sentinel = true",
            None,
        ),
        ("redis_connection_url = \"redis://127.0.0.1?db=1\"", None),
        ("redis_connection_url = \"r.test:6379\"", None),
        ("redis_password = \"CANARY-5f3a\"", None),
    ] {
        let text =
            format!("session_store_type = \"redis\"\ncookie_secret = \"{CANARY}\"\n{options}");
        let imported = import_with(&text);
        let keys = "keys_file = \"session-keys\"";
        assert_eq!(imported.file.contains(keys), written.is_some(), "{options}");
        let written = written.unwrap_or_default();
        assert!(
            imported.file.contains(written),
            "{options}\n{}",
            imported.file
        );
        let shown = format!("{}{}", imported.file, imported.report);
        assert!(!shown.contains(CANARY), "{shown}");
        settings_of(&imported);
    }
}

#[test]
fn each_documented_option_has_an_answer_of_its_own() {
    let documented = include_str!("../../../tests/data/oauth2-proxy-options.txt");
    let names: Vec<&str> = documented.lines().collect();
    assert_eq!(names.len(), 172);
    for name in &names {
        let entry = options::find(name).unwrap_or_else(|| panic!("{name} has no entry"));
        let sample = match entry.kind.words() {
            "text" => "\"x\"",
            "a list of texts" => "[\"x\"]",
            "true or false" => "true",
            "a whole number" => "1",
            _ => "\"1h\"",
        };
        let imported = import(&format!("{name} = {sample}\n"));
        assert!(!outcomes(&imported, name).is_empty(), "{name}");
        for line in &imported.report.lines {
            assert_ne!(line.outcome, Unknown, "{name}");
            let is_lost = line.explanation.contains("has no effect together");
            assert!(!is_lost, "{name} is translated by nothing");
        }
    }
    let own = options::all().filter(|entry| !entry.name.contains(['.', '[']));
    assert_eq!(own.count(), names.len(), "no other options");
}
