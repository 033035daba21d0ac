//! The kubeconfig of one operation: an API server, and the account of one namespace.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::Config;
use ludgate_model::secret::Secret;
use serde_json::json;
use zeroize::Zeroizing;

/// How an API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiEndpoint {
    /// Its URL.
    pub server: String,
    /// Certificates of its CA as PEM; `None`: those of the system.
    pub ca: Option<String>,
    /// The name in its certificate, if it is not that of the URL.
    pub tls_server_name: Option<String>,
}

impl ApiEndpoint {
    /// The server of a client's configuration. Its credentials are not read.
    pub fn from_config(config: &Config) -> ApiEndpoint {
        let ca = config.root_cert.as_ref();
        ApiEndpoint {
            server: config.cluster_url.to_string(),
            ca: ca.map(|certificates| certificates.iter().map(|der| pem(der)).collect()),
            tls_server_name: config.tls_server_name.clone(),
        }
    }

    /// A kubeconfig with this token and no other credentials. It is JSON, which is YAML.
    pub fn kubeconfig(&self, namespace: &str, token: &Secret) -> Zeroizing<String> {
        let mut cluster = json!({ "server": self.server });
        if let Some(ca) = &self.ca {
            cluster["certificate-authority-data"] = STANDARD.encode(ca).into();
        }
        if let Some(name) = &self.tls_server_name {
            cluster["tls-server-name"] = name.as_str().into();
        }
        let context = json!({ "cluster": NAME, "user": NAME, "namespace": namespace });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": NAME,
            "clusters": [{ "name": NAME, "cluster": cluster }],
            "users": [{ "name": NAME, "user": { "token": token.expose() } }],
            "contexts": [{ "name": NAME, "context": context }],
        });
        Zeroizing::new(config.to_string())
    }
}

/// The name of the only context, cluster and user.
const NAME: &str = "target";

/// A certificate as PEM (RFC 7468, section 5).
fn pem(der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, following) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = following;
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_kubeconfig_has_one_cluster_and_the_token() {
        let endpoint = ApiEndpoint {
            server: "https://10.0.0.1:6443/".to_owned(),
            ca: Some("CA".to_owned()),
            tls_server_name: None,
        };
        let text = endpoint.kubeconfig("apps", &Secret::new("t0ken"));
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            read,
            json!({
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "target",
                "clusters": [{
                    "name": "target",
                    "cluster": {
                        "server": "https://10.0.0.1:6443/",
                        "certificate-authority-data": "Q0E=",
                    },
                }],
                "users": [{ "name": "target", "user": { "token": "t0ken" } }],
                "contexts": [{
                    "name": "target",
                    "context": { "cluster": "target", "user": "target", "namespace": "apps" },
                }],
            })
        );
    }

    #[test]
    fn the_endpoint_of_a_configuration_has_its_ca_as_pem() {
        let mut config = Config::new("https://cluster.example:6443".parse().expect("a URL"));
        config.root_cert = Some(vec![vec![1; 60], vec![2]]);
        config.tls_server_name = Some("kubernetes".to_owned());
        let endpoint = ApiEndpoint::from_config(&config);
        assert_eq!(endpoint.server, "https://cluster.example:6443/");
        assert_eq!(endpoint.tls_server_name.as_deref(), Some("kubernetes"));
        let ca = endpoint.ca.expect("a CA");
        let lines: Vec<&str> = ca.lines().collect();
        assert_eq!(lines.len(), 7);
        assert!(lines.iter().all(|line| line.len() <= 64), "{ca}");
        assert_eq!(
            lines[4..],
            [
                "-----BEGIN CERTIFICATE-----",
                "Ag==",
                "-----END CERTIFICATE-----"
            ]
        );
        config.root_cert = None;
        assert_eq!(ApiEndpoint::from_config(&config).ca, None);
    }
}
