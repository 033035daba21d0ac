//! An OpenID provider and a registry outside of the cluster, at one https address that pods reach.

use std::sync::Arc;

use ludgate::{demo::provider::keys::SigningKey, model::clock::Clock};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use crate::support::{
    message::{Message, Reader},
    tls_app::Authority,
};

/// The address of the first node, which is this machine.
const HOST: &str = "10.240.0.1";
/// The client of the hub at the provider.
const CLIENT: &str = "jupyterhub";
/// The secret of the client.
pub const CLIENT_SECRET: &str = "secret-of-the-hub";
/// Path of the provider.
const REALM: &str = "/realms/hub";
/// The tags of the image. All have its digest.
const TAGS: [&str; 2] = ["r1_0_0", "recommended"];

/// The running server.
pub struct Outside {
    /// Host and port.
    pub address: String,
    /// The certificate of its authority, as PEM.
    pub ca: String,
    site: Arc<Site>,
}

/// What it answers from.
struct Site {
    key: SigningKey,
    issuer: String,
    /// Digest of the image `labs/notebook`.
    digest: String,
}

impl Outside {
    /// Listens on a free port. `digest` gets the name of the image in this registry, and returns
    /// its digest.
    pub async fn start(digest: impl AsyncFnOnce(&str) -> String) -> Outside {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind((HOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let authority = Authority::new();
        let certificate = authority.sign(&[HOST]);
        let acceptor = TlsAcceptor::from(certificate.server(None, rustls::ALL_VERSIONS));
        let site = Arc::new(Site {
            key: SigningKey::new().expect("a key"),
            issuer: format!("https://{address}{REALM}"),
            digest: digest(&format!("{address}/labs/notebook")).await,
        });
        let shared = site.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), shared.clone()));
            }
        });
        Outside {
            address,
            ca: authority.pem(),
            site,
        }
    }

    /// The provider.
    pub fn issuer(&self) -> &str {
        &self.site.issuer
    }

    /// An access token of a person that an application of the hub's client got.
    pub fn person_token(&self, username: &str, uid: u32) -> String {
        let groups = json!([{ "name": username, "id": uid }]);
        let more = json!({ "uid": uid, "gid": uid, "groups": groups });
        self.site.token(username, &more)
    }
}

impl Site {
    fn token(&self, username: &str, more: &Value) -> String {
        let now = Clock::system().wall_seconds();
        let mut claims = json!({
            "iss": self.issuer,
            "aud": CLIENT,
            "azp": CLIENT,
            "sub": format!("id-of-{username}"),
            "preferred_username": username,
            "iat": now,
            "exp": now + 3600,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        let header = json!({ "alg": "ES256", "typ": "at+jwt", "kid": self.key.id() });
        self.key.sign(&header, &claims)
    }

    /// What the provider says about itself.
    fn metadata(&self) -> Value {
        let issuer = &self.issuer;
        json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/protocol/openid-connect/auth"),
            "token_endpoint": format!("{issuer}/protocol/openid-connect/token"),
            "jwks_uri": format!("{issuer}/protocol/openid-connect/certs"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// The token of the hub itself, for its secret.
    fn client_token(&self, form: &str) -> Option<Value> {
        let is_hub = [
            "grant_type=client_credentials".to_owned(),
            format!("client_id={CLIENT}"),
            format!("client_secret={CLIENT_SECRET}"),
        ]
        .iter()
        .all(|field| form.split('&').any(|found| found == field));
        let username = format!("service-account-{CLIENT}");
        let token = || self.token(&username, &json!({}));
        is_hub.then(|| json!({ "access_token": token(), "token_type": "Bearer" }))
    }

    /// Status, further header lines and body.
    fn answer(&self, request: &Message) -> (u16, String, String) {
        let target = request.target();
        let found = |body: Value| (200, String::new(), body.to_string());
        let absent = || (404, String::new(), String::new());
        if let Some(path) = target.strip_prefix(REALM) {
            return match path {
                "/.well-known/openid-configuration" => found(self.metadata()),
                "/protocol/openid-connect/certs" => {
                    found(json!({ "keys": [self.key.public_jwk()] }))
                }
                "/protocol/openid-connect/token" => match self.client_token(&request.text()) {
                    Some(answer) => found(answer),
                    None => (401, String::new(), String::new()),
                },
                _ => absent(),
            };
        }
        let path = target
            .strip_prefix("/v2/labs/notebook/")
            .unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        match path.strip_prefix("manifests/") {
            Some(tag) if TAGS.contains(&tag) => {
                let header = format!("Docker-Content-Digest: {}\r\n", self.digest);
                (200, header, String::new())
            }
            None if path == "tags/list" => found(json!({ "name": "labs/notebook", "tags": TAGS })),
            _ => absent(),
        }
    }
}

/// Answers one request. A client that breaks off gets no answer.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, site: Arc<Site>) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let (read, mut write) = tokio::io::split(stream);
    let mut reader = Reader::new(read);
    let Ok(Some(request)) = reader.message(false).await else {
        return;
    };
    let (status, more, body) = site.answer(&request);
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\n{more}\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = write.write_all(answer.as_bytes()).await;
    let _ = write.shutdown().await;
}
