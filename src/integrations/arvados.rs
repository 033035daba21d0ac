//! Arvados: containers as apps, and its tokens as credentials.
//!
//! `containers` finds the apps, `credentials` the callers. Below them: the API's client (`client`,
//! `records`), tokens (`tokens`, `query_token`, `strip_query_token`), and the mutual proof with a
//! container's gateway (`gateway_secret`).

pub mod client;
mod container_gateway;
pub mod containers;
pub mod credentials;
mod gateway_secret;
mod query_token;
pub mod records;
pub mod strip_query_token;
pub mod tokens;

use std::sync::Arc;

use url::Url;

use crate::model::{lookup_limit::Quota, secret::Secret};

/// The cookie in which Arvados' own programs store a token: a credential, never sent to apps.
pub const TOKEN_COOKIE: &str = "arvados_api_token";

/// One client's quota for look-ups of uuids and tokens that the API server does not know.
pub const UNKNOWN: Quota = Quota {
    burst: 32,
    refill: 250,
    at_once: 128,
};

/// The settings of one cluster's API.
#[derive(Clone, Debug)]
pub struct ArvadosSettings {
    /// The API server.
    pub api: Url,
    /// The cluster's SystemRootToken.
    pub root_token: Secret,
    /// PEM content of the CA behind the API server's certificate; `None`: the system's.
    pub ca: Option<Arc<[u8]>>,
    /// Whether the API server accepts the identity provider's access tokens.
    pub accept_sign_in: bool,
}
