//! What handlers read from the head of a request: the caller, and the person in the path.

use std::{net::IpAddr, sync::Arc};

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use super::{failure::LabFailure, state::Routes};
use crate::{error::LabError, service::callers::LabCaller, user::check_username};

/// The address of the client's end of the connection, which the server adds to each request.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// The caller, identified.
pub(super) struct Identified(pub(super) LabCaller);

impl FromRequestParts<Arc<Routes>> for Identified {
    type Rejection = LabFailure;

    async fn from_request_parts(
        parts: &mut Parts,
        routes: &Arc<Routes>,
    ) -> Result<Identified, LabFailure> {
        // Without an address, no peer is a listed one.
        let peer = parts.extensions.get::<PeerAddress>();
        let peer = peer.ok_or(LabError::InvalidToken)?.0;
        let caller = routes.state.callers.identify(&parts.headers, peer).await?;
        Ok(Identified(caller))
    }
}

/// The person in the path.
pub(super) struct NamedPerson(pub(super) String);

impl FromRequestParts<Arc<Routes>> for NamedPerson {
    type Rejection = LabFailure;

    async fn from_request_parts(
        parts: &mut Parts,
        routes: &Arc<Routes>,
    ) -> Result<NamedPerson, LabFailure> {
        let path = Path::<String>::from_request_parts(parts, routes).await;
        let Path(username) = path.map_err(|_| LabError::InvalidUsername(String::new()))?;
        check_username(&username)?;
        Ok(NamedPerson(username))
    }
}
