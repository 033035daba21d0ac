//! Records in their serialized form, for Redis and for the handoff file. They hold tokens, so the
//! writer seals them.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde::{Deserialize, Serialize};

use super::{
    cookie::RecordKey,
    provider_tokens::ProviderTokens,
    record::{AppSession, SignIn},
};
use crate::model::{
    access::GroupName,
    app::AppId,
    principal::{PersonClaims, Principal},
    secret::Secret,
    vhost::{HostLabel, VirtualHost},
};

/// A sign-in with its person and tokens.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredSignIn {
    key: [u8; 32],
    person: StoredPerson,
    id_token: Option<String>,
    refresh_token: Option<String>,
    session_id: Option<String>,
    #[serde(rename = "arvados")]
    source_token: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredPerson {
    subject: String,
    name: String,
    email: Option<String>,
    preferred_username: Option<String>,
    groups: Vec<String>,
    is_admin: bool,
    #[serde(rename = "arvados_user")]
    other_id: Option<String>,
}

/// An app session; the writer stores its sign-in beside it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredAppSession {
    key: [u8; 32],
    app: String,
    #[serde(rename = "place")]
    vhost: StoredVirtualHost,
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
            id_token,
            refresh_token,
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
                preferred_username: person.preferred_username.as_deref().map(str::to_owned),
                groups: person
                    .groups()
                    .iter()
                    .map(|group| group.as_str().to_owned())
                    .collect(),
                is_admin: person.is_admin,
                other_id: person.other_id.as_deref().map(str::to_owned),
            },
            id_token: text(id_token),
            refresh_token: refresh_token
                .load()
                .as_ref()
                .map(|token| token.expose().to_owned()),
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
            preferred_username,
            groups,
            is_admin,
            other_id,
        } = self.person;
        let groups = groups
            .iter()
            .filter_map(|group| GroupName::new(group))
            .collect();
        let claims = PersonClaims {
            subject,
            name: Some(name),
            email,
            preferred_username,
            groups,
        };
        let mut person = Principal::new(claims, &[]);
        person.is_admin = is_admin;
        person.other_id = other_id.map(Into::into);
        let refresh_token = self.refresh_token.map(|token| Arc::new(Secret::new(token)));
        let tokens = ProviderTokens {
            id_token: self.id_token.map(Secret::new),
            refresh_token: ArcSwapOption::from(refresh_token),
            session_id: self.session_id.map(Into::into),
            source_token: self.source_token.map(Secret::new),
            console: None,
        };
        (Arc::new(person), tokens)
    }
}

impl StoredAppSession {
    /// The serialized form of an app session.
    pub(crate) fn from_session(session: &AppSession) -> StoredAppSession {
        StoredAppSession {
            key: session.key().0,
            app: session.app().to_string(),
            vhost: StoredVirtualHost::from_vhost(session.vhost()),
        }
    }

    /// The key of its record.
    pub(crate) fn key(&self) -> RecordKey {
        RecordKey(self.key)
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
