//! Keys of the controllers, and of the groups and instance types that they use.

use super::key::{Key, Kind, Section, key};

/// The controllers of a process.
pub const CONTROLLER: Section = Section {
    name: "controller",
    purpose: "The controllers that `ludgate controller` runs, in the cluster and namespaces of [kubernetes].",
    is_optional: true,
};

/// The controller of apps.
pub const APPLICATIONS: Section = Section {
    name: "controller.applications",
    purpose: "Settings of the controller of PhApplications. This table replaces `applications` as true.",
    is_optional: true,
};

/// The admission webhook.
pub const WEBHOOK: Section = Section {
    name: "controller.webhook",
    purpose: "An admission webhook, so that `kubectl apply` of an invalid object fails at once. config/webhook.yaml has the objects that it needs.",
    is_optional: true,
};

/// Idle apps.
pub const IDLE: Section = Section {
    name: "controller.idle",
    purpose: "The gateways that report when apps were used last. Required for idle_after: without it no app is ever idle.",
    is_optional: true,
};

/// Groups by name.
pub const GROUPS: Section = Section {
    name: "groups",
    purpose: "A group whose members make apps; one table each, under the group's name.",
    is_optional: true,
};

/// The quota of a group.
pub const QUOTA: Section = Section {
    name: "groups.quota",
    purpose: "What the pods of a group may use together, by their limits. Absent parts are unlimited.",
    is_optional: true,
};

/// Instance types by name.
pub const INSTANCE_TYPES: Section = Section {
    name: "instance_types",
    purpose: "A size of pods, where the cluster has no InstanceType of that name; one table each.",
    is_optional: true,
};

/// The keys, in print order.
pub const KEYS: &[Key] = &[
    key(
        "controller",
        "applications",
        Kind::Switch,
        "false",
        "true",
        "Run the controller of PhApplications. Or a table [controller.applications] with its settings.",
    ),
    key(
        "controller",
        "viewers",
        Kind::Switch,
        "false",
        "true",
        "Run the controller of PVCViewers. Or a table [controller.viewers] with its settings.",
    ),
    key(
        "controller",
        "installations",
        Kind::Switch,
        "false",
        "true",
        "Run the controller of ApplicationInstallations, which needs Helm. Or a table [controller.installations] with its settings.",
    ),
    key(
        "controller",
        "lease",
        Kind::Text,
        "\"ludgate-controller\"",
        "\"ludgate-controller\"",
        "Name of the Lease that elects one of several controllers, in the first namespace of [kubernetes].",
    ),
    key(
        "controller",
        "webhook",
        Kind::Table,
        "",
        "{ address = \"0.0.0.0:8443\", names = [\"ludgate-webhook.hub.svc\"] }",
        "Serve the admission webhook. Absent: none.",
    ),
    key(
        "controller",
        "idle",
        Kind::Table,
        "",
        "{ gateways = [\"ludgate-admin.hub.svc:9090\"], token_file = \"admin-token\" }",
        "Ask the gateways which apps are idle. Absent: no app is.",
    ),
    key(
        "groups",
        "display_name",
        Kind::Text,
        "",
        "\"PrimeHub users\"",
        "The group's name for people. Absent: its name.",
    ),
    key(
        "groups",
        "volume",
        Kind::Text,
        "",
        "\"project-phusers\"",
        "The PersistentVolumeClaim with the data of the group's apps. Absent: their data lasts as long as their pods.",
    ),
    key(
        "groups",
        "quota",
        Kind::Table,
        "",
        "{ cpu = 4, memory = \"8GiB\", gpu = 0 }",
        "What the group's pods may use together, by their limits. Absent parts are unlimited.",
    ),
    key(
        "groups",
        "instance_types",
        Kind::Texts,
        "[]",
        "[\"gpu-1\"]",
        "Instance types that are for this group, and for others that list them. An instance type that no group lists is for all groups.",
    ),
    key(
        "groups",
        "datasets",
        Kind::Texts,
        "[]",
        "[\"mnist\", \"scratch:rw\"]",
        "Datasets that the group's apps get, by the names of the cluster's Dataset objects: to read, or with :rw also to write.",
    ),
    key(
        "instance_types",
        "cpu",
        Kind::Decimal,
        "",
        "1",
        "CPU limit, in cores.",
    ),
    key(
        "instance_types",
        "memory",
        Kind::Size,
        "",
        "\"2GiB\"",
        "Memory limit.",
    ),
    key(
        "instance_types",
        "cpu_request",
        Kind::Decimal,
        "",
        "0.5",
        "CPU request, in cores. Absent: the limit.",
    ),
    key(
        "instance_types",
        "memory_request",
        Kind::Size,
        "",
        "\"1GiB\"",
        "Memory request. Absent: the limit.",
    ),
    key("instance_types", "gpu", Kind::Number, "", "1", "GPUs."),
    key(
        "instance_types",
        "gpu_resource",
        Kind::Text,
        "\"nvidia.com/gpu\"",
        "\"nvidia.com/gpu\"",
        "Extended resource of these GPUs.",
    ),
    key(
        "instance_types",
        "node_labels",
        Kind::Texts,
        "",
        "[\"disk=ssd\"]",
        "Labels of the nodes that such pods run on.",
    ),
];

