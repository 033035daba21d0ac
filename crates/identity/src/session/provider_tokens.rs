//! The tokens that a sign-in keeps for later: refresh, sign-out at the provider, and the tokens of
//! other systems that started it.

use arc_swap::ArcSwapOption;

use super::console_token::ConsoleToken;
use crate::model::secret::Secret;

/// The tokens of one sign-in. Each is sent only to the system that issued it.
#[derive(Debug, Default)]
pub struct ProviderTokens {
    /// For `id_token_hint`.
    pub id_token: Option<Secret>,
    /// For checking the group membership again.
    pub refresh_token: ArcSwapOption<Secret>,
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
}
