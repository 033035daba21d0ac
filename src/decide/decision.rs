//! The decisions that end a request here, as values. `respond` renders them.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};

use super::{
    labels::{DecisionLabel, LogReason, RedirectReason},
    reason::Reason,
    target::Target,
};
use crate::{
    authorize::{Denied, Grounds, Permit},
    forward::fault::Fault,
    incoming::Malformed,
    model::{app::App, authentication::AuthenticationRequirement, path_rule::RuleIndex},
    route::Endpoint,
};

/// An answer that is not relayed from an app.
#[derive(Debug)]
pub enum Decision {
    /// A refusal, as a page or as problem+json.
    Refuse(Refusal),
    /// One of our endpoints answers.
    Endpoint(Endpoint),
    /// The launcher answers.
    Launcher,
    /// The browser is sent to another address of ours.
    Redirect(Redirect),
    /// A person opens a page without being signed in, or must sign in again for it: sign in, then
    /// back to this target.
    SignIn {
        /// Path and query.
        return_to: String,
        /// Why, and at which app.
        refusal: Refusal,
    },
    /// The address has another tenant than the browser knows. The browser clears its storage and is
    /// redirected to the same address.
    ForgetTenant {
        /// The new tenant.
        app: Arc<App>,
        /// The cookie that names it.
        cookie: HeaderValue,
    },
    /// The token in the address was accepted: same address without the token, with a session.
    DropToken {
        /// The right to the app that the token gave.
        permit: Box<Permit>,
        /// Names the new tenant of the address, where the browser knows another one.
        tenant: Option<HeaderValue>,
    },
    /// A page sends a form without a session. If the session expired lately, the form is saved in
    /// the answer; otherwise this is the refusal.
    SaveForm(Refusal),
    /// A saved form is sent again; it goes to the app once its sender is verified.
    ResendForm(Box<Target>),
    /// The request was permitted, and the app did not answer.
    Fault {
        /// Why it did not.
        fault: Fault,
        /// The app.
        app: Arc<App>,
        /// Why the request was permitted.
        grounds: Grounds,
    },
}

/// A redirect to an address of ours.
#[derive(Debug)]
pub struct Redirect {
    /// 302, 307 or 308.
    pub status: StatusCode,
    /// A path on the site, or a whole address at another origin of ours.
    pub location: String,
    /// Why.
    pub reason: RedirectReason,
}

/// A refusal and its reason.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The requested app, once it is known.
    pub app: Option<Arc<App>>,
    /// The rule of the app that denies access.
    pub rule: RuleIndex,
}

impl Refusal {
    /// A refusal that names no app.
    pub fn new(reason: Reason) -> Refusal {
        Refusal {
            reason,
            app: None,
            rule: RuleIndex::OWN,
        }
    }

    /// A refusal of a request to this app.
    pub fn at(app: Arc<App>, reason: Reason) -> Refusal {
        Refusal {
            app: Some(app),
            ..Refusal::new(reason)
        }
    }
}

impl From<Refusal> for Decision {
    fn from(refusal: Refusal) -> Decision {
        Decision::Refuse(refusal)
    }
}

impl From<Reason> for Decision {
    fn from(reason: Reason) -> Decision {
        Decision::Refuse(Refusal::new(reason))
    }
}

impl From<Malformed> for Decision {
    fn from(malformed: Malformed) -> Decision {
        Decision::from(Reason::Malformed(malformed))
    }
}

impl Decision {
    /// The app, if the decision was made after it was found.
    pub fn app(&self) -> Option<&Arc<App>> {
        match self {
            Decision::Refuse(refusal)
            | Decision::SaveForm(refusal)
            | Decision::SignIn { refusal, .. } => refusal.app.as_ref(),
            Decision::ForgetTenant { app, .. } | Decision::Fault { app, .. } => Some(app),
            Decision::DropToken { permit, .. } => Some(permit.app()),
            Decision::ResendForm(target) => Some(&target.destination.app),
            Decision::Endpoint(_) | Decision::Launcher | Decision::Redirect(_) => None,
        }
    }

    /// The app that the caller may use once it runs: the request is a use of it, which wakes an
    /// idle app.
    pub fn awaited_app(&self) -> Option<&Arc<App>> {
        let Decision::Refuse(refusal) = self else {
            return None;
        };
        let is_awaited = matches!(refusal.reason, Reason::Starting | Reason::Idle);
        refusal.app.as_ref().filter(|_| is_awaited)
    }

