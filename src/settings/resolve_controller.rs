//! `[controller]`: the controllers of a process, and what they know besides objects.

use std::{collections::BTreeMap, net::SocketAddr, path::Path};

use super::{
    file::ConfigFile,
    resolve_datasets, resolve_groups, resolve_idle, resolve_installations, resolve_kubernetes,
    resolve_listen,
    resolve_pods::{pod_policy, proxy_labels},
    resolve_process,
    resolve_site::apps_prefix,
    resolve_viewers,
    section::ConfigSection,
    values::{labels, origin},
};
use crate::{
    cluster::ClusterSettings,
    controllers::{
        application::{
            dataset_grant::DatasetGrant,
            quantity::Memory,
            settings::{ApplicationSettings, Group},
        },
        idle::settings::IdleSettings,
        pod_policy::PodPolicy,
        viewer::settings::ViewerSettings,
        webhook::certificate_store::CertificateSettings,
    },
    installs::controller::settings::InstallationSettings,
    ops::{admin::AdminSettings, logging::LogSettings},
};

/// Size of the volume of an app whose group has none.
const EPHEMERAL_SIZE: u64 = 5 << 30;
/// The gateway of the chart, and PrimeHub's proxies.
const PROXIES: [&str; 3] = [
    "app.kubernetes.io/name=ludgate",
    "app.kubernetes.io/name=primehub-console",
    "app.kubernetes.io/name=primehub-graphql",
];

/// All settings of `ludgate controller`.
#[derive(Debug)]
pub struct ControllerSettings {
    /// The cluster and its namespaces.
    pub cluster: ClusterSettings,
    /// The Lease that elects one of several processes.
    pub lease: String,
    /// The controller of apps, if it is on.
    pub applications: Option<ApplicationSettings>,
    /// The controller of viewers, if it is on.
    pub viewers: Option<ViewerSettings>,
    /// The controller of installations, if it is on.
    pub installations: Option<InstallationSettings>,
    /// The admission webhook, if it is on.
    pub webhook: Option<WebhookSettings>,
    /// The gateways that report when apps were used last; `None`: no app is ever idle.
    pub idle: Option<IdleSettings>,
    /// The admin listener.
    pub admin: AdminSettings,
    /// The log level.
    pub log: LogSettings,
}

/// The admission webhook.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Its listener.
    pub address: SocketAddr,
    /// The objects with its certificate.
    pub certificate: CertificateSettings,
}

/// Resolves the tables of the process. `None` only together with an error.
pub fn controller(file: &ConfigFile<'_>, folder: &Path) -> Option<ControllerSettings> {
    let section = file.section("controller");
    let kubernetes = resolve_kubernetes::kubernetes(file, folder);
    if matches!(kubernetes, Some(None)) {
        file.section("kubernetes").missing("namespace");
    }
    let applications = applications(file);
    let mut viewers = resolve_viewers::viewers(file, folder);
    if let (Some(Some(applications)), Some(Some(viewers))) = (&applications, &mut viewers) {
        viewers.app_proxies.clone_from(&applications.proxies);
    }
    let lease = section.text("lease");
    let cluster = kubernetes.flatten().map(|kubernetes| kubernetes.cluster);
    let namespaces = cluster.as_ref().map(|it| it.namespaces.as_slice());
    let installations = resolve_installations::installations(file, folder, namespaces);
    let home = namespaces.and_then(<[String]>::first).cloned();
    let all = (&applications, &viewers, &installations);
    if matches!(all, (Some(None), Some(None), Some(None))) {
        let example = Some("applications = true".to_owned());
        section.wrong(
            "applications",
            "is not on, and neither are viewers and installations, so there is nothing to run",
            example,
        );
    }
    let webhook = match section.has("webhook") {
        true => section
            .inner("webhook", "controller.webhook", |inner| {
                webhook(&inner, home)
            })
            .flatten()
            .map(Some),
        false => Some(None),
    };
    let idle = resolve_idle::idle(&section, folder);
    let admin = resolve_process::admin(&file.section("admin"), folder);
    let log = resolve_process::log(&file.section("log"));
    Some(ControllerSettings {
        cluster: cluster?,
        lease: lease.unwrap_or_else(|| "ludgate-controller".to_owned()),
        applications: applications?,
        viewers: viewers?,
        installations: installations?,
        webhook: webhook?,
        idle: idle?,
        admin: admin?,
        log,
    })
}

