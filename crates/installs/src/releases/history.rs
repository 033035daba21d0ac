//! The revisions of one release, with their bodies: descriptions, times and charts.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::ListParams};
use ludgate_cluster::deadline::{ApiCallError, with_deadline};

use super::secret::{SELECTOR, decode_or_labels};
use crate::release::Release;

/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(20);
/// Secrets of one answer. Each has up to a MiB.
const PAGE: u32 = 10;
/// Maximum number of revisions of a release that are read: the newest ones. Helm keeps ten by
/// default.
const MAX_REVISIONS: usize = 200;

/// Reads the revisions of a release from the cluster, oldest first; of very many, the newest. One
/// whose body cannot be read has the name, number and state of its labels, and nothing else.
///
/// # Errors
/// See [`ApiCallError`].
pub async fn fetch_history(
    client: &Client,
    namespace: &str,
    release: &str,
) -> Result<Vec<Release>, ApiCallError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let selected = ListParams::default()
        .labels(&format!("{SELECTOR},name={release}"))
        .limit(PAGE);
    let mut history = Vec::new();
    let mut page = selected.clone();
    loop {
        let list = with_deadline(DEADLINE, api.list(&page)).await?;
        history.extend(decode_all(list.items).await);
        history.sort_by_key(|release: &Release| release.revision);
        history.drain(..history.len().saturating_sub(MAX_REVISIONS));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = selected.clone().continue_token(&token),
            None => break,
        }
    }
    Ok(history)
}

/// Not on a thread of the runtime: a body can have many MiB.
async fn decode_all(secrets: Vec<Secret>) -> Vec<Release> {
    let decode = move || secrets.iter().filter_map(decode_or_labels).collect();
    tokio::task::spawn_blocking(decode)
        .await
        .unwrap_or_default()
}
