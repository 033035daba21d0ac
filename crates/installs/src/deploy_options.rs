//! Options of Helm: their defaults, and those in effect.

use std::time::Duration;

use ludgate_cluster::crd::{
    app_target::{DeployOptions, HelmDeployOptions},
    definition::ApplicationDefinitionSpec,
    installation::ApplicationInstallationSpec,
};
use ludgate_model::go_duration;

/// The timeout of an operation that waits and has none, as Go writes it.
pub const DEFAULT_TIMEOUT: &str = "5m0s";
/// The same.
const DEFAULT_TIMEOUT_DURATION: Duration = Duration::from_secs(300);
/// Longest timeout: the tokens of an operation are valid for an hour.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(55 * 60);

/// The options in effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EffectiveOptions {
    /// Whether an operation lasts until the objects are ready.
    pub wait: bool,
    /// How long an operation may wait; zero if it does not wait.
    pub timeout: Duration,
    /// Whether a failed installation is removed, and a failed upgrade rolled back.
    pub atomic: bool,
    /// Whether templates may look up names in DNS.
    pub enable_dns: bool,
}

/// Sets what follows from other options: an atomic operation waits, and one that waits has a
/// timeout.
pub fn set_defaults(options: &mut DeployOptions) {
    let Some(helm) = &mut options.helm else {
        return;
    };
    if helm.atomic {
        helm.wait = true;
    }
    if helm.wait && !has_timeout(helm) {
        helm.timeout = Some(DEFAULT_TIMEOUT.to_owned());
    }
}

/// Whether a timeout is set. One that is no duration counts as set: it is an error to report.
fn has_timeout(helm: &HelmDeployOptions) -> bool {
    let timeout = helm
        .timeout
        .as_deref()
        .filter(|timeout| !timeout.is_empty());
    timeout.is_some_and(|timeout| go_duration::parse(timeout) != Some(0))
}

/// The options of the installation as a whole, else those of the definition, else none. Whether
/// templates may use DNS comes from the definition only.
pub fn effective(
    installation: &ApplicationInstallationSpec,
    definition: Option<&ApplicationDefinitionSpec>,
) -> EffectiveOptions {
    let own = installation.deploy_options.as_ref();
    let own = own.and_then(|options| options.helm.as_ref());
    let default = definition.and_then(|spec| spec.default_deploy_options.as_ref());
    let default = default.and_then(|options| options.helm.as_ref());
    let options = own.or(default);
    EffectiveOptions {
        // A chart could send secrets in names, so that is an administrator's decision.
        enable_dns: default.is_some_and(|helm| helm.enable_dns),
        ..options.map_or_else(EffectiveOptions::default, from_helm)
    }
}

