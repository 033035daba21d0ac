//! Sizes of labs, and the quota of a person.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantity::{CpuCores, LabAmounts, LabResources, MemoryBytes};

/// The name of a size.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum LabSize {
    /// The smallest.
    Fine,
    /// Smaller than tiny.
    Diminutive,
    /// Smaller than small.
    Tiny,
    /// The usual one.
    Small,
    /// Larger than small.
    Medium,
    /// Larger than medium.
    Large,
    /// Larger than large.
    Huge,
    /// Larger than huge.
    Gargantuan,
    /// The largest.
    Colossal,
    /// Of a lab whose resources are those of no size of the configuration. It cannot be chosen.
    Custom,
}

impl LabSize {
    /// The sizes that can be chosen, the smallest first.
    pub const CHOICES: [LabSize; 9] = [
        LabSize::Fine,
        LabSize::Diminutive,
        LabSize::Tiny,
        LabSize::Small,
        LabSize::Medium,
        LabSize::Large,
        LabSize::Huge,
        LabSize::Gargantuan,
        LabSize::Colossal,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            LabSize::Fine => "fine",
            LabSize::Diminutive => "diminutive",
            LabSize::Tiny => "tiny",
            LabSize::Small => "small",
            LabSize::Medium => "medium",
            LabSize::Large => "large",
            LabSize::Huge => "huge",
            LabSize::Gargantuan => "gargantuan",
            LabSize::Colossal => "colossal",
            LabSize::Custom => "custom",
        }
    }

    /// Reads the word, in any case. `None` if it can not be chosen.
    pub fn parse(text: &str) -> Option<LabSize> {
        LabSize::CHOICES
            .into_iter()
            .find(|size| size.as_str().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for LabSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A size of the configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeDefinition {
    /// Its name.
    pub size: LabSize,
    /// What a lab of this size gets.
    pub resources: LabResources,
}

/// `Small (1.0 CPU, 3Gi RAM)`.
impl fmt::Display for SizeDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LabAmounts { cpu, memory } = self.resources.limits;
        let name = crate::tag::title(self.size.as_str());
        write!(f, "{name} ({cpu} CPU, {} RAM)", memory.short())
    }
}

/// What a person may use.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct NotebookQuota {
    /// CPU of all pods together.
    pub cpu: CpuCores,
    /// Memory of all pods together.
    pub memory: MemoryBytes,
    /// Whether the person may start a lab at all.
    pub may_spawn: bool,
}

impl NotebookQuota {
    /// Whether a lab of these resources stays within the quota.
    pub fn allows(&self, resources: &LabResources) -> bool {
        let LabAmounts { cpu, memory } = resources.limits;
        cpu <= self.cpu && memory <= self.memory
    }

    /// CPU and memory.
    pub fn amounts(&self) -> LabAmounts {
        LabAmounts {
            cpu: self.cpu,
            memory: self.memory,
        }
    }
}

/// The sizes that a person may choose. None if the person may not start a lab.
pub fn offered_sizes<'s>(
    sizes: &'s [SizeDefinition],
    quota: Option<&NotebookQuota>,
) -> Vec<&'s SizeDefinition> {
    let is_offered = |definition: &&SizeDefinition| {
        quota.is_none_or(|quota| quota.may_spawn && quota.allows(&definition.resources))
    };
    sizes.iter().filter(is_offered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(size: LabSize, cpu: f64, memory: &str) -> SizeDefinition {
        let amounts = LabAmounts {
            cpu: CpuCores::new(cpu).unwrap(),
            memory: MemoryBytes::parse(memory).unwrap(),
        };
        SizeDefinition {
            size,
            resources: LabResources {
                limits: amounts,
                requests: amounts,
            },
        }
    }

    #[test]
    fn sizes_are_read_in_any_case_and_custom_is_none() {
        assert_eq!(LabSize::parse("Large"), Some(LabSize::Large));
        assert_eq!(LabSize::parse("custom"), None);
        assert_eq!(LabSize::parse(""), None);
    }

    #[test]
    fn a_size_is_shown_with_its_limits() {
        let size = definition(LabSize::Large, 9.0, "6.7Gi");
        assert_eq!(size.to_string(), "Large (9.0 CPU, 6.7Gi RAM)");
    }

    #[test]
    fn sizes_above_the_quota_are_not_offered() {
        let sizes = [
            definition(LabSize::Small, 1.0, "3Gi"),
            definition(LabSize::Large, 9.0, "27Gi"),
            definition(LabSize::Huge, 9.0, "32Gi"),
        ];
        let quota = NotebookQuota {
            cpu: CpuCores::new(9.0).unwrap(),
            memory: MemoryBytes::from_gib(27.0).unwrap(),
            may_spawn: true,
        };
        assert_eq!(offered_sizes(&sizes, Some(&quota)).len(), 2);
        assert_eq!(offered_sizes(&sizes, None).len(), 3);
        let denied = NotebookQuota {
            may_spawn: false,
            ..quota
        };
        assert!(offered_sizes(&sizes, Some(&denied)).is_empty());
    }
}
