//! What is known of Arvados: how its API is asked (`client`), what it answers (`records`), how long an answer
//! is kept (`kept`, `misses`), and how we and a container's gateway prove to each other who we are (`proof`).

pub mod client;
pub mod kept;
pub mod misses;
pub mod proof;
pub mod records;

use std::sync::Arc;

use url::Url;

use crate::model::secret::Secret;

/// Which cluster, and what lets us ask it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The API server.
    pub api: Url,
    /// The cluster's SystemRootToken.
    pub root_token: Secret,
    /// PEM content of the CA behind the API server's certificate; `None`: the system's.
    pub ca: Option<Arc<[u8]>>,
    /// Whether the API server takes the identity provider's access tokens.
    pub accept_sign_in: bool,
}
