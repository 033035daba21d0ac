//! Containers that run before a lab, and tolerations of pods.

use super::{
    decode::{Decode, Place, Section, decode_word},
    value::ConfigValue,
    volumes::{VolumeMount, is_label},
};
use crate::images::{Toleration, is_tag};

/// When a node pulls an image that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullPolicy {
    /// Each time.
    Always,
    /// Not if it has it.
    #[default]
    IfNotPresent,
    /// Not at all.
    Never,
}

impl PullPolicy {
    /// Kubernetes' word.
    pub fn as_str(self) -> &'static str {
        match self {
            PullPolicy::Always => "Always",
            PullPolicy::IfNotPresent => "IfNotPresent",
            PullPolicy::Never => "Never",
        }
    }
}

/// An image that is not one of labs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerImage {
    /// Registry and repository.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// When it is pulled.
    pub pull_policy: PullPolicy,
}

impl ContainerImage {
    /// Reads `repository:tag`, where the registry may have a port. It is pulled where it is
    /// missing.
    pub fn parse(text: &str) -> Option<ContainerImage> {
        let (repository, tag) = text.rsplit_once(':')?;
        (!repository.is_empty() && is_tag(tag)).then(|| ContainerImage {
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            pull_policy: PullPolicy::default(),
        })
    }
}

/// A container that runs before each lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitContainer {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: ContainerImage,
    /// Command and arguments, if not those of the image.
    pub command: Option<Vec<String>>,
    /// Whether it runs as root with all rights.
    pub is_privileged: bool,
    /// The volumes that it mounts.
    pub volume_mounts: Vec<VolumeMount>,
}

impl Decode for PullPolicy {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<PullPolicy> {
        let policies = [
            PullPolicy::Always,
            PullPolicy::IfNotPresent,
            PullPolicy::Never,
        ];
        decode_word(
            value,
            place,
            &policies.map(|policy| (policy.as_str(), policy)),
        )
    }
}

impl Decode for ContainerImage {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<ContainerImage> {
        let mut section = Section::open(value, place)?;
        let repository = section.required("repository");
        let tag = section.required("tag");
        let pull_policy = section.or("pullPolicy", PullPolicy::default());
        section.finish();
        Some(ContainerImage {
            repository: repository?,
            tag: tag?,
            pull_policy,
        })
    }
}

impl Decode for InitContainer {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<InitContainer> {
        let mut section = Section::open(value, place)?;
        let name: Option<String> = section.required("name");
        let image = section.required("image");
        let command = section.optional("command");
        let is_privileged = section.or("privileged", false);
        let volume_mounts = section.or("volumeMounts", Vec::new());
        if let Some(name) = name.as_ref().filter(|name| !is_label(name)) {
            let problem = format!("\"{name}\" is no name of a container: use a-z, 0-9 and hyphens");
            section.at("name").complain(problem);
        }
        section.finish();
        Some(InitContainer {
            name: name?,
            image: image?,
            command,
            is_privileged,
            volume_mounts,
        })
    }
}

impl Decode for Toleration {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<Toleration> {
        let mut section = Section::open(value, place)?;
        let effect = section.value("effect").and_then(|value| {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            decode_word(
                value,
                section.at("effect"),
                &effects.map(|effect| (effect, effect)),
            )
        });
        let any_value = section.value("operator").and_then(|value| {
            let operators = [("Exists", true), ("Equal", false)];
            decode_word(value, section.at("operator"), &operators)
        });
        let key: Option<String> = section.optional("key");
        let seconds: Option<u64> = section.optional("tolerationSeconds");
        let value: Option<String> = section.optional("value");
        let any_value = any_value.unwrap_or_default();
        if any_value && value.is_some() {
            section
                .at("value")
                .complain("is not allowed with the operator Exists");
        }
        if !any_value && key.as_ref().is_none_or(String::is_empty) {
            section
                .at("key")
                .complain("is needed with the operator Equal");
        }
        section.finish();
        Some(Toleration {
            effect: effect.map(str::to_owned),
            key,
            any_value,
            seconds: seconds.and_then(|seconds| i64::try_from(seconds).ok()),
            value,
        })
    }
}
