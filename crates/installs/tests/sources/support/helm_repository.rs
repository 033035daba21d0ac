//! A Helm repository with two charts, with or without a password.

use axum::response::Response;

use super::{
    BASIC,
    charts::{example, sha256},
    http_server::{FakeServer, SeenRequest, answer},
};

/// `examplechart` has a newer version and a pre-release.
const CHARTS: [(&str, &str); 4] = [
    ("examplechart", "0.1.0"),
    ("examplechart", "0.2.0"),
    ("examplechart", "0.3.0-rc.1"),
    ("examplechart2", "0.1.0"),
];

/// A repository that answers every client.
pub(crate) async fn start() -> FakeServer {
    FakeServer::start(|request, _| served(request)).await
}

/// A repository that wants the password.
pub(crate) async fn start_with_password() -> FakeServer {
    FakeServer::start(|request, _| match request.authorization() == BASIC {
        true => served(request),
        false => answer(401, &[("WWW-Authenticate", "Basic realm=\"charts\"")], ""),
    })
    .await
}

/// A repository with TLS.
pub(crate) async fn start_tls() -> FakeServer {
    FakeServer::start_tls(|request, _| served(request)).await
}

/// `http://` and the address.
pub(crate) fn url(server: &FakeServer) -> String {
    format!("http://{}", server.address)
}

fn served(request: &SeenRequest) -> Response {
    if request.target == "/index.yaml" {
        return answer(200, &[], index());
    }
    let found = CHARTS
        .iter()
        .find(|(name, version)| request.target == format!("/archives/{name}-{version}.tgz"));
    match found {
        Some((name, version)) => answer(200, &[], example(name, version)),
        None => answer(404, &[], ""),
    }
}

fn index() -> String {
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    for chart in ["examplechart", "examplechart2"] {
        text.push_str(&format!("  {chart}:\n"));
        for (name, version) in CHARTS.iter().filter(|(name, _)| *name == chart) {
            let digest = sha256(&example(name, version));
            text.push_str(&format!(
                "  - name: {name}\n    version: {version}\n    digest: {digest}\n    \
                 urls: [archives/{name}-{version}.tgz]\n"
            ));
        }
    }
    text
}
