//! The tokens that a sign-in keeps for later: refresh, sign-out at the provider, apps that may act
//! for the person, and the tokens of other systems that started it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::{
    access_token::{AccessTokenState, KeptAccessToken},
    console_token::ConsoleToken,
};
use crate::model::{provider_id::ProviderId, secret::Secret};

/// The tokens of one sign-in. Each is sent only to the system that issued it; the access token also
/// to apps with `pass_access_token`.
#[derive(Debug, Default)]
pub struct ProviderTokens {
    /// The provider that issued them; `None`: the default one, or another system.
    pub provider: Option<ProviderId>,
    /// For `id_token_hint`.
    pub id_token: Option<Secret>,
    /// For checking the group membership again.
    pub refresh_token: ArcSwapOption<Secret>,
    /// For apps. `None` as long as no app gets it.
    pub access_token: ArcSwapOption<KeptAccessToken>,
    /// The provider's own session id (`sid`), for back-channel sign-out.
    pub session_id: Option<Box<str>>,
    /// The token of an integration that started the sign-in; checked again there.
    pub source_token: Option<Secret>,
    /// The console's token that started the sign-in, or confirmed it last.
    pub console: Option<ConsoleToken>,
}

impl ProviderTokens {
    /// Whether the sign-in was started by a token of another system and has no cookie of its own.
    pub fn is_for_token(&self) -> bool {
        self.source_token.is_some() || self.console.is_some()
    }

    /// Whether there is an access token for apps; `now` is in seconds since 1970.
    pub fn access_token_state(&self, now: i64) -> AccessTokenState {
        let token = self.access_token.load();
        token
            .as_ref()
            .map_or(AccessTokenState::Missing, |token| token.state(now))
    }

    /// The access token for apps, if it is valid; `now` is in seconds since 1970.
    pub fn usable_access_token(&self, now: i64) -> Option<Arc<KeptAccessToken>> {
        let token = self.access_token.load_full()?;
        let is_valid = token.state(now) != AccessTokenState::Missing;
        is_valid.then_some(token)
    }

    /// Their size in bytes.
    pub(super) fn size(&self) -> usize {
        let ProviderTokens {
            id_token,
            refresh_token,
            access_token,
            source_token,
            provider: _,
            session_id: _,
            console: _,
        } = self;
        let unchanging = [id_token, source_token].into_iter().flatten();
        let unchanging: usize = unchanging.map(|token| token.expose().len()).sum();
        let refresh = refresh_token.load();
        let refresh = refresh.as_ref().map_or(0, |token| token.expose().len());
        let access = access_token.load();
        let access = access.as_ref().map_or(0, |token| token.size());
        unchanging + refresh + access
    }
}
