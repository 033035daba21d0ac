//! Labels of the access log and the metrics. No decision depends on them.

use super::reason::Reason;
use crate::{
    authorize::Grounds, forward::fault::Fault, route::Endpoint, streams::RevocationReason,
};

/// The `decision` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionLabel {
    /// The request was permitted.
    Allow,
    /// One of our endpoints, or the launcher, answered.
    Ours,
    /// A redirect to an address of ours.
    Redirect,
    /// A redirect to sign in.
    SignIn,
    /// A refusal.
    Deny,
    /// The head was refused before routing.
    Malformed,
    /// The client closed the connection before a decision.
    Undecided,
}

impl DecisionLabel {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            DecisionLabel::Allow => "allow",
            DecisionLabel::Ours => "ours",
            DecisionLabel::Redirect => "redirect",
            DecisionLabel::SignIn => "sign_in",
            DecisionLabel::Deny => "deny",
            DecisionLabel::Malformed => "malformed",
            DecisionLabel::Undecided => "undecided",
        }
    }
}

/// The `reason` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogReason {
    /// The clause of the access rule that admitted the request.
    Grounds(Grounds),
    /// The endpoint that answered.
    Endpoint(Endpoint),
    /// The launcher answered.
    Launcher,
    /// Why the browser was redirected.
    Redirect(RedirectReason),
    /// Why the request was refused.
    Refused(Reason),
    /// A token in the address became a session.
    TokenInAddress,
    /// A form was saved in the answer.
    SavedForm,
    /// A sign-in did not succeed.
    SignIn(SignInProblem),
    /// A logout token was not valid.
    BadLogoutToken,
    /// The client closed the connection before a decision.
    ClientClosed,
}

/// Why a request is redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectReason {
    /// The path has another canonical form, or leads to the launcher or an app's own host.
    Path,
    /// The host is the site's other name.
    Alias,
    /// The listener only redirects to https.
    ToHttps,
}

/// Why a sign-in did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInProblem {
    /// The callback, or the address that begins a sign-in, is not valid.
    BadCallback,
    /// The provider did not sign the person in.
    Declined,
    /// The provider did not confirm the authentication that the app requires.
    NotConfirmed,
    /// The provider refuses our client id or secret.
    ClientRefused,
    /// The provider cannot be reached.
    Unavailable,
}

impl LogReason {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            LogReason::Grounds(grounds) => grounds.as_str(),
            LogReason::Endpoint(endpoint) => endpoint.as_str(),
            LogReason::Launcher => "launcher",
            LogReason::Redirect(RedirectReason::Path) => "path",
            LogReason::Redirect(RedirectReason::Alias) => "alias",
            LogReason::Redirect(RedirectReason::ToHttps) => "to_https",
            LogReason::Refused(reason) => reason.as_str(),
            LogReason::TokenInAddress => "token_in_address",
            LogReason::SavedForm => "saved_form",
            LogReason::SignIn(problem) => problem.as_str(),
            LogReason::BadLogoutToken => "bad_logout_token",
            LogReason::ClientClosed => "client_closed",
        }
    }
}

impl SignInProblem {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            SignInProblem::BadCallback => "bad_callback",
            SignInProblem::Declined => "sign_in_declined",
            SignInProblem::NotConfirmed => "authentication_not_confirmed",
            SignInProblem::ClientRefused => "client_refused_by_provider",
            SignInProblem::Unavailable => "provider_unavailable",
        }
    }
}

/// The `outcome` field of the access log: how a request ended other than by an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The app gave no answer.
    Fault(Fault),
    /// The stream was closed because access ended.
    Revoked(RevocationReason),
    /// The client closed the connection before the head of the answer.
    ClientClosed,
}

impl Outcome {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Fault(fault) => fault.reason(),
            Outcome::Revoked(reason) => reason.as_str(),
            Outcome::ClientClosed => "client_closed",
        }
    }
}
