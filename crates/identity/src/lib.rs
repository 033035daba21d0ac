//! Identity: sessions, sign-in at the OpenID provider, bearer tokens, service tokens, and
//! identities that are signed for apps. This package does not depend on the gateway.

pub mod assertion;
pub mod oidc;
pub mod rechecks;
pub mod service_tokens;
pub mod session;
pub mod stale_cache;

use ludgate_model as model;
use ludgate_ops as ops;
