//! Whole files: the example of the document, all three forms together, and arbitrary values.

use http::Method;
use proptest::prelude::*;

use super::super::{ImportOutcome, MAX_INPUT, import_oauth2_proxy};
use super::{CANARY, folder, import_with, outcomes, parse, rules, settings_of, source};
use crate::model::access::Access;

const DOCUMENT: &str = include_str!("../../../docs/migrating.md");

/// The blocks of code in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let parts = DOCUMENT.split("\n```\n");
    parts
        .filter_map(|part| part.rsplit_once(fence.as_str()))
        .map(|(_, code)| code)
        .collect()
}

#[test]
fn the_example_of_the_document_is_what_the_command_writes() {
    let blocks_of_toml = blocks("toml");
    let [before, after] = blocks_of_toml.as_slice() else {
        panic!(
            "the document has two examples, not {}",
            blocks_of_toml.len()
        );
    };
    let sources = [source("oauth2-proxy.cfg", before)];
    let imported = import_oauth2_proxy(&sources, |_| None).expect("read");
    assert_eq!(imported.file, format!("{after}\n"));
    let report = imported.report.to_string();
    for line in blocks("text").concat().lines() {
        assert!(report.lines().any(|it| it == line), "{line}\n{report}");
    }
    assert!(!imported.report.is_complete());
    settings_of(&imported);
}

#[test]
fn a_realistic_file_is_translated_without_its_secrets() {
    let text = format!(
        "## a team's dashboard\n\
         http_address = \"0.0.0.0:4180\"\n\
         metrics_address = \"127.0.0.1:9100\"\n\
         reverse_proxy = true\n\
         trusted_proxy_ips = [\"10.0.0.0/8\", \"0.0.0.0/0\"]\n\
         redirect_url = \"https://board.example.com/oauth2/callback\"\n\
         provider = \"keycloak-oidc\"\n\
         oidc_issuer_url = \"https://id.example.com/realms/hub\"\n\
         client_id = \"board\"\n\
         client_secret = \"{CANARY}\"\n\
         cookie_secret = \"{CANARY}\"\n\
         cookie_name = \"__Host-board\"\n\
         cookie_expire = \"8h\"\n\
         cookie_refresh = \"30m\"\n\
         cookie_csrf_per_request = true\n\
         session_store_type = \"redis\"\n\
         redis_connection_url = \"rediss://r.example.com:6380\"\n\
         redis_password = \"{CANARY}\"\n\
         email_domains = [\"example.com\"]\n\
         authenticated_emails_file = \"emails\"\n\
         allowed_groups = [\"/board\"]\n\
         upstreams = [\"http://127.0.0.1:3000/\", \"http://127.0.0.1:3001/api/\"]\n\
         skip_auth_routes = [\"GET=^/api/health$\", \"POST=^/api/hooks(/.*)?$\"]\n\
         skip_provider_button = true\n\
         basic_auth_password = \"{CANARY}\"\n\
         signature_key = \"sha256:{CANARY}\"\n\
         set_xauthrequest = true\n\
         request_logging = true\n\
         silence_ping_logging = true\n"
    );
    let emails = "# guests\nguest@partner.test\n\nno address\n*@partner.test\n";
    let read = |file: &str| (file == "emails").then(|| emails.to_owned());
    let imported = import_oauth2_proxy(&[source("board.cfg", &text)], read).expect("read");
    let shown = format!("{}{}", imported.file, imported.report);
    assert!(!shown.contains(CANARY), "{shown}");
    let settings = settings_of(&imported);
    let people = "all(any(email:*@example.com, email:guest@partner.test), claim:/groups=/board)";
    assert_eq!(rules(&settings, 0)[0], people);
    assert_eq!(settings.listen.address.to_string(), "0.0.0.0:4180");
    assert_eq!(settings.listen.trusted_proxies.len(), 1);
    assert_eq!(settings.admin.address.to_string(), "127.0.0.1:9100");
    let api = rules(&settings, 1);
    assert_eq!(api[0], "email:no-access@example.invalid");
    assert!(api.contains(&"POST/api/hooks public".to_owned()), "{api:?}");
    assert!(api.contains(&format!("/api {people}")), "{api:?}");
    assert_eq!(api.len(), 3, "the exact path stays protected: {api:?}");
}