/// The controller of apps. `Some(None)`: it is off. `None` only together with an error.
pub fn applications(file: &ConfigFile<'_>) -> Option<Option<ApplicationSettings>> {
    let controller = file.section("controller");
    let site = file.section("site");
    let is_table = controller.is_table("applications");
    if !is_table && !controller.switch("applications").unwrap_or(false) {
        return Some(None);
    }
    let groups = resolve_groups::groups(file);
    let own = |section: ConfigSection<'_>| OwnKeys::read(&section, groups.as_ref());
    let own = match is_table {
        true => controller.inner("applications", "controller.applications", own)?,
        false => Some(OwnKeys::default()),
    };
    let site_url = site.required("url", origin);
    let instance_types = resolve_groups::instance_types(file);
    let own = own?;
    Some(Some(ApplicationSettings {
        site_url: site_url?.to_string(),
        apps_prefix: apps_prefix(file),
        image_prefix: own.image_prefix,
        folder_image: own.folder_image,
        ephemeral_size: Memory(own.ephemeral_size),
        phfs: own.phfs,
        datasets: own.datasets,
        proxies: own.proxies,
        proxy_namespaces: own.proxy_namespaces,
        pods: own.pods,
        groups: groups?,
        instance_types: instance_types?,
    }))
}

/// `[controller.webhook]`. `None` only together with an error, here or in `[kubernetes]`.
fn webhook(section: &ConfigSection<'_>, home: Option<String>) -> Option<WebhookSettings> {
    let address = resolve_listen::address(section, "0.0.0.0:8443");
    let names = section.texts("names");
    match &names {
        None if !section.has("names") => section.missing("names"),
        Some(names) if names.is_empty() => section.wrong("names", "has no name", None),
        Some(_) | None => {}
    }
    let text = |name, default: &str| section.text(name).unwrap_or_else(|| default.to_owned());
    Some(WebhookSettings {
        address: address?,
        certificate: CertificateSettings {
            secret: text("secret", "ludgate-webhook"),
            configuration: text("configuration", "ludgate"),
            names: names.filter(|names| !names.is_empty())?,
            namespace: section.text("namespace").or(home)?,
        },
    })
}

/// The rights that the controller permits to pods of apps, in whichever process it runs. `None`
/// only together with an error.
pub fn allowed_pod_rights(file: &ConfigFile<'_>) -> Option<PodPolicy> {
    let controller = file.section("controller");
    if !controller.is_table("applications") {
        return Some(PodPolicy::default());
    }
    let read = |section: ConfigSection<'_>| pod_policy(&section);
    controller.inner("applications", "controller.applications", read)?
}

/// The keys of `[controller.applications]`.
struct OwnKeys {
    image_prefix: Option<String>,
    folder_image: Option<String>,
    ephemeral_size: u64,
    phfs: Option<String>,
    datasets: Vec<DatasetGrant>,
    proxies: Vec<BTreeMap<String, String>>,
    proxy_namespaces: Vec<BTreeMap<String, String>>,
    pods: PodPolicy,
}

impl Default for OwnKeys {
    fn default() -> Self {
        OwnKeys {
            image_prefix: None,
            folder_image: None,
            ephemeral_size: EPHEMERAL_SIZE,
            phfs: None,
            datasets: Vec::new(),
            proxies: PROXIES.into_iter().filter_map(labels).collect(),
            proxy_namespaces: Vec::new(),
            pods: PodPolicy::default(),
        }
    }
}

impl OwnKeys {
    fn read(
        section: &ConfigSection<'_>,
        groups: Option<&BTreeMap<String, Group>>,
    ) -> Option<OwnKeys> {
        let default = OwnKeys::default();
        let proxies = proxy_labels(section, default.proxies);
        let phfs = resolve_datasets::phfs(section, groups);
        let datasets = resolve_datasets::grants(section);
        let (proxies, proxy_namespaces) = proxies?;
        Some(OwnKeys {
            image_prefix: section.text("image_prefix"),
            folder_image: section.text("folder_image"),
            ephemeral_size: section
                .size("ephemeral_size")
                .unwrap_or(default.ephemeral_size),
            phfs: phfs?,
            datasets: datasets?,
            proxies,
            proxy_namespaces,
            pods: pod_policy(section)?,
        })
    }
}
