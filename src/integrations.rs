//! Systems that Ludgate stands in front of. Each owns all of its tokens, cookies, headers,
//! upstreams and endpoints, behind `caller::source::CredentialSource` and `catalog::Resolver`.

pub mod arvados;
pub mod console;

/// A cookie that holds a credential of an integration. Never sent to apps.
pub use arvados::TOKEN_COOKIE as CREDENTIAL_COOKIE;
