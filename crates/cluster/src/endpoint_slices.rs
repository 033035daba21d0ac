//! The ready pods of a Service, from its EndpointSlices. Unknown fields are ignored, and an invalid
//! slice does not affect the others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kube::{Client, ResourceExt, api::ApiResource, discovery};
use serde::Deserialize;

use super::object::Object;

const GROUP: &str = "discovery.k8s.io";
/// Label of a slice with the name of its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Metadata services of clouds, which hand out the machine's credentials. Most clouds use a
/// link-local address instead.
const METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
];

/// The ready pods of one EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Name of the Service.
    pub service: String,
    /// Ready pods, not terminating.
    pub pods: Vec<ReadyPod>,
    /// The pods' ports, with the Service's names for them; an unnamed port has an empty name.
    pub ports: Vec<(String, u16)>,
}

/// A ready pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyPod {
    /// The first address of the endpoint.
    pub address: IpAddr,
    /// The pod's uid, where the slice has one.
    pub uid: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    conditions: Conditions,
    #[serde(default)]
    target_ref: Option<TargetRef>,
}

#[derive(Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize)]
struct TargetRef {
    uid: Option<String>,
}

#[derive(Deserialize)]
struct Port {
    name: Option<String>,
    port: Option<i64>,
    protocol: Option<String>,
}

/// The version of EndpointSlices that the cluster serves.
///
/// # Errors
/// When the API cannot be reached, or serves none.
pub async fn served_version(client: &Client) -> Result<ApiResource, kube::Error> {
    let group = discovery::group(client, GROUP).await?;
    let slices = group.recommended_kind("EndpointSlice");
    slices.map(|(resource, _)| resource).ok_or_else(|| {
        let none = std::io::Error::other("the cluster serves no EndpointSlices");
        kube::Error::Service(none.into())
    })
}

/// Parses a slice. `None`: it belongs to no Service, or is unreadable; then none of its pods is
/// used.
pub fn parse(object: &Object) -> Option<EndpointSlice> {
    let service = object.labels().get(SERVICE_LABEL)?.clone();
    // IP addresses only: the owner of a DNS name could change its target at any time.
    if object
        .address_type
        .as_str()
        .is_some_and(|kind| kind != "IPv4" && kind != "IPv6")
    {
        return None;
    }
    let endpoints = Option::<Vec<Endpoint>>::deserialize(&object.endpoints);
    let ports = Option::<Vec<Port>>::deserialize(&object.ports);
    let (endpoints, ports) = match endpoints.and_then(|endpoints| Ok((endpoints, ports?))) {
        Ok(written) => written,
        Err(error) => {
            tracing::warn!(slice = object.name_any(), %error, "cannot read an EndpointSlice");
            return None;
        }
    };
    let ready = |endpoint: &Endpoint| {
        // An absent `ready` counts as true (the API's own rule).
        endpoint.conditions.ready != Some(false) && endpoint.conditions.terminating != Some(true)
    };
    let pods = endpoints.unwrap_or_default().into_iter().filter(ready).filter_map(|endpoint| {
        // The API defines further addresses as fungible with the first; kube-proxy uses the first
        // too.
        let address = endpoint.addresses.first()?.parse::<IpAddr>().ok()?.to_canonical();
        if !may_be_a_pod(&address) {
            tracing::warn!(slice = object.name_any(), %address, "ignored an address that no pod can have");
            return None;
        }
        Some(ReadyPod { address, uid: endpoint.target_ref.and_then(|target| target.uid) })
    });
    let pods = pods.collect();
    let ports = ports.unwrap_or_default().into_iter().filter_map(|port| {
        let tcp = port.protocol.is_none_or(|protocol| protocol == "TCP");
        let number = port
            .port
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0)?;
        tcp.then(|| (port.name.unwrap_or_default(), number))
    });
    Some(EndpointSlice {
        service,
        pods,
        ports: ports.collect(),
    })
}

/// Whether an address can be that of a server that a hub started: a program of this machine, or a
/// pod.
pub fn may_be_a_server(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || may_be_a_pod(&address)
}

