//! A service token as it is stored, and as requests are checked against it.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    model::{
        access::GroupName,
        app::AppId,
        principal::{PersonClaims, Principal},
    },
    session::cookie::RecordKey,
};

/// Stands before the name in access rules, headers and logs.
pub const SUBJECT_PREFIX: &str = "service:";
/// Longest name, in bytes.
const MAX_NAME: usize = 64;

/// The name of a service token: lower-case letters, digits, and `.`, `_`, `-` behind the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName(Box<str>);

impl ServiceName {
    /// `None` when the text does not follow the grammar.
    pub fn new(text: &str) -> Option<ServiceName> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = text.len() <= MAX_NAME
            && text.bytes().next().is_some_and(is_plain)
            && text
                .bytes()
                .all(|byte| is_plain(byte) || matches!(byte, b'.' | b'_' | b'-'));
        is_name.then(|| ServiceName(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is stored of a token beside its hash. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTokenRecord {
    /// The name of the program.
    pub name: String,
    /// The ids of the apps that it is for.
    pub apps: Vec<String>,
    /// Its groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// When it was made.
    pub created: i64,
    /// When it expires.
    pub expires: i64,
    /// The end of its text.
    pub last_characters: String,
}

/// A stored token with its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToken {
    /// The SHA-256 of its text.
    pub key: RecordKey,
    /// The rest.
    pub record: ServiceTokenRecord,
}

/// All stored tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenList {
    /// Those whose records can be read.
    pub tokens: Vec<StoredToken>,
    /// The hashes of those whose records cannot be opened, mostly because they were encrypted with
    /// another key. A gateway that has the key accepts them.
    pub unreadable: Vec<RecordKey>,
}

/// A token as requests are checked against it.
#[derive(Debug)]
pub struct ServiceToken {
    record: ServiceTokenRecord,
    apps: Box<[AppId]>,
    principal: Arc<Principal>,
}

impl PartialEq for ServiceToken {
    fn eq(&self, other: &ServiceToken) -> bool {
        self.record == other.record
    }
}

impl ServiceToken {
    /// The token of a record; `None` when its name is not valid.
    ///
    /// A service is in the groups of its record and in no other. It is never an admin, and has no
    /// address and no claims.
    pub fn new(record: ServiceTokenRecord) -> Option<ServiceToken> {
        let name = ServiceName::new(&record.name)?;
        let groups = record.groups.iter();
        let claims = PersonClaims {
            subject: format!("{SUBJECT_PREFIX}{name}"),
            groups: groups.filter_map(|group| GroupName::new(group)).collect(),
            ..PersonClaims::default()
        };
        let apps = record.apps.iter();
        Some(ServiceToken {
            apps: apps.filter_map(|app| AppId::from_record(app)).collect(),
            principal: Arc::new(Principal::new(claims, &[])),
            record,
        })
    }

    /// Whether the token is for this app.
    pub fn is_for(&self, app: &AppId) -> bool {
        self.apps.contains(app)
    }

    /// When it expires, in seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.record.expires
    }

    /// The name of the program.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// The service as access rules see it.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_tokens::samples;

    #[test]
    fn a_name_is_plain_text() {
        for name in ["a", "7", "nightly-build", "a.b_c-9", &"x".repeat(64)] {
            assert_eq!(ServiceName::new(name).expect(name).as_str(), name);
        }
        for bad in [
            "",
            "-a",
            ".a",
            "A",
            "a b",
            "a/b",
            "a:b",
            "ä",
            "a\n",
            &"x".repeat(65),
        ] {
            assert_eq!(ServiceName::new(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_service_has_its_groups_and_nothing_else() {
        let record = ServiceTokenRecord {
            groups: vec!["phusers".to_owned(), String::new()],
            ..samples::record("nightly")
        };
        let token = ServiceToken::new(record.clone()).expect("a token");
        let service = token.principal();
        assert_eq!(&*service.subject, "service:nightly");
        assert_eq!(service.groups().len(), 1);
        assert!(!service.is_admin && !service.is_foreign && !service.are_groups_partial());
        assert!(service.email.is_none() && service.preferred_username.is_none());
        let app = |id: &str| AppId::from_record(id).expect("an id");
        assert!(token.is_for(&app("mlflow")));
        for other in ["mlflow:80", "mlflo", "mlflow2", "MLFLOW"] {
            assert!(!token.is_for(&app(other)), "{other}");
        }
        let nameless = ServiceTokenRecord {
            name: "service:x".to_owned(),
            ..record
        };
        assert_eq!(ServiceToken::new(nameless), None);
    }
}