    /// The `decision` label of logs and metrics.
    pub fn label(&self) -> DecisionLabel {
        match self {
            Decision::Endpoint(_) | Decision::Launcher => DecisionLabel::Ours,
            Decision::Redirect(_) | Decision::ForgetTenant { .. } | Decision::DropToken { .. } => {
                DecisionLabel::Redirect
            }
            Decision::SignIn { .. } => DecisionLabel::SignIn,
            Decision::Refuse(refusal) | Decision::SaveForm(refusal) => refusal.label(),
            Decision::ResendForm(_) | Decision::Fault { .. } => DecisionLabel::Allow,
        }
    }

    /// The `reason` label of logs and metrics.
    pub fn reason(&self) -> LogReason {
        match self {
            Decision::Endpoint(endpoint) => LogReason::Endpoint(*endpoint),
            Decision::Launcher => LogReason::Launcher,
            Decision::Redirect(redirect) => LogReason::Redirect(redirect.reason),
            Decision::ForgetTenant { .. } => LogReason::Refused(Reason::OtherTenant),
            Decision::DropToken { .. } => LogReason::TokenInAddress,
            Decision::Refuse(refusal)
            | Decision::SaveForm(refusal)
            | Decision::SignIn { refusal, .. } => LogReason::Refused(refusal.reason),
            Decision::ResendForm(_) => LogReason::SavedForm,
            Decision::Fault { grounds, .. } => LogReason::Grounds(*grounds),
        }
    }

    /// The status that follows from the decision alone; `None` where an endpoint or the app
    /// decides it.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Decision::Endpoint(_) | Decision::ResendForm(_) => None,
            Decision::Launcher => Some(StatusCode::OK),
            Decision::Redirect(redirect) => Some(redirect.status),
            Decision::SignIn { .. } => Some(StatusCode::FOUND),
            Decision::ForgetTenant { .. } | Decision::DropToken { .. } => {
                Some(StatusCode::SEE_OTHER)
            }
            Decision::Refuse(refusal) | Decision::SaveForm(refusal) => {
                Some(refusal.reason.status())
            }
            Decision::Fault { fault, .. } => Some(fault.status()),
        }
    }
}

impl Refusal {
    /// What the app requires of the sign-in that this refusal asks for, if it requires anything.
    pub fn required_authentication(&self) -> Option<&AuthenticationRequirement> {
        let asks = self.reason == Reason::Denied(Denied::Anonymous) || self.reason.is_step_up();
        let app = self.app.as_ref().filter(|_| asks)?;
        app.spec.authentication.as_deref()
    }

    /// The app, if this refusal reveals its existence to a person who is not its owner.
    pub fn hideable(&self) -> Option<&Arc<App>> {
        let is_private = self.reason == Reason::Denied(Denied::NotOwner);
        self.app.as_ref().filter(|_| is_private)
    }

    /// The refusal for a person who may not learn that the app exists.
    pub fn hidden_unless(self, may_learn: bool) -> Refusal {
        if may_learn {
            self
        } else {
            Refusal::new(Reason::UnknownApp)
        }
    }

    /// The `decision` label of logs and metrics.
    pub fn label(&self) -> DecisionLabel {
        match self.reason {
            Reason::Malformed(_) => DecisionLabel::Malformed,
            Reason::UnknownApp
            | Reason::NotFound
            | Reason::OutsideApp
            | Reason::MethodNotAllowed
            | Reason::ForeignOrigin
            | Reason::MissingOrigin
            | Reason::BadForm
            | Reason::BadQuery
            | Reason::Busy
            | Reason::TooOften
            | Reason::BadToken
            | Reason::Unverifiable
            | Reason::CatalogUnavailable
            | Reason::Unassigned
            | Reason::OtherTenant
            | Reason::Starting
            | Reason::Idle
            | Reason::Stopping
            | Reason::Stopped
            | Reason::Failed
            | Reason::Ended
            | Reason::BadTicket
            | Reason::UntrustedProxy
            | Reason::UnknownTarget
            | Reason::Denied(_) => DecisionLabel::Deny,
        }
    }
}