fn from_helm(helm: &HelmDeployOptions) -> EffectiveOptions {
    let wait = helm.wait || helm.atomic;
    let written = helm
        .timeout
        .as_deref()
        .and_then(go_duration::parse_positive);
    let timeout = written.filter(|timeout| !timeout.is_zero());
    EffectiveOptions {
        wait,
        timeout: match wait {
            true => timeout.unwrap_or(DEFAULT_TIMEOUT_DURATION).min(MAX_TIMEOUT),
            false => Duration::ZERO,
        },
        atomic: helm.atomic,
        enable_dns: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn defaulted(options: Value) -> Value {
        let mut options: DeployOptions = serde_json::from_value(options).expect("options");
        set_defaults(&mut options);
        serde_json::to_value(options).expect("JSON")
    }

    #[test]
    fn atomic_implies_wait_and_wait_implies_a_timeout() {
        for (options, wanted) in [
            (json!({}), json!({})),
            (json!({ "helm": {} }), json!({ "helm": {} })),
            (
                json!({ "helm": { "atomic": true, "wait": true, "timeout": "1ns" } }),
                json!({ "helm": { "atomic": true, "wait": true, "timeout": "1ns" } }),
            ),
            (
                json!({ "helm": { "wait": true, "timeout": "1ns" } }),
                json!({ "helm": { "wait": true, "timeout": "1ns" } }),
            ),
            (
                json!({ "helm": { "atomic": true } }),
                json!({ "helm": { "atomic": true, "wait": true, "timeout": "5m0s" } }),
            ),
            (
                json!({ "helm": { "atomic": true, "wait": true } }),
                json!({ "helm": { "atomic": true, "wait": true, "timeout": "5m0s" } }),
            ),
            (
                json!({ "helm": { "wait": true } }),
                json!({ "helm": { "wait": true, "timeout": "5m0s" } }),
            ),
            (
                json!({ "helm": { "atomic": true, "timeout": "10ns" } }),
                json!({ "helm": { "atomic": true, "wait": true, "timeout": "10ns" } }),
            ),
            (
                json!({ "helm": { "wait": true, "timeout": "0s" } }),
                json!({ "helm": { "wait": true, "timeout": "5m0s" } }),
            ),
            (
                json!({ "helm": { "wait": true, "timeout": "soon" } }),
                json!({ "helm": { "wait": true, "timeout": "soon" } }),
            ),
        ] {
            assert_eq!(defaulted(options.clone()), wanted, "{options}");
        }
    }

    fn effective_options(own: Option<Value>, default: Option<Value>) -> EffectiveOptions {
        let options = |value: Value| serde_json::from_value(value).expect("options");
        let installation = ApplicationInstallationSpec {
            deploy_options: own.map(options),
            ..Default::default()
        };
        let definition = ApplicationDefinitionSpec {
            default_deploy_options: default.map(options),
            ..Default::default()
        };
        effective(&installation, Some(&definition))
    }

    #[test]
    fn options_of_the_installation_replace_those_of_the_definition() {
        let ten = json!({ "helm": { "wait": true, "timeout": "10s", "atomic": true } });
        let dns = json!({ "helm": { "wait": true, "timeout": "20s", "enableDNS": true } });
        let none = EffectiveOptions::default();
        let from_ten = EffectiveOptions {
            wait: true,
            timeout: Duration::from_secs(10),
            atomic: true,
            enable_dns: false,
        };
        let from_dns = EffectiveOptions {
            wait: true,
            timeout: Duration::from_secs(20),
            atomic: false,
            enable_dns: true,
        };
        for (own, default, wanted) in [
            (
                Some(ten.clone()),
                Some(dns.clone()),
                EffectiveOptions {
                    enable_dns: true,
                    ..from_ten
                },
            ),
            (
                Some(dns.clone()),
                None,
                EffectiveOptions {
                    enable_dns: false,
                    ..from_dns
                },
            ),
            (Some(ten.clone()), Some(json!({})), from_ten),
            (Some(ten.clone()), None, from_ten),
            (Some(json!({})), Some(dns.clone()), from_dns),
            (None, Some(dns.clone()), from_dns),
            (Some(json!({})), Some(json!({})), none),
            (None, None, none),
            (Some(json!({ "helm": {} })), Some(ten), none),
        ] {
            let found = effective_options(own.clone(), default.clone());
            assert_eq!(found, wanted, "{own:?} {default:?}");
        }
    }

    #[test]
    fn atomic_is_that_of_the_installation_then_of_the_definition_then_false() {
        let atomic = |atomic: bool| json!({ "helm": { "atomic": atomic } });
        for (own, default, wanted) in [
            (None, None, false),
            (None, Some(atomic(false)), false),
            (None, Some(atomic(true)), true),
            (Some(atomic(false)), None, false),
            (Some(atomic(false)), Some(atomic(false)), false),
            (Some(atomic(false)), Some(atomic(true)), false),
            (Some(atomic(true)), None, true),
            (Some(atomic(true)), Some(atomic(false)), true),
            (Some(atomic(true)), Some(atomic(true)), true),
        ] {
            let found = effective_options(own.clone(), default.clone());
            assert_eq!(found.atomic, wanted, "{own:?} {default:?}");
            assert_eq!(found.wait, wanted);
            let timeout = if wanted { 300 } else { 0 };
            assert_eq!(found.timeout, Duration::from_secs(timeout));
        }
        let long = effective_options(
            Some(json!({ "helm": { "wait": true, "timeout": "9h" } })),
            None,
        );
        assert_eq!(long.timeout, MAX_TIMEOUT);
    }
}
