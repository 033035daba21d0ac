//! Who people are: sign-in at the OpenID provider, and tokens of that provider.

pub mod oidc;
