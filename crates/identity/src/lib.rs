//! Identity: sessions, sign-in at the OpenID provider, and bearer tokens. This package does not
//! depend on the gateway.

pub mod oidc;
pub mod rechecks;
pub mod session;

use ludgate_model as model;
use ludgate_ops as ops;
