//! Arvados tokens: their form, their verification, and the sign-ins they begin.
//!
//! A token in an address or a cookie begins a sign-in, which stores the token for later
//! verification. A token in `Authorization` begins none; its verification is cached for thirty
//! seconds.

use std::{net::IpAddr, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE, engine::general_purpose::URL_SAFE_NO_PAD};
use tokio::runtime::Handle;

use super::{
    UNKNOWN,
    client::{Api, ApiError},
    records::UserRecord,
};
use crate::{
    identity::stale_cache::{Freshness, StaleCache, Unavailable},
    model::{
        clock::Clock,
        lookup_limit::LookupLimit,
        principal::{PersonClaims, Principal},
        secret::Secret,
        uuid::{Uuid, UuidKind},
    },
    session::{Sessions, cookie::RecordKey, provider_tokens::ProviderTokens, record::SignIn},
};

/// Longest text that is taken for a token, in bytes.
const MAX_TOKEN: usize = 1024;
/// Shortest token of the old form; shorter texts are what apps use for themselves.
const MIN_OLD: usize = 41;
/// Maximum number of cached tokens, and of cached pairs of token and container.
const MOST: u64 = 50_000;
/// A token is verified again after 30 s at most, and not accepted if that is impossible.
const VERIFIED: Freshness = Freshness {
    fresh: Duration::from_secs(30),
    stale: Duration::ZERO,
    outage: Duration::ZERO,
};
/// Permission to read a record only decides which refusal a user gets.
const READABLE: Freshness = Freshness {
    fresh: Duration::from_secs(10),
    stale: Duration::ZERO,
    outage: Duration::ZERO,
};

/// The form of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `v2/<uuid>/<secret>`, or any form under Arvados' own scheme: certainly an Arvados token.
    Sure,
    /// The secret alone: an app's own token may have the same form.
    Old,
}

/// Whether a text has the form of an Arvados token.
pub fn form(text: &str) -> Option<Form> {
    if text.len() > MAX_TOKEN {
        return None;
    }
    let plain = |part: &str| {
        part.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let Some(rest) = text.strip_prefix("v2/") else {
        return (text.len() >= MIN_OLD && plain(text)).then_some(Form::Old);
    };
    let (uuid, secret) = rest.split_once('/')?;
    // A token for one container has the container's uuid behind its secret.
    let secret = secret.split('/').next().unwrap_or_default();
    let is_token = Uuid::new(uuid).is_some_and(|uuid| uuid.kind() == UuidKind::Token);
    (is_token && !secret.is_empty() && secret.bytes().all(|b| b.is_ascii_alphanumeric()))
        .then_some(Form::Sure)
}

/// The token of an `Authorization` header with the scheme `Bearer` or Arvados' own `OAuth2`. With
/// `OAuth2` a token of the old form is certain too.
pub fn of_authorization(value: &[u8]) -> Option<(&str, Form)> {
    let text = std::str::from_utf8(value).ok()?;
    let (scheme, token) = text.split_once(' ')?;
    let token = token.trim_matches(' ');
    if scheme.eq_ignore_ascii_case("oauth2") {
        return form(token).map(|_| (token, Form::Sure));
    }
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| form(token))
        .flatten()
        .map(|form| (token, form))
}

/// The token of an `arvados_api_token` cookie: base64, as Arvados' own programs write it, or plain.
pub fn of_cookie(value: &[u8]) -> Option<Secret> {
    let text = std::str::from_utf8(value).ok()?;
    if form(text) == Some(Form::Sure) {
        return Some(Secret::new(text));
    }
    let decoded = URL_SAFE
        .decode(text)
        .or_else(|_| URL_SAFE_NO_PAD.decode(text))
        .ok();
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    decoded
        .filter(|token| form(token).is_some())
        .or_else(|| form(text).map(|_| text.to_owned()))
        .map(Secret::new)
}

/// Verifies tokens.
#[derive(Debug)]
pub struct ArvadosTokens {
    api: Api,
    sessions: Arc<Sessions>,
    accept_sign_in: bool,
    lookups: LookupLimit,
    people: StaleCache<RecordKey, Person>,
    readers: StaleCache<(RecordKey, Uuid), bool>,
    clock: Clock,
    control: Handle,
}

/// A user, from their record in the API.
#[derive(Debug)]
struct Person {
    uuid: String,
    is_admin: bool,
    principal: Arc<Principal>,
}

impl PartialEq for Person {
    /// Compares what access depends on; names and e-mail addresses may differ.
    fn eq(&self, other: &Person) -> bool {
        self.uuid == other.uuid && self.is_admin == other.is_admin
    }
}

