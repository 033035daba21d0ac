//! What an app requires of a sign-in (RFC 9470), in the query of addresses that begin a sign-in.
//!
//! The parameters only avoid a second sign-in: without them the first one may not meet the
//! requirement, and `authorize` refuses it.

use super::call::EndpointCall;
use crate::{model::authentication::AuthenticationRequirement, session::record::SignIn};

/// A parameter is repeated or not valid.
pub(super) struct BadRequirement;

/// The requirement that the query names; `None`: none.
///
/// # Errors
/// [`BadRequirement`].
pub(super) fn requirement(
    call: EndpointCall<'_, '_>,
) -> Result<Option<AuthenticationRequirement>, BadRequirement> {
    let max_age = call.query("max_age").map_err(|_| BadRequirement)?;
    let acr_values = call.query("acr_values").map_err(|_| BadRequirement)?;
    AuthenticationRequirement::from_parameters(max_age.as_deref(), acr_values.as_deref())
        .map_err(|_| BadRequirement)
}

/// Whether a sign-in meets the requirement now.
pub(super) fn is_met(
    call: EndpointCall<'_, '_>,
    sign_in: &SignIn,
    requirement: Option<&AuthenticationRequirement>,
) -> bool {
    let now = || call.gateway.clock.wall_seconds();
    requirement.is_none_or(|requirement| {
        let person = sign_in.principal();
        requirement.check(&person.authentication, now()).is_ok()
    })
}
