//! What is known of Arvados: how its API is asked (`client`), what it answers (`records`), how long
//! an answer is kept (`kept`), and how we and a container's gateway prove to each other who we are
//! (`proof`).

pub mod client;
pub mod kept;
pub mod proof;
pub mod records;
pub mod tokens;

use std::sync::Arc;

use url::Url;

use crate::model::{lookup_limit::Quota, secret::Secret};

/// Look-ups of uuids and tokens that the API server does not know, of one client.
pub const UNKNOWN: Quota = Quota {
    burst: 32,
    refill: 250,
    at_once: 128,
};

/// Which cluster, and what lets us ask it.
#[derive(Clone, Debug)]
pub struct ArvadosSettings {
    /// The API server.
    pub api: Url,
    /// The cluster's SystemRootToken.
    pub root_token: Secret,
    /// PEM content of the CA behind the API server's certificate; `None`: the system's.
    pub ca: Option<Arc<[u8]>>,
    /// Whether the API server takes the identity provider's access tokens.
    pub accept_sign_in: bool,
}
