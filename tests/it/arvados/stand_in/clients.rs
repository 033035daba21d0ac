//! Clients of the stand-in, written apart from it: what they compute and say is what Ludgate must.

use std::{net::SocketAddr, sync::Arc};

use aws_lc_rs::hmac;
use ludgate::ops::tls_client::config_for_any_certificate;
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt, ReadHalf, WriteHalf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::{
    arvados::{Arvados, Container, User},
    backend::Backend,
    message::{Message, Reader},
};

/// A TLS connection and the certificate seen on it.
pub struct Line {
    pub reader: Reader<ReadHalf<TlsStream<TcpStream>>>,
    writer: WriteHalf<TlsStream<TcpStream>>,
    pub certificate: Vec<u8>,
}

impl Line {
    pub async fn open(address: SocketAddr, config: Arc<ClientConfig>) -> Line {
        let stream = TcpStream::connect(address)
            .await
            .expect("the address is open");
        let name = ServerName::from(address.ip());
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .expect("a handshake");
        let leaf = stream
            .get_ref()
            .1
            .peer_certificates()
            .and_then(|chain| chain.first());
        let certificate = leaf.expect("a certificate").to_vec();
        let (reader, writer) = tokio::io::split(stream);
        Line {
            reader: Reader::new(reader),
            writer,
            certificate,
        }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.writer
            .write_all(bytes.as_ref())
            .await
            .expect("writable");
        self.writer.flush().await.expect("writable");
    }

    pub async fn answer(&mut self) -> Option<Message> {
        self.reader.message(false).await.ok().flatten()
    }
}

pub async fn cluster() -> Arvados {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Arvados::start().await
}

fn address_of(url: &str) -> SocketAddr {
    url.trim_start_matches("https://")
        .parse()
        .expect("an address")
}

/// One request to the API on a connection of its own; `None` when it closes without an answer.
pub async fn request(
    arvados: &Arvados,
    method: &str,
    target: &str,
    authorization: &str,
) -> Option<Message> {
    let config =
        ludgate::ops::tls_client::client_config(Some(arvados.ca_pem().as_bytes())).expect("a CA");
    let mut line = Line::open(address_of(&arvados.api()), config).await;
    let authorization = match authorization {
        "" => String::new(),
        value => format!("Authorization: {value}\r\n"),
    };
    line.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: api\r\n{authorization}\r\n"
    ))
    .await;
    line.answer().await
}

pub async fn get(arvados: &Arvados, path: &str, token: &str) -> Message {
    let target = format!("/arvados/v1/{path}");
    request(arvados, "GET", &target, &format!("Bearer {token}"))
        .await
        .expect("an answer")
}

/// A list, or one record, with these parameters.
pub async fn list(
    arvados: &Arvados,
    path: &str,
    token: &str,
    parameters: &[(&str, &str)],
) -> Message {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(parameters)
        .finish();
    get(arvados, &format!("{path}?{query}"), token).await
}

pub fn uuids(list: &Message) -> Vec<String> {
    let list = list.json();
    let items = list["items"].as_array().expect("items").iter();
    items
        .map(|item| item["uuid"].as_str().expect("a uuid").to_owned())
        .collect()
}

pub fn published() -> Value {
    json!({ "80": { "access": "private", "label": "web", "initial_path": "/a?b", "external_port": 2001,
        "base_url": "https://web.test:2001/", "initial_url": "https://web.test:2001/a?b" } })
}

/// A cluster with a container of alice's, whose port 80 is a recording app.
pub async fn running() -> (Arvados, User, Container, Backend) {
    let arvados = cluster().await;
    let alice = arvados.add_user("alice", false);
    let app = Backend::start("app").await;
    let container = arvados
        .add_container(&[&alice.uuid], published(), &[(80, app.address())])
        .await;
    (arvados, alice, container, app)
}

fn keyed_hash(key: &str, message: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), message);
    tag.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A connection to a container's gateway, and what must be said and heard on it.
pub struct Side {
    pub line: Line,
    container: String,
    pub authorization: String,
    pub proof: String,
}

impl Side {
    pub async fn open(arvados: &Arvados, container: &str) -> Side {
        let record = get(
            arvados,
            &format!("containers/{container}"),
            &arvados.root_token(),
        )
        .await
        .json();
        let address = record["gateway_address"]
            .as_str()
            .expect("a text")
            .parse()
            .expect("an address");
        // The proof header authenticates the container.
        let line = Line::open(address, config_for_any_certificate()).await;
        let key = keyed_hash(&arvados.root_token(), container.as_bytes());
        let authorization = keyed_hash(&key, &line.certificate);
        let proof = keyed_hash(&key, authorization.as_bytes());
        Side {
            line,
            container: container.to_owned(),
            authorization,
            proof,
        }
    }

    pub fn headers(&self, port: u16) -> String {
        format!(
            "X-Arvados-Container-Gateway-Uuid: {}\r\nX-Arvados-Container-Target-Port: {port}\r\nX-Arvados-Authorization: {}\r\n",
            self.container, self.authorization
        )
    }

    pub async fn request(&mut self, start: &str, headers: &str, body: &str) -> Message {
        self.line
            .send(format!(
                "{start} HTTP/1.1\r\nHost: app.test\r\n{headers}\r\n{body}"
            ))
            .await;
        self.line.answer().await.expect("an answer")
    }
}
