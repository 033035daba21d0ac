//! API tokens: refresh tokens that programs send as bearer tokens.
//!
//! A person gets one by the code flow with the scope `offline_access` (OpenID Connect Core section
//! 11), and it works until the provider revokes it. The provider must not replace it with each use.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::digest;
use moka::{future::Cache, policy::EvictionPolicy};
use openidconnect::{RefreshToken, RequestTokenError, core::CoreErrorResponseType};

use super::{
    claims::{self, TokenError, TokenKind},
    context::ProviderContext,
    token_endpoint::{SignInError, TokenEndpointResponse, exchange_error, not_discovered},
    userinfo::PersonCompletion,
};
use crate::{
    model::{clock::Moment, principal::Principal},
    service_tokens::text::PREFIX,
};

/// How long the person of a token is remembered; a revoked token works for as long.
const REMEMBERED: Duration = Duration::from_secs(30);
/// How long a refusal is remembered.
const REFUSAL_REMEMBERED: Duration = Duration::from_secs(5);
/// How long an unavailable provider is not asked again about a token.
const FAILURE_REMEMBERED: Duration = Duration::from_secs(1);
/// Tokens that are remembered.
const MAX_REMEMBERED: u64 = 1024;
/// Longest token, in bytes.
const MAX_TOKEN: usize = 8 * 1024;

/// Why a token identifies no person.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiTokenError {
    /// The provider refuses it: revoked, expired, of another client, or no token at all.
    #[error("the identity provider refuses the token: {0}")]
    Refused(String),
    /// The provider cannot be reached.
    #[error("the identity provider is not available: {0}")]
    Unavailable(String),
}

/// What is known of a token, until when.
#[derive(Clone, Debug)]
struct CachedExchange {
    result: Result<Arc<Principal>, ApiTokenError>,
    until: Moment,
}

/// Exchanges API tokens. Concurrent requests with one token make one call.
#[derive(Debug)]
pub struct ApiTokens {
    exchanger: Arc<Exchanger>,
    cache: Cache<[u8; 32], CachedExchange>,
}

#[derive(Debug)]
struct Exchanger {
    context: Arc<ProviderContext>,
    completion: Arc<PersonCompletion>,
}

impl ApiTokens {
    pub(super) fn new(
        context: Arc<ProviderContext>,
        completion: Arc<PersonCompletion>,
    ) -> ApiTokens {
        // The default policy may reject a new entry when the cache is full.
        let cache = Cache::builder()
            .max_capacity(MAX_REMEMBERED)
            .eviction_policy(EvictionPolicy::lru())
            .build();
        ApiTokens {
            exchanger: Arc::new(Exchanger {
                context,
                completion,
            }),
            cache,
        }
    }

    /// The person of a token.
    ///
    /// # Errors
    /// See [`ApiTokenError`].
    pub async fn identify(&self, token: &str) -> Result<Arc<Principal>, ApiTokenError> {
        let is_text = token.bytes().all(|byte| byte.is_ascii_graphic());
        // A service token is for apps, and the provider must not see it.
        let is_service_token = token.starts_with(PREFIX);
        if token.is_empty() || token.len() > MAX_TOKEN || !is_text || is_service_token {
            return Err(ApiTokenError::Refused("it is no token".to_owned()));
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        let now = self.exchanger.context.clock.now();
        let exchange = self.exchanger.clone().exchange(token.to_owned());
        let is_over = |cached: &CachedExchange| cached.until <= now;
        let entry = self.cache.entry(key).or_insert_with_if(exchange, is_over);
        entry.await.into_value().result
    }
}

impl Exchanger {
    /// A task of its own: the token may work only once, so the call must end even if the client
    /// leaves.
    async fn exchange(self: Arc<Self>, token: String) -> CachedExchange {
        let exchanger = self.clone();
        let exchanged = tokio::spawn(async move { exchanger.try_exchange(token).await }).await;
        let result = match exchanged {
            Ok(Ok(principal)) => Ok(Arc::new(principal)),
            Ok(Err(SignInError::Unavailable(error))) => Err(ApiTokenError::Unavailable(error)),
            Ok(Err(error)) => Err(ApiTokenError::Refused(error.to_string())),
            Err(_) => Err(ApiTokenError::Unavailable(
                "the call was given up".to_owned(),
            )),
        };
        let remembered = match &result {
            Ok(_) => REMEMBERED,
            Err(ApiTokenError::Refused(_)) => REFUSAL_REMEMBERED,
            Err(ApiTokenError::Unavailable(_)) => FAILURE_REMEMBERED,
        };
        CachedExchange {
            result,
            until: self.context.clock.now().after(remembered),
        }
    }

    async fn try_exchange(&self, token: String) -> Result<Principal, SignInError> {
        let metadata = self.context.provider.current().ok_or_else(not_discovered)?;
        let client = self.context.client(&metadata)?;
        let http = self.context.provider.calls("api_token");
        let token = RefreshToken::new(token);
        let request = client
            .exchange_refresh_token(&token)
            .map_err(|error| SignInError::Unavailable(error.to_string()))?;
        let response: TokenEndpointResponse = match request.request_async(&http).await {
            Ok(response) => response,
            Err(RequestTokenError::ServerResponse(answer))
                if *answer.error() == CoreErrorResponseType::InvalidGrant =>
            {
                return Err(SignInError::Refused("invalid_grant".to_owned()));
            }
            Err(error) => return Err(exchange_error(error)),
        };
        let Some(claims) = self.context.id_token_claims(&response).await? else {
            let what = "the answer has no ID token; the token needs the scope openid";
            return Err(SignInError::Refused(what.to_owned()));
        };
        let mut person = claims::person(&claims, &self.context.settings, TokenKind::Id);
        let missing = self.completion.missing(&person, &claims);
        let others = &claims.additional_claims().0;
        self.completion
            .complete(&mut person, missing, Some(others), &response, &metadata)
            .await?;
        let settings = &self.context.settings;
        let person = settings.accounts.account(person);
        let person = person.map_err(TokenError::from)?;
        Ok(Principal::new(person, &settings.admin_groups))
    }
}
