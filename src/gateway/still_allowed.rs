//! The question that a living stream is asked: may it go on? The same rule as for a new request.

use std::{rc::Rc, sync::Arc};

use super::{Gateway, consult::Consulted};
use crate::{
    authorize::{Denied, Permit, grounds},
    cluster::pod_logs::PodOfApp,
    model::{
        access::Access,
        app::{App, AppKind},
        principal::Principal,
        secret::Secret,
        vhost::VirtualHost,
    },
    session::{live::Live, usage::Usage},
    streams::RevocationReason,
};

/// What a stream is asked.
#[derive(Clone, Debug)]
pub enum Question {
    /// One of an app.
    App(Rc<StillAllowed>),
    /// The log of a pod.
    Log(Rc<MayRead>),
}

impl Question {
    /// Judges it.
    ///
    /// # Errors
    /// Why it must end.
    pub fn ask(&self) -> Result<(), RevocationReason> {
        match self {
            Question::App(question) => question.ask(),
            Question::Log(question) => question.ask(),
        }
    }
}

/// Who streams what.
#[derive(Debug)]
pub struct StillAllowed {
    gateway: Arc<Gateway>,
    app: Arc<App>,
    vhost: VirtualHost,
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
        vhost: VirtualHost,
        usage: Option<Usage>,
        token_expires: Option<i64>,
        token: Option<Secret>,
    ) -> Rc<StillAllowed> {
        Rc::new(StillAllowed {
            gateway,
            app: permit.app().clone(),
            vhost,
            usage,
            principal: permit.principal().cloned(),
            token_expires,
            token,
        })
    }

    /// Judges it by the apps, the session and the groups of this moment.
    ///
    /// # Errors
    /// Why it must end.
    pub fn ask(&self) -> Result<(), RevocationReason> {
        if self.app.kind == AppKind::Console {
            return Ok(());
        }
        let now = self.gateway.clock.wall_seconds();
        if self.token_expires.is_some_and(|expires| now >= expires) {
            return Err(RevocationReason::SessionEnded);
        }
        let app = self
            .gateway
            .catalog
            .still(&self.app, &self.vhost)
            .ok_or(RevocationReason::AppGone)?;
        let verdict = match &self.usage {
            Some(usage) if !usage.is_live() => return Err(RevocationReason::SessionEnded),
            Some(usage) => {
                // A stream that outlasts the proof has it renewed, as a request would.
                self.gateway.recheck(usage.live());
                let is_good = self.gateway.is_proof_good(usage.live().sign_in());
                if !is_good && app.spec.access != Access::User {
                    return Err(RevocationReason::SessionEnded);
                }
                grounds(&app, Some(&usage.live().sign_in().principal()))
            }
            None => match (&self.token, &self.gateway.arvados) {
                (Some(token), Some(arvados)) => {
                    let person = arvados.still(token).ok_or(RevocationReason::SessionEnded)?;
                    grounds(&app, Some(&person))
                }
                (_, _) => grounds(&app, self.principal.as_deref()),
            },
        };
        verdict
            .map(|_| ())
            .map_err(|_| RevocationReason::NoLongerAllowed)
    }
}

/// Who reads the log of a pod: a member of the group of its app, whoever else may reach the app.
#[derive(Debug)]
pub struct MayRead {
    gateway: Arc<Gateway>,
    pod: PodOfApp,
    principal: Arc<Principal>,
    live: Option<Live>,
    token_expires: Option<i64>,
}

impl MayRead {
    /// For somebody who asks for it.
    pub fn new(
        gateway: Arc<Gateway>,
        pod: &PodOfApp,
        principal: Arc<Principal>,
        asked: Consulted,
    ) -> MayRead {
        let Consulted {
            live,
            token_expires,
            ..
        } = asked;
        MayRead {
            gateway,
            pod: pod.clone(),
            principal,
            live,
            token_expires,
        }
    }

    /// Judges it by the apps and groups of this moment.
    ///
    /// # Errors
    /// `None`: there is no such app.
    pub fn judge(&self) -> Result<(), Option<Denied>> {
        let snapshot = self.gateway.catalog.load();
        let person = match &self.live {
            Some(live) => live.sign_in().principal().clone(),
            None => self.principal.clone(),
        };
        let mut groups = self
            .pod
            .apps()
            .filter_map(|app| snapshot.group_of(&self.pod.namespace, app))
            .peekable();
        groups.peek().ok_or(None)?;
        // Of all that the label may mean: whoever makes an app of a fitting name gains nothing by
        // it.
        if groups.all(|group| person.is_in(group)) {
            Ok(())
        } else {
            Err(Some(Denied::NotInGroup))
        }
    }

    fn ask(&self) -> Result<(), RevocationReason> {
        let gateway = &self.gateway;
        let is_over = self
            .token_expires
            .is_some_and(|expires| gateway.clock.wall_seconds() >= expires);
        let is_live = self.live.as_ref().is_none_or(|live| {
            live.is_live(gateway.clock.now()) && gateway.is_proof_good(live.sign_in())
        });
        if is_over || !is_live {
            return Err(RevocationReason::SessionEnded);
        }
        self.judge().map_err(|denied| match denied {
            None => RevocationReason::AppGone,
            Some(_) => RevocationReason::NoLongerAllowed,
        })
    }
}
