//! From the site to another of our origins, without a cookie that both could read (behaviour row
//! 8).
//!
//! The host sends an anonymous person to the site ([`Call::lead_to_site`]); the site, once it knows
//! who they are and that they may, gives the browser a ticket ([`Call::hand_over`]); the host takes
//! it and sets its own cookie ([`Call::enter`]).

use std::sync::Arc;

use http::{HeaderValue, Response, StatusCode, uri::PathAndQuery};

use super::{Call, set_cookie};
use crate::{
    authorize::{Denied, Permit},
    gateway::{
        access_log::Record,
        answer::Answer,
        decide::judge,
        decision::{Early, Reason, Refusal},
        locate::locate,
        pages,
        respond::{self, Audience},
        return_to,
    },
    model::{
        arrival::Arrival,
        caller::{Caller, Credential},
        vhost::VirtualHost,
    },
    route::path::{ENTER, RENEWED},
    session::{
        bind::{BindHash, is_bind, new_bind},
        cookie::{self, NoRandomness},
        live::Live,
        record::SignIn,
        ticket::Ticket,
    },
};

/// The bind cookie of this browser here.
pub struct Bind {
    /// Its value.
    pub value: String,
    /// Set on the answer when the browser had none.
    pub line: Option<HeaderValue>,
}

