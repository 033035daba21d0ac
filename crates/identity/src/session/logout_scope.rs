//! The sign-ins that a logout of a provider names.

use super::record::SignIn;
use crate::model::provider_id::ProviderId;

/// Sign-ins of one provider: those of one of its sessions, else those of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogoutScope {
    /// The provider, which can end no sign-in of another one; `None`: the default one.
    pub provider: Option<ProviderId>,
    /// The person: all their sign-ins, or only those of `session` if there is one.
    pub subject: Option<String>,
    /// The provider's session (`sid`).
    pub session: Option<String>,
}

impl LogoutScope {
    /// Whether a sign-in of the session or of the person is meant. A person and a session must both
    /// match, and the index of sessions does not tell providers apart.
    pub(super) fn includes(&self, sign_in: &SignIn) -> bool {
        let is_of_subject = |subject: &str| *sign_in.principal().subject == *subject;
        // Sign-ins that another system's token started are unrelated to the provider's sessions.
        sign_in.tokens.id_token.is_some()
            && sign_in.tokens.provider == self.provider
            && self.subject.as_deref().is_none_or(is_of_subject)
    }
}
