//! Claims that the ID token lacks: groups, and with a conformant provider also name and e-mail
//! address, which the code flow delivers at the userinfo endpoint (OpenID Connect Core section
//! 5.4).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use openidconnect::{
    OAuth2TokenResponse, SubjectIdentifier, UserInfoClaims, core::CoreGenderClaim,
};
use serde_json::{Map, Value};

use super::{
    claims::{self, Claims, OtherClaims},
    context::ProviderContext,
    overage::{self, GroupList, fetch_groups},
    provider::Metadata,
    token_endpoint::{SignInError, TokenEndpointResponse},
};
use crate::model::{error_cause::chain_text, principal::PersonClaims};

/// Claims that a description of a person lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissingClaims {
    /// The group claim.
    pub groups: bool,
    /// The name, the user name or the e-mail address, although its scope was requested.
    pub profile: bool,
    /// The ID token marks the e-mail address as unverified. An address from userinfo must then be
    /// marked as verified.
    pub email_unverified: bool,
}

/// The claims of a userinfo response.
type Userinfo = UserInfoClaims<OtherClaims, CoreGenderClaim>;

/// Completes the description of a person with claims that the ID token lacks.
#[derive(Debug)]
pub(super) struct PersonCompletion {
    context: Arc<ProviderContext>,
    /// The missing group claim is logged once.
    has_warned: AtomicBool,
}

impl PersonCompletion {
    pub(super) fn new(context: Arc<ProviderContext>) -> PersonCompletion {
        PersonCompletion {
            context,
            has_warned: AtomicBool::new(false),
        }
    }

    /// Compares the claims with the configuration: a claim counts as missing only if its scope was
    /// requested.
    pub(super) fn missing(&self, person: &PersonClaims, claims: &Claims) -> MissingClaims {
        let asked = |scope: &str| {
            self.context
                .settings
                .scopes
                .iter()
                .any(|known| known == scope)
        };
        let lacks_profile = person.name.is_none() || person.preferred_username.is_none();
        MissingClaims {
            groups: claims::groups(
                &claims.additional_claims().0,
                &self.context.settings.groups_claim,
            )
            .is_none(),
            email_unverified: claims.email_verified() == Some(false),
            profile: (asked("profile") && lacks_profile)
                || (asked("email") && person.email.is_none()),
        }
    }

    /// Adds the missing claims from the userinfo endpoint, or groups from a linked source. Returns
    /// the claims still missing.
    ///
    /// # Errors
    /// When missing groups cannot be fetched: without them no access rule can be decided.
    pub(super) async fn complete(
        &self,
        person: &mut PersonClaims,
        missing: MissingClaims,
        claims: Option<&Map<String, Value>>,
        tokens: &TokenEndpointResponse,
        metadata: &Metadata,
    ) -> Result<MissingClaims, SignInError> {
        let mut missing = missing;
        if missing.groups {
            let list = self.groups_from_directory(claims, tokens).await?;
            missing.groups = list.is_none();
            match list {
                Some(list) => {
                    person.groups = list.groups;
                    person.are_groups_partial = list.are_partial;
                }
                None => person.are_groups_partial |= self.are_groups_elsewhere(claims),
            }
        }
        if !(missing.groups || missing.profile) || metadata.userinfo_endpoint().is_none() {
            if missing.groups {
                self.warn_of_groups_claim(claims, None);
            }
            return Ok(missing);
        }
        match self.userinfo(metadata, tokens, &person.subject).await {
            Ok(found) => {
                if missing.groups {
                    let others = &found.additional_claims().0;
                    let groups = claims::groups(others, &self.context.settings.groups_claim);
                    if groups.is_none() {
                        self.warn_of_groups_claim(claims, Some(others));
                    }
                    if let Some(groups) = &groups {
                        person.are_groups_partial = claims::are_partial(groups);
                    }
                    // An ID token without the claim says that there are no groups. A refresh may
                    // be answered without an ID token (section 12.2): then the groups are unknown,
                    // and an empty list would admit people that a rule denies.
                    missing.groups = groups.is_none() && claims.is_none();
                    person.groups = groups.unwrap_or_default();
                }
                add_profile(person, &found, missing.email_unverified);
                Ok(MissingClaims {
                    profile: false,
                    ..missing
                })
            }
            Err(error) if missing.groups => Err(error),
            Err(error) => {
                tracing::warn!(%error, "cannot fetch userinfo; a name or e-mail address may be missing");
                Ok(missing)
            }
        }
    }

