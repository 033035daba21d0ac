//! ConfigMaps of a lab: variables, users and groups, files.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::parts::LabParts;
use crate::{
    config::{DISCOVERY_KEY, file_key},
    dialect::Dialect,
    user::LabUser,
};

fn config_map(parts: &LabParts<'_>, name: &str, data: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": parts.metadata(name),
        "immutable": true,
        "data": data,
    })
}

pub(super) fn env(parts: &LabParts<'_>) -> Value {
    config_map(parts, &parts.names.env, &parts.env.plain)
}

pub(super) fn files(parts: &LabParts<'_>) -> Vec<Value> {
    let name_service = config_map(parts, &parts.names.name_service, &name_service(parts));
    let mut files = BTreeMap::new();
    if let Some(document) = discovery(parts) {
        files.insert(DISCOVERY_KEY.to_owned(), document);
    }
    for (path, content) in &parts.config().files {
        files.insert(file_key(path), content.clone());
    }
    let files = (!files.is_empty()).then(|| config_map(parts, &parts.names.files, &files));
    std::iter::once(name_service).chain(files).collect()
}

/// Whether labs have a file with the discovery document.
pub(super) fn discovery(parts: &LabParts<'_>) -> Option<String> {
    let document = match parts.context.dialect {
        Dialect::Nublado => parts.context.discovery?,
        Dialect::Sqr066 => return None,
    };
    serde_json::to_string_pretty(document).ok()
}

fn name_service(parts: &LabParts<'_>) -> BTreeMap<String, String> {
    let base = &parts.config().name_service;
    let user = parts.request.user;
    let passwd = passwd_line(user, &parts.home_directory());
    let groups: String = user
        .groups
        .iter()
        .map(|group| {
            // The primary group has the person as a member anyway.
            let member = if group.id == user.gid {
                ""
            } else {
                &user.username
            };
            format!("{}:x:{}:{member}\n", field(&group.name), group.id)
        })
        .collect();
    BTreeMap::from([
        ("passwd".to_owned(), base.passwd.clone() + &passwd),
        ("group".to_owned(), base.group.clone() + &groups),
    ])
}

fn passwd_line(user: &LabUser, home: &str) -> String {
    let LabUser {
        username, uid, gid, ..
    } = user;
    let name = field(user.name.as_deref().unwrap_or_default());
    format!("{username}:x:{uid}:{gid}:{name}:{home}:/bin/bash\n")
}

/// A text cannot end its field or its line.
fn field(text: &str) -> String {
    text.replace([':', '\n', '\r', '\0'], " ")
}
