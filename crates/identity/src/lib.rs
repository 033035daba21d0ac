//! Who people are: sessions, sign-in at the OpenID provider, and bearer tokens. Nothing here knows
//! a gateway.

pub mod oidc;
pub mod rechecks;
pub mod session;

use ludgate_model as model;
use ludgate_ops as ops;
