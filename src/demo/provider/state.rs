//! The state of the demo's provider: its people, keys, codes and tokens.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Map, Value, json};

#[cfg(feature = "testing")]
use super::hooks::Hooks;
use super::keys::SigningKey;
use crate::{model::clock::Clock, session::cookie::NewId};

/// Lifetime of access and ID tokens, in seconds.
pub const LIFE: i64 = 600;

/// Maximum number of codes, and of refresh tokens; when it is reached, all of them are removed.
const MAX_REMEMBERED: usize = 10_000;

/// The only registered client.
#[derive(Clone, Debug)]
pub struct RegisteredClient {
    /// `client_id`.
    pub id: String,
    /// `client_secret`.
    pub secret: String,
    /// Exact redirect URIs.
    pub redirect_uris: Vec<String>,
    /// Exact URIs after signing out.
    pub post_logout_redirect_uris: Vec<String>,
    /// Where logout tokens are sent.
    pub backchannel_logout_uri: Option<String>,
}

/// A person who can sign in.
#[derive(Clone, Debug)]
pub struct Person {
    /// The subject, and the name on the button.
    pub name: &'static str,
    /// The claims beside `sub`.
    pub claims: Map<String, Value>,
}

/// The provider; clones share its state.
#[derive(Clone)]
pub struct DemoProvider(Arc<Inner>);

struct Inner {
    issuer: String,
    client: RegisteredClient,
    clock: Clock,
    state: Mutex<State>,
}

/// The state that changes while it runs.
pub(super) struct State {
    pub(super) people: BTreeMap<&'static str, Person>,
    pub(super) keys: Vec<SigningKey>,
    pub(super) codes: HashMap<String, Grant>,
    pub(super) refresh: HashMap<String, Refresh>,
    pub(super) devices: HashMap<String, WaitingDevice>,
    #[cfg(feature = "testing")]
    pub(super) hooks: Hooks,
}

/// The grant behind a code.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) person: &'static str,
    pub(super) nonce: Option<String>,
    pub(super) challenge: String,
    pub(super) redirect_uri: String,
    pub(super) session: String,
    pub(super) issued: i64,
    /// When the person chose a name, which is all the authentication there is.
    pub(super) auth_time: i64,
    /// With the scope `offline_access`: its refresh token is not replaced with each use.
    pub(super) is_offline: bool,
}

/// The grant behind a refresh token.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    pub(super) person: &'static str,
    pub(super) session: String,
    pub(super) auth_time: i64,
    pub(super) used: bool,
    pub(super) is_offline: bool,
}

/// A terminal that waits for a person.
#[derive(Clone, Debug)]
pub(super) struct WaitingDevice {
    pub(super) user_code: String,
    pub(super) issued: i64,
    pub(super) is_offline: bool,
    pub(super) answer: DeviceAnswer,
}

/// What the person has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceAnswer {
    Open,
    Agreed(&'static str),
    Refused,
}

impl DemoProvider {
    /// A provider with its people, that issues tokens as `issuer`.
    ///
    /// # Errors
    /// When no key can be made.
    pub(super) fn new(
        issuer: String,
        client: RegisteredClient,
        clock: Clock,
    ) -> io::Result<DemoProvider> {
        let people = [
            ("alice", ["phusers", "friends"].as_slice()),
            ("bob", ["friends"].as_slice()),
            ("carol", ["friends", "guests"].as_slice()),
        ];
        let people = people.into_iter();
        let state = State {
            people: people
                .map(|(name, groups)| (name, person(name, groups)))
                .collect(),
            keys: vec![SigningKey::new()?],
            codes: HashMap::new(),
            refresh: HashMap::new(),
            devices: HashMap::new(),
            #[cfg(feature = "testing")]
            hooks: Hooks::default(),
        };
        Ok(DemoProvider(Arc::new(Inner {
            issuer,
            client,
            clock,
            state: Mutex::new(state),
        })))
    }

    /// Its issuer.
    pub fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// Signs a token with the current key.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let state = self.state();
        state
            .keys
            .first()
            .map_or_else(String::new, |key| key.sign(header, claims))
    }

    /// An access token for a person, as the token endpoint would give one.
    pub fn access_token(&self, name: &str) -> String {
        let now = self.now();
        let mut claims = self.claims_of(name);
        claims.insert("iss".into(), self.issuer().into());
        claims.insert("aud".into(), self.0.client.id.as_str().into());
        claims.insert("azp".into(), self.0.client.id.as_str().into());
        claims.insert("iat".into(), now.into());
        claims.insert("exp".into(), (now + LIFE).into());
        self.sign(
            &json!({"alg": "ES256", "typ": "at+jwt", "kid": self.key_id()}),
            &Value::Object(claims),
        )
    }

    /// The id of the current key.
    pub fn key_id(&self) -> String {
        self.state()
            .keys
            .first()
            .map_or_else(String::new, |key| key.id().to_owned())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Poisoning is ignored: a test that panicked while it held the lock has failed already.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> i64 {
        self.0.clock.wall_seconds()
    }

    pub(super) fn client(&self) -> &RegisteredClient {
        &self.0.client
    }

    #[cfg(feature = "testing")]
    pub(super) fn count(&self, endpoint: &'static str) {
        self.state().hooks.count(endpoint);
    }

    #[cfg(not(feature = "testing"))]
    pub(super) fn count(&self, _endpoint: &'static str) {}

    /// `sub` and all other claims of a person.
    pub(super) fn claims_of(&self, name: &str) -> Map<String, Value> {
        let mut claims = self
            .state()
            .people
            .get(name)
            .map(|person| person.claims.clone())
            .unwrap_or_default();
        claims.insert("sub".into(), name.into());
        claims
    }

    /// Stores a grant under a new code, and returns the code.
    pub(super) fn new_code(&self, grant: Grant) -> Option<String> {
        let code = NewId::random().ok()?.as_str().to_owned();
        let mut state = self.state();
        if state.codes.len() >= MAX_REMEMBERED {
            state.codes.clear();
        }
        state.codes.insert(code.clone(), grant);
        Some(code)
    }

    /// Stores a new refresh token, and returns it.
    pub(super) fn new_refresh(&self, grant: &Grant) -> Option<String> {
        let token = NewId::random().ok()?.as_str().to_owned();
        let mut state = self.state();
        if state.refresh.len() >= MAX_REMEMBERED {
            state.refresh.clear();
        }
        state.refresh.insert(
            token.clone(),
            Refresh {
                person: grant.person,
                session: grant.session.clone(),
                auth_time: grant.auth_time,
                used: false,
                is_offline: grant.is_offline,
            },
        );
        Some(token)
    }
}

pub(super) fn person(name: &'static str, groups: &[&str]) -> Person {
    let mut title = name.to_owned();
    title[..1].make_ascii_uppercase();
    let claims = json!({
        "name": title,
        "preferred_username": name,
        "email": format!("{name}@example.com"),
        "email_verified": true,
        "groups": groups,
    });
    let claims = match claims {
        Value::Object(claims) => claims,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    };
    Person { name, claims }
}
