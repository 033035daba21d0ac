//! The addresses of each app's ready pods. All namespaces are read together, since an address
//! belongs to one pod in the whole cluster.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    net::SocketAddr,
};

use super::{application::PublishedApp, namespace::WatchedNamespace};
use crate::cluster::{crd::application::SERVICE_PREFIX, endpoint_slices::EndpointSlice};

/// The slices of all namespaces, by namespace and Service.
pub struct ReadyPods<'n> {
    of_service: HashMap<Service<'n>, Vec<&'n EndpointSlice>>,
    /// Addresses that two pods claim for two Services. One pod is gone, and the slices do not tell
    /// which.
    contested: HashSet<SocketAddr>,
}

/// Namespace and name of a Service.
type Service<'n> = (&'n str, &'n str);

/// Addresses of an app's ready pods.
pub struct ReadyAddresses {
    /// Addresses that can be used.
    pub addresses: Vec<SocketAddr>,
    /// Whether contested addresses were left out.
    pub contested: bool,
}

impl<'n> ReadyPods<'n> {
    /// The pods of all namespaces.
    pub fn from_namespaces(namespaces: &'n [WatchedNamespace]) -> ReadyPods<'n> {
        let mut of_service: HashMap<Service<'_>, Vec<&EndpointSlice>> = HashMap::new();
        let mut claims: HashMap<SocketAddr, Vec<(Service<'_>, &str)>> = HashMap::new();
        let mut contested = HashSet::new();
        for namespace in namespaces {
            for (_, slice) in namespace.slices.sorted() {
                let service = (namespace.name(), &*slice.service);
                of_service.entry(service).or_default().push(slice);
                for (pod, (_, port)) in slice
                    .pods
                    .iter()
                    .flat_map(|pod| slice.ports.iter().map(move |port| (pod, port)))
                {
                    let (Some(uid), address) = (&pod.uid, SocketAddr::new(pod.address, *port))
                    else {
                        continue;
                    };
                    let claim = (service, &**uid);
                    match claims.entry(address) {
                        Entry::Vacant(first) => drop(first.insert(vec![claim])),
                        // All pairs are compared: a pod may be in two Services, and be the stale
                        // one in either.
                        Entry::Occupied(mut others) if !others.get().contains(&claim) => {
                            let stranger = |other: &(Service<'_>, &str)| {
                                other.0 != claim.0 && other.1 != claim.1
                            };
                            if others.get().iter().any(stranger) {
                                contested.insert(address);
                            }
                            others.get_mut().push(claim);
                        }
                        Entry::Occupied(_) => {}
                    }
                }
            }
        }
        ReadyPods {
            of_service,
            contested,
        }
    }

    /// The addresses of an app's pods at the port behind its `httpPort`. One address family only: a
    /// dual-stack pod has an address of each.
    pub fn of_app(&self, namespace: &str, name: &str, form: &PublishedApp) -> ReadyAddresses {
        let service = format!("{SERVICE_PREFIX}{name}");
        let slices = self
            .of_service
            .get(&(namespace, &*service))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut addresses: Vec<SocketAddr> = slices
            .iter()
            .flat_map(|slice| {
                let port = form.port_of(&slice.ports);
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
