//! What is known of labs before and after the first lists, with an API server on loopback.

use std::{convert::Infallible, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::{future::BoxFuture, stream};
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::{config::LabsConfig, environment::SiteUrls, images::LabImage, options::ImageChoice};

const CONFIG: &str = "lab:
  namespacePrefix: userlabs
  volumes:
    - name: home
      source: { type: hostPath, path: /share }
  sizes:
    - size: small
      resources:
        limits: { cpu: 1, memory: 1Gi }
        requests: { cpu: 1, memory: 1Gi }
images:
  source: { type: docker, repository: a/b }
";

struct NoImages;

impl ResolveImage for NoImages {
    fn resolve<'a>(&'a self, _: &'a ImageChoice) -> BoxFuture<'a, Result<LabImage, LabError>> {
        Box::pin(async { Err(LabError::Unavailable("no images".to_owned())) })
    }
}

/// The object of a kind that belongs to the lab of rachel, which runs.
fn object(kind: &str) -> Option<Value> {
    let name = match kind {
        "namespaces" => "userlabs-rachel",
        "configmaps" => "rachel-nb-env",
        "pods" | "resourcequotas" => "rachel-nb",
        _ => return None,
    };
    let mut object = json!({ "metadata": {
        "name": name,
        "uid": kind,
        "resourceVersion": "1",
        "labels": { "nublado.lsst.io/category": "lab", "nublado.lsst.io/user": "rachel" },
    } });
    if kind != "namespaces" {
        object["metadata"]["namespace"] = "userlabs-rachel".into();
    }
    match kind {
        "configmaps" => {
            object["data"] = json!({
                "CPU_LIMIT": "1", "CPU_GUARANTEE": "1",
                "MEM_LIMIT": "1073741824", "MEM_GUARANTEE": "1073741824",
                "JUPYTER_IMAGE_SPEC": "docker.io/a/b:w_2077_43@sha256:1234",
                "JUPYTERHUB_SERVICE_PREFIX": "/nb/user/rachel/",
            });
        }
        "pods" => {
            let security = json!({ "runAsUser": 1101, "runAsGroup": 1101 });
            let container = json!({ "name": "notebook", "securityContext": security });
            object["spec"] = json!({ "containers": [container] });
            object["status"] = json!({ "phase": "Running" });
        }
        "resourcequotas" => {
            let hard = json!({ "limits.cpu": "2", "limits.memory": "2147483648" });
            object["spec"] = json!({ "hard": hard });
        }
        _ => {}
    }
    Some(object)
}

/// Answers lists, the one of pods only when it may. Watches show no changes, and there is no Lease.
async fn answer(uri: Uri, mut lists_pods: watch::Receiver<bool>) -> Response {
    let kind = uri.path().trim_start_matches("/api/v1/");
    let Some(object) = object(kind) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    if uri
        .query()
        .is_some_and(|query| query.contains("watch=true"))
    {
        let nothing = stream::pending::<Result<Bytes, Infallible>>();
        return Response::new(Body::from_stream(nothing));
    }
    if kind == "pods" {
        let _ = lists_pods.wait_for(|may| *may).await;
    }
    let list = json!({
        "apiVersion": "v1",
        "kind": "List",
        "metadata": { "resourceVersion": "1" },
        "items": [object],
    });
    list.to_string().into_response()
}

async fn service(lists_pods: watch::Receiver<bool>) -> LabService {
    // The client has TLS, although the server has none.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Uri = format!("http://{}/", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let router = Router::new().fallback(move |request: Request| {
        let uri = request.uri().clone();
        answer(uri, lists_pods.clone())
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let client = Client::try_from(kube::Config::new(url)).unwrap();
    let settings = LabServiceSettings {
        config: Arc::new(LabsConfig::from_yaml(CONFIG).unwrap()),
        dialect: Dialect::Nublado,
        urls: SiteUrls::default(),
        discovery: None,
        peers: Vec::new(),
        helper_image: None,
        namespace: "hub".to_owned(),
        lease: "ludgate-labs".to_owned(),
        identity: "this".to_owned(),
        store: None,
        watch: Duration::from_secs(60),
        max_calls: 4,
    };
    LabService::new(client, settings, Arc::new(NoImages), Clock::system())
}

#[tokio::test]
async fn until_all_labs_are_known_none_is_said_to_be_unknown() {
    let (may_list, lists_pods) = watch::channel(false);
    let service = service(lists_pods).await;
    tokio::spawn(
        service
            .clone()
            .run(watch::Sender::new(false), CancellationToken::new()),
    );
    let is_unavailable = |error: Option<LabError>| matches!(error, Some(LabError::Unavailable(_)));
    for username in ["rachel", "ross"] {
        assert!(is_unavailable(service.get(username).err()), "{username}");
        let events = service.events(username, None);
        assert!(is_unavailable(events.err()), "{username}");
    }
    assert!(is_unavailable(service.running().err()));

    may_list.send_replace(true);
    service.wait_until_ready().await;
    let lab = service.get("rachel").unwrap();
    assert_eq!((lab.status, lab.user.uid), (LabStatus::Running, 1101));
    assert!(lab.quota.is_some());
    assert_eq!(service.running(), Ok(vec!["rachel".to_owned()]));
    assert_eq!(service.get("ross"), Err(LabError::unknown_user("ross")));
    // It does not lead, so it starts and deletes nothing.
    let deletion = service.delete("rachel").await;
    assert!(is_unavailable(deletion.err()));
}
