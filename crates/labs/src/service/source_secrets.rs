//! The controller's own Secrets that labs get copies of.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::DynamicObject;
use ludgate_cluster::writer::NamespacedName;

use super::{
    outcome::{RefusedCall, Stopped},
    writes::{LabWrites, secrets, shown},
};
use crate::{
    config::LabConfig,
    objects::{SourceSecret, SourceSecrets},
};

/// Reads all Secrets that labs get, from the namespace of the controller.
pub(super) async fn source_secrets(
    writes: &LabWrites<'_>,
    config: &LabConfig,
    namespace: &str,
) -> Result<SourceSecrets, Stopped> {
    let names: BTreeSet<&String> = config
        .secrets
        .iter()
        .map(|secret| &secret.secret)
        .chain(&config.pull_secret)
        .collect();
    let kind = secrets();
    let mut found = SourceSecrets::new();
    for name in names {
        let at = NamespacedName { namespace, name };
        let secret = writes.read(&kind, at).await?.ok_or_else(|| {
            Stopped::Refused(RefusedCall {
                action: "reading object",
                object: shown(&kind, at),
                status: Some(404),
                reason: "it does not exist".to_owned(),
            })
        })?;
        found.insert(name.clone(), source(&secret));
    }
    Ok(found)
}

fn source(secret: &DynamicObject) -> SourceSecret {
    let data = secret.data["data"].as_object().into_iter().flatten();
    let texts = data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    SourceSecret {
        kind: secret.data["type"].as_str().unwrap_or("Opaque").to_owned(),
        data: texts.collect::<BTreeMap<String, String>>(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_secret_keeps_its_type_and_its_data_as_they_are_stored() {
        let secret: Value = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "pull" },
            "type": "kubernetes.io/dockerconfigjson",
            "data": { ".dockerconfigjson": "e30=" },
        });
        let source = source(&serde_json::from_value(secret).expect("an object"));
        assert_eq!(source.kind, "kubernetes.io/dockerconfigjson");
        assert_eq!(
            source.data,
            [(".dockerconfigjson".to_owned(), "e30=".to_owned())].into()
        );
    }
}
