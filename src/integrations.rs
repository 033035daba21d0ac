//! Systems that Ludgate stands in front of. Each owns all of its tokens, cookies, headers,
//! upstreams and endpoints, behind `caller::source::CredentialSource` and `catalog::Resolver`.

pub mod arvados;
pub mod console;
