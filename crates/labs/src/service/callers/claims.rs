//! A person in claims: of a token, or of the answer of a user-info URL.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ludgate_model::access::GroupName;
use serde_json::{Map, Value};

use crate::{
    quantity::{CpuCores, MemoryBytes},
    size::NotebookQuota,
    user::{LabGroup, LabUser},
};

/// Largest number of groups that are read.
const MAX_GROUPS: usize = 1000;
/// Longest name of a group or a person, in bytes.
const MAX_NAME: usize = 256;

/// Which claims describe a person. Each is a name, or a JSON pointer when it begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// The name for sign-in.
    pub username: String,
    /// The name for people.
    pub name: String,
    /// The UID, a number.
    pub uid: String,
    /// The GID of the primary group, a number.
    pub gid: String,
    /// Groups: names, or objects with `name` and `id`.
    pub groups: String,
    /// An object with `cpu` in cores, `memory` in GiB, and `spawn`.
    pub quota: String,
}

impl Default for ClaimNames {
    fn default() -> ClaimNames {
        ClaimNames {
            username: "preferred_username".to_owned(),
            name: "name".to_owned(),
            uid: "uid".to_owned(),
            gid: "gid".to_owned(),
            groups: "groups".to_owned(),
            quota: "/quota/notebook".to_owned(),
        }
    }
}

impl ClaimNames {
    /// The name for sign-in.
    pub(super) fn username(&self, claims: &Map<String, Value>) -> Option<String> {
        let username = find(claims, &self.username)?.as_str()?;
        (1..=MAX_NAME)
            .contains(&username.len())
            .then(|| username.to_owned())
    }

    /// Whether the answer of a user-info URL is about a person. It may call the name `username`,
    /// whatever tokens call it.
    pub(super) fn describes(&self, claims: &Map<String, Value>, username: &str) -> bool {
        let written = claims
            .get("username")
            .or_else(|| find(claims, &self.username));
        written.and_then(Value::as_str) == Some(username)
    }

    /// The names of all groups, for rules.
    pub(super) fn group_names(&self, claims: &Map<String, Value>) -> Vec<GroupName> {
        let groups = self.group_values(claims);
        let name = |group: &Value| {
            group
                .as_str()
                .or_else(|| group["name"].as_str())
                .and_then(GroupName::new)
        };
        groups.iter().filter_map(name).collect()
    }

    fn group_values<'c>(&self, claims: &'c Map<String, Value>) -> &'c [Value] {
        let groups = find(claims, &self.groups).and_then(Value::as_array);
        let groups = groups.map_or(&[] as &[Value], Vec::as_slice);
        groups.get(..MAX_GROUPS).unwrap_or(groups)
    }

    /// The person with UID and GID, if the claims have both.
    pub(super) fn lab_user(&self, username: &str, claims: &Map<String, Value>) -> Option<LabUser> {
        let groups = self.group_values(claims).iter().filter_map(|group| {
            let name = group["name"].as_str().filter(|name| is_group(name))?;
            Some(LabGroup {
                name: name.to_owned(),
                id: group.get("id").and_then(id)?,
            })
        });
        let name = find(claims, &self.name).and_then(Value::as_str);
        Some(LabUser {
            username: username.to_owned(),
            name: name.filter(|name| is_text(name)).map(str::to_owned),
            uid: find(claims, &self.uid).and_then(id)?,
            gid: find(claims, &self.gid).and_then(id)?,
            groups: groups.collect(),
            quota: find(claims, &self.quota)
                .filter(|quota| !quota.is_null())
                .map(quota),
        })
    }
}

/// A claim by its name or JSON pointer.
pub(super) fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    let Some(pointer) = name.strip_prefix('/') else {
        return claims.get(name);
    };
    let (first, rest) = match pointer.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (pointer, None),
    };
    let value = claims.get(&first.replace("~1", "/").replace("~0", "~"))?;
    match rest {
        Some(rest) => value.pointer(&format!("/{rest}")),
        None => Some(value),
    }
}

/// The claims of a token that was verified.
pub(super) fn payload(token: &str) -> Option<Map<String, Value>> {
    part(token, 1)
}

/// The header of a JWT, which names its key.
pub(super) fn header(token: &str) -> Option<Map<String, Value>> {
    part(token, 0)
}

