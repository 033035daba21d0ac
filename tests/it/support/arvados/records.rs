//! The records behind the API: what they say, and who may read them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

/// The kinds of records that the stand-in keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Container,
    ContainerRequest,
    Link,
    User,
}

impl Kind {
    /// From the plural in the path.
    pub fn of_path(plural: &str) -> Option<Kind> {
        match plural {
            "containers" => Some(Kind::Container),
            "container_requests" => Some(Kind::ContainerRequest),
            "links" => Some(Kind::Link),
            "users" => Some(Kind::User),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Container => "container",
            Kind::ContainerRequest => "containerRequest",
            Kind::Link => "link",
            Kind::User => "user",
        }
    }

    fn infix(self) -> &'static str {
        match self {
            Kind::Container => "dz642",
            Kind::ContainerRequest => "xvhdp",
            Kind::Link => "o0j2j",
            Kind::User => "tpzed",
        }
    }
}

/// The subject of an access token of the identity provider, as a cluster that accepts these would
/// read it. The signature is not checked: that is the cluster's task and not tested here.
fn provider_subject(token: &str) -> Option<String> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let payload: Value = serde_json::from_slice(&payload).ok()?;
    payload["sub"].as_str().map(str::to_owned)
}

/// The cluster's own user, the owner of the root token.
pub const SYSTEM_USER: &str = "zzzzz-tpzed-000000000000000";

/// One record and who was allowed to read it besides those who always may.
#[derive(Clone)]
pub struct Record {
    pub fields: Map<String, Value>,
    pub readers: BTreeSet<String>,
}

impl Record {
    pub fn text(&self, name: &str) -> &str {
        self.fields
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        self.fields
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }
}

/// Everything that the API knows.
pub struct Records {
    tables: BTreeMap<Kind, Vec<Record>>,
    /// Secret → (uuid of the token, uuid of the user). A token that expired or was revoked is not
    /// in here, because the API answers it as one that never was.
    tokens: BTreeMap<String, (String, String)>,
    root_token: String,
}

impl Records {
    pub fn new() -> Records {
        let mut records = Records {
            tables: BTreeMap::new(),
            tokens: BTreeMap::new(),
            root_token: random_text(50),
        };
        records.add_user(SYSTEM_USER.to_owned(), "root", true);
        records
    }

    pub fn root_token(&self) -> String {
        self.root_token.clone()
    }

    /// Adds a record: what every record has, then what this one has.
    pub fn add(&mut self, kind: Kind, uuid: Option<String>, own: Value) -> String {
        let uuid = uuid.unwrap_or_else(|| new_uuid(kind.infix()));
        let now = timestamp();
        let Value::Object(mut fields) = json!({
            "kind": format!("arvados#{}", kind.name()), "etag": new_etag(), "uuid": uuid,
            "owner_uuid": SYSTEM_USER, "created_at": now, "modified_at": now,
            "modified_by_user_uuid": SYSTEM_USER,
        }) else {
            unreachable!("an object is an object")
        };
        if let Value::Object(own) = own {
            fields.extend(own);
        }
        self.tables.entry(kind).or_default().push(Record {
            fields,
            readers: BTreeSet::new(),
        });
        uuid
    }

    pub fn add_user(&mut self, uuid: String, name: &str, is_admin: bool) {
        let mut letters = name.chars();
        let first = letters
            .next()
            .map(|c| c.to_uppercase().collect::<String>())
            .unwrap_or_default();
        let first = format!("{first}{}", letters.as_str());
        let own = json!({
            "email": format!("{name}@example.com"), "username": name, "first_name": first,
            "last_name": "Example", "full_name": format!("{first} Example"), "identity_url": null,
            "is_active": true, "is_admin": is_admin, "is_invited": true, "prefs": {},
            "can_write": true, "can_manage": true,
        });
        self.add(Kind::User, Some(uuid), own);
    }

    /// A token of this user: (its v2 form, its v1 form).
    pub fn add_token(&mut self, user: &str) -> (String, String) {
        let (uuid, secret) = (new_uuid("gj3su"), random_text(50));
        self.tokens
            .insert(secret.clone(), (uuid.clone(), user.to_owned()));
        (format!("v2/{uuid}/{secret}"), secret)
    }

    /// Takes a token away, in whichever form it is given.
    pub fn revoke(&mut self, token: &str) {
        let secret = token.split('/').nth(2).unwrap_or(token);
        self.tokens
            .remove(secret)
            .unwrap_or_else(|| panic!("no such token: {token}"));
    }

