//! Records as they are written for another process: the one that comes after this one (`carry`), or
//! one that runs beside it (`shared`). Whoever writes them seals them: they hold tokens.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde::{Deserialize, Serialize};

use super::{
    cookie::RecordKey,
    record::{AppSession, ProviderTokens, SignIn},
};
use crate::model::{
    access::GroupName,
    app::AppId,
    principal::{PersonClaims, Principal},
    secret::Secret,
    vhost::{HostLabel, VirtualHost},
};

/// A sign-in.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredSignIn {
    key: [u8; 32],
    person: StoredPerson,
    id_token: Option<String>,
    refresh_token: Option<String>,
    session_id: Option<String>,
    arvados: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredPerson {
    subject: String,
    name: String,
    email: Option<String>,
    preferred_username: Option<String>,
    groups: Vec<String>,
    is_admin: bool,
    arvados_user: Option<String>,
}

/// An app session; whose, stands where it is written.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredAppSession {
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

/// What is left of a record, in milliseconds: when it is not used, and whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remaining {
    /// Without use.
    pub idle: u64,
    /// In all.
    pub absolute: u64,
}

impl Remaining {
    /// What is left when so many milliseconds have passed; `None`: nothing.
    pub fn after(self, passed: u64) -> Option<Remaining> {
        let left = Remaining {
            idle: self.idle.checked_sub(passed)?,
            absolute: self.absolute.checked_sub(passed)?,
        };
        (left.idle > 0 && left.absolute > 0).then_some(left)
    }
}

impl StoredSignIn {
    /// Of a sign-in; `None` where it cannot be written: it stands on a token that we only looked
    /// at, and begins anew by itself wherever that comes next.
    pub fn of(sign_in: &SignIn) -> Option<StoredSignIn> {
        let ProviderTokens {
            id_token,
            refresh_token,
            session_id,
            arvados,
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
                arvados_user: person.arvados_user.as_deref().map(str::to_owned),
            },
            id_token: text(id_token),
            refresh_token: refresh_token
                .load()
                .as_ref()
                .map(|token| token.expose().to_owned()),
            session_id: session_id.as_deref().map(str::to_owned),
            arvados: text(arvados),
        })
    }

    /// The key it was written under.
    pub fn key(&self) -> RecordKey {
        RecordKey(self.key)
    }

    /// Who it is of, and the tokens.
    pub fn read(self) -> (Arc<Principal>, ProviderTokens) {
        let StoredPerson {
            subject,
            name,
            email,
            preferred_username,
            groups,
            is_admin,
            arvados_user,
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
        person.arvados_user = arvados_user.map(Into::into);
        let refresh_token = self.refresh_token.map(|token| Arc::new(Secret::new(token)));
        let tokens = ProviderTokens {
            id_token: self.id_token.map(Secret::new),
            refresh_token: ArcSwapOption::from(refresh_token),
            session_id: self.session_id.map(Into::into),
            arvados: self.arvados.map(Secret::new),
            console: None,
        };
        (Arc::new(person), tokens)
    }
}

impl StoredAppSession {
    /// Of an app session.
    pub fn of(session: &AppSession) -> StoredAppSession {
        let (app, vhost) = (
            session.app().to_string(),
            StoredVirtualHost::of(session.vhost()),
        );
        StoredAppSession {
            key: session.key().0,
            app,
            vhost,
        }
    }

    /// The key it was written under.
    pub fn key(&self) -> RecordKey {
        RecordKey(self.key)
    }

    /// For which app, and where; `None` when there can be no such thing.
    pub fn read(&self) -> Option<(AppId, VirtualHost)> {
        Some((AppId::of_record(&self.app)?, self.vhost.read()?))
    }
}

impl StoredVirtualHost {
    /// Of a place.
    pub fn of(vhost: &VirtualHost) -> StoredVirtualHost {
        match vhost {
            VirtualHost::Site => StoredVirtualHost::Site,
            VirtualHost::Host(label) => StoredVirtualHost::Host(label.as_str().to_owned()),
            VirtualHost::Port(port) => StoredVirtualHost::Port(*port),
        }
    }

    /// The place; `None` when there can be none of that name.
    pub fn read(&self) -> Option<VirtualHost> {
        match self {
            StoredVirtualHost::Site => Some(VirtualHost::Site),
            StoredVirtualHost::Host(label) => {
                HostLabel::new(label.as_bytes()).map(VirtualHost::Host)
            }
            StoredVirtualHost::Port(port) => Some(VirtualHost::Port(*port)),
        }
    }
}
