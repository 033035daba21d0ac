//! The variables of a lab: those of the hub, then those of the controller, then those of the
//! configuration. The later ones win.

use std::collections::BTreeMap;

use crate::{config::LabConfig, images::LabImage, options::LabSpecification, size::SizeDefinition};

/// Parts of the names of variables that are secrets.
const SECRET_PARTS: [&str; 9] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
];

/// Prefixes of the variables that JupyterHub itself sets. None of these makes a program load code.
const HUB_PREFIXES: [&str; 4] = ["CPU_", "JPY_", "JUPYTERHUB_", "MEM_"];

/// Whether a variable of the hub is a secret, by its name.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_PARTS.iter().any(|part| name.contains(part))
}

fn is_of_hub(name: &str) -> bool {
    HUB_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a container of labs is privileged. It gets the variables of the hub too.
fn has_privileged_container(config: &LabConfig) -> bool {
    let mut containers = config.init_containers.iter();
    config.standard_inithome || containers.any(|container| container.is_privileged)
}

/// The variables of a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabEnvironment {
    /// For the ConfigMap.
    pub(crate) plain: BTreeMap<String, String>,
    /// For the Secret.
    pub(crate) secret: BTreeMap<String, String>,
}

/// Where the site and its discovery service are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteUrls {
    /// URL of the site.
    pub base: String,
    /// URL of the discovery service.
    pub discovery: Option<String>,
}

impl LabEnvironment {
    pub(crate) fn new(
        specification: &LabSpecification,
        config: &LabConfig,
        size: &SizeDefinition,
        image: &LabImage,
        urls: &SiteUrls,
    ) -> LabEnvironment {
        let mut plain = specification.env.clone();
        // The person may send any. Many choose code: with a program of the home directory, a
        // privileged container would give them the node.
        if has_privileged_container(config) {
            plain.retain(|name, _| is_of_hub(name));
        }
        let options = &specification.options;
        let flags = [
            ("DEBUG", options.enable_debug),
            ("RESET_USER_ENV", options.reset_user_env),
        ];
        for (name, is_set) in flags {
            plain.remove(name);
            if is_set {
                plain.insert(name.to_owned(), "TRUE".to_owned());
            }
        }
        let own = controller_variables(config, size, image, urls);
        plain.extend(own.map(|(name, value)| (name.to_owned(), value)));
        if let Some(url) = &urls.discovery {
            plain.insert("REPERTOIRE_BASE_URL".to_owned(), url.clone());
        }
        // Values of the configuration are no secrets: it is a ConfigMap itself.
        let is_hidden = |name: &str| is_secret(name) && !config.env.contains_key(name);
        plain.extend(config.env.clone());
        let secret;
        (secret, plain) = plain.into_iter().partition(|(name, _)| is_hidden(name));
        LabEnvironment { plain, secret }
    }
}

fn controller_variables(
    config: &LabConfig,
    size: &SizeDefinition,
    image: &LabImage,
    urls: &SiteUrls,
) -> impl Iterator<Item = (&'static str, String)> {
    let resources = &size.resources;
    let reference = image.pinned_reference();
    [
        ("CONTAINER_SIZE", size.to_string()),
        ("CPU_GUARANTEE", resources.requests.cpu.to_string()),
        ("CPU_LIMIT", resources.limits.cpu.to_string()),
        ("EXTERNAL_INSTANCE_URL", urls.base.clone()),
        ("IMAGE_DESCRIPTION", image.tag.display_name.clone()),
        ("IMAGE_DIGEST", image.digest.clone()),
        (
            "JUPYTERHUB_ACTIVITY_INTERVAL",
            config.activity_interval.as_secs().to_string(),
        ),
        (
            "JUPYTERLAB_CONFIG_DIR",
            config.jupyterlab_config_dir.clone(),
        ),
        (
            "JUPYTERLAB_START_COMMAND",
            shell_join(&config.start_command),
        ),
        // The older name, which extensions of JupyterLab still read.
        ("JUPYTER_IMAGE", reference.clone()),
        ("JUPYTER_IMAGE_SPEC", reference),
        ("MEM_GUARANTEE", resources.requests.memory.0.to_string()),
        ("MEM_LIMIT", resources.limits.memory.0.to_string()),
        ("NUBLADO_RUNTIME_MOUNTS_DIR", config.runtime_dir.clone()),
    ]
    .into_iter()
}

/// Words as a shell reads them back.
fn shell_join(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
    quoted.join(" ")
}

fn shell_quote(word: &str) -> String {
    let is_safe = |b: u8| b.is_ascii_alphanumeric() || b"@%+=:,./-_".contains(&b);
    if !word.is_empty() && word.bytes().all(is_safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_telling_names_are_secrets() {
        for name in [
            "JUPYTERHUB_API_TOKEN",
            "JPY_API_TOKEN",
            "client_secret",
            "DB_PASSWORD",
            "AWS_ACCESS_KEY_ID",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "JUPYTERHUB_SERVICE_PREFIX",
            "JUPYTERHUB_OAUTH_SCOPES",
            "MEM_LIMIT",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["runlab.sh", "a b", "it's", ""].map(str::to_owned);
        assert_eq!(shell_join(&words), r#"runlab.sh 'a b' 'it'"'"'s' ''"#);
    }
}