fn part(token: &str, index: usize) -> Option<Map<String, Value>> {
    let part = token.split('.').nth(index)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// A UID or GID. Directories write them as numbers or as texts. No lab runs as root or in its
/// group.
fn id(value: &Value) -> Option<u32> {
    let id = match value {
        Value::Number(number) => u32::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    id.filter(|id| *id > 0)
}

/// Whether a name can be in a line of `/etc/group`.
fn is_group(name: &str) -> bool {
    let is_separator = |c: char| c == ':' || c == ',' || c.is_whitespace() || c.is_control();
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(is_separator)
}

/// Whether a name for people can be in a line of `/etc/passwd`.
fn is_text(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && !name.contains(|c: char| c == ':' || c.is_control())
}

/// A quota that cannot be read allows nothing.
fn quota(value: &Value) -> NotebookQuota {
    let cpu = match value.get("cpu") {
        Some(Value::String(text)) => CpuCores::parse(text).ok(),
        Some(number) => number.as_f64().and_then(|cores| CpuCores::new(cores).ok()),
        None => None,
    };
    let memory = match value.get("memory") {
        Some(Value::String(text)) => MemoryBytes::parse(text).ok(),
        Some(number) => number
            .as_f64()
            .and_then(|gib| MemoryBytes::from_gib(gib).ok()),
        None => None,
    };
    let may_spawn = match value.get("spawn") {
        None | Some(Value::Null) => true,
        Some(flag) => flag.as_bool().unwrap_or(false),
    };
    NotebookQuota {
        may_spawn: may_spawn && cpu.is_some() && memory.is_some(),
        cpu: cpu.unwrap_or(CpuCores::ZERO),
        memory: memory.unwrap_or(MemoryBytes(0)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(claims: &Value) -> Option<LabUser> {
        ClaimNames::default().lab_user("rachel", claims.as_object().unwrap())
    }

    #[test]
    fn a_user_has_ids_groups_with_ids_and_a_quota() {
        let claims = json!({
            "username": "rachel",
            "name": "Rachel (?)",
            "uid": 1101,
            "gid": "1101",
            "groups": [
                { "name": "rachel", "id": 1101 },
                { "name": "no-id" },
                { "name": "root", "id": 0 },
                { "name": "two:parts", "id": 7 },
                "text",
            ],
            "quota": { "notebook": { "cpu": 9.0, "memory": 27 } },
        });
        let user = user(&claims).unwrap();
        assert_eq!((user.uid, user.gid), (1101, 1101));
        assert_eq!(user.name.as_deref(), Some("Rachel (?)"));
        let groups: Vec<&str> = user.groups.iter().map(|group| &*group.name).collect();
        assert_eq!(groups, ["rachel"]);
        let quota = user.quota.unwrap();
        assert!(quota.may_spawn);
        assert_eq!((quota.cpu.cores(), quota.memory.0), (9.0, 27 << 30));
        let names = ClaimNames::default();
        let names = names.group_names(claims.as_object().unwrap());
        assert_eq!(names.len(), 5);
    }

    #[test]
    fn without_both_ids_or_as_root_there_is_no_user() {
        for claims in [
            json!({ "uid": 1 }),
            json!({ "gid": 1 }),
            json!({ "uid": 0, "gid": 1 }),
            json!({ "uid": 1, "gid": "0" }),
            json!({ "uid": -1, "gid": 1 }),
            json!({ "uid": 4_294_967_296_u64, "gid": 1 }),
        ] {
            assert_eq!(user(&claims), None, "{claims}");
        }
    }

    #[test]
    fn a_quota_that_cannot_be_read_allows_nothing() {
        for quota in [
            json!({}),
            json!(5),
            json!({ "cpu": 1 }),
            json!({ "cpu": "many", "memory": 1 }),
            json!({ "cpu": 1, "memory": 1, "spawn": false }),
            json!({ "cpu": 1, "memory": 1, "spawn": "no" }),
        ] {
            let claims = json!({ "uid": 1, "gid": 1, "quota": { "notebook": quota } });
            let quota = user(&claims).unwrap().quota.unwrap();
            assert!(!quota.may_spawn, "{claims}");
        }
        let claims = json!({ "uid": 1, "gid": 1, "quota": { "notebook": null } });
        assert_eq!(user(&claims).unwrap().quota, None);
    }

    #[test]
    fn a_claim_is_found_by_name_or_pointer() {
        let claims = json!({ "a": { "b/c": [1, 2] }, "/x": 3 });
        let claims = claims.as_object().unwrap();
        assert_eq!(find(claims, "/a/b~1c/1"), Some(&json!(2)));
        assert_eq!(find(claims, "/a/d"), None);
        assert_eq!(find(claims, "/x"), None);
        assert_eq!(find(claims, "a"), Some(&json!({ "b/c": [1, 2] })));
    }
}
