//! Settings: the gateways whose admin listeners report uses.

use std::{fmt, net::SocketAddr};

use ludgate_model::secret::Secret;

/// Where uses are reported.
#[derive(Clone, Debug)]
pub struct IdleSettings {
    /// The admin listeners of all gateways.
    pub gateways: Vec<GatewayAddress>,
    /// Their bearer token.
    pub token: Secret,
}

/// A host name or IP address, and a port. All addresses of a name are gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayAddress {
    /// The name, or the address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The text is no host and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no host and port")]
pub struct InvalidGatewayAddress;

impl GatewayAddress {
    /// Parses `name:port`, `192.0.2.1:port` or `[2001:db8::1]:port`.
    ///
    /// # Errors
    /// [`InvalidGatewayAddress`] for other texts, such as URLs, and for port 0.
    pub fn parse(text: &str) -> Result<GatewayAddress, InvalidGatewayAddress> {
        let address = match text.parse::<SocketAddr>() {
            Ok(address) => GatewayAddress {
                host: address.ip().to_string(),
                port: address.port(),
            },
            Err(_) => {
                let (host, port) = text.rsplit_once(':').ok_or(InvalidGatewayAddress)?;
                let host = Some(host).filter(|host| is_name(host));
                GatewayAddress {
                    host: host.ok_or(InvalidGatewayAddress)?.to_owned(),
                    port: port.parse().map_err(|_| InvalidGatewayAddress)?,
                }
            }
        };
        match address.port {
            0 => Err(InvalidGatewayAddress),
            _ => Ok(address),
        }
    }

    fn is_ip_v6(&self) -> bool {
        self.host.parse::<std::net::Ipv6Addr>().is_ok()
    }
}

fn is_name(host: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=253).contains(&host.len()) && host.bytes().all(is_allowed)
}

impl fmt::Display for GatewayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_ip_v6() {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_ports_are_read_and_written_as_they_were() {
        for (text, host, port) in [
            ("ludgate-admin.hub.svc:9090", "ludgate-admin.hub.svc", 9090),
            ("192.0.2.1:80", "192.0.2.1", 80),
            ("[2001:db8::1]:9090", "2001:db8::1", 9090),
        ] {
            let address = GatewayAddress::parse(text).expect(text);
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn urls_and_hosts_without_a_port_are_refused() {
        for text in [
            "",
            ":9090",
            "gateway",
            "gateway:",
            "gateway:0",
            "gateway:65536",
            "gateway:+1x",
            "192.0.2.1:0",
            "2001:db8::1:9090",
            "[2001:db8::1]",
            "http://gateway:9090",
            "user@gateway:9090",
            "gate way:9090",
            "gateway:9090/activity",
        ] {
            let parsed = GatewayAddress::parse(text);
            assert_eq!(parsed, Err(InvalidGatewayAddress), "{text:?}");
        }
    }
}
