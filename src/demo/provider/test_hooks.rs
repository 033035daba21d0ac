//! Hooks with which tests change the provider while it runs, and count its calls. Only with the
//! cargo feature `testing`; the demo has none of it.

use std::io;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

pub use super::hooks::Mischief;
use super::{
    keys::SigningKey,
    state::{DemoProvider, Grant},
};

impl DemoProvider {
    /// Header and claims of an ID token, changed by the test's hook if one is set.
    pub(super) fn spoiled(&self, mut header: Value, mut claims: Value) -> (Value, Value) {
        if let Some(mischief) = &self.state().hooks.mischief {
            mischief(&mut header, &mut claims);
        }
        (header, claims)
    }

    /// The response to a refresh; without an ID token if the test's hook says so.
    pub(super) fn shortened(&self, mut response: Value) -> Value {
        if self.state().hooks.has_groups_at_sign_in_only
            && let Some(fields) = response.as_object_mut()
        {
            fields.remove("id_token");
        }
        response
    }

    /// The claims of userinfo; without groups if the test's hook says so.
    pub(super) fn reduced(&self, mut claims: Map<String, Value>) -> Map<String, Value> {
        if self.state().hooks.has_groups_at_sign_in_only {
            claims.remove("groups");
        }
        claims
    }

    /// From now on only the ID tokens of sign-ins have groups: a refresh gives no ID token (OpenID
    /// Connect Core section 12.2), and userinfo no group claim.
    pub fn give_groups_at_sign_in_only(&self) {
        self.state().hooks.has_groups_at_sign_in_only = true;
    }

    /// How often an endpoint was called: `discovery`, `keys`, `authorize`, `token`, `refresh`,
    /// `userinfo`, `introspection`, `device_authorization`, `device_token`.
    pub fn calls(&self, endpoint: &str) -> u64 {
        self.state().hooks.calls.get(endpoint).copied().unwrap_or(0)
    }

    /// Sets a claim of a person.
    pub fn set_claim(&self, name: &str, claim: &str, value: Value) {
        if let Some(person) = self.state().people.get_mut(name) {
            person.claims.insert(claim.to_owned(), value);
        }
    }

    /// A refresh token of a person that is not replaced with each use.
    pub fn offline_token(&self, person: &'static str) -> Option<String> {
        self.new_refresh(&Grant {
            person,
            nonce: None,
            challenge: String::new(),
            redirect_uri: String::new(),
            session: String::new(),
            issued: self.now(),
            auth_time: self.now(),
            is_offline: true,
        })
    }

    /// The same in Keycloak's form: a JWT with a key that only the provider has.
    pub fn keycloak_offline_token(&self, person: &'static str) -> Option<String> {
        let plain = self.offline_token(person)?;
        let client = &self.client().id;
        let header = json!({ "alg": "HS512", "typ": "JWT", "kid": "of-the-provider-alone" });
        let claims = json!({
            "iss": self.issuer(), "aud": self.issuer(), "sub": person, "azp": client,
            "typ": "Offline", "iat": self.now(), "jti": plain, "scope": "openid offline_access",
        });
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signature = URL_SAFE_NO_PAD.encode([7u8; 64]);
        let token = format!("{}.{}.{signature}", encode(&header), encode(&claims));
        let mut state = self.state();
        let grant = state.refresh.remove(&plain)?;
        state.refresh.insert(token.clone(), grant);
        Some(token)
    }

    /// Revokes all refresh tokens.
    pub fn end_grants(&self) {
        self.state().refresh.clear();
    }

    /// Sets or removes the hook that changes tokens before they are signed.
    pub fn set_mischief(&self, mischief: Option<Mischief>) {
        self.state().hooks.mischief = mischief;
    }

    /// Says this of an opaque token when it is asked.
    pub fn set_opaque_token(&self, token: &str, answer: Value) {
        self.state().hooks.opaque.insert(token.to_owned(), answer);
    }

    /// What is said of an opaque token.
    pub(super) fn opaque_answer(&self, token: &str) -> Option<Value> {
        self.state().hooks.opaque.get(token).cloned()
    }

    /// Names its keys and nothing else from now on, as issuers of workloads do.
    pub fn publish_keys_only(&self) {
        self.state().hooks.is_keys_only = true;
    }

    /// Signs with a new key from now on; the old one stays published unless `drop_old`.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn rotate_keys(&self, drop_old: bool) -> io::Result<()> {
        let key = SigningKey::new()?;
        let mut state = self.state();
        if drop_old {
            state.keys.clear();
        }
        state.keys.insert(0, key);
        Ok(())
    }
}
