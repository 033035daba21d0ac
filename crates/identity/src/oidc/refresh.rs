//! Checks a signed-in person at the provider with the refresh token (OpenID Connect Core section
//! 12).
//!
//! A refresh token may work only once, so the new one is stored before the rest of the response is
//! used.

use std::sync::Arc;

use openidconnect::{
    OAuth2TokenResponse, RefreshToken, RequestTokenError, core::CoreErrorResponseType,
};

use super::{
    claims::{self, Claims, TokenKind},
    context::ProviderContext,
    token_endpoint::{SignInError, TokenEndpointResponse, exchange_error, not_discovered},
    userinfo::{MissingClaims, PersonCompletion},
};
use crate::{
    model::{
        principal::{PersonClaims, Principal},
        secret::Secret,
    },
    session::{record::SignIn, replication::Replication},
};

/// The result of a refresh.
#[derive(Debug)]
pub(crate) enum RefreshOutcome {
    /// The person as the provider describes them now.
    Person(Box<Principal>),
    /// The provider has revoked the grant: signed out, disabled, or a token that was used before.
    Revoked,
    /// The provider cannot be reached. The known description of the person stays valid.
    Unavailable(String),
    /// The response does not identify the person, and a second call soon would not help. The known
    /// description stays valid.
    Unusable(String),
}

/// Refreshes sign-ins.
#[derive(Debug)]
pub(crate) struct TokenRefresh {
    context: Arc<ProviderContext>,
    completion: Arc<PersonCompletion>,
}

impl TokenRefresh {
    pub(super) fn new(
        context: Arc<ProviderContext>,
        completion: Arc<PersonCompletion>,
    ) -> TokenRefresh {
        TokenRefresh {
            context,
            completion,
        }
    }

    /// Refreshes the tokens and the description of a person. Runs on the control runtime.
    ///
    /// Cancel safety: must not be dropped half-way, since the token may work only once; run it as a
    /// task.
    pub(crate) async fn refresh(
        &self,
        sign_in: &Arc<SignIn>,
        replication: &Replication,
    ) -> RefreshOutcome {
        let Some(token) = sign_in.tokens.refresh_token.load_full() else {
            return RefreshOutcome::Unavailable("there is no refresh token".into());
        };
        match self.try_refresh(sign_in, &token, replication).await {
            Ok(outcome) => outcome,
            Err(error @ SignInError::Unavailable(_)) => {
                RefreshOutcome::Unavailable(error.to_string())
            }
            Err(error) => RefreshOutcome::Unusable(error.to_string()),
        }
    }

