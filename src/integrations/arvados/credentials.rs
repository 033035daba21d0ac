//! Arvados tokens as credentials: in `Authorization`, in an address, or in the cookie that Arvados'
//! own programs set. They count at containers only.

use std::sync::Arc;

use futures_util::future::{FutureExt, LocalBoxFuture};
use http::HeaderValue;

use super::{
    container_gateway::container_of,
    tokens::{self, ArvadosTokens, Form},
};
use crate::{
    caller::{
        Identified,
        source::{CredentialSource, Evidence},
    },
    identity::{oidc::sign_in::SignedIn, stale_cache::Unavailable},
    model::{
        app::{App, AppId},
        arrival::AddressToken,
        caller::{Caller, Credential},
        principal::Principal,
        secret::Secret,
    },
    session::{live::Live, record::SignIn},
};

/// The credential source of an Arvados cluster.
#[derive(Debug)]
pub struct ArvadosCredentials {
    tokens: Arc<ArvadosTokens>,
}

impl ArvadosCredentials {
    /// A credential source that verifies with `tokens`.
    pub fn new(tokens: Arc<ArvadosTokens>) -> ArvadosCredentials {
        ArvadosCredentials { tokens }
    }

    async fn identify_at_container(&self, evidence: &Evidence<'_>) -> Option<Identified> {
        container_of(evidence.app?)?;
        if let Some(identified) = self.by_authorization(evidence).await {
            return Some(identified);
        }
        match &evidence.arrival.address_token {
            Some(AddressToken::Conflicting) => Some(Identified::without_session(Caller::BadToken)),
            Some(AddressToken::One(token)) => {
                Some(self.by_token(token, Credential::Address, evidence).await)
            }
            None => self.by_cookies(evidence).await,
        }
    }

    /// The caller that a token in `Authorization` proves. It begins no session. A value in the old
    /// form that is not a valid token belongs to the app.
    async fn by_authorization(&self, evidence: &Evidence<'_>) -> Option<Identified> {
        let value = evidence.authorization?;
        let (token, form) = tokens::of_authorization(value.as_bytes())?;
        let token = Secret::new(token);
        let person = self.tokens.person(&token, evidence.client.address).await;
        let caller = match (person, form) {
            (Ok(Some(principal)), _) => Caller::Person {
                principal,
                credential: Credential::Bearer,
            },
            (Ok(None), Form::Sure) => Caller::BadToken,
            (Ok(None), Form::Old) => return None,
            (Err(Unavailable), _) => Caller::Unverifiable,
        };
        Some(Identified {
            authorization_is_ours: true,
            header_token: Some(token),
            ..Identified::without_session(caller)
        })
    }

    /// The caller that the tokens in cookies prove. If two people's tokens are valid, neither
    /// counts.
    async fn by_cookies(&self, evidence: &Evidence<'_>) -> Option<Identified> {
        let mut proved: Option<Identified> = None;
        for token in evidence
            .cookies?
            .credential
            .iter()
            .filter_map(tokens::of_cookie)
        {
            let identified = self.by_token(&token, Credential::Cookie, evidence).await;
            match (&identified.caller, &proved) {
                (Caller::Person { principal, .. }, Some(other)) => {
                    let is_other = |person: &Arc<Principal>| person.subject != principal.subject;
                    if other.caller.principal().is_some_and(is_other) {
                        return None;
                    }
                }
                (Caller::Person { .. }, None) => proved = Some(identified),
                // An expired or unverifiable cookie must not refuse a user who could sign in.
                // Without an identity provider an unverifiable cookie is refused.
                (Caller::Unverifiable, None) if !evidence.signs_in => return Some(identified),
                (Caller::BadToken | Caller::Unverifiable | Caller::Anonymous, _) => {}
            }
        }
        proved.map(|proved| Identified {
            by_shared_cookie: true,
            ..proved
        })
    }

    /// The caller that a token in an address or a cookie proves, with the sign-in that it begins.
    async fn by_token(
        &self,
        token: &Secret,
        credential: Credential,
        evidence: &Evidence<'_>,
    ) -> Identified {
        match self.tokens.sign_in(token, evidence.client.address).await {
            Ok(Some(sign_in)) => {
                self.tokens.recheck(&sign_in);
                Identified::by_session(Live::SignIn(sign_in), credential)
            }
            Ok(None) => Identified::without_session(Caller::BadToken),
            Err(Unavailable) => Identified::without_session(Caller::Unverifiable),
        }
    }
}

impl CredentialSource for ArvadosCredentials {
    fn identify<'r>(
        &'r self,
        evidence: &'r Evidence<'_>,
    ) -> LocalBoxFuture<'r, Option<Identified>> {
        self.identify_at_container(evidence).boxed_local()
    }

    fn began(&self, sign_in: &SignIn) -> bool {
        sign_in.tokens.source_token.is_some()
    }

    fn recheck(&self, sign_in: &Arc<SignIn>) {
        self.tokens.recheck(sign_in);
    }

    /// At a container: a token of the unmistakable form, or one that is known to be valid.
    fn owns_authorization(&self, authorization: &HeaderValue, app: &App) -> bool {
        let token = tokens::of_authorization(authorization.as_bytes());
        let is_ours =
            |(token, form): (&str, Form)| form == Form::Sure || self.tokens.is_known(token);
        container_of(app).is_some() && token.is_some_and(is_ours)
    }

    /// A person who may not reach a container learns of it only if they may read its record.
    fn may_learn_of<'r>(
        &'r self,
        app: &'r App,
        token: Option<&'r Secret>,
    ) -> LocalBoxFuture<'r, Option<bool>> {
        async move {
            let container = container_of(app)?;
            Some(match token {
                Some(token) => self.tokens.can_read(token, container).await,
                None => false,
            })
        }
        .boxed_local()
    }

    fn person_of_token(&self, token: &Secret) -> Option<Arc<Principal>> {
        self.tokens.last_verified_user(token)
    }

    fn describe<'r>(&'r self, signed_in: &'r mut SignedIn) -> LocalBoxFuture<'r, ()> {
        async move {
            let user = self.tokens.user_of_sign_in(&signed_in.access_token).await;
            signed_in.principal.other_id = user;
        }
        .boxed_local()
    }

    /// The sessions that the person's tokens began on hosts of containers. While the store is
    /// unavailable, those of other replicas go on: their tokens are still valid.
    fn sign_out<'r>(&'r self, person: &'r Principal) -> LocalBoxFuture<'r, Vec<AppId>> {
        async move {
            if let Some(user) = &person.other_id {
                self.tokens.sign_out(user).await;
            }
            Vec::new()
        }
        .boxed_local()
    }
}