impl Call<'_> {
    /// The browser's bind cookie, made when it has none.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn bind(&self) -> Result<Bind, NoRandomness> {
        let site = self.snapshot.site();
        let presented = self.cookies().unwrap_or_default();
        let kept = presented.bind.iter().find(|value| is_bind(value));
        if let Some(value) = kept.and_then(|value| std::str::from_utf8(value).ok()) {
            return Ok(Bind {
                value: value.to_owned(),
                line: None,
            });
        }
        let value = new_bind()?;
        let line = cookie::set(&site.cookies.bind, &value, "/", site.origin.secure);
        Ok(Bind { value, line })
    }

    /// On another origin: an anonymous person opens a page, and goes to the site to sign in.
    pub fn lead_to_site(&self, target: &str, record: &mut Record) -> Response<Answer> {
        let site = self.snapshot.site();
        if self.gateway.oidc.is_none() {
            // Nobody can sign in there; a page that says what is needed is of more use.
            return self.refuse(Reason::Denied(Denied::Anonymous), record);
        }
        let Ok(bind) = self.bind() else {
            return self.refuse(Reason::Unverifiable, record);
        };
        let back = return_to::address(&self.arrival.vhost, target, site);
        let start = pages::start(site, &back);
        let hash = BindHash::from_cookie(bind.value.as_bytes());
        let location = format!(
            "{}&bind={}",
            site.url(&VirtualHost::Site, &start),
            hash.as_str()
        );
        let mut response = respond::redirect(StatusCode::FOUND, &location);
        set_cookie(&mut response, bind.line);
        if !self.cookies().unwrap_or_default().app.is_empty() {
            // A session that is over leaves no cookie behind: from the site it could not be taken
            // away.
            let name = site.cookies.app_at(&self.arrival.vhost);
            set_cookie(&mut response, cookie::clear(&name, "/", site.origin.secure));
        }
        response
    }

    /// On the site: the person is known. If they may reach the target, the browser gets a ticket
    /// for it.
    pub async fn hand_over(
        &self,
        sign_in: &Arc<SignIn>,
        (vhost, target): (VirtualHost, &str),
        bind: BindHash,
        record: &mut Record,
    ) -> Response<Answer> {
        let site = self.snapshot.site();
        let principal = sign_in.principal().clone();
        record.person = Some(principal.clone());
        let audience = Audience {
            vhost: Some(vhost),
            target,
            person: Some(&principal),
            ..self.audience()
        };
        let permit = match self
            .permit_at(&vhost, target, &principal, record.client.address)
            .await
        {
            Ok(permit) => permit,
            Err(refusal) => {
                record.decision = "deny";
                record.reason = refusal.reason.as_str();
                record.app.clone_from(&refusal.app);
                // Whoever signed in here has no token of the other system that could show what they
                // may see.
                let refusal = self.gateway.veil_refusal(refusal, None).await;
                return respond::refusal(&refusal, audience, record);
            }
        };
        record.app = Some(permit.app().clone());
        if permit.principal().is_none() {
            return respond::redirect(StatusCode::SEE_OTHER, &site.url(&vhost, target));
        }
        let now = self.gateway.clock.now();
        self.gateway
            .sessions
            .store
            .touch(&Live::SignIn(sign_in.clone()), now);
        let ticket = Ticket {
            vhost,
            app: permit.app().id().clone(),
            bind,
            sign_in: sign_in.clone(),
            target: target.to_owned(),
            issued_at: now,
        };
        match self.gateway.sessions.tickets.issue(ticket).await {
            Ok(id) => {
                let enter = site.url(&vhost, &format!("{ENTER}?ticket={}", id.as_str()));
                respond::redirect(StatusCode::SEE_OTHER, &enter)
            }
            Err(_) => self.refuse(Reason::Unverifiable, record),
        }
    }

    /// What the person would get who opens the target there: the same judgement as of a request.
    async fn permit_at(
        &self,
        vhost: &VirtualHost,
        target: &str,
        principal: &Arc<crate::model::principal::Principal>,
        client: std::net::IpAddr,
    ) -> Result<Permit, Refusal> {
        let not_found = Refusal {
            reason: Reason::NotFound,
            app: None,
        };
        // The end of a window that renews is reached by who may reach the app's first page.
        let target = if target == RENEWED { "/" } else { target };
        let Ok(target) = PathAndQuery::try_from(target) else {
            return Err(not_found);
        };
        let arrival = Arrival::of_navigation(*vhost, target);
        let lookup = self.gateway.catalog.at(vhost, self.snapshot, client).await;
        let caller = Caller::Person {
            principal: principal.clone(),
            credential: Credential::Cookie,
        };
        let judged = locate(&arrival, self.snapshot, &lookup)
            .and_then(|destination| judge(&arrival, &caller, destination));
        match judged {
            Ok(permit) => Ok(permit),
            Err(Early::Refuse(refusal)) => Err(refusal),
            Err(
                Early::Endpoint(_)
                | Early::Launcher
                | Early::Redirect { .. }
                | Early::SignIn { .. },
            ) => Err(not_found),
        }
    }

    /// On the other origin: takes the ticket, sets this origin's own cookie, and goes on to what
    /// was asked for.
    pub async fn enter(&self, record: &mut Record) -> Response<Answer> {
        let gateway = self.gateway;
        let (site, vhost) = (self.snapshot.site(), &self.arrival.vhost);
        let presented = self.cookies().unwrap_or_default();
        let ticket = self.query("ticket").ok().flatten().unwrap_or_default();
        let taken = gateway
            .sessions
            .tickets
            .redeem(&ticket, vhost, presented.bind.iter())
            .await;
        let ticket = match taken {
            Ok(ticket) => ticket,
            Err(why) => {
                tracing::info!(
                    target: "audit", event = "ticket_refused", %why, client = %record.client,
                    request_id = record.id(),
                );
                let refusal = Refusal {
                    reason: Reason::BadTicket,
                    app: None,
                };
                record.reason = refusal.reason.as_str();
                return respond::refusal(
                    &refusal,
                    Audience {
                        target: "/",
                        ..self.audience()
                    },
                    record,
                );
            }
        };
        record.person = Some(ticket.sign_in.principal().clone());
        let Some((id, session)) = gateway
            .sessions
            .store
            .mint(&ticket.sign_in, &ticket.app, vhost)
        else {
            return self.refuse(Reason::Unverifiable, record);
        };
        gateway
            .sessions
            .replication
            .save_app_session(&session)
            .await;
        let mut response =
            respond::redirect(StatusCode::SEE_OTHER, &site.url(vhost, &ticket.target));
        let name = site.cookies.app_at(vhost);
        set_cookie(
            &mut response,
            cookie::set(&name, id.as_str(), "/", site.origin.secure),
        );
        response
    }
}
