//! Bearer tokens of our issuer.

use std::sync::Arc;

use http::HeaderValue;
use tokio::runtime::Handle;

use super::Identified;
use crate::{
    identity::oidc::{
        Oidc,
        bearer::{IssuerToken, VerifiedToken},
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
    /// Tokens of the issuer of this client.
    pub fn new(oidc: Arc<Oidc>, control: Handle) -> BearerTokens {
        BearerTokens { oidc, control }
    }

    /// The client of the identity provider.
    pub fn oidc(&self) -> &Arc<Oidc> {
        &self.oidc
    }

    /// Whether the header claims to be a token of our issuer, valid or not.
    pub fn owns(&self, authorization: &HeaderValue) -> bool {
        self.oidc.bearer.cached(authorization).is_some()
            || self.oidc.bearer.parse_header(authorization).is_some()
    }

    /// The caller that a token proves; `None`: the header holds no token of our issuer.
    pub async fn identify(&self, authorization: &HeaderValue) -> Option<Identified> {
        let verified = match self.oidc.bearer.cached(authorization) {
            Some(known) => Ok(known),
            None => {
                let token = self.oidc.bearer.parse_header(authorization)?;
                Box::pin(self.verify(token)).await
            }
        };
        Some(match verified {
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
        })
    }

    /// Verifies a token of our issuer; an unknown signing key is fetched first, at most once in
    /// 30 s.
    ///
    /// # Errors
    /// The caller that an invalid or unverifiable token makes.
    pub async fn verify(&self, token: IssuerToken<'_>) -> Result<VerifiedToken, Caller> {
        if let Some(key) = self.oidc.bearer.missing_key(token) {
            if !self.oidc.is_ready() {
                return Err(Caller::Unverifiable);
            }
            let oidc = self.oidc.clone();
            // If the task fails, the keys stay as they are and the token is refused.
            let _ = self
                .control
                .spawn(async move { oidc.bearer.look_for_key(key).await })
                .await;
        }
        self.oidc.bearer.verify(token).map_err(|error| {
            tracing::debug!(%error, "a token of our issuer was refused");
            Caller::BadToken
        })
    }
}
