//! Where labs may connect to.

use super::{
    decode::{Decode, Place, Section},
    value::ConfigValue,
};

/// Where labs may connect to, in the dialect of SQR-066.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressLimits {
    /// Networks of the cluster and of its nodes. Labs connect to all others only.
    pub cluster_networks: Vec<String>,
    /// Networks within those to which labs may connect, such as that of an NFS server.
    pub allowed_networks: Vec<String>,
}

impl EgressLimits {
    /// All private networks belong to the cluster.
    pub(super) fn private() -> EgressLimits {
        let networks = [
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",
            "169.254.0.0/16",
            "fc00::/7",
            "fe80::/10",
        ];
        EgressLimits {
            cluster_networks: networks.map(str::to_owned).into(),
            allowed_networks: Vec::new(),
        }
    }
}

impl Decode for EgressLimits {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<EgressLimits> {
        let mut section = Section::open(value, place)?;
        let limits = EgressLimits {
            cluster_networks: section
                .or("clusterNetworks", EgressLimits::private().cluster_networks),
            allowed_networks: section.or("allowedNetworks", Vec::new()),
        };
        for (name, networks) in [
            ("clusterNetworks", &limits.cluster_networks),
            ("allowedNetworks", &limits.allowed_networks),
        ] {
            for network in networks.iter().filter(|network| !is_network(network)) {
                section
                    .at(name)
                    .complain(format!("\"{network}\" is no network"));
            }
        }
        section.finish();
        Some(limits)
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    match (address.parse::<std::net::IpAddr>(), length.parse::<u8>()) {
        (Ok(std::net::IpAddr::V4(_)), Ok(length)) => length <= 32,
        (Ok(std::net::IpAddr::V6(_)), Ok(length)) => length <= 128,
        _ => false,
    }
}
