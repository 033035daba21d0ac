//! Who people are: sign-in at the OpenID provider, and tokens of that provider.

pub mod arvados_token;
pub mod oidc;
