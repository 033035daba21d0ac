//! What an integration adds to the credentials that identify a caller.

use std::{fmt, sync::Arc};

use futures_util::future::{FutureExt, LocalBoxFuture};
use http::HeaderValue;

use super::Identified;
use crate::{
    identity::oidc::sign_in::SignedIn,
    incoming::{IncomingRequest, cookies::Presented},
    model::{
        app::{App, AppId},
        arrival::Arrival,
        client::Client,
        destination::Destination,
        principal::Principal,
        secret::Secret,
    },
    session::{cookie::RecordKey, record::SignIn},
};

/// The credentials on one request.
#[derive(Debug)]
pub struct Evidence<'r> {
    /// The validated head.
    pub arrival: &'r Arrival,
    /// The Authorization header.
    pub authorization: Option<&'r HeaderValue>,
    /// Our cookies and those of the sources; `None`: they do not count on this request.
    pub cookies: Option<&'r Presented<'r>>,
    /// The requested app; `None`: one of our own endpoints.
    pub app: Option<&'r App>,
    /// The request is permitted to every signed-in person, whatever their groups.
    pub is_for_every_user: bool,
    /// The client that look-ups are rate-limited for.
    pub client: Client,
    /// Whether an identity provider is configured.
    pub signs_in: bool,
}

impl<'r> Evidence<'r> {
    /// The credentials of a request to this destination.
    pub fn new(
        request: &'r IncomingRequest<'_>,
        destination: Option<&'r Destination>,
        cookies: Option<&'r Presented<'r>>,
    ) -> Evidence<'r> {
        Evidence {
            arrival: &request.arrival,
            authorization: request.authorization(),
            cookies,
            app: destination.map(|destination| &*destination.app),
            is_for_every_user: destination.is_some_and(Destination::is_for_every_user),
            client: request.client,
            signs_in: request.site().signs_in,
        }
    }
}

/// A kind of credential beside our session cookie and the bearer tokens of our issuer.
///
/// Futures run on a data thread. One that waits for a server must be bounded in time.
pub trait CredentialSource: fmt::Debug + Send + Sync {
    /// The caller that this kind of credential proves; `None`: the request has no such credential.
    fn identify<'r>(&'r self, evidence: &'r Evidence<'_>)
    -> LocalBoxFuture<'r, Option<Identified>>;

    /// Whether this source began the sign-in.
    fn began(&self, sign_in: &SignIn) -> bool;

    /// Whether a session of a sign-in that this source began counts on this request.
    fn confirms<'r>(
        &'r self,
        sign_in: &'r Arc<SignIn>,
        evidence: &'r Evidence<'_>,
    ) -> LocalBoxFuture<'r, bool> {
        let _ = (sign_in, evidence);
        async { true }.boxed_local()
    }

    /// Checks the person of a sign-in of this source in the background, when that is due.
    fn recheck(&self, sign_in: &Arc<SignIn>);

    /// Whether the person of a sign-in of this source was confirmed lately enough for a stream.
    fn is_confirmed(&self, sign_in: &SignIn) -> bool {
        let _ = sign_in;
        true
    }

    /// Whether an Authorization header for this app is a credential of this source.
    fn owns_authorization(&self, authorization: &HeaderValue, app: &App) -> bool {
        let _ = (authorization, app);
        false
    }

    /// Whether a caller with this token may learn that the app exists; `None`: the app is not from
    /// this source.
    fn may_learn_of<'r>(
        &'r self,
        app: &'r App,
        token: Option<&'r Secret>,
    ) -> LocalBoxFuture<'r, Option<bool>> {
        let _ = (app, token);
        async { None }.boxed_local()
    }

    /// The person of a token, as last verified, without waiting.
    fn person_of_token(&self, token: &Secret) -> Option<Arc<Principal>> {
        let _ = token;
        None
    }

    /// The person that a cookie of this source proves on the site, without waiting, and the key
    /// that a sign-out form is bound to.
    fn person_beside(&self, cookies: &Presented<'_>) -> Option<(Arc<Principal>, RecordKey)> {
        let _ = cookies;
        None
    }

    /// Adds what this source knows of a person who just signed in at the identity provider.
    fn describe<'r>(&'r self, signed_in: &'r mut SignedIn) -> LocalBoxFuture<'r, ()> {
        let _ = signed_in;
        async {}.boxed_local()
    }

    /// Revokes the sessions that this source began for the person. Returns the apps on paths, whose
    /// cookies the site can expire.
    fn sign_out<'r>(&'r self, person: &'r Principal) -> LocalBoxFuture<'r, Vec<AppId>>;
}
