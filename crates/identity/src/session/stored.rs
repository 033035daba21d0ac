//! Records in their serialized form, for Redis and for the handoff file. They hold tokens, so the
//! writer seals them.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use serde::{Deserialize, Serialize};

use super::{
    access_token::StoredAccessToken,
    cookie::RecordKey,
    provider_tokens::ProviderTokens,
    record::{AppSession, SignIn},
};
use crate::model::{
    access::{GroupName, clause::ClaimPointer},
    app::AppId,
    authentication::AuthenticationEvent,
    clock::millis,
    known_claims::{KnownClaim, KnownClaims},
    principal::{PersonClaims, Principal},
    provider_id::ProviderId,
    secret::Secret,
    vhost::{HostLabel, VirtualHost},
};

/// A sign-in with its person and tokens.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredSignIn {
    key: [u8; 32],
    person: StoredPerson,
    /// Records of older versions have none, and are of the default provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider: Option<StoredProviderId>,
    id_token: Option<String>,
    refresh_token: Option<String>,
    /// Records of older versions have none.
    #[serde(default)]
    access_token: Option<StoredAccessToken>,
    session_id: Option<String>,
    #[serde(rename = "arvados")]
    source_token: Option<String>,
}

/// A further provider. A text that is no id makes the record unreadable: taken for the default
/// provider, it would be sent the tokens of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct StoredProviderId(ProviderId);

impl TryFrom<String> for StoredProviderId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<StoredProviderId, &'static str> {
        let id = ProviderId::new(&text).ok_or("not the id of a provider")?;
        Ok(StoredProviderId(id))
    }
}

impl From<StoredProviderId> for String {
    fn from(stored: StoredProviderId) -> String {
        stored.0.as_str().to_owned()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredPerson {
    subject: String,
    name: String,
    email: Option<String>,
    #[serde(default)]
    is_email_verified: bool,
    preferred_username: Option<String>,
    groups: Vec<String>,
    /// Records of older versions do not say whether the list was cut.
    #[serde(default = "unknown_groups_are_partial")]
    are_groups_partial: bool,
    is_admin: bool,
    #[serde(rename = "arvados_user")]
    other_id: Option<String>,
    /// Records of older versions have none, so their claims are not known.
    #[serde(default)]
    claims: Vec<(String, Vec<String>)>,
    /// Records of older versions have neither this nor `acr`.
    #[serde(default)]
    auth_time: Option<i64>,
    #[serde(default)]
    acr: Option<String>,
}

fn unknown_groups_are_partial() -> bool {
    true
}

/// An app session; the writer stores its sign-in beside it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredAppSession {
    key: [u8; 32],
    app: String,
    #[serde(rename = "place")]
    vhost: StoredVirtualHost,
    /// The idle time of its app, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_idle: Option<u64>,
}

/// One of our origins.
#[derive(Debug, Serialize, Deserialize)]
pub enum StoredVirtualHost {
    /// The site.
    Site,
    /// A host of the apps' domain, by its label.
    Host(String),
    /// A port of the range.
    Port(u16),
}

impl StoredSignIn {
    /// `None` for a sign-in of a console token: it is not stored, because the next request with the
    /// token starts it again.
    pub(crate) fn from_sign_in(sign_in: &SignIn) -> Option<StoredSignIn> {
        let ProviderTokens {
            provider,
            id_token,
            refresh_token,
            access_token,
            session_id,
            source_token,
            console,
        } = &sign_in.tokens;
        if console.is_some() {
            return None;
        }
        let person = sign_in.principal();
        let text =
            |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
        Some(StoredSignIn {
            key: sign_in.key().0,
            person: StoredPerson {
                subject: person.subject.to_string(),
                name: person.display_name.to_string(),
                email: person.email.as_deref().map(str::to_owned),
                is_email_verified: person.is_email_verified,
                preferred_username: person.preferred_username.as_deref().map(str::to_owned),
                groups: person.groups().iter().map(GroupName::to_record).collect(),
                are_groups_partial: person.are_groups_partial(),
                is_admin: person.is_admin,
                other_id: person.other_id.as_deref().map(str::to_owned),
                claims: person.claims.iter().map(stored_claim).collect(),
                auth_time: person.authentication.time,
                acr: person.authentication.context.as_deref().map(str::to_owned),
            },
            provider: provider.clone().map(StoredProviderId),
            id_token: text(id_token),
            refresh_token: refresh_token
                .load()
                .as_ref()
                .map(|token| token.expose().to_owned()),
            access_token: access_token.load().as_ref().map(|token| token.to_stored()),
            session_id: session_id.as_deref().map(str::to_owned),
            source_token: text(source_token),
        })
    }

