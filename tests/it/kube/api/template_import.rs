//! Templates from URLs: for administrators only, where that is on, and never from inside.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use ludgate::settings::ApiSettings;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::{CREATE, namespace, new_app};
use crate::support::{
    api::{Api, PLATFORM},
    kube_namespace::KubeNamespace,
    message::Reader,
    tls_app::Authority,
};

const IMPORT: &str = "mutation($url: String!) { importPhAppTemplateFromURL(url: $url) }";
const REPLACE: &str = "mutation($url: String!, $where: PhAppTemplateWhereUniqueInput!) { updatePhAppTemplateFromURL(url: $url, where: $where) }";
const TEMPLATES: &str = "{ phAppTemplates { id version description defaultEnvs { name } } }";

/// Pages by path: whole answers.
type Pages = Arc<Mutex<BTreeMap<String, String>>>;

/// A server of templates on this machine, with an authority of its own.
struct TemplateServer {
    address: SocketAddr,
    authority: Authority,
    pages: Pages,
    connections: Arc<AtomicUsize>,
}

impl TemplateServer {
    async fn start() -> TemplateServer {
        let authority = Authority::new();
        let certificate = authority.sign(&["localhost"]);
        let acceptor = TlsAcceptor::from(certificate.server(None, rustls::ALL_VERSIONS));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = TemplateServer {
            address: listener.local_addr().expect("an address"),
            authority,
            pages: Pages::default(),
            connections: Arc::default(),
        };
        let (pages, connections) = (server.pages.clone(), server.connections.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(answer(acceptor.clone(), stream, pages.clone()));
            }
        });
        server
    }

    /// Publishes a page, and returns its URL.
    fn publish(&self, path: &str, status: &str, body: &str) -> String {
        let length = body.len();
        let page = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
        let mut pages = self.pages.lock().expect("no panic");
        pages.insert(path.to_owned(), page);
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// An API that imports templates from this server only.
    async fn api(&self, namespace: &KubeNamespace) -> Api {
        let ca = self.authority.pem().into_bytes();
        let change = |settings: &mut ApiSettings| {
            let import = settings.service.import.as_mut().expect("it is on");
            import.ca = Some(ca);
            import.is_permitted = |address: IpAddr| address.is_loopback();
        };
        importing_api(namespace, change).await
    }
}

async fn answer(acceptor: TlsAcceptor, stream: TcpStream, pages: Pages) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let (read, mut write) = tokio::io::split(stream);
    let Ok(Some(head)) = Reader::new(read).head().await else {
        return;
    };
    let page = pages.lock().expect("no panic").get(head.target()).cloned();
    let page = page.unwrap_or_else(|| "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into());
    // The client may have read enough.
    let _ = write.write_all(page.as_bytes()).await;
    let _ = write.shutdown().await;
}

/// An API with the switch, and the rights that belong to it.
async fn importing_api(namespace: &KubeNamespace, change: impl FnOnce(&mut ApiSettings)) -> Api {
    namespace.grant("api.yaml").await;
    let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
    let platform = format!("template_import = true\n{PLATFORM}");
    let site = "https://hub.example.com";
    Api::with_change(&namespace.name, &kubeconfig, site, &platform, change).await
}