/// The keys of tables that are written inside of another one.
pub const INNER_KEYS: &[Key] = &[
    key(
        "controller.applications",
        "image_prefix",
        Kind::Text,
        "",
        "\"registry.example.com/\"",
        "Put before the names of images that do not contain it, for clusters with a registry of their own.",
    ),
    key(
        "controller.applications",
        "folder_image",
        Kind::Text,
        "",
        "\"registry.example.com/ludgate:0.1.0\"",
        "Ludgate's image. It makes an app's folder on the group's volume, writable for every user. Absent: kubelet makes the folder, with the permissions of the volume's root.",
    ),
    key(
        "controller.applications",
        "ephemeral_size",
        Kind::Size,
        "\"5GiB\"",
        "\"5GiB\"",
        "Size of the volume of an app whose group has none. It lasts as long as the pod.",
    ),
    key(
        "controller.applications",
        "datasets",
        Kind::Texts,
        "[]",
        "[\"maps\"]",
        "Datasets that all apps get, besides those of their groups.",
    ),
    key(
        "controller.applications",
        "phfs",
        Kind::Text,
        "",
        "\"primehub-store\"",
        "The PersistentVolumeClaim of PHFS. Apps have their group's folder on it, groups/<group>, at /phfs. Absent: they have none.",
    ),
    key(
        "controller.applications",
        "proxy_pod_labels",
        Kind::Texts,
        "[\"app.kubernetes.io/name=ludgate\", \"app.kubernetes.io/name=primehub-console\", \"app.kubernetes.io/name=primehub-graphql\"]",
        "[\"app.kubernetes.io/name=ludgate\"]",
        "Labels of the pods that the NetworkPolicies let in to every app: gateways and PrimeHub's proxies, in the app's namespace and those of `proxy_namespace_labels`. One entry can have several labels, separated by commas.",
    ),
    key(
        "controller.applications",
        "proxy_namespace_labels",
        Kind::Texts,
        "[]",
        "[\"kubernetes.io/metadata.name=edge\"]",
        "Labels of further namespaces with such pods: for a gateway that does not run in the namespace of the apps. One entry can have several labels, separated by commas.",
    ),
    key(
        "controller.applications",
        "allowed_pod_rights",
        Kind::Texts,
        "[]",
        "[\"host_path\"]",
        "What apps' pods may ask for besides the usual: host_namespaces, host_path, privileged, capabilities, service_account, secrets, volumes, scheduling, security_profiles.",
    ),
    key(
        "controller.webhook",
        "address",
        Kind::Text,
        "\"0.0.0.0:8443\"",
        "\"0.0.0.0:8443\"",
        "Address and port of its HTTPS listener, which the API server calls.",
    ),
    key(
        "controller.webhook",
        "names",
        Kind::Texts,
        "",
        "[\"ludgate-webhook.hub.svc\"]",
        "DNS names and IP addresses in its certificate: <service>.<namespace>.svc for a Service, or the host of clientConfig.url. Required.",
    ),
    key(
        "controller.webhook",
        "secret",
        Kind::Text,
        "\"ludgate-webhook\"",
        "\"ludgate-webhook\"",
        "The Secret with its certificate. It must exist, and may be empty.",
    ),
    key(
        "controller.webhook",
        "namespace",
        Kind::Text,
        "",
        "\"ludgate\"",
        "The Secret's namespace. Absent: the first one of [kubernetes]. Better is one in which authors of apps have no rights.",
    ),
    key(
        "controller.webhook",
        "configuration",
        Kind::Text,
        "\"ludgate\"",
        "\"ludgate\"",
        "Name of the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration whose caBundle is kept current.",
    ),
    key(
        "controller.idle",
        "gateways",
        Kind::Texts,
        "",
        "[\"ludgate-admin.hub.svc:9090\"]",
        "Admin listeners of all gateways, as host:port, asked by plain http every second. All addresses of a name are gateways: use a headless Service. While one does not answer, no app becomes idle. Required.",
    ),
    key(
        "controller.idle",
        "token",
        Kind::Text,
        "",
        "\"the-token-itself\"",
        "The bearer token of the gateways' [admin]; prefer token_file.",
    ),
    key(
        "controller.idle",
        "token_file",
        Kind::Text,
        "",
        "\"admin-token\"",
        "File with the bearer token of the gateways' [admin]. One of token and token_file is required.",
    ),
    key(
        "groups.quota",
        "cpu",
        Kind::Decimal,
        "",
        "4",
        "CPU, in cores.",
    ),
    key(
        "groups.quota",
        "memory",
        Kind::Size,
        "",
        "\"8GiB\"",
        "Memory.",
    ),
    key("groups.quota", "gpu", Kind::Number, "", "0", "GPUs."),
];
