//! Verifies tokens, and reads a person from their claims.
//!
//! openidconnect checks signature, algorithm, `iss`, `aud`, `exp` and `nonce`. This module checks
//! `azp`, `nbf`, `iat`, `at_hash`, the length of `sub`, clock skew, and the content of the group
//! claim.

use std::{collections::HashSet, sync::Arc};

use chrono::{DateTime, TimeDelta, Utc};
use openidconnect::{
    AccessToken, AccessTokenHash, AdditionalClaims, ClientId, EmptyExtraTokenFields, IdToken,
    IdTokenClaims, IdTokenFields, IdTokenVerifier, IssuerUrl, NonceVerifier,
    core::{
        CoreGenderClaim, CoreJsonWebKey, CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use super::kept_claims::TokenKind;
use super::{account_mapping::ReservedName, kept_claims::kept_claims, settings::OidcSettings};
use crate::model::{
    access::GroupName, authentication::AuthenticationEvent, known_claims::KnownClaims,
    principal::PersonClaims,
};

/// Clocks may differ by this much, in seconds.
pub const SKEW: i64 = 60;
/// Greatest age of an ID token, in seconds: it is issued during the sign-in, which takes ten
/// minutes at most.
const MAX_ID_TOKEN_AGE: i64 = 600;
/// Longest subject (OpenID Connect Core section 2).
pub(super) const MAX_SUBJECT: usize = 255;
/// Largest number of groups that are read.
pub(super) const MAX_GROUPS: usize = 1000;

/// Every claim that is not one of the standard ones.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct OtherClaims(pub Map<String, Value>);

impl AdditionalClaims for OtherClaims {}

/// The claims of an ID token, or of a JWT that is treated like one.
pub type Claims = IdTokenClaims<OtherClaims, CoreGenderClaim>;
/// An ID token, or a JWT that is treated like one.
pub type Token = IdToken<
    OtherClaims,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;
/// The part of a token response that carries the ID token.
pub type TokenFields = IdTokenFields<
    OtherClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;

/// Asymmetric algorithms; `none` and everything with a shared secret is refused.
pub(super) const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// A check failed, which the text names.
    #[error("{0}")]
    Refused(String),
    /// `azp` names another client.
    #[error("the token was issued to another client (azp)")]
    AuthorizedParty,
    /// `aud` contains no audience of ours.
    #[error("the token is for another audience")]
    Audience,
    /// `nbf` or `iat` lies in the future, or `iat` is too old.
    #[error("the token is not valid now ({0})")]
    Time(&'static str),
    /// `at_hash` does not match the access token.
    #[error("the access token is not the one the ID token speaks of (at_hash)")]
    AccessTokenHash,
    /// `sub` is empty or too long.
    #[error("the subject is empty or longer than 255 bytes")]
    Subject,
    /// The names are those of another provider.
    #[error(transparent)]
    ReservedName(#[from] ReservedName),
    /// Another kind of token than expected, such as an ID token in place of an access token.
    #[error("this kind of token is not accepted here ({0})")]
    Kind(&'static str),
}

/// Verifies tokens with one configuration, key set and time.
pub struct TokenVerifier<'s> {
    /// The configuration.
    pub settings: &'s OidcSettings,
    /// The provider's keys.
    pub keys: Arc<CoreJsonWebKeySet>,
    /// Seconds since 1970.
    pub now: i64,
}

impl TokenVerifier<'_> {
    /// A verifier of openidconnect, with its skew and its algorithms set.
    pub fn verifier(&self) -> IdTokenVerifier<'static, CoreJsonWebKey> {
        let skewed = at(self.now.saturating_sub(SKEW));
        let issuer: IssuerUrl = self.settings.issuer.clone();
        let client = ClientId::new(self.settings.client_id.clone());
        IdTokenVerifier::new_public_client(client, issuer, (*self.keys).clone())
            .set_allowed_algs(ALGORITHMS)
            .set_time_fn(move || skewed)
    }

    /// Verifies the ID token of a sign-in.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub(super) fn verify_id_token<'t>(
        &self,
        token: &'t Token,
        nonce: impl NonceVerifier,
        access_token: Option<&AccessToken>,
    ) -> Result<&'t Claims, TokenError> {
        let verifier = self.verifier();
        let claims = token
            .claims(&verifier, nonce)
            .map_err(|error| TokenError::Refused(error.to_string()))?;
        self.verify_common(claims, |party| party == self.settings.client_id)?;
        if claims.issue_time() < at(self.now.saturating_sub(MAX_ID_TOKEN_AGE + SKEW)) {
            return Err(TokenError::Time("iat"));
        }
        if let Some(expected) = claims.access_token_hash() {
            let refused = |_| TokenError::AccessTokenHash;
            let algorithm = token
                .signing_alg()
                .map_err(|_| TokenError::AccessTokenHash)?;
            let key = token
                .signing_key(&verifier)
                .map_err(|_| TokenError::AccessTokenHash)?;
            let access_token = access_token.ok_or(TokenError::AccessTokenHash)?;
            let actual =
                AccessTokenHash::from_token(access_token, algorithm, key).map_err(refused)?;
            if actual.as_str() != expected.as_str() {
                return Err(TokenError::AccessTokenHash);
            }
        }
        Ok(claims)
    }

    /// The checks of every token: `azp`, `nbf`, `iat`, `sub`.
    pub(super) fn verify_common(
        &self,
        claims: &Claims,
        is_us: impl Fn(&str) -> bool,
    ) -> Result<(), TokenError> {
        if claims
            .authorized_party()
            .is_some_and(|party| !is_us(party.as_str()))
        {
            return Err(TokenError::AuthorizedParty);
        }
        let latest = self.now.saturating_add(SKEW);
        if claims.issue_time() > at(latest) {
            return Err(TokenError::Time("iat"));
        }
        match claims.additional_claims().0.get("nbf") {
            None => {}
            Some(nbf) if nbf.as_i64().is_some_and(|nbf| nbf <= latest) => {}
            Some(_) => return Err(TokenError::Time("nbf")),
        }
        if matches!(claims.subject().len(), 1..=MAX_SUBJECT) {
            Ok(())
        } else {
            Err(TokenError::Subject)
        }
    }
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::try_seconds(seconds).unwrap_or_default()
}

