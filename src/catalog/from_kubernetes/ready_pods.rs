//! The addresses of the ready pods of each Service. All namespaces are read together, since an
//! address belongs to one pod in the whole cluster.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
};

use crate::cluster::endpoint_slices::EndpointSlice;

/// The slices of all namespaces, by namespace and Service.
pub struct ReadyPods<'n> {
    of_service: HashMap<Service<'n>, Vec<&'n EndpointSlice>>,
    /// Addresses that two pods claim for two Services. One pod is gone, and the slices do not tell
    /// which.
    contested: HashSet<SocketAddr>,
}

/// Namespace and name of a Service.
type Service<'n> = (&'n str, &'n str);

/// Addresses of a Service's ready pods.
pub struct ReadyAddresses {
    /// Addresses that can be used.
    pub addresses: Vec<SocketAddr>,
    /// Whether contested addresses were left out.
    pub contested: bool,
}

impl<'n> ReadyPods<'n> {
    /// The pods of slices, each with its namespace.
    pub fn new(slices: impl IntoIterator<Item = (&'n str, &'n EndpointSlice)>) -> ReadyPods<'n> {
        let mut of_service: HashMap<Service<'_>, Vec<&EndpointSlice>> = HashMap::new();
        let mut claims = Claims::default();
        for (namespace, slice) in slices {
            let service = (namespace, &*slice.service);
            of_service.entry(service).or_default().push(slice);
            claims.add_slice(service, slice);
        }
        ReadyPods {
            of_service,
            contested: claims.contested,
        }
    }

    /// The addresses of a Service's pods at the port that `port_of` finds among those of a slice.
    /// One address family only: a dual-stack pod has an address of each.
    pub fn ready_addresses(
        &self,
        namespace: &str,
        service: &str,
        port_of: impl Fn(&[(String, u16)]) -> Option<u16>,
    ) -> ReadyAddresses {
        let slices = self
            .of_service
            .get(&(namespace, service))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut addresses: Vec<SocketAddr> = slices
            .iter()
            .flat_map(|slice| {
                let port = port_of(&slice.ports);
                slice
                    .pods
                    .iter()
                    .filter_map(move |pod| Some(SocketAddr::new(pod.address, port?)))
            })
            .collect();
        let all = addresses.len();
        addresses.retain(|address| !self.contested.contains(address));
        let contested = addresses.len() < all;
        if addresses.iter().any(SocketAddr::is_ipv4) {
            addresses.retain(SocketAddr::is_ipv4);
        }
        addresses.sort_unstable();
        addresses.dedup();
        ReadyAddresses {
            addresses,
            contested,
        }
    }
}

/// The pods that claim each address, to find contested ones.
#[derive(Default)]
struct Claims<'n> {
    /// Service and uid of the pods, by address.
    by_address: HashMap<SocketAddr, Vec<(Service<'n>, &'n str)>>,
    contested: HashSet<SocketAddr>,
}

impl<'n> Claims<'n> {
    fn add_slice(&mut self, service: Service<'n>, slice: &'n EndpointSlice) {
        for pod in &slice.pods {
            let Some(uid) = &pod.uid else { continue };
            for (_, port) in &slice.ports {
                self.add(SocketAddr::new(pod.address, *port), (service, &**uid));
            }
        }
    }

    fn add(&mut self, address: SocketAddr, claim: (Service<'n>, &'n str)) {
        let others = self.by_address.entry(address).or_default();
        if others.contains(&claim) {
            return;
        }
        // All pairs are compared: a pod may be in two Services, and be the stale one in either.
        let is_stranger = |other: &(Service<'_>, &str)| other.0 != claim.0 && other.1 != claim.1;
        if others.iter().any(is_stranger) {
            self.contested.insert(address);
        }
        others.push(claim);
    }
}
