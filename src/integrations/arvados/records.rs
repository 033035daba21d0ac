//! The records of the API that are used here, with the used fields.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::uuid::Uuid;

/// One page of a list.
#[derive(Debug, Deserialize)]
pub struct ListPage<T> {
    /// The records of this page.
    pub items: Vec<T>,
    /// How many there are in all; absent when it was not counted.
    #[serde(default)]
    pub items_available: Option<u64>,
}

/// `containers`
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct ContainerRecord {
    /// The container's uuid.
    pub uuid: String,
    /// `Queued`, `Locked`, `Running`, `Complete`, `Cancelled`.
    #[serde(default)]
    pub state: String,
    /// `host:port` of its gateway while it runs.
    #[serde(default)]
    pub gateway_address: Option<String>,
    /// The published ports, by port number.
    #[serde(default)]
    pub published_ports: Option<BTreeMap<String, PublishedRecord>>,
}

/// One entry of `published_ports`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct PublishedRecord {
    /// `public`, or anything else for private.
    #[serde(default)]
    pub access: Option<String>,
    /// Shown to people.
    #[serde(default)]
    pub label: Option<String>,
    /// The public port in port-range mode.
    #[serde(default)]
    pub external_port: Option<u16>,
}

/// `container_requests`
#[derive(Clone, Debug, Deserialize)]
pub struct RequestRecord {
    /// The container that carries it out.
    #[serde(default)]
    pub container_uuid: Option<String>,
    /// Who submitted it.
    #[serde(default)]
    pub modified_by_user_uuid: Option<String>,
}

/// `links` of class `published_port`
#[derive(Clone, Debug, Deserialize)]
pub struct LinkRecord {
    /// A container or a container request.
    #[serde(default)]
    pub head_uuid: Option<String>,
    /// With the port.
    #[serde(default)]
    pub properties: serde_json::Value,
}

impl LinkRecord {
    /// The uuid and port behind the name; `None` if either is not valid.
    pub fn target(&self) -> Option<(Uuid, u16)> {
        let port = self.properties.get("port")?;
        let number = port.as_u64().or_else(|| port.as_str()?.parse().ok())?;
        let port = u16::try_from(number).ok().filter(|port| *port != 0)?;
        Some((Uuid::new(self.head_uuid.as_deref()?)?, port))
    }
}

/// `users/current`
#[derive(Clone, Debug, Deserialize)]
pub struct UserRecord {
    /// The user's uuid.
    pub uuid: String,
    /// May read everything.
    #[serde(default)]
    pub is_admin: bool,
    /// May use the cluster at all.
    #[serde(default)]
    pub is_active: bool,
    /// For pages and headers.
    #[serde(default)]
    pub email: Option<String>,
    /// For pages and headers.
    #[serde(default)]
    pub username: Option<String>,
    /// For pages.
    #[serde(default)]
    pub full_name: Option<String>,
}