/// The person that the claims describe, with the names that the provider gives.
pub fn person(claims: &Claims, settings: &OidcSettings, kind: TokenKind) -> PersonClaims {
    let name = claims
        .name()
        .and_then(|names| names.get(None))
        .map(|name| name.to_string());
    // An address that the provider marks as unverified is dropped. Otherwise a user could enter
    // another user's address, and apps that trust the header would accept it.
    let email = claims
        .email()
        .filter(|_| claims.email_verified() != Some(false))
        .map(|email| email.to_string());
    let is_email_verified = email.is_some() && claims.email_verified() == Some(true);
    let groups = groups(&claims.additional_claims().0, &settings.groups_claim);
    PersonClaims {
        subject: claims.subject().to_string(),
        name,
        email,
        is_email_verified,
        preferred_username: claims.preferred_username().map(|name| name.to_string()),
        are_groups_partial: match &groups {
            Some(groups) => are_partial(groups),
            None => kind == TokenKind::Access,
        },
        groups: groups.unwrap_or_default(),
        claims: known_claims(claims, settings, kind),
        is_foreign: false,
        authentication: AuthenticationEvent::new(
            claims.auth_time().map(|time| time.timestamp()),
            claims.auth_context_ref().map(|context| context.as_str()),
        ),
    }
}

fn known_claims(claims: &Claims, settings: &OidcSettings, kind: TokenKind) -> KnownClaims {
    if settings.claims.is_empty() {
        return KnownClaims::default();
    }
    // Standard claims are fields of the token, not among its additional claims.
    match serde_json::to_value(claims) {
        Ok(token) => kept_claims(&token, &settings.claims, kind),
        Err(_) => KnownClaims::default(),
    }
}

/// Whether a list of groups may have been cut.
pub(super) fn are_partial(groups: &[GroupName]) -> bool {
    groups.len() >= MAX_GROUPS
}

/// The groups in a claim; `None` if the claim is absent, so that the groups may be fetched from
/// userinfo.
///
/// Strings that are no group names, repeated names, and everything beyond a thousand, are left out.
/// Rules that deny a group take a list of a thousand for a cut one ([`are_partial`]).
pub fn groups(claims: &Map<String, Value>, groups_claim: &str) -> Option<Vec<GroupName>> {
    let claim = match groups_claim.strip_prefix('/') {
        Some(pointer) => pointer
            .split('/')
            .try_fold(None, |value: Option<&Value>, key| {
                let key = key.replace("~1", "/").replace("~0", "~");
                match value {
                    None => claims.get(&key).map(Some),
                    Some(value) => value.get(&key).map(Some),
                }
            })??,
        None => claims.get(groups_claim)?,
    };
    let names = match claim {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one.as_str()],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    let mut seen = HashSet::new();
    let groups = names.into_iter().filter_map(GroupName::new);
    let groups = groups.filter(|group| seen.insert(group.clone()));
    Some(groups.take(MAX_GROUPS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, claim: &str) -> Option<Vec<String>> {
        let claims: Map<String, Value> = serde_json::from_str(json).expect("JSON");
        groups(&claims, claim).map(|list| list.iter().map(|g| g.as_str().to_owned()).collect())
    }

    #[test]
    fn groups_are_read_by_name_or_by_pointer() {
        let json = r#"{"groups":["/a","b/c",7,""],"realm_access":{"roles":["r"]},"one":"x","a/b":{"c":["d"]}}"#;
        assert_eq!(read(json, "groups"), Some(vec!["a".into(), "b/c".into()]));
        assert_eq!(read(json, "/realm_access/roles"), Some(vec!["r".into()]));
        assert_eq!(read(json, "/a~1b/c"), Some(vec!["d".into()]));
        assert_eq!(read(json, "one"), Some(vec!["x".into()]));
        assert_eq!(read(json, "missing"), None);
        assert_eq!(read(json, "/realm_access/none"), None);
        assert_eq!(read(json, "realm_access"), Some(vec![]));
    }
}