    /// The key of its record.
    pub(crate) fn key(&self) -> RecordKey {
        RecordKey(self.key)
    }

    /// The person and the tokens.
    pub(crate) fn into_parts(self) -> (Arc<Principal>, ProviderTokens) {
        let StoredPerson {
            subject,
            name,
            email,
            is_email_verified,
            preferred_username,
            groups,
            are_groups_partial,
            is_admin,
            other_id,
            claims,
            auth_time,
            acr,
        } = self.person;
        let groups = groups
            .iter()
            .filter_map(|group| GroupName::new(group))
            .collect();
        let claims = PersonClaims {
            subject,
            name: Some(name),
            email,
            is_email_verified,
            preferred_username,
            groups,
            are_groups_partial,
            claims: KnownClaims::new(claims.into_iter().filter_map(known_claim).collect()),
            // Only people who signed in have sessions.
            is_foreign: false,
            authentication: AuthenticationEvent::new(auth_time, acr.as_deref()),
        };
        let mut person = Principal::new(claims, &[]);
        person.is_admin = is_admin;
        person.other_id = other_id.map(Into::into);
        let refresh_token = self.refresh_token.map(|token| Arc::new(Secret::new(token)));
        let access_token = self.access_token.and_then(StoredAccessToken::into_kept);
        let tokens = ProviderTokens {
            provider: self.provider.map(|stored| stored.0),
            id_token: self.id_token.map(Secret::new),
            refresh_token: ArcSwapOption::from(refresh_token),
            access_token: ArcSwapOption::from(access_token.map(Arc::new)),
            session_id: self.session_id.map(Into::into),
            source_token: self.source_token.map(Secret::new),
            console: None,
        };
        (Arc::new(person), tokens)
    }
}

fn stored_claim(claim: &KnownClaim) -> (String, Vec<String>) {
    let values = claim.values.iter().map(|value| value.to_string());
    (claim.pointer.to_string(), values.collect())
}

fn known_claim((pointer, values): (String, Vec<String>)) -> Option<KnownClaim> {
    Some(KnownClaim {
        pointer: ClaimPointer::new(&pointer)?,
        values: values.into_iter().map(Into::into).collect(),
    })
}

impl StoredAppSession {
    /// The serialized form of an app session.
    pub(crate) fn from_session(session: &AppSession) -> StoredAppSession {
        StoredAppSession {
            key: session.key().0,
            app: session.app().to_string(),
            vhost: StoredVirtualHost::from_vhost(session.vhost()),
            own_idle: session.own_idle().map(millis),
        }
    }

    /// The key of its record.
    pub(crate) fn key(&self) -> RecordKey {
        RecordKey(self.key)
    }

    /// The idle time of its app; `None`: that of all sessions.
    pub(crate) fn own_idle(&self) -> Option<Duration> {
        self.own_idle.map(Duration::from_millis)
    }

    /// The app and the origin; `None` when the names are not valid.
    pub(crate) fn app_and_vhost(&self) -> Option<(AppId, VirtualHost)> {
        Some((AppId::from_record(&self.app)?, self.vhost.to_vhost()?))
    }
}

impl StoredVirtualHost {
    /// The serialized form of an origin.
    pub fn from_vhost(vhost: &VirtualHost) -> StoredVirtualHost {
        match vhost {
            VirtualHost::Site => StoredVirtualHost::Site,
            VirtualHost::Host(label) => StoredVirtualHost::Host(label.as_str().to_owned()),
            VirtualHost::Port(port) => StoredVirtualHost::Port(*port),
        }
    }

