//! Keys of the controller of volume viewers.

use super::key::{Key, Kind, Section, key};

/// The controller of viewers.
pub const VIEWERS: Section = Section {
    name: "controller.viewers",
    purpose: "Settings of the controller of PVCViewers. This table replaces `viewers` as true.",
    is_optional: true,
};

/// The keys of the table.
pub const INNER_KEYS: &[Key] = &[
    key(
        "controller.viewers",
        "base_prefix",
        Kind::Text,
        "",
        "\"/pvcviewers\"",
        "Base path of viewers without `networking`: they are published at <base_prefix>/<namespace>/<name>/, at the first port of their pod. Absent: they have no Service.",
    ),
    key(
        "controller.viewers",
        "image",
        Kind::Text,
        "\"filebrowser/filebrowser:v2.32.0\"",
        "\"registry.example.com/filebrowser@sha256:…\"",
        "File Browser's image, for viewers without a podSpec. Better with a digest.",
    ),
    key(
        "controller.viewers",
        "default_pod_file",
        Kind::Text,
        "",
        "\"viewer-pod.yaml\"",
        "A file with the podSpec, in YAML or JSON, of viewers without one. The claim is added as `viewer-volume`, and a variable FB_BASEURL gets the viewer's path. It replaces `image`.",
    ),
    key(
        "controller.viewers",
        "idle_after",
        Kind::Duration,
        "",
        "\"30m\"",
        "A viewer is scaled to zero after this time without use, unless its annotation ludgate/idle-after says otherwise. Absent: never.",
    ),
    key(
        "controller.viewers",
        "affinity",
        Kind::Text,
        "\"required\"",
        "\"preferred\"",
        "How a viewer with rwoScheduling follows the other pods of its claim: required runs on their node only, preferred may start elsewhere and wait for the volume there.",
    ),
    key(
        "controller.viewers",
        "yields",
        Kind::Switch,
        "true",
        "false",
        "Stop a viewer while another pod waits for its ReadWriteOnce volume.",
    ),
    key(
        "controller.viewers",
        "proxy_pod_labels",
        Kind::Texts,
        "[\"app.kubernetes.io/name=ludgate\"]",
        "[\"app.kubernetes.io/name=ludgate\"]",
        "Labels of the pods that the NetworkPolicies let in to every viewer: the gateway's, in the viewer's namespace and those of `proxy_namespace_labels`. One entry can have several labels, separated by commas.",
    ),
    key(
        "controller.viewers",
        "proxy_namespace_labels",
        Kind::Texts,
        "[]",
        "[\"kubernetes.io/metadata.name=edge\"]",
        "Labels of further namespaces with such pods: for a gateway that does not run in the namespace of the viewers. One entry can have several labels, separated by commas.",
    ),
    key(
        "controller.viewers",
        "allowed_pod_rights",
        Kind::Texts,
        "[]",
        "[\"scheduling\"]",
        "What a viewer's own podSpec may ask for besides the usual: host_namespaces, host_path, privileged, capabilities, service_account, secrets, volumes, scheduling, security_profiles.",
    ),
    key(
        "controller.viewers",
        "service_accounts",
        Kind::Texts,
        "[]",
        "[\"default-editor\"]",
        "Service accounts that a viewer's own podSpec may name.",
    ),
    key(
        "controller.viewers",
        "trusted_namespaces",
        Kind::Texts,
        "[]",
        "[\"admins\"]",
        "Namespaces whose viewers may have any podSpec.",
    ),
    key(
        "controller.viewers",
        "publish",
        Kind::Text,
        "\"ludgate\"",
        "\"virtual_service\"",
        "What publishes viewers: ludgate, the gateway with kubernetes.viewers; virtual_service, Istio; http_route, the Gateway API. A change needs a restart.",
    ),
    key(
        "controller.viewers",
        "publish_gateway",
        Kind::Text,
        "\"kubeflow/kubeflow-gateway\"",
        "\"kubeflow/kubeflow-gateway\"",
        "Namespace and name of the Gateway of virtual_service or http_route.",
    ),
];