#[test]
fn three_forms_are_one_configuration_in_which_variables_come_last() {
    let alpha = format!(
        "
providers:
- id: main
  provider: oidc
  clientID: alpha
  clientSecret: {CANARY}
  allowedGroups: [team]
  oidcConfig: {{issuerURL: \"https://id.example.com\", groupsClaim: groups}}
  loginURLParameters:
  - {{name: prompt, default: [login]}}
upstreamConfig:
  proxyRawPath: true
  upstreams:
  - {{id: Web App, path: /, uri: \"http://127.0.0.1:3000\", timeout: 45s, passHostHeader: false}}
  - {{id: old, path: \"^/old/(.*)$\", rewriteTarget: /new/$1, uri: \"http://127.0.0.1:3001\"}}
  - {{id: ok, path: /ok/, static: true, staticCode: 200}}
injectRequestHeaders:
- {{name: X-Forwarded-User, values: [{{claim: user}}]}}
- {{name: X-Team, values: [{{value: {CANARY}}}]}}
server: {{BindAddress: \"0.0.0.0:4180\"}}
"
    );
    let core =
        "email_domains = [\"example.com\"]\nredirect_url = \"https://a.test/oauth2/callback\"\n";
    let variables = format!(
        "PATH=/bin\n# a comment\nOAUTH2_PROXY_REDIRECT_URL=https://b.test/oauth2/callback\n\
         export OAUTH2_PROXY_COOKIE_SECRET=\"{CANARY}\"\nOAUTH2_PROXY_EMAIL_DOMAINS='x.test,y.test'\n"
    );
    let sources = [
        source("proxy.env", &variables),
        source("alpha.yaml", &alpha),
        source("core.cfg", core),
    ];
    let imported = import_oauth2_proxy(&sources, |_| None).expect("read");
    let shown = format!("{}{}", imported.file, imported.report);
    assert!(!shown.contains(CANARY), "{shown}");
    let settings = settings_of(&imported);
    assert_eq!(settings.site.origin.to_string(), "https://b.test");
    assert_eq!(settings.apps.len(), 1);
    assert_eq!(settings.apps[0].id.as_str(), "web-app");
    assert!(settings.apps[0].rewrite_host && settings.apps[0].identity_headers);
    assert_eq!(settings.apps[0].timeout.as_secs(), 45);
    let people = "all(any(email:*@x.test, email:*@y.test), group:team)";
    assert_eq!(rules(&settings, 0)[0], people);
    for (option, outcome) in [
        ("redirect_url", ImportOutcome::NotNeeded),
        ("OAUTH2_PROXY_REDIRECT_URL", ImportOutcome::Mapped),
        ("providers[0].clientID", ImportOutcome::Mapped),
        (
            "providers[0].loginURLParameters[0]",
            ImportOutcome::NotSupported,
        ),
        ("upstreamConfig.upstreams[0].uri", ImportOutcome::Mapped),
        (
            "upstreamConfig.upstreams[1].uri",
            ImportOutcome::NotSupported,
        ),
        (
            "upstreamConfig.upstreams[2].static",
            ImportOutcome::NotSupported,
        ),
        ("injectRequestHeaders[0]", ImportOutcome::Mapped),
        ("injectRequestHeaders[1]", ImportOutcome::NotSupported),
        ("server.BindAddress", ImportOutcome::Mapped),
    ] {
        assert_eq!(outcomes(&imported, option), [outcome], "{option}\n{shown}");
    }
}

#[test]
fn too_many_addresses_are_no_rule() {
    let emails: String = (0..40).map(|n| format!("p{n}@example.com\n")).collect();
    let text = "authenticated_emails_file = \"emails\"\nclient_id = \"a\"\n";
    let imported = import_oauth2_proxy(&[source("a", text)], |_| Some(emails.clone()));
    let imported = imported.expect("read");
    assert!(imported.file.is_ascii() && !imported.report.is_complete());
    assert!(!imported.file.contains("p1@example.com"));
}

#[test]
fn a_large_input_is_translated_or_refused() {
    let domains: Vec<String> = (0..50_000).map(|n| format!("\"d{n}.test\"")).collect();
    let imported = import_with(&format!("email_domains = [{}]", domains.join(",")));
    assert!(imported.file.contains("email:no-access@example.invalid"));
    let larger = "#".repeat(MAX_INPUT + 1);
    let errors = import_oauth2_proxy(&[source("a", &larger)], |_| None).expect_err("refused");
    assert!(errors.to_string().contains("larger than 1 MiB"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_value_opens_an_app_or_spoils_the_file(
        texts in proptest::collection::vec("[ -~ä\t]{0,24}", 6),
        route in "(GET=|POST=|!=)?\\^?/?[a-z/.*$()?|\\\\]{0,12}",
    ) {
        let toml = |text: &str| {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t");
            format!("\"{escaped}\"")
        };
        let [domain, group, client, scope, claim, host] = texts.as_slice() else {
            unreachable!("six texts");
        };
        let options = format!(
            "email_domains = [{}]\nallowed_groups = [{}]\nclient_id = {}\nscope = {}\n\
             oidc_groups_claim = {}\nupstreams = [\"http://127.0.0.1:3000/\", {}]\n\
             skip_auth_routes = [{}]",
            toml(domain), toml(group), toml(client), toml(scope), toml(claim), toml(host), toml(&route)
        );
        let imported = import_with(&options);
        let folder = folder();
        let parsed = parse(&imported.file, folder.path());
        let settings = match parsed {
            Ok(settings) => settings,
            Err(errors) => return Err(TestCaseError::fail(format!("{errors}\n{}", imported.file))),
        };
        for app in &settings.apps {
            prop_assert!(!matches!(app.access, Access::Public | Access::User), "{}", app.access);
            for (_, rule) in app.paths.iter().filter(|(_, rule)| *rule.access() == Access::Public) {
                // The expression is at least as wide as the rule.
                let written = route.split_once('^').map(|(_, expression)| expression);
                let prefix = rule.prefix();
                prop_assert!(written.is_some_and(|it| it.replace('\\', "").starts_with(prefix)));
                let has_method = route.starts_with("GET=") || route.starts_with("POST=");
                prop_assert_eq!(rule.methods().is_empty(), !has_method);
                prop_assert!(!rule.methods().contains(&Method::PUT));
            }
        }
    }
}
