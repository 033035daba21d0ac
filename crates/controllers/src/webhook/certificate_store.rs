//! Keeps the webhook's certificate in a Secret, and its authority in the webhook configurations.
//!
//! Every replica looks at the Secret once a minute. The first that finds a certificate due renews
//! it; the API server refuses the write of a second one, since the Secret has changed.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use ludgate_cluster::deadline::{ApiCallError, with_deadline};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use serde_json::json;

use super::certificate::WebhookCertificate;

/// Pause between two looks at the Secret.
const INTERVAL: Duration = Duration::from_secs(60);
/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(2);
/// Deadline of one call.
const DEADLINE: Duration = Duration::from_secs(10);

/// Names of the objects that the webhook needs. An operator makes them, so that the controller
/// needs no right to make objects of these kinds.
#[derive(Clone, Debug)]
pub struct CertificateSettings {
    /// DNS names and IP addresses under which the API server calls the webhook.
    pub names: Vec<String>,
    /// The namespace of the Secret.
    pub namespace: String,
    /// The Secret.
    pub secret: String,
    /// The ValidatingWebhookConfiguration and the MutatingWebhookConfiguration.
    pub configuration: String,
}

/// The reasons for which the certificate is not current.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A call of the API failed.
    #[error(transparent)]
    Api(#[from] ApiCallError),
    /// A name is neither a DNS name nor an IP address, or no key can be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The Secret has no valid certificate or key.
    #[error("the certificate in the Secret cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The certificate that new connections get; none before the first look at the Secret.
#[derive(Debug, Default)]
pub struct CurrentCertificate(ArcSwapOption<CertifiedKey>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// Renews the certificate.
pub struct CertificateStore {
    secrets: Api<Secret>,
    client: Client,
    settings: CertificateSettings,
    served: Arc<CurrentCertificate>,
}

impl CertificateStore {
    /// A store that puts the current certificate into `served`.
    pub fn new(
        client: Client,
        settings: CertificateSettings,
        served: Arc<CurrentCertificate>,
    ) -> CertificateStore {
        CertificateStore {
            secrets: Api::namespaced(client.clone(), &settings.namespace),
            client,
            settings,
            served,
        }
    }

    /// Runs until it is dropped. Calls `is_current` after the first success.
    pub async fn run(self, is_current: impl FnOnce()) {
        let mut first = Some(is_current);
        loop {
            let pause = match self.refresh().await {
                Ok(()) => {
                    if let Some(first) = first.take() {
                        first();
                    }
                    INTERVAL
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot refresh the webhook's certificate");
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads the certificate, renews it if due, serves it and publishes its authority.
    async fn refresh(&self) -> Result<(), CertificateError> {
        let secret = with_deadline(DEADLINE, self.secrets.get(&self.settings.secret)).await?;
        let stored = WebhookCertificate::from_secret(&secret);
        let now = Timestamp::now();
        let renewed = WebhookCertificate::renewed(stored.as_ref(), &self.settings.names, now)?;
        let current = match (renewed, stored) {
            (Some(renewed), _) => {
                self.store(&secret, &renewed).await?;
                tracing::info!(
                    secret = self.settings.secret,
                    "renewed the webhook's certificate"
                );
                renewed
            }
            (None, Some(stored)) => stored,
            // `renewed` makes one where none is stored.
            (None, None) => return Ok(()),
        };
        // Before the new certificate is served, so that the API server trusts it.
        self.publish::<ValidatingWebhookConfiguration>(&current)
            .await?;
        self.publish::<MutatingWebhookConfiguration>(&current)
            .await?;
        self.served
            .0
            .store(Some(Arc::new(certified_key(&current)?)));
        Ok(())
    }

    /// Writes the certificate, unless another replica has written one since `secret` was read.
    async fn store(
        &self,
        secret: &Secret,
        certificate: &WebhookCertificate,
    ) -> Result<(), ApiCallError> {
        let mut patch = certificate.to_patch();
        patch["metadata"]["resourceVersion"] = json!(secret.resource_version());
        let parameters = PatchParams::default();
        let patch = Patch::Merge(&patch);
        let written = self
            .secrets
            .patch(&self.settings.secret, &parameters, &patch);
        with_deadline(DEADLINE, written).await.map(|_| ())
    }

    /// Makes the API server trust the authority, in every webhook of a configuration.
    async fn publish<K: kube::Resource<DynamicType = ()>>(
        &self,
        certificate: &WebhookCertificate,
    ) -> Result<(), ApiCallError> {
        let kind = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        let name = &self.settings.configuration;
        let Some(configuration) = with_deadline(DEADLINE, api.get_opt(name)).await? else {
            // One of both may be unwanted.
            tracing::debug!(kind = kind.kind, name, "there is no such configuration");
            return Ok(());
        };
        let bundle = json!(ByteString(certificate.bundle.as_bytes().to_vec()));
        let webhooks = configuration.data["webhooks"].as_array();
        let outdated: Vec<_> = webhooks
            .into_iter()
            .flatten()
            .filter(|webhook| webhook["clientConfig"]["caBundle"] != bundle)
            .map(|webhook| {
                json!({ "name": webhook["name"], "clientConfig": { "caBundle": bundle } })
            })
            .collect();
        if outdated.is_empty() {
            return Ok(());
        }
        // Webhooks are merged by their names.
        let patch = Patch::Strategic(json!({ "webhooks": outdated }));
        let parameters = PatchParams::default();
        let written = api.patch(name, &parameters, &patch);
        with_deadline(DEADLINE, written).await.map(|_| ())
    }
}

fn certified_key(certificate: &WebhookCertificate) -> Result<CertifiedKey, CertificateError> {
    let bad = |_| rustls::Error::General("no PEM".to_owned());
    let chain = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(bad)?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).map_err(bad)?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Ok(CertifiedKey::from_der(chain, key, &provider)?)
}