impl ArvadosTokens {
    /// Starts with empty caches.
    pub fn new(
        api: Api,
        accept_sign_in: bool,
        sessions: Arc<Sessions>,
        clock: Clock,
        control: Handle,
    ) -> ArvadosTokens {
        ArvadosTokens {
            api,
            sessions,
            accept_sign_in,
            lookups: LookupLimit::new(UNKNOWN, clock.clone()),
            people: StaleCache::new(MOST, VERIFIED, clock.clone(), control.clone()),
            readers: StaleCache::new(MOST, READABLE, clock.clone(), control.clone()),
            clock,
            control,
        }
    }

    /// The user of a token; `None`: the token is not valid, or its user may not use the cluster.
    /// Look-ups of unknown tokens are rate-limited by `client`.
    ///
    /// # Errors
    /// When the API server gives no answer, or the client has presented too many invalid tokens.
    pub async fn person(
        &self,
        token: &Secret,
        client: IpAddr,
    ) -> Result<Option<Arc<Principal>>, Unavailable> {
        if form(token.expose()).is_none() {
            return Ok(None);
        }
        let key = RecordKey::from_token(token.expose());
        let permit = match self.people.is_exempt(&key) {
            true => None,
            false => Some(self.lookups.acquire(client).ok_or(Unavailable)?),
        };
        let person = self.people.get(key, || self.fetch_person(token)).await;
        if let (Some(permit), Ok(Some(_)) | Err(Unavailable)) = (permit, &person) {
            permit.found();
        }
        Ok(person?.map(|person| person.principal.clone()))
    }

    /// The sign-in of a token, begun if the token is new. The token must be valid now: a session
    /// outlives an outage of the API server, but an invalid token must not identify a user again.
    ///
    /// # Errors
    /// As for [`ArvadosTokens::person`].
    pub async fn sign_in(
        &self,
        token: &Secret,
        client: IpAddr,
    ) -> Result<Option<Arc<SignIn>>, Unavailable> {
        let key = RecordKey::from_token(token.expose());
        let known = self.sessions.store.find_for_token(&key, self.clock.now());
        let Some(principal) = self.person(token, client).await? else {
            if let Some(ended) = known {
                self.sessions.store.revoke(&ended);
            }
            return Ok(None);
        };
        // It may have expired, or have been revoked, while the API server was asked.
        if let Some(sign_in) = known.filter(|known| known.is_live(self.clock.now())) {
            return Ok(Some(sign_in));
        }
        let tokens = ProviderTokens {
            source_token: Some(token.clone()),
            ..ProviderTokens::default()
        };
        Ok(Some(
            self.sessions.store.begin_for_token(key, principal, tokens),
        ))
    }

    /// Verifies the token of a sign-in again when that is due, in the background, so that the
    /// request does not wait. An invalid token revokes the sign-in; an outage of the API server
    /// changes nothing.
    pub fn recheck(self: &Arc<Self>, sign_in: &Arc<SignIn>) {
        let Some(token) = sign_in.tokens.source_token.clone() else {
            return;
        };
        let recheck = self.sessions.store.recheck();
        let Some(guard) = sign_in.start_check_if_due(self.clock.now(), recheck) else {
            return;
        };
        let (this, sign_in) = (self.clone(), sign_in.clone());
        self.control.spawn(async move {
            match this.fetch_person(&token).await {
                Ok(Some(person)) => sign_in.update_principal(person.principal, this.clock.now()),
                Ok(None) => {
                    tracing::info!(
                        target: "audit", event = "token_ended", subject = %sign_in.principal().subject,
                        session = sign_in.key().short(),
                    );
                    this.sessions.store.revoke(&sign_in);
                }
                Err(Unavailable) => {}
            }
            drop(guard);
        });
    }

    /// Whether the owner of a token may read a container's record; `false` if the API server gives
    /// no answer.
    pub async fn can_read(&self, token: &Secret, container: Uuid) -> bool {
        let key = (RecordKey::from_token(token.expose()), container);
        let client = self.api.as_user(token.clone());
        let fetch = || async move {
            client
                .can_read(&container)
                .await
                .map(Some)
                .map_err(|_| Unavailable)
        };
        matches!(self.readers.get(key, fetch).await, Ok(Some(readable)) if *readable)
    }

    /// The uuid of a user who just signed in at the identity provider, if the API server accepts
    /// the provider's access tokens. A user that the API server does not know is still signed in.
    pub async fn user_of_sign_in(&self, access_token: &Secret) -> Option<Box<str>> {
        if !self.accept_sign_in {
            return None;
        }
        match self.fetch_person(access_token).await {
            Ok(person) => person.map(|person| person.principal.subject.clone()),
            Err(Unavailable) => {
                tracing::warn!(
                    "cannot look up the person who just signed in at the Arvados API server"
                );
                None
            }
        }
    }

