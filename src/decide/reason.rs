//! Why a request is refused: its status, its stable word, and its sentence for the client.

use http::StatusCode;

use crate::{
    authorize::Denied, incoming::Malformed, model::authentication::InsufficientAuthentication,
};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The request itself is not acceptable.
    Malformed(Malformed),
    /// No app of that id.
    UnknownApp,
    /// Nothing at this path.
    NotFound,
    /// Nothing at this path, and a page of an app requested it: the path lies outside of the app.
    OutsideApp,
    /// Our endpoint does not take this method.
    MethodNotAllowed,
    /// A WebSocket with a cookie, from a page that is not the app's.
    ForeignOrigin,
    /// A WebSocket with a cookie and without `Origin`, which browsers always send.
    MissingOrigin,
    /// A form of ours that is too large, too slow, or out of date.
    BadForm,
    /// A query parameter is unknown or invalid.
    BadQuery,
    /// A limit of concurrent work is reached.
    Busy,
    /// This client signs in too often.
    TooOften,
    /// A token of our issuer, or of an integration, that is not valid.
    BadToken,
    /// The credential cannot be checked now.
    Unverifiable,
    /// The app at this address cannot be looked up now.
    CatalogUnavailable,
    /// A port of the range that no app has now.
    Unassigned,
    /// The address has another tenant than the one this browser knows.
    OtherTenant,
    /// The app does not run yet.
    Starting,
    /// The app was stopped because it was not used. This request is a use, so it starts again.
    Idle,
    /// The app is about to stop.
    Stopping,
    /// The app was stopped.
    Stopped,
    /// The app fails to start.
    Failed,
    /// The app has ended.
    Ended,
    /// A ticket that is spent, expired, revoked, or for another origin or browser.
    BadTicket,
    /// Only trusted proxies may ask about the requests of others.
    UntrustedProxy,
    /// A proxy asks about a request that is for no app, or does not say which one it means.
    UnknownTarget,
    /// The access rule denies access.
    Denied(Denied),
}