    /// Fetches groups that do not fit into a token from the configured directory. `None` if the
    /// token does not refer to another source, or if no directory is configured.
    async fn groups_from_directory(
        &self,
        claims: Option<&Map<String, Value>>,
        tokens: &TokenEndpointResponse,
    ) -> Result<Option<GroupList>, SignInError> {
        // A response without an ID token cannot refer to another source. Then the directory is used
        // if one is configured, since it has the groups of all users.
        let is_used = match claims {
            Some(_) => self.are_groups_elsewhere(claims),
            None => self.context.settings.directory.is_some(),
        };
        if !is_used {
            return Ok(None);
        }
        match &self.context.settings.directory {
            Some(directory) => fetch_groups(self.context.provider.http(), directory, tokens)
                .await
                .map(Some),
            None => {
                tracing::warn!(
                    "the ID token omits the groups (there are too many); set identity.groups_url"
                );
                Ok(None)
            }
        }
    }

    /// Whether the ID token refers to another source of the groups.
    fn are_groups_elsewhere(&self, claims: Option<&Map<String, Value>>) -> bool {
        let name = &self.context.settings.groups_claim;
        claims.is_some_and(|claims| overage::is_elsewhere(claims, name))
    }

    /// Fetches userinfo, whose `sub` must be that of the ID token (section 5.3.2).
    async fn userinfo(
        &self,
        metadata: &Metadata,
        tokens: &TokenEndpointResponse,
        subject: &str,
    ) -> Result<Userinfo, SignInError> {
        let access_token = tokens.access_token().clone();
        if !access_token
            .secret()
            .bytes()
            .all(|byte| byte.is_ascii_graphic())
        {
            return Err(SignInError::Refused(
                "the access token cannot stand in a header".into(),
            ));
        }
        let client = self.context.client(metadata)?;
        let http = self.context.provider.calls("userinfo");
        client
            .user_info(
                access_token,
                Some(SubjectIdentifier::new(subject.to_owned())),
            )
            .map_err(|error| SignInError::Unavailable(error.to_string()))?
            .request_async(&http)
            .await
            .map_err(|error| SignInError::Unavailable(chain_text(&error)))
    }

    /// Logs a missing group claim: with a misspelled claim name in the configuration, all group
    /// rules deny access.
    fn warn_of_groups_claim(
        &self,
        id_token: Option<&Map<String, Value>>,
        userinfo: Option<&Map<String, Value>>,
    ) {
        if self.has_warned.swap(true, Relaxed) {
            return;
        }
        let names =
            |claims: &Map<String, Value>| claims.keys().cloned().collect::<Vec<_>>().join(" ");
        tracing::warn!(
            groups_claim = self.context.settings.groups_claim,
            id_token_claims = id_token.map(names),
            userinfo_claims = userinfo.map(names),
            "groups claim missing from ID token and userinfo; this person has no groups (logged once)"
        );
    }
}

/// Claims of the ID token take precedence.
fn add_profile(person: &mut PersonClaims, found: &Userinfo, must_be_verified: bool) {
    let name = || {
        found
            .name()
            .and_then(|names| names.get(None))
            .map(|name| name.to_string())
    };
    // As with the ID token, an address that is marked as unverified is not used.
    let is_verified = found.email_verified().unwrap_or(!must_be_verified);
    let email = || {
        found
            .email()
            .filter(|_| is_verified)
            .map(|email| email.to_string())
    };
    person.name = person.name.take().or_else(name);
    person.email = person.email.take().or_else(email);
    // The ID token may have the address without saying that it is verified.
    let is_same = found
        .email()
        .is_some_and(|found| person.email.as_deref() == Some(found.as_str()));
    person.is_email_verified |= is_same && found.email_verified() == Some(true);
    person.preferred_username = person
        .preferred_username
        .take()
        .or_else(|| found.preferred_username().map(|name| name.to_string()));
}
