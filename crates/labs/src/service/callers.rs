//! Who calls: by an identity that the gateway signed, by headers of a listed proxy, or by an OIDC
//! bearer token. Each request has one source, in this order; there is no second try with another.
//!
//! `claims` reads persons from JSON, `scopes` says what they may do, `assertion`, `bearer` and
//! `proxied` are the sources, and `user_info` adds UID and GID where the source lacks them.

mod assertion;
mod bearer;
mod caller;
mod claims;
mod proxied;
mod scopes;
mod user_info;

use std::{net::IpAddr, sync::Arc};

use futures_util::future::BoxFuture;
use http::{HeaderMap, Uri, header};
use ludgate_identity::oidc::Oidc;
use ludgate_model::{
    access::GroupName,
    clock::Clock,
    header_values::{Occurrence, occurrence, single},
    identity_headers::ASSERTION,
    secret::Secret,
};
use ludgate_ops::http_client::HttpClient;
use serde_json::{Map, Value};

use crate::error::LabError;
pub use assertion::AssertionSettings;
use assertion::AssertionVerifier;
pub use caller::{LabCaller, LabScope};
pub use claims::ClaimNames;
use proxied::Proxied;
pub use proxied::TrustedHeaderSettings;
use scopes::ScopeSubject;
pub use scopes::{ScopeRule, ScopeRules};
use user_info::UserInfo;

/// Identifies the callers of requests.
pub trait IdentifyCaller: Send + Sync {
    /// The caller of a request from a peer. Makes no call for the person's UID and GID.
    ///
    /// # Errors
    /// [`LabError::InvalidToken`] without a valid identity, [`LabError::Unavailable`] if it cannot
    /// be checked now.
    fn identify<'a>(
        &'a self,
        headers: &'a HeaderMap,
        peer: IpAddr,
    ) -> BoxFuture<'a, Result<LabCaller, LabError>>;

    /// The caller with the user, if a source of identity knows UID and GID.
    ///
    /// # Errors
    /// [`LabError::InvalidToken`] or [`LabError::PermissionDenied`] if the token is not the
    /// person's, [`LabError::Unavailable`] if that cannot be checked now.
    fn complete(&self, caller: LabCaller) -> BoxFuture<'_, Result<LabCaller, LabError>>;
}

/// Which identities are accepted, and what they may do.
#[derive(Clone, Debug)]
pub struct CallerSettings {
    /// Which claims describe a person.
    pub claims: ClaimNames,
    /// Who has which scope.
    pub scopes: ScopeRules,
    /// Headers of proxies.
    pub headers: TrustedHeaderSettings,
    /// Identities that the gateway signs; `None`: they are ignored.
    pub assertion: Option<AssertionSettings>,
    /// Where a token's UID, GID, groups and quota are asked for; `None`: claims alone have them.
    pub user_info: Option<Uri>,
}

/// The callers of a service.
pub struct LabCallers {
    claims: ClaimNames,
    scopes: ScopeRules,
    headers: TrustedHeaderSettings,
    assertion: Option<AssertionVerifier>,
    oidc: Option<Arc<Oidc>>,
    user_info: Option<UserInfo>,
}

impl LabCallers {
    /// Callers by these settings. `http` calls the gateway and the user-info URL; without `oidc`
    /// bearer tokens are refused.
    pub fn new(
        settings: CallerSettings,
        oidc: Option<Arc<Oidc>>,
        http: Arc<HttpClient>,
        clock: Clock,
    ) -> LabCallers {
        let user_info = settings
            .user_info
            .map(|url| UserInfo::new(url, http.clone()));
        let assertion = settings
            .assertion
            .map(|settings| AssertionVerifier::new(settings, http, clock));
        LabCallers {
            claims: settings.claims,
            scopes: settings.scopes,
            headers: settings.headers,
            assertion,
            oidc,
            user_info,
        }
    }

    async fn identify(&self, headers: &HeaderMap, peer: IpAddr) -> Result<LabCaller, LabError> {
        let assertion = occurrence(headers, &ASSERTION);
        if let (Some(verifier), false) = (&self.assertion, assertion == Occurrence::Absent) {
            let token = single(headers, &ASSERTION).and_then(|value| value.to_str().ok());
            let claims = verifier
                .verify(token.ok_or(LabError::InvalidToken)?)
                .await?;
            // What the lab may act with. The gateway passes it to apps that are allowed to have it.
            return self.described(&claims, bearer::token(headers));
        }
        match self.headers.read(headers, peer)? {
            Proxied::Person {
                username,
                token,
                groups,
            } => Ok(self.proxied(username, token, &groups)),
            Proxied::Nothing { is_listed } => match &self.oidc {
                Some(oidc) if headers.contains_key(header::AUTHORIZATION) => {
                    let (claims, token) = bearer::verify(oidc, headers).await?;
                    self.described(&claims, Some(token))
                }
                Some(_) | None if is_listed => self.unnamed(),
                Some(_) | None => Err(LabError::InvalidToken),
            },
        }
    }

    /// A caller with verified claims.
    fn described(
        &self,
        claims: &Map<String, Value>,
        token: Option<Secret>,
    ) -> Result<LabCaller, LabError> {
        let username = self.claims.username(claims).ok_or(LabError::InvalidToken)?;
        let groups = self.claims.group_names(claims);
        let scopes = self.scopes.granted_to(&ScopeSubject {
            username: &username,
            groups: &groups,
            claims: Some(claims),
            is_proxied: false,
        });
        Ok(LabCaller {
            user: self.claims.lab_user(&username, claims),
            username,
            scopes,
            token,
        })
    }

    fn proxied(&self, username: String, token: Option<Secret>, groups: &[GroupName]) -> LabCaller {
        let scopes = self.scopes.granted_to(&ScopeSubject {
            username: &username,
            groups,
            claims: None,
            is_proxied: true,
        });
        LabCaller {
            username,
            scopes,
            token,
            user: None,
        }
    }

    /// A request of a proxy that checks callers itself, and names none.
    fn unnamed(&self) -> Result<LabCaller, LabError> {
        let scopes = self.scopes.granted_to_proxies();
        match scopes.is_empty() {
            true => Err(LabError::InvalidToken),
            false => Ok(LabCaller {
                username: String::new(),
                scopes,
                token: None,
                user: None,
            }),
        }
    }

    async fn complete(&self, caller: LabCaller) -> Result<LabCaller, LabError> {
        let (None, Some(token), Some(user_info)) = (&caller.user, &caller.token, &self.user_info)
        else {
            return Ok(caller);
        };
        let described = user_info.fetch(token).await?;
        // A token of another person would make the lab act for that one.
        if !self.claims.describes(&described, &caller.username) {
            return Err(LabError::PermissionDenied);
        }
        let user = self.claims.lab_user(&caller.username, &described);
        Ok(LabCaller { user, ..caller })
    }
}

impl IdentifyCaller for LabCallers {
    fn identify<'a>(
        &'a self,
        headers: &'a HeaderMap,
        peer: IpAddr,
    ) -> BoxFuture<'a, Result<LabCaller, LabError>> {
        Box::pin(self.identify(headers, peer))
    }

    fn complete(&self, caller: LabCaller) -> BoxFuture<'_, Result<LabCaller, LabError>> {
        Box::pin(self.complete(caller))
    }
}

#[cfg(test)]
mod tests;
