//! An OCI registry with two charts, with or without a password or a token.

use axum::response::Response;
use serde_json::json;

use super::{
    BASIC,
    charts::{example, sha256},
    http_server::{FakeServer, SeenRequest, answer},
};

/// In the repository `charts/NAME`.
const CHARTS: [(&str, &str); 4] = [
    ("examplechart", "0.1.0"),
    ("examplechart", "0.2.0"),
    ("examplechart", "0.3.0-rc.1"),
    ("examplechart2", "0.1.0"),
];
const TOKEN: &str = "Bearer canary-token";

/// A registry that answers every client.
pub(crate) async fn start() -> FakeServer {
    FakeServer::start(|request, _| served(request)).await
}

/// A registry that wants the password with each request.
pub(crate) async fn start_with_password() -> FakeServer {
    FakeServer::start(|request, _| match request.authorization() == BASIC {
        true => served(request),
        false => answer(401, &[("WWW-Authenticate", "Basic realm=\"r\"")], ""),
    })
    .await
}

/// A registry that wants a token of its own server, which wants the password.
pub(crate) async fn start_with_tokens() -> FakeServer {
    FakeServer::start(|request, own| {
        let realm = format!("http://{own}/token");
        with_tokens(request, &realm)
    })
    .await
}

/// A registry with TLS.
pub(crate) async fn start_tls() -> FakeServer {
    FakeServer::start_tls(|request, _| served(request)).await
}

/// `oci://`, the address and the path.
pub(crate) fn url(server: &FakeServer) -> String {
    format!("oci://{}/charts", server.address)
}

/// The answer of a registry that wants tokens of a realm. It is a token server itself.
pub(crate) fn with_tokens(request: &SeenRequest, realm: &str) -> Response {
    if request.target.starts_with("/token") {
        return match request.authorization() == BASIC {
            true => answer(200, &[], r#"{"token": "canary-token", "expires_in": 300}"#),
            false => answer(401, &[], ""),
        };
    }
    if request.authorization() == TOKEN {
        return served(request);
    }
    let challenge = format!("Bearer realm=\"{realm}\",service=\"r\",scope=\"x:push\"");
    answer(401, &[("WWW-Authenticate", challenge.as_str())], "")
}

fn served(request: &SeenRequest) -> Response {
    let path = request.target.split('?').next().unwrap_or_default();
    let Some((name, rest)) = path
        .strip_prefix("/v2/charts/")
        .and_then(|path| path.split_once('/'))
    else {
        return answer(404, &[], "");
    };
    let charts = || CHARTS.iter().filter(|(chart, _)| *chart == name);
    if rest == "tags/list" && charts().next().is_some() {
        let tags: Vec<&str> = charts().map(|(_, version)| *version).collect();
        return answer(200, &[], json!({"name": name, "tags": tags}).to_string());
    }
    if let Some(tag) = rest.strip_prefix("manifests/")
        && let Some((_, version)) = charts().find(|(_, version)| *version == tag)
    {
        return answer(200, &[], manifest(&example(name, version)));
    }
    let digest = rest.strip_prefix("blobs/sha256:").unwrap_or_default();
    let mut archives = charts().map(|(_, version)| example(name, version));
    match archives.find(|archive| sha256(archive) == digest) {
        Some(archive) => answer(200, &[], archive),
        None => answer(404, &[], ""),
    }
}

/// The manifest of an archive, as Helm pushes it.
pub(crate) fn manifest(archive: &[u8]) -> String {
    let layer = json!({
        "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
        "digest": format!("sha256:{}", sha256(archive)),
        "size": archive.len(),
    });
    let config = json!({
        "mediaType": "application/vnd.cncf.helm.config.v1+json",
        "digest": format!("sha256:{}", sha256(b"{}")),
        "size": 2,
    });
    json!({"schemaVersion": 2, "config": config, "layers": [layer]}).to_string()
}
