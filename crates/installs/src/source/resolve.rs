//! Addresses of hosts, checked before a connection is opened.

use std::net::{IpAddr, SocketAddr};

use tokio::net::lookup_host;

use super::{error::SourceError, host_rules::HostRules};

/// The addresses of a host, in the order to try. The caller connects to these and resolves nothing
/// again, so that the name cannot lead elsewhere meanwhile. One address that is not permitted rules
/// out the host.
///
/// # Errors
/// Permanent if the rules refuse the host; transient if it has no address now.
pub(crate) async fn resolve(
    host: &str,
    port: u16,
    rules: &HostRules,
) -> Result<Vec<SocketAddr>, SourceError> {
    let host = bare(host);
    rules.check_host(host)?;
    // An address needs no server of names.
    let mut found = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => {
            let found = lookup_host((host, port)).await.map_err(|error| {
                tracing::info!(%error, host, "cannot resolve the host of a chart source");
                SourceError::transient(format!("the host {host:?} cannot be resolved"))
            })?;
            found.collect()
        }
    };
    if !found.iter().all(|address| rules.permits(address.ip())) {
        let what = format!("the host {host:?} is at an address that is not allowed for sources");
        return Err(SourceError::permanent(what));
    }
    if found.is_empty() {
        let what = format!("the host {host:?} has no address");
        return Err(SourceError::transient(what));
    }
    // Not every cluster has IPv6.
    found.sort_by_key(SocketAddr::is_ipv6);
    Ok(found)
}

/// A host without the brackets that URLs have around IPv6 addresses.
pub(crate) fn bare(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    inner.unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_of_clusters_are_refused_unless_listed() {
        for host in [
            "127.0.0.1",
            "[::1]",
            "10.96.0.1",
            "169.254.169.254",
            "[::ffff:10.0.0.1]",
        ] {
            let error = resolve(host, 443, &HostRules::default())
                .await
                .expect_err("refused");
            assert!(error.message().contains("not allowed"), "{host}: {error}");
        }
        let rules = HostRules {
            allowed_networks: vec!["127.0.0.0/8".parse().expect("a network")],
            ..HostRules::default()
        };
        let found = resolve("127.0.0.1", 80, &rules).await.expect("allowed");
        let wanted: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        assert_eq!(found, [wanted]);
        let public = resolve("1.1.1.1", 443, &HostRules::default()).await;
        assert_eq!(public.expect("allowed").len(), 1);
    }
}
