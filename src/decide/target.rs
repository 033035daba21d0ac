//! The app that a request is for.

use super::tenant::TenantCookie;
use crate::model::destination::Destination;

/// The app that a request is for, and what its browser knows of the address.
#[derive(Debug)]
pub struct Target {
    /// The app and the target within it.
    pub destination: Destination,
    /// Whether the browser knows the app as the tenant of this address.
    pub tenant: TenantCookie,
}