    /// Whose token this is; none for what is wrong, expired or revoked.
    pub fn user_of_token(&self, token: &str) -> Option<&Record> {
        if token == self.root_token {
            return self.get(Kind::User, SYSTEM_USER);
        }
        if let Some(name) = provider_subject(token) {
            return self
                .all(Kind::User)
                .iter()
                .find(|user| user.text("username") == name);
        }
        let Some(v2) = token.strip_prefix("v2/") else {
            let (_, user) = self.tokens.get(token)?;
            return self.get(Kind::User, user);
        };
        let mut parts = v2.split('/');
        let (uuid, secret, container) = (parts.next()?, parts.next()?, parts.next());
        let (own_uuid, user) = self.tokens.get(secret)?;
        // A fourth part names the container that the token was made for; it is good while that
        // runs.
        let still_good = container
            .and_then(|uuid| self.get(Kind::Container, uuid))
            .is_none_or(is_under_way);
        (own_uuid == uuid && still_good).then(|| self.get(Kind::User, user))?
    }

    pub fn get(&self, kind: Kind, uuid: &str) -> Option<&Record> {
        self.all(kind)
            .iter()
            .find(|record| record.text("uuid") == uuid)
    }

    pub fn all(&self, kind: Kind) -> &[Record] {
        self.tables.get(&kind).map_or(&[], Vec::as_slice)
    }

    /// Changes the records that fit, as an update through the API would: with a new etag and time.
    /// Gives back how many they were.
    pub fn change(
        &mut self,
        kind: Kind,
        fits: impl Fn(&Record) -> bool,
        change: impl Fn(&mut Record),
    ) -> usize {
        let mut changed = 0;
        for record in self
            .tables
            .entry(kind)
            .or_default()
            .iter_mut()
            .filter(|record| fits(record))
        {
            changed += 1;
            change(record);
            record.fields.insert("etag".into(), new_etag().into());
            record
                .fields
                .insert("modified_at".into(), timestamp().into());
        }
        changed
    }

    /// Removes a link by its name.
    pub fn remove_link(&mut self, name: &str) {
        let links = self.tables.entry(Kind::Link).or_default();
        let before = links.len();
        links.retain(|link| link.text("name") != name);
        assert_ne!(before, links.len(), "no link {name}");
    }

    /// An administrator may read everything, a submitter their request, a reader of a request its
    /// container, a reader of a link's head the link; and every user what was shared with them.
    /// An inactive user may read nothing.
    pub fn may_read(&self, user: &Record, kind: Kind, record: &Record) -> bool {
        if !user.flag("is_active") {
            return false;
        }
        let reader = user.text("uuid");
        user.flag("is_admin")
            || record.readers.contains(reader)
            || self.may_always(reader, kind, record)
    }

    fn may_always(&self, reader: &str, kind: Kind, record: &Record) -> bool {
        let submitted = |request: &Record| request.text("modified_by_user_uuid") == reader;
        let was_allowed = |record: &Record| record.readers.contains(reader);
        match kind {
            Kind::Container => self
                .all(Kind::ContainerRequest)
                .iter()
                .filter(|request| request.text("container_uuid") == record.text("uuid"))
                .any(|request| submitted(request) || was_allowed(request)),
            Kind::ContainerRequest => {
                submitted(record)
                    || self
                        .get(Kind::Container, record.text("container_uuid"))
                        .is_some_and(was_allowed)
            }
            Kind::Link => [Kind::ContainerRequest, Kind::Container]
                .iter()
                .any(|kind| {
                    let head = self.get(*kind, record.text("head_uuid"));
                    head.is_some_and(|head| {
                        was_allowed(head) || self.may_always(reader, *kind, head)
                    })
                }),
            Kind::User => record.text("uuid") == reader,
        }
    }
}

fn is_under_way(container: &Record) -> bool {
    ["Locked", "Running"].contains(&container.text("state"))
}

/// UTC, with the nine digits that the API always writes.
pub fn timestamp() -> String {
    chrono::Utc::now()
        .format("%Y-%m-%dT%H:%M:%S%.9fZ")
        .to_string()
}

pub fn new_uuid(infix: &str) -> String {
    format!("zzzzz-{infix}-{}", random_text(15))
}

/// Digits and small letters.
pub fn random_text(length: usize) -> String {
    let mut bytes = vec![0; length];
    aws_lc_rs::rand::fill(&mut bytes).expect("random bytes");
    bytes
        .iter()
        .map(|byte| char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[usize::from(*byte % 36)]))
        .collect()
}

fn new_etag() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:025}", COUNT.fetch_add(1, Ordering::Relaxed))
}
