//! The question that a living stream is asked: may it go on? The same rule as for a new request.

use std::sync::Arc;

use super::Gateway;
use crate::{
    authorize::{Permit, grounds},
    lifecycle::streams::CutReason,
    model::{
        app::{App, AppKind},
        place::Place,
        principal::Principal,
        secret::Secret,
    },
    session::usage::Usage,
};

/// Who streams what.
#[derive(Clone, Debug)]
pub struct StillAllowed {
    gateway: Arc<Gateway>,
    app: Arc<App>,
    place: Place,
    usage: Option<Usage>,
    principal: Option<Arc<Principal>>,
    token_expires: Option<i64>,
    /// The Arvados token of a stream that has no session.
    token: Option<Secret>,
}

impl StillAllowed {
    /// For a stream that was just permitted.
    pub fn new(
        gateway: Arc<Gateway>,
        permit: &Permit,
        place: Place,
        usage: Option<Usage>,
        token_expires: Option<i64>,
        token: Option<Secret>,
    ) -> StillAllowed {
        StillAllowed {
            gateway,
            app: permit.app().clone(),
            place,
            usage,
            principal: permit.principal().cloned(),
            token_expires,
            token,
        }
    }

    /// Judges it by the apps, the session and the groups of this moment.
    ///
    /// # Errors
    /// Why it must end.
    pub fn ask(&self) -> Result<(), CutReason> {
        if self.app.kind == AppKind::Console {
            return Ok(());
        }
        let now = self.gateway.clock.wall_seconds();
        if self.token_expires.is_some_and(|expires| now >= expires) {
            return Err(CutReason::SessionEnded);
        }
        let app = self.gateway.catalog.still(&self.app, &self.place).ok_or(CutReason::AppGone)?;
        let verdict = match &self.usage {
            Some(usage) if !usage.is_live() => return Err(CutReason::SessionEnded),
            Some(usage) => {
                // A stream that outlasts the proof has it renewed, as a request would.
                self.gateway.recheck(usage.live());
                if !self.gateway.is_proof_good(usage.live().sign_in(), &app) {
                    return Err(CutReason::SessionEnded);
                }
                grounds(&app, Some(&usage.live().sign_in().principal()))
            }
            None => match (&self.token, &self.gateway.arvados) {
                (Some(token), Some(arvados)) => {
                    let person = arvados.still(token).ok_or(CutReason::SessionEnded)?;
                    grounds(&app, Some(&person))
                }
                (_, _) => grounds(&app, self.principal.as_deref()),
            },
        };
        verdict.map(|_| ()).map_err(|_| CutReason::NoLongerAllowed)
    }
}