    /// Revokes the sessions that tokens of this user began.
    pub async fn sign_out(&self, user: &str) {
        let _ = self
            .sessions
            .replication
            .load_by_subject(Some(user), None)
            .await;
        self.sessions.revoker.revoke_source_sign_ins(user);
    }

    /// The user of a token at its last verification, without waiting; verifies it again in the
    /// background if that is due. `None`: the token was not valid then, or it is not cached.
    pub fn last_verified_user(&self, token: &Secret) -> Option<Arc<Principal>> {
        let known = self
            .people
            .last_known(&RecordKey::from_token(token.expose()), || {
                self.fetch_person(token)
            })??;
        Some(known.principal.clone())
    }

    /// Whether a text is known to be a valid token; never makes a call.
    pub fn is_known(&self, token: &str) -> bool {
        self.people.fresh(&RecordKey::from_token(token)).is_some()
    }

    fn fetch_person(
        &self,
        token: &Secret,
    ) -> impl Future<Output = Result<Option<Person>, Unavailable>> + Send + use<> {
        let client = self.api.as_user(token.clone());
        async move {
            match client.current().await {
                Ok(user) if user.is_active => Ok(Some(describe(user))),
                Ok(_) | Err(ApiError::BadToken | ApiError::NotFound) => Ok(None),
                Err(error @ ApiError::Unavailable(_)) => {
                    tracing::warn!(%error, "cannot verify an Arvados token");
                    Err(Unavailable)
                }
            }
        }
    }
}

fn describe(user: UserRecord) -> Person {
    let UserRecord {
        uuid,
        is_admin,
        email,
        username,
        full_name,
        is_active: _,
    } = user;
    let claims = PersonClaims {
        subject: uuid.clone(),
        name: full_name,
        email,
        preferred_username: username,
        // The groups and other claims are the provider's, and not known here.
        are_groups_partial: true,
        ..PersonClaims::default()
    };
    // The identity provider has the groups; here the record itself says whether a user is an admin.
    let mut principal = Principal::new(claims, &[]);
    principal.is_admin = is_admin;
    Person {
        uuid,
        is_admin,
        principal: Arc::new(principal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str =
        "v2/zzzzz-gj3su-077z32aux8dg2s1/3kg6k6lzmp9kj5cpkcoxie963cmvjahbt2fod9zru30k1jqdmi";
    const OLD: &str = "3kg6k6lzmp9kj5cpkcoxie963cmvjahbt2fod9zru30k1jqdmi";

    #[test]
    fn a_token_is_told_from_other_texts_by_its_form() {
        assert_eq!(form(V2), Some(Form::Sure));
        assert_eq!(
            form(&format!("{V2}/zzzzz-dz642-xqhgmzqm1tyc3bs")),
            Some(Form::Sure)
        );
        assert_eq!(form(OLD), Some(Form::Old));
        for other in [
            "",
            "v2",
            "v2/",
            "v2/x/y",
            "v2/zzzzz-tpzed-077z32aux8dg2s1/x",
            "v2/zzzzz-gj3su-077z32aux8dg2s1/",
            "short",
            "3KG6K6LZMP9KJ5CPKCOXIE963CMVJAHBT2FOD9ZRU30K1JQDMI",
            "eyJhbGciOiJFUzI1NiJ9.e30.x",
        ] {
            assert_eq!(form(other), None, "{other:?}");
        }
        assert_eq!(
            of_authorization(format!("Bearer {V2}").as_bytes()),
            Some((V2, Form::Sure))
        );
        assert_eq!(
            of_authorization(format!("OAuth2 {OLD}").as_bytes()),
            Some((OLD, Form::Sure))
        );
        assert_eq!(
            of_authorization(format!("Bearer {OLD}").as_bytes()),
            Some((OLD, Form::Old))
        );
        assert_eq!(of_authorization(format!("Basic {OLD}").as_bytes()), None);
    }

    #[test]
    fn a_cookie_holds_a_token_as_arvados_programs_write_it_or_as_it_is() {
        for token in [V2, OLD] {
            for written in [
                URL_SAFE.encode(token),
                URL_SAFE_NO_PAD.encode(token),
                token.to_owned(),
            ] {
                assert_eq!(
                    of_cookie(written.as_bytes()).expect("a token").expose(),
                    token,
                    "{written}"
                );
            }
        }
        for other in ["", "x", "dGhpcyBpcyBubyB0b2tlbg=="] {
            assert!(of_cookie(other.as_bytes()).is_none(), "{other:?}");
        }
    }
}
