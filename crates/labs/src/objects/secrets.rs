//! The Secrets of a lab: the token of the person, secrets of the hub, and copies of the
//! controller's own.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    parts::{DesiredLabError, LabParts},
    source::SourceSecret,
};
use crate::{
    config::{LabConfig, TOKEN_KEY},
    names::secret_key,
};

pub(super) fn secrets(parts: &LabParts<'_>) -> Result<Vec<Value>, DesiredLabError> {
    let sources = parts.request.secrets;
    let source = |name: &String| {
        sources
            .get(name)
            .ok_or_else(|| DesiredLabError::NoSecret(name.clone()))
    };
    let mut data = BTreeMap::new();
    for (name, value) in &parts.env.secret {
        data.insert(
            key_of_variable(parts.config(), name),
            STANDARD.encode(value),
        );
    }
    for secret in &parts.config().secrets {
        let value = source(&secret.secret)?.data.get(&secret.key);
        let value = value.ok_or_else(|| DesiredLabError::NoSecretKey {
            secret: secret.secret.clone(),
            key: secret.key.clone(),
        })?;
        data.insert(secret.key.clone(), value.clone());
    }
    data.insert(TOKEN_KEY.to_owned(), STANDARD.encode(parts.request.token));
    let mut secrets = vec![secret(parts, &parts.names.lab, "Opaque", &data)];
    if let Some(name) = &parts.config().pull_secret {
        let SourceSecret { kind, data } = source(name)?;
        secrets.push(secret(parts, &parts.names.pull_secret, kind, data));
    }
    Ok(secrets)
}

fn secret(parts: &LabParts<'_>, name: &str, kind: &str, data: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": parts.metadata(name),
        "immutable": true,
        "type": kind,
        "data": data,
    })
}

/// Variables of a container that come from the Secret: the token, those of the configuration, and
/// those of the hub.
pub(super) fn variables(parts: &LabParts<'_>) -> Vec<Value> {
    let from_key = |name: &str, key: &str| {
        let key = json!({ "key": key, "name": parts.names.lab, "optional": false });
        json!({ "name": name, "valueFrom": { "secretKeyRef": key } })
    };
    // The first is the older name of the second.
    let mut variables: Vec<Value> = TOKEN_VARIABLES
        .iter()
        .map(|name| from_key(name, TOKEN_KEY))
        .collect();
    let config = parts.config();
    let mut configured = Vec::new();
    for secret in &config.secrets {
        if let Some(name) = &secret.variable {
            variables.push(from_key(name, &secret.key));
            configured.push(name);
        }
    }
    for name in parts.env.secret.keys() {
        if !configured.contains(&name) && !TOKEN_VARIABLES.contains(&name.as_str()) {
            variables.push(from_key(name, &key_of_variable(config, name)));
        }
    }
    variables
}

const TOKEN_VARIABLES: [&str; 2] = ["ACCESS_TOKEN", "NUBLADO_TOKEN"];

fn key_of_variable(config: &LabConfig, name: &str) -> String {
    let is_configured = |name: &str| config.secrets.iter().any(|secret| secret.key == name);
    secret_key(name, |name| name == TOKEN_KEY || is_configured(name))
}