impl Reason {
    /// Whether the person has access after another sign-in (RFC 9470).
    pub fn is_step_up(self) -> bool {
        matches!(self, Reason::Denied(Denied::InsufficientAuthentication(_)))
    }

    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Reason::Malformed(malformed) => malformed.status(),
            Reason::BadForm | Reason::BadQuery | Reason::BadTicket => StatusCode::BAD_REQUEST,
            Reason::UnknownApp | Reason::NotFound | Reason::OutsideApp => StatusCode::NOT_FOUND,
            Reason::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Reason::TooOften => StatusCode::TOO_MANY_REQUESTS,
            Reason::BadToken
            | Reason::Denied(Denied::Anonymous | Denied::InsufficientAuthentication(_)) => {
                StatusCode::UNAUTHORIZED
            }
            Reason::Unverifiable
            | Reason::CatalogUnavailable
            | Reason::Busy
            | Reason::Starting
            | Reason::Idle
            | Reason::Stopping
            | Reason::Stopped
            | Reason::Failed => StatusCode::SERVICE_UNAVAILABLE,
            Reason::Unassigned | Reason::OtherTenant | Reason::Ended => StatusCode::GONE,
            Reason::ForeignOrigin
            | Reason::MissingOrigin
            | Reason::UntrustedProxy
            | Reason::UnknownTarget
            | Reason::Denied(
                Denied::NotInGroup
                | Denied::NotOwner
                | Denied::OtherIssuer
                | Denied::NotAdmitted(_)
                | Denied::Excluded(_)
                | Denied::UnknownAccess,
            ) => StatusCode::FORBIDDEN,
        }
    }

    /// One word for logs, metrics and problem+json.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Malformed(malformed) => malformed.reason(),
            Reason::UnknownApp => "unknown_app",
            Reason::NotFound => "not_found",
            Reason::OutsideApp => "outside_app",
            Reason::MethodNotAllowed => "method_not_allowed",
            // One word for both: other software reads it.
            Reason::ForeignOrigin | Reason::MissingOrigin => "foreign_origin",
            Reason::BadForm => "bad_form",
            Reason::BadQuery => "bad_query",
            Reason::Busy => "busy",
            Reason::TooOften => "too_often",
            Reason::BadToken => "bad_token",
            Reason::Unverifiable => "unverifiable",
            Reason::CatalogUnavailable => "catalog_unavailable",
            Reason::Unassigned => "unassigned",
            Reason::OtherTenant => "other_tenant",
            Reason::Starting => "starting",
            Reason::Idle => "idle",
            Reason::Stopping => "stopping",
            Reason::Stopped => "stopped",
            Reason::Failed => "failed",
            Reason::Ended => "ended",
            Reason::BadTicket => "bad_ticket",
            Reason::UntrustedProxy => "untrusted_proxy",
            Reason::UnknownTarget => "unknown_target",
            Reason::Denied(Denied::Anonymous) => "anonymous",
            Reason::Denied(Denied::NotInGroup) => "not_in_group",
            Reason::Denied(Denied::NotOwner) => "not_owner",
            Reason::Denied(Denied::OtherIssuer) => "other_issuer",
            Reason::Denied(Denied::NotAdmitted(_)) => "not_admitted",
            Reason::Denied(Denied::Excluded(_)) => "excluded",
            Reason::Denied(Denied::InsufficientAuthentication(
                InsufficientAuthentication::TooOld,
            )) => "authentication_too_old",
            Reason::Denied(Denied::InsufficientAuthentication(
                InsufficientAuthentication::OtherContext,
            )) => "authentication_context",
            Reason::Denied(Denied::UnknownAccess) => "unknown_access",
        }
    }

    /// One sentence for the client; it reveals nothing that the client may not know.
    pub fn sentence(self) -> String {
        match self {
            Reason::Malformed(malformed) => format!("The request was refused: {malformed}."),
            Reason::UnknownApp => "There is no app at this address.".into(),
            Reason::NotFound | Reason::OutsideApp => "There is nothing at this address.".into(),
            Reason::MethodNotAllowed => "This address does not accept that method.".into(),
            Reason::ForeignOrigin => "Only pages of this site may make this request.".into(),
            Reason::MissingOrigin => {
                "The request has a session cookie and no Origin header. Send the origin of this \
                 address, or a bearer token in place of the cookie."
                    .into()
            }
            Reason::BadForm => "The form is too large, too slow or out of date. Open the page again.".into(),
            Reason::BadQuery => "The address has an unknown or invalid parameter.".into(),
            Reason::Busy => "The service is busy. Please try again.".into(),
            Reason::TooOften => {
                "There were too many sign-ins from your address. Please wait a moment and try again.".into()
            }
            Reason::BadToken => "The token is not valid.".into(),
            Reason::Unverifiable => "We can't check your access right now. Please try again.".into(),
            Reason::CatalogUnavailable => "We can't check this address right now. Please try again.".into(),
            Reason::Unassigned => "No app is running at this address.".into(),
            Reason::OtherTenant => "Another app is running at this address now. Open the page again.".into(),
            Reason::Starting => "The app will be available shortly.".into(),
            Reason::Idle => "The app was stopped because it was not used. It will be available shortly.".into(),
            Reason::Stopping => "The app can be used again after its next start.".into(),
            Reason::Stopped => "The owner of the app can start it again.".into(),
            Reason::Failed => "The owner of the app can find the cause in its status and logs.".into(),
            Reason::Ended => "The app that ran here has ended.".into(),
            Reason::BadTicket => "A link like this works once. Open the app again.".into(),
            Reason::UntrustedProxy => {
                "Only proxies that are configured as trusted may use this address.".into()
            }
            Reason::UnknownTarget => "There is no app at the address that you asked for.".into(),
            Reason::Denied(Denied::Anonymous) => "Sign in to reach this app.".into(),
            Reason::Denied(Denied::NotInGroup) => "This app is for members of another group.".into(),
            Reason::Denied(Denied::NotOwner) => "This app belongs to another person.".into(),
            Reason::Denied(Denied::OtherIssuer) => "This app is for people who sign in here.".into(),
            Reason::Denied(Denied::NotAdmitted(_)) => "This app is for other people.".into(),
            Reason::Denied(Denied::Excluded(_)) => {
                "The access rule of this app excludes you.".into()
            }
            Reason::Denied(Denied::InsufficientAuthentication(
                InsufficientAuthentication::TooOld,
            )) => "This app asks you to sign in again.".into(),
            Reason::Denied(Denied::InsufficientAuthentication(
                InsufficientAuthentication::OtherContext,
            )) => "This app asks you to sign in in another way.".into(),
            Reason::Denied(Denied::UnknownAccess) => {
                "The access rule of this app is not valid, so access is denied.".into()
            }
        }
    }
}
