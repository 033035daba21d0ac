//! Headers of requests: what apps get of them.

use super::{CANARY, ImportOutcome, import, import_oauth2_proxy, outcomes, settings_of, source};
use ImportOutcome::{Mapped, NotSupported};

/// Options beside the alpha configuration.
const OTHERS: &str = "provider = \"oidc\"\n\
    oidc_issuer_url = \"https://id.example.com\"\nclient_id = \"web\"\n\
    redirect_url = \"https://hub.example.com/oauth2/callback\"\nemail_domains = [\"example.com\"]\n";

#[test]
fn headers_of_the_alpha_configuration_are_those_of_the_apps() {
    let alpha = format!(
        "
upstreamConfig:
  upstreams:
  - {{id: web, path: /, uri: \"http://127.0.0.1:3000\"}}
injectRequestHeaders:
- {{name: X-Forwarded-User, values: [{{claim: user}}]}}
- {{name: X-Forwarded-Access-Token, values: [{{claimSource: {{claim: access_token}}}}]}}
- {{name: Remote-User, values: [{{claim: user}}]}}
- {{name: Remote-Groups, values: [{{claimSource: {{claim: groups}}}}]}}
- {{name: remote_user, values: [{{claim: email}}]}}
- {{name: Remote-Email, preserveRequestValue: true, values: [{{claim: email}}]}}
- {{name: X-Id, values: [{{claim: id_token}}]}}
- {{name: Authorization, values: [{{claim: access_token, prefix: \"Bearer \"}}]}}
- {{name: X-Forwarded-For, values: [{{claim: user}}]}}
- {{name: X-Key, values: [{{value: {CANARY}}}]}}
"
    );
    let sources = [source("proxy.cfg", OTHERS), source("alpha.yaml", &alpha)];
    let imported = import_oauth2_proxy(&sources, |_| None).expect("read");
    let shown = format!("{}{}", imported.file, imported.report);
    assert!(!shown.contains(CANARY), "{shown}");
    let written = "headers = { \"remote-user\" = \"{subject}\", \"remote-groups\" = \"{groups}\" }\n\
                   pass_access_token = true\n";
    assert!(imported.file.contains(written), "{shown}");
    let settings = settings_of(&imported);
    let app = &settings.apps[0];
    assert!(app.identity_headers && app.pass_access_token && app.headers.len() == 2);
    let lost = [4, 5, 6, 7, 8, 9];
    for number in 0..10 {
        let option = format!("injectRequestHeaders[{number}]");
        let expected = if lost.contains(&number) {
            NotSupported
        } else {
            Mapped
        };
        assert_eq!(
            outcomes(&imported, &option),
            [expected],
            "{option}\n{shown}"
        );
    }
}

#[test]
fn an_access_token_without_a_provider_is_a_comment() {
    let imported = import("pass_access_token = true\nupstreams = [\"http://127.0.0.1:1/\"]\n");
    assert!(imported.file.contains("\n# pass_access_token = true"));
    settings_of(&imported);
}