fn template(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: primehub.io/v1alpha1
kind: PhAppTemplate
metadata: {{ name: {name} }}
spec:
  name: Web
{spec}
  template:
    spec:
      httpPort: 8080
      podTemplate: {{ spec: {{ containers: [{{ name: web, image: \"web:1\" }}] }} }}
      svcTemplate: {{ spec: {{ ports: [{{ name: http, port: 8080 }}] }} }}
"
    )
}

fn at(url: &str) -> Value {
    json!({ "url": url })
}

fn replacing(id: &str, url: &str) -> Value {
    json!({ "url": url, "where": { "id": id } })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_imports_a_template_and_replaces_it_by_its_next_version() {
    let namespace = namespace().await;
    namespace.grant("template-import.yaml").await;
    let server = TemplateServer::start().await;
    let api = server.api(&namespace).await;
    let first = "  version: v1\n  description: Old.\n  defaultEnvs: [{ name: A }]";
    let url = server.publish("/web.yaml?raw=1", "200 OK", &template("web", first));
    for (query, variables) in [(IMPORT, at(&url)), (REPLACE, replacing("web", &url))] {
        let refused = api.error("alice", query, variables).await;
        assert_eq!(refused.0, "NOT_AUTH", "{query}");
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 0);

    let imported = api.data("carol", IMPORT, at(&url)).await;
    let imported = &imported["importPhAppTemplateFromURL"];
    assert_eq!(imported["metadata"]["name"], "web");
    assert_eq!(imported["spec"]["version"], "v1");
    let mut app = new_app("lab", "phusers");
    app["data"]["templateId"] = "web".into();
    api.data("alice", CREATE, app).await;
    let (code, said) = api.error("carol", IMPORT, at(&url)).await;
    assert_eq!(code, "RESOURCE_CONFLICT");
    assert!(said.contains("\"web\" already exists"), "{said}");

    let second = template("web", "  version: v2");
    let url = server.publish("/web-2.yaml", "200 OK", &second);
    let (code, said) = api.error("carol", REPLACE, replacing("other", &url)).await;
    let wanted = "where: the template at the URL is \"web\", not \"other\"";
    assert_eq!(
        (code.as_str(), said.as_str()),
        ("REQUEST_BODY_INVALID", wanted)
    );
    api.data("carol", REPLACE, replacing("web", &url)).await;
    let listed = api.data("alice", TEMPLATES, json!({})).await["phAppTemplates"].clone();
    let mut listed = listed.as_array().expect("a list").iter();
    let web = listed.find(|it| it["id"] == "web").expect("web");
    let wanted = json!({ "id": "web", "version": "v2", "description": null, "defaultEnvs": [] });
    assert_eq!(*web, wanted, "what the next version has not is gone");

    let unknown = template("unknown", "  version: v1");
    let url = server.publish("/unknown.yaml", "200 OK", &unknown);
    let (code, _) = api
        .error("carol", REPLACE, replacing("unknown", &url))
        .await;
    assert_eq!(code, "RESOURCE_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_template_is_refused_and_nothing_is_made() {
    let namespace = namespace().await;
    namespace.grant("template-import.yaml").await;
    let server = TemplateServer::start().await;
    let api = server.api(&namespace).await;
    let good = template("web", "  version: v1");
    let privileged = good.replace(
        "image: \"web:1\"",
        "image: \"web:1\", securityContext: { privileged: true }",
    );
    let large = format!("{good}#{}", " ".repeat(1 << 20));
    let redirect = format!(
        "302 Found\r\nLocation: {}",
        server.publish("/good.yaml", "200 OK", &good)
    );
    let plain = format!("http://localhost:{}/good.yaml", server.address.port());
    let status = "url: the server answered with HTTP status";
    let answer = "url: the server's answer is broken or larger than 1 MiB";
    let yaml = "Invalid PhAppTemplate yaml";
    for (url, wanted) in [
        (String::new(), "URL is required".to_owned()),
        (plain, "url: must begin with https://".to_owned()),
        (
            server.publish("/gone", "404 Not Found", &good),
            format!("{status} 404"),
        ),
        (
            server.publish("/moved", &redirect, ""),
            format!("{status} 302; redirects are not followed"),
        ),
        (
            server.publish("/large", "200 OK", &large),
            answer.to_owned(),
        ),
        (
            server.publish("/secret", "200 OK", "kind: Secret"),
            yaml.to_owned(),
        ),
        (
            server.publish("/privileged", "200 OK", &privileged),
            format!("{yaml}: spec."),
        ),
        (
            server.publish("/name", "200 OK", &template("A_B", "  version: v1")),
            format!("{yaml}: metadata.name: "),
        ),
    ] {
        let (code, said) = api.error("carol", IMPORT, at(&url)).await;
        assert_eq!(code, "REQUEST_BODY_INVALID", "{url}: {said}");
        assert!(said.starts_with(&wanted), "{url}: {said}");
    }
    let listed = api.data("carol", TEMPLATES, json!({})).await["phAppTemplates"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_server_inside_is_asked_and_nothing_is_imported_unless_that_is_on() {
    let namespace = namespace().await;
    let server = TemplateServer::start().await;
    let url = server.publish("/web.yaml", "200 OK", &template("web", "  version: v1"));
    let port = server.address.port();
    let api = importing_api(&namespace, |_| {}).await;
    let name = "url: must have a host name, not an address";
    for (url, wanted) in [
        (
            url.clone(),
            "url: the host is at an address that is not public",
        ),
        (format!("https://127.0.0.1:{port}/web.yaml"), name),
        (format!("https://2130706433:{port}/web.yaml"), name),
        (format!("https://[::1]:{port}/web.yaml"), name),
        (format!("https://[::ffff:127.0.0.1]:{port}/web.yaml"), name),
    ] {
        let (code, said) = api.error("carol", IMPORT, at(&url)).await;
        assert_eq!(
            (code.as_str(), said.as_str()),
            ("REQUEST_BODY_INVALID", wanted)
        );
    }
    let off = Api::start(&namespace).await;
    let (code, said) = off.error("carol", IMPORT, at(&url)).await;
    let wanted = "templates cannot be imported here: api.template_import is off";
    assert_eq!(
        (code.as_str(), said.as_str()),
        ("REQUEST_BODY_INVALID", wanted)
    );
    let (code, _) = off.error("alice", IMPORT, at(&url)).await;
    assert_eq!(code, "NOT_AUTH");
    assert_eq!(server.connections.load(Ordering::Relaxed), 0);

    // With the switch, and without its right.
    let without = server.api(&namespace).await;
    let (code, said) = without.error("carol", IMPORT, at(&url)).await;
    let wanted = "the cluster does not permit this";
    assert_eq!((code.as_str(), said.as_str()), ("API_UNAVAILABLE", wanted));
}