/// Whether an address can be that of a pod. Never our own machine, its link-local neighbours, or a
/// cloud's metadata service.
fn may_be_a_pod(address: &IpAddr) -> bool {
    if METADATA.contains(address) {
        return false;
    }
    match address {
        IpAddr::V4(v4) => {
            !(v4.is_loopback()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_multicast()
                || v4.octets()[0] == 0
                || *v4 == Ipv4Addr::BROADCAST)
        }
        IpAddr::V6(v6) => {
            // Addresses that embed IPv4: NAT64, 6to4, and the deprecated compatible form, which
            // includes loopback.
            let [first, second, third, ..] = v6.segments();
            // AWS keeps this whole prefix for services of the machine: instance metadata (::254),
            // credentials of EKS Pod Identity (::23), DNS (::253), time (::123). New ones appear in
            // it.
            let is_aws_service = (first, second) == (0xfd00, 0xec2);
            let carries_v4 = (first, second) == (0x64, 0xff9b)
                || first == 0x2002
                || ((first, second, third) == (0, 0, 0) && v6.segments()[3..6] == [0, 0, 0]);
            !(is_aws_service || carries_v4 || v6.is_unicast_link_local() || v6.is_multicast())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(mut value: Value) -> Option<EndpointSlice> {
        value["metadata"] = json!({ "name": "s", "labels": { SERVICE_LABEL: "app-x" } });
        parse(&serde_json::from_value(value).expect("an object"))
    }

    fn addresses(endpoints: Value) -> Vec<String> {
        let slice =
            slice(json!({ "addressType": "IPv4", "endpoints": endpoints })).expect("a slice");
        slice
            .pods
            .iter()
            .map(|pod| pod.address.to_string())
            .collect()
    }

    #[test]
    fn only_ready_pods_count() {
        let endpoint = |last: u8, conditions: Value| json!({ "addresses": [format!("10.0.0.{last}")], "conditions": conditions });
        let endpoints = json!([
            endpoint(1, json!({ "ready": true })),
            endpoint(2, json!({ "ready": false })),
            endpoint(3, json!({})),
            endpoint(4, json!({ "ready": true, "terminating": true })),
            { "addresses": ["10.0.0.5"] },
            { "addresses": [] },
            { "addresses": ["not-an-address"] },
        ]);
        assert_eq!(addresses(endpoints), ["10.0.0.1", "10.0.0.3", "10.0.0.5"]);
    }

    #[test]
    fn a_server_is_a_program_of_this_machine_or_a_pod() {
        for (address, wanted) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.7", true),
            ("fd12::7", true),
            ("169.254.169.254", false),
            ("::ffff:169.254.169.254", false),
            ("168.63.129.16", false),
            ("fe80::1", false),
            ("0.0.0.0", false),
            ("::", false),
        ] {
            let parsed = address.parse().expect("an address");
            assert_eq!(may_be_a_server(parsed), wanted, "{address}");
        }
    }

    #[test]
    fn addresses_that_no_pod_has_are_left_out() {
        for address in [
            "127.0.0.1",
            "127.1.2.3",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd00:ec2::253",
            "fd00:ec2::123",
            "fd00:ec2:ffff::1",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "2130706433",
            "0177.0.0.1",
        ] {
            assert!(
                addresses(json!([{ "addresses": [address] }])).is_empty(),
                "{address}"
            );
        }
        for address in ["fd00::7", "fd00:ec3::254"] {
            assert_eq!(addresses(json!([{ "addresses": [address] }])), [address]);
        }
    }

    #[test]
    fn ports_are_tcp_and_have_a_number() {
        let ports = json!([
            { "name": "http", "port": 8080, "protocol": "TCP" },
            { "port": 9090 },
            { "name": "dns", "port": 53, "protocol": "UDP" },
            { "name": "none" },
            { "name": "zero", "port": 0 },
            { "name": "huge", "port": 70000 },
        ]);
        let slice = slice(json!({ "addressType": "IPv4", "endpoints": null, "ports": ports }))
            .expect("a slice");
        assert_eq!(
            slice.ports,
            [("http".to_owned(), 8080), (String::new(), 9090)]
        );
    }

    #[test]
    fn names_and_what_cannot_be_read_lead_nowhere() {
        assert_eq!(
            slice(json!({ "addressType": "FQDN", "endpoints": [{ "addresses": ["a.example"] }] })),
            None
        );
        assert_eq!(
            slice(json!({ "addressType": "IPv4", "endpoints": 5 })),
            None
        );
    }
}