    /// The origin; `None` when the name is not valid.
    pub fn to_vhost(&self) -> Option<VirtualHost> {
        match self {
            StoredVirtualHost::Site => Some(VirtualHost::Site),
            StoredVirtualHost::Host(label) => {
                HostLabel::new(label.as_bytes()).map(VirtualHost::Host)
            }
            StoredVirtualHost::Port(port) => Some(VirtualHost::Port(*port)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_record_of_an_older_version_lacks_is_not_known() {
        let record = json!({
            "key": vec![0; 32],
            "person": {
                "subject": "alice", "name": "Alice", "email": "alice@x.test",
                "preferred_username": null, "groups": ["a"], "is_admin": false,
                "arvados_user": null,
            },
            "id_token": null, "refresh_token": null, "session_id": null, "arvados": null,
        });
        let stored: StoredSignIn = serde_json::from_value(record).expect("readable");
        let (person, tokens) = stored.into_parts();
        assert!(tokens.access_token.load().is_none());
        assert_eq!(tokens.provider, None, "the default one");
        assert_eq!(person.email.as_deref(), Some("alice@x.test"));
        assert_eq!(person.verified_email(), None);
        let pointer = ClaimPointer::new("/department").expect("a pointer");
        assert_eq!(person.claims.values(&pointer), None);
        assert!(person.are_groups_partial(), "the list may have been cut");
        assert_eq!(person.authentication, AuthenticationEvent::default());
    }

    #[test]
    fn a_record_keeps_how_and_when_the_person_authenticated() {
        let stored: StoredPerson = serde_json::from_value(json!({
            "subject": "alice", "name": "Alice", "email": null, "preferred_username": null,
            "groups": [], "is_admin": false, "arvados_user": null, "auth_time": 17, "acr": "gold",
        }))
        .expect("readable");
        let again = serde_json::to_value(&stored).expect("writable");
        assert_eq!(
            (&again["auth_time"], &again["acr"]),
            (&json!(17), &json!("gold"))
        );
        let record = StoredSignIn {
            key: [0; 32],
            person: stored,
            provider: None,
            id_token: None,
            refresh_token: None,
            session_id: None,
            source_token: None,
            access_token: None,
        };
        let (person, _) = record.into_parts();
        let wanted = AuthenticationEvent::new(Some(17), Some("gold"));
        assert_eq!(person.authentication, wanted);
    }

    #[test]
    fn a_record_keeps_the_provider_of_the_person() {
        let record = |provider: serde_json::Value| {
            let person = json!({
                "subject": "corp:alice", "name": "Alice", "email": null,
                "preferred_username": null, "groups": [], "is_admin": false,
                "arvados_user": null,
            });
            json!({
                "key": vec![0; 32], "person": person, "provider": provider, "id_token": null,
                "refresh_token": null, "session_id": null, "arvados": null,
            })
        };
        let read = |provider| serde_json::from_value::<StoredSignIn>(record(provider));
        let stored = read(json!("corp")).expect("readable");
        let again = serde_json::to_value(&stored).expect("writable");
        assert_eq!(again["provider"], "corp");
        let (_, tokens) = stored.into_parts();
        assert_eq!(tokens.provider, ProviderId::new("corp"));
        for other in [json!(""), json!("default"), json!("a:b"), json!(7)] {
            assert!(read(other.clone()).is_err(), "{other}");
        }
    }

    #[test]
    fn a_session_keeps_the_idle_time_of_its_app_and_an_older_record_has_none() {
        let record = json!({"key": vec![0; 32], "app": "a", "place": "Site"});
        let read =
            |record| -> StoredAppSession { serde_json::from_value(record).expect("readable") };
        let mut stored = read(record.clone());
        assert_eq!(stored.own_idle(), None);
        let text = serde_json::to_value(&stored).expect("JSON");
        assert_eq!(text, record, "older versions read it too");
        stored.own_idle = Some(600_000);
        let text = serde_json::to_value(&stored).expect("JSON");
        assert_eq!(read(text).own_idle(), Some(Duration::from_secs(600)));
    }

    #[test]
    fn a_claim_is_the_same_after_it_was_stored() {
        for values in [&[][..], &["sales"], &["a", "b"]] {
            let claim = KnownClaim {
                pointer: ClaimPointer::new("/department").expect("a pointer"),
                values: values.iter().map(|value| (*value).into()).collect(),
            };
            assert_eq!(known_claim(stored_claim(&claim)), Some(claim));
        }
    }
}
