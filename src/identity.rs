//! Who people are: sign-in at the OpenID provider, and tokens, of that provider and of Arvados.

pub mod arvados_token;
pub mod oidc;
pub mod rechecks;
