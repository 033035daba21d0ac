//! Which address of a host a template is loaded from.

use std::net::{IpAddr, SocketAddr};

use crate::error::OperationError;

/// The address to connect to, of all those of a host. One that is not permitted rules out the
/// host.
///
/// # Errors
/// [`OperationError::Invalid`] without such an address.
pub(super) fn choose(
    found: impl Iterator<Item = SocketAddr>,
    is_permitted: fn(IpAddr) -> bool,
) -> Result<SocketAddr, OperationError> {
    let found: Vec<SocketAddr> = found.collect();
    if !found.iter().all(|address| is_permitted(address.ip())) {
        let what = "url: the host is at an address that is not public".to_owned();
        return Err(OperationError::Invalid(what));
    }
    // Not every cluster has IPv6.
    let chosen = found.into_iter().min_by_key(SocketAddr::is_ipv6);
    chosen.ok_or_else(|| OperationError::Invalid("url: the host has no address".to_owned()))
}

#[cfg(test)]
mod tests {
    use ludgate_ops::public_address::is_public;

    use super::*;

    #[test]
    fn one_private_address_rules_out_a_host() {
        let refused = "url: the host is at an address that is not public";
        let of = |addresses: &[&str]| -> Vec<SocketAddr> {
            let parsed = addresses.iter().map(|it| it.parse::<SocketAddr>());
            parsed.collect::<Result<_, _>>().expect("addresses")
        };
        let (public, public_6) = ("1.1.1.1:443", "[2606:4700::1111]:443");
        for (found, wanted) in [
            (of(&[public_6, public]), Ok(public)),
            (of(&[public_6]), Ok(public_6)),
            (of(&[public, "10.0.0.1:443"]), Err(refused)),
            (of(&["[::1]:443", public]), Err(refused)),
            (of(&["127.0.0.1:443"]), Err(refused)),
            (of(&[]), Err("url: the host has no address")),
        ] {
            let chosen = choose(found.iter().copied(), is_public);
            let chosen = chosen.map(|it| it.to_string());
            let chosen = chosen.map_err(|error| error.to_string());
            let wanted = wanted.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(chosen, wanted, "{found:?}");
        }
    }
}
