//! Bearer tokens of our issuer and of trusted issuers.

use std::sync::Arc;

use http::HeaderValue;
use tokio::runtime::Handle;

use super::Identified;
use crate::{
    identity::oidc::{
        Oidc,
        bearer::{BearerVerifier, IssuerToken, VerifiedToken},
    },
    model::caller::{Caller, Credential},
};

/// Verifies bearer tokens. A token that was verified lately costs one look-up.
#[derive(Debug)]
pub struct BearerTokens {
    oidc: Arc<Oidc>,
    /// The runtime on which signing keys are fetched from the provider.
    control: Handle,
}

impl BearerTokens {
    /// Tokens of the issuer of this client, and of the trusted issuers.
    pub fn new(oidc: Arc<Oidc>, control: Handle) -> BearerTokens {
        BearerTokens { oidc, control }
    }

    /// The client of the identity provider.
    pub fn oidc(&self) -> &Arc<Oidc> {
        &self.oidc
    }

    /// The verifiers of our issuer and of the trusted ones.
    fn verifiers(&self) -> impl Iterator<Item = &Arc<BearerVerifier>> {
        std::iter::once(&self.oidc.bearer).chain(&self.oidc.trusted)
    }

    /// Whether the header claims to be a token of a known issuer, valid or not.
    pub fn owns(&self, authorization: &HeaderValue) -> bool {
        let is_cached = |verifier: &Arc<BearerVerifier>| verifier.cached(authorization).is_some();
        let is_from =
            |verifier: &Arc<BearerVerifier>| verifier.parse_header(authorization).is_some();
        self.verifiers().any(is_cached) || self.verifiers().any(is_from)
    }

    /// The caller that a token proves; `None`: the header holds no token of a known issuer.
    pub async fn identify(&self, authorization: &HeaderValue) -> Option<Identified> {
        // All caches first: only a token that is in none of them is decoded to find its issuer.
        let cached = |verifier: &Arc<BearerVerifier>| verifier.cached(authorization);
        if let Some(known) = self.verifiers().find_map(cached) {
            return Some(identified(Ok(known)));
        }
        let (verifier, token) = self
            .verifiers()
            .find_map(|verifier| Some((verifier, verifier.parse_header(authorization)?)))?;
        let verified = Box::pin(self.verify_with(verifier, token)).await;
        Some(identified(verified))
    }

    /// Verifies a token of our issuer; an unknown signing key is fetched first, at most once in
    /// 30 s.
    ///
    /// # Errors
    /// The caller that an invalid or unverifiable token makes.
    pub async fn verify(&self, token: IssuerToken<'_>) -> Result<VerifiedToken, Caller> {
        self.verify_with(&self.oidc.bearer, token).await
    }

    async fn verify_with(
        &self,
        verifier: &Arc<BearerVerifier>,
        token: IssuerToken<'_>,
    ) -> Result<VerifiedToken, Caller> {
        if let Some(key) = verifier.missing_key(token) {
            if !verifier.is_ready() {
                return Err(Caller::Unverifiable);
            }
            let fetching = verifier.clone();
            // If the task fails, the keys stay as they are and the token is refused.
            let _ = self
                .control
                .spawn(async move { fetching.look_for_key(key).await })
                .await;
        }
        verifier.verify(token).map_err(|error| {
            tracing::debug!(%error, "a token of a known issuer was refused");
            Caller::BadToken
        })
    }
}

/// The caller of a token that was verified or refused.
fn identified(verified: Result<VerifiedToken, Caller>) -> Identified {
    match verified {
        Ok(token) => {
            let caller = Caller::Person {
                principal: token.principal,
                credential: Credential::Bearer,
            };
            Identified {
                token_expires: Some(token.expires),
                ..Identified::without_session(caller)
            }
        }
        Err(caller) => Identified::without_session(caller),
    }
}
