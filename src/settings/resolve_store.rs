//! `store`, `store_file` and `store_ca` of a section: a Redis that replicas share.

use std::{path::Path, sync::Arc};

use rustls::ClientConfig;
use url::Url;

use super::{
    section::ConfigSection,
    values::{ca_file, secret_file},
};
use crate::{
    model::{secret::Secret, site::is_loopback_host},
    ops::{
        redis::{Address, RedisSettings},
        tls_client,
    },
};

/// Default port of Redis.
const PORT: u16 = 6379;
/// Highest database number.
const MAX_DATABASE: i64 = 9999;

/// The Redis of a section; `None` also together with an error.
pub(super) fn store(section: &ConfigSection<'_>, folder: &Path) -> Option<RedisSettings> {
    let written = section.text("store").filter(|store| store != "memory");
    let from_file = secret_file(section, "store_file", folder);
    let (key, address) = match (written, from_file) {
        (Some(_), Some(_)) => {
            section.wrong("store_file", "and store are both given", None);
            return None;
        }
        (Some(written), None) => ("store", written),
        (None, Some(secret)) => ("store_file", secret.expose().trim_end().to_owned()),
        (None, None) => {
            if section.has("store_ca") {
                section.wrong(
                    "store_ca",
                    "means nothing without a store that is reached with TLS",
                    None,
                );
            }
            return None;
        }
    };
    let ca = ca_file(section, "store_ca", folder);
    let read = parse_address(&address, ca.as_deref());
    let suggestion = || Some("for example store = \"redis://127.0.0.1:6379\"".to_owned());
    let settings = read
        .map_err(|what| section.wrong(key, what, suggestion()))
        .ok()?;
    if section.has("store_ca") && !has_tls(&settings) {
        section.wrong(
            "store_ca",
            "means nothing without a store that is reached with TLS (rediss://)",
            None,
        );
    }
    Some(settings)
}

/// `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, `redis+unix:///path`.
/// Errors do not quote the address, since it may hold a password.
fn parse_address(address: &str, ca: Option<&[u8]>) -> Result<RedisSettings, &'static str> {
    let url = Url::parse(address).map_err(|_| "is no URL")?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query and no fragment");
    }
    let user = Some(url.username())
        .filter(|user| !user.is_empty())
        .map(decoded)
        .transpose()?;
    let password = url.password().map(decoded).transpose()?.map(Secret::new);
    if user.is_some() && password.is_none() {
        return Err("names a user without a password (one password alone is written :password@)");
    }
    let (address, database) = match url.scheme() {
        "redis+unix" => (unix_address(&url)?, 0),
        "redis" => (tcp_address(&url, None)?, database(&url)?),
        "rediss" => {
            let tls = tls_client::client_config(ca)
                .map_err(|_| "cannot be trusted: no certificate in store_ca")?;
            (tcp_address(&url, Some(tls))?, database(&url)?)
        }
        _ => {
            return Err(
                "must begin with redis://, rediss:// (TLS) or redis+unix://, or be \"memory\"",
            );
        }
    };
    Ok(RedisSettings {
        address,
        user,
        password,
        database,
    })
}

fn decoded(text: &str) -> Result<String, &'static str> {
    let text = percent_encoding::percent_decode_str(text).decode_utf8();
    text.map(|text| text.into_owned())
        .map_err(|_| "holds a name or password that is not UTF-8")
}

fn unix_address(url: &Url) -> Result<Address, &'static str> {
    let is_path = url.host_str().is_none_or(str::is_empty) && url.path().len() > 1;
    let path = decoded(url.path())?;
    is_path
        .then(|| Address::Unix(path.into()))
        .ok_or("is no path of a socket: redis+unix:///run/redis.sock")
}

fn tcp_address(url: &Url, tls: Option<Arc<ClientConfig>>) -> Result<Address, &'static str> {
    let host = url
        .host_str()
        .filter(|host| !host.is_empty())
        .ok_or("names no host")?;
    Ok(Address::Tcp {
        host: host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned(),
        port: url.port().unwrap_or(PORT),
        tls,
    })
}

fn database(url: &Url) -> Result<i64, &'static str> {
    let number = match url.path() {
        "" | "/" => Some(0),
        path => path.trim_start_matches('/').parse().ok(),
    };
    number
        .filter(|number| (0..=MAX_DATABASE).contains(number))
        .ok_or("ends in something that is no database")
}

fn has_tls(settings: &RedisSettings) -> bool {
    matches!(&settings.address, Address::Tcp { tls: Some(_), .. })
}

/// A warning about a store that is reached without TLS. `risk` is what an attacker on the network
/// can do.
pub(super) fn warning(section: &str, settings: &RedisSettings, risk: &str) -> Option<String> {
    match &settings.address {
        Address::Tcp {
            host, tls: None, ..
        } if !is_loopback_host(host) => Some(format!(
            "{section}.store {host} is no loopback name and has no TLS: its records are sealed, but an attacker on the \
             network can {risk} and read the password; rediss:// has TLS"
        )),
        Address::Tcp { .. } | Address::Unix(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_a_user_and_a_scheme() {
        let read = |address| parse_address(address, None);
        let plain = read("redis://h").expect("read");
        assert_eq!(format!("{:?}", plain.address), "h:6379 tls=false");
        assert_eq!(
            (plain.user, plain.password.is_some(), plain.database),
            (None, false, 0)
        );
        let full = read("redis://u%40x:p%3A1@h.example:7000/3").expect("read");
        assert_eq!(format!("{:?}", full.address), "h.example:7000 tls=false");
        assert_eq!((full.user.as_deref(), full.database), (Some("u@x"), 3));
        assert_eq!(full.password.as_ref().map(Secret::expose), Some("p:1"));
        assert_eq!(read("redis://:p@h").expect("read").user, None);
        assert_eq!(
            format!("{:?}", read("redis://[::1]:1").expect("read").address),
            "::1:1 tls=false"
        );
        assert_eq!(
            format!(
                "{:?}",
                read("redis+unix:///run/r.sock").expect("read").address
            ),
            "/run/r.sock"
        );
        assert!(has_tls(&read("rediss://h").expect("read")));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for address in [
            "",
            "h:6379",
            "http://h",
            "redis://",
            "redis://u:CANARY@h/CANARY",
            "redis://h/-1",
            "redis://h/10000",
            "redis://h/1/2",
            "redis://h?db=1",
            "redis://h#x",
            "redis://CANARY@h",
            "redis://h:99999",
            "redis+unix://h/x",
            "redis+unix:///",
            "redis://CANARY:%ff@h",
        ] {
            let what = parse_address(address, None).expect_err(address);
            assert!(!what.contains("CANARY"), "{what}");
        }
    }
}