    async fn try_refresh(
        &self,
        sign_in: &Arc<SignIn>,
        token: &Secret,
        replication: &Replication,
    ) -> Result<RefreshOutcome, SignInError> {
        let metadata = self.context.provider.current().ok_or_else(not_discovered)?;
        let client = self.context.client(&metadata)?;
        let http = self.context.provider.calls("refresh");
        let token = RefreshToken::new(token.expose().to_owned());
        let request = client
            .exchange_refresh_token(&token)
            .map_err(|error| SignInError::Unavailable(error.to_string()))?;
        let response: TokenEndpointResponse = match request.request_async(&http).await {
            Ok(response) => response,
            Err(RequestTokenError::ServerResponse(answer))
                if *answer.error() == CoreErrorResponseType::InvalidGrant =>
            {
                return Ok(RefreshOutcome::Revoked);
            }
            Err(error) => return Err(exchange_error(error)),
        };
        if let Some(next) = response.refresh_token() {
            sign_in.replace_refresh_token(Secret::new(next.secret().as_str()));
            replication.save(sign_in).await;
        }
        let before = sign_in.principal().clone();
        let claims = self.context.id_token_claims(&response).await?;
        let others = claims.as_ref().map(|claims| &claims.additional_claims().0);
        let accounts = &self.context.settings.accounts;
        let (mut person, missing) = match &claims {
            // Section 12.2: it must be of the same person.
            Some(claims) if accounts.qualify(claims.subject().as_str()) != *before.subject => {
                return Ok(RefreshOutcome::Revoked);
            }
            Some(claims) => self.read_id_token(claims, &before),
            None => match accounts.subject_at_provider(&before.subject) {
                Some(subject) => nothing_new(subject, &before),
                None => return Ok(RefreshOutcome::Revoked),
            },
        };
        // Not before it is known to be of the same person.
        if sign_in.replace_access_token(self.context.kept_access_token(&response)) {
            replication.save(sign_in).await;
        }
        let missing = self
            .completion
            .complete(&mut person, missing, others, &response, &metadata)
            .await?;
        // With an ID token, an absent group claim means no groups, as at sign-in. Without an ID
        // token the groups are unknown. The refresh then counts as failed: the known groups stay in
        // effect, but are not taken for confirmed. People who are known to have no groups have
        // none to lose; a failure would stop the renewal of their profile.
        let has_groups = !before.groups().is_empty() || before.are_groups_partial();
        let needs_groups = has_groups || sign_in.check().is_required();
        if missing.groups && claims.is_none() && needs_groups {
            return Err(SignInError::Refused(
                "the answer says nothing of groups".into(),
            ));
        }
        // A provider of that name may be new, so the session cannot go on.
        let Ok(mut person) = accounts.account(person) else {
            return Ok(RefreshOutcome::Revoked);
        };
        if missing.profile || claims.is_none() {
            keep_known_profile(&mut person, &before);
            person.is_email_verified &= !missing.email_unverified;
            accounts.remove_untrusted_email(&mut person);
        }
        Ok(RefreshOutcome::from_claims(&self.context, person, &before))
    }

    /// The person of an ID token, and the claims that must be fetched elsewhere.
    fn read_id_token(&self, claims: &Claims, before: &Principal) -> (PersonClaims, MissingClaims) {
        let mut person = claims::person(claims, &self.context.settings, TokenKind::Id);
        // The provider may say only at userinfo that the address is verified.
        person.is_email_verified |= claims.email_verified().is_none()
            && before.is_email_verified
            && person.email.as_deref() == before.email.as_deref();
        let missing = self.completion.missing(&person, claims);
        // A claim that was absent before is not fetched again at each refresh.
        let was_known = (person.email.is_none() && before.email.is_some())
            || (person.preferred_username.is_none() && before.preferred_username.is_some())
            || (person.name.is_none() && before.has_display_name());
        let profile = missing.profile && was_known;
        (person, MissingClaims { profile, ..missing })
    }
}

impl RefreshOutcome {
    /// The id in another system is not a claim of the provider, so it is copied. So is the
    /// authentication: a refresh is none (section 12.2), whatever its ID token says.
    fn from_claims(
        context: &ProviderContext,
        claims: PersonClaims,
        before: &Principal,
    ) -> RefreshOutcome {
        let mut principal = Principal::new(claims, &context.settings.admin_groups);
        principal.other_id.clone_from(&before.other_id);
        principal.authentication.clone_from(&before.authentication);
        RefreshOutcome::Person(Box::new(principal))
    }
}

/// A person without news in the response, and the claims that must be fetched elsewhere.
/// `subject` is the name of the account at the provider.
fn nothing_new(subject: &str, before: &Principal) -> (PersonClaims, MissingClaims) {
    let person = PersonClaims {
        subject: subject.to_owned(),
        // Only an ID token can renew them.
        claims: before.claims.clone(),
        ..PersonClaims::default()
    };
    let missing = MissingClaims {
        groups: true,
        profile: true,
        email_unverified: false,
    };
    (person, missing)
}

/// Fills gaps of the profile from the last description.
fn keep_known_profile(person: &mut PersonClaims, before: &Principal) {
    let known = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    person.name = person
        .name
        .take()
        .or_else(|| Some(before.display_name.to_string()));
    if person.email.is_none() {
        person.email = known(&before.email);
        person.is_email_verified = before.is_email_verified;
    }
    person.preferred_username = person
        .preferred_username
        .take()
        .or_else(|| known(&before.preferred_username));
}
