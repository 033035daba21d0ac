//! Every object of a lab, compared as a whole.

use std::collections::BTreeMap;

use ludgate_labs::{
    dialect::Dialect,
    environment::SiteUrls,
    images::ImageResolution,
    objects::{DesiredLab, LabContext, LabRequest, SourceSecret, SourceSecrets, desired},
    options::LabSpecification,
};
use serde_json::{Value, json};

use super::{form, parsed, person, site};

/// The objects of the person's first lab, or of a later one.
fn lab(is_provisioned: bool) -> DesiredLab {
    let site = site();
    let mut body = form();
    // What the controller and the configuration set takes precedence over these.
    body["env"]["MEM_LIMIT"] = "1".into();
    body["env"]["TAP_ROUTE"] = "/other".into();
    let specification = LabSpecification::parse(&body, Dialect::Sqr066).expect("a valid body");
    let choice = &specification.options.image;
    let resolution = site.catalog.resolve(choice, Dialect::Sqr066);
    let ImageResolution::Image(image) = resolution.expect("a known image") else {
        panic!("its digest is known");
    };
    let urls = SiteUrls {
        base: "https://labs.example.com".to_owned(),
        discovery: None,
    };
    let context = LabContext {
        config: &site.config.lab,
        dialect: Dialect::Sqr066,
        urls: &urls,
        discovery: None,
        peers: &[],
        helper_image: None,
    };
    let request = LabRequest {
        user: &person("nina"),
        token: "token-of-nina",
        specification: &specification,
        image: &image,
        is_provisioned,
        secrets: &secrets(),
    };
    desired(context, request).expect("objects")
}

fn secrets() -> SourceSecrets {
    let secret = |kind: &str, key: &str, value: &str| SourceSecret {
        kind: kind.to_owned(),
        data: BTreeMap::from([(key.to_owned(), value.to_owned())]),
    };
    let pull = "kubernetes.io/dockerconfigjson";
    BTreeMap::from([
        ("source".to_owned(), secret("Opaque", "butler", "Y2FydA==")),
        ("pull".to_owned(), secret(pull, ".dockerconfigjson", "e30=")),
    ])
}

/// An object with the metadata that all objects of the lab have.
fn object(kind: &str, name: &str, fields: &str) -> Value {
    let mut object = parsed(fields);
    let version = match kind {
        "NetworkPolicy" => "networking.k8s.io/v1",
        _ => "v1",
    };
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({
        "name": name,
        "namespace": "nublado-nina",
        "labels": {
            "argocd.argoproj.io/instance": "nublado-users",
            "nublado.lsst.io/category": "lab",
            "nublado.lsst.io/user": "nina",
        },
        "annotations": {
            "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
            "argocd.argoproj.io/sync-options": "Prune=false",
        },
    });
    object
}

const ENV: &str = r#"{
    "immutable": true,
    "data": {
        "CONTAINER_SIZE": "Large (4.0 CPU, 12Gi RAM)",
        "CPU_GUARANTEE": "4.0",
        "CPU_LIMIT": "4.0",
        "DEBUG": "TRUE",
        "EXTERNAL_INSTANCE_URL": "https://labs.example.com",
        "IMAGE_DESCRIPTION": "Weekly 2024_10",
        "IMAGE_DIGEST": "sha256:10",
        "JUPYTERHUB_ACTIVITY_INTERVAL": "3600",
        "JUPYTERHUB_API_URL": "http://hub.example:8081/nb/hub/api",
        "JUPYTERLAB_CONFIG_DIR": "/opt/lsst/software/jupyterlab",
        "JUPYTERLAB_START_COMMAND": "/opt/lsst/software/jupyterlab/runlab.sh",
        "JUPYTER_IMAGE": "registry.example.com/people/lab:w_2024_10@sha256:10",
        "JUPYTER_IMAGE_SPEC": "registry.example.com/people/lab:w_2024_10@sha256:10",
        "MEM_GUARANTEE": "1073741824",
        "MEM_LIMIT": "12884901888",
        "NUBLADO_RUNTIME_MOUNTS_DIR": "/etc/nublado",
        "RESET_USER_ENV": "TRUE",
        "TAP_ROUTE": "/api/tap"
    }
}"#;

const NAME_SERVICE: &str = r#"{
    "immutable": true,
    "data": {
        "passwd": "root:x:0:0::/root:/bin/sh\nnina:x:40001:40001:Nina Sky:/home\/nina:/bin/bash\n",
        "group": "root:x:0:\nobservers:x:50010:nina\nnina:x:40001:\n"
    }
}"#;

const SECRET: &str = r#"{
    "immutable": true,
    "type": "Opaque",
    "data": {
        "JUPYTERHUB_API_TOKEN": "aHViLXNlY3JldA==",
        "butler": "Y2FydA==",
        "token": "dG9rZW4tb2YtbmluYQ=="
    }
}"#;

const PULL_SECRET: &str = r#"{
    "immutable": true,
    "type": "kubernetes.io/dockerconfigjson",
    "data": { ".dockerconfigjson": "e30=" }
}"#;

/// To the hub and its proxy, to name servers, to what is outside the cluster, and to the file
/// server.
const NETWORK_POLICY: &str = r#"{
    "spec": {
        "podSelector": {
            "matchLabels": { "nublado.lsst.io/category": "lab", "nublado.lsst.io/user": "nina" }
        },
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {
                "from": [
                    {
                        "namespaceSelector": {},
                        "podSelector": { "matchLabels": { "app": "jupyterhub" } }
                    }
                ],
                "ports": [{ "port": 8888 }]
            }
        ],
        "egress": [
            {
                "to": [
                    {
                        "namespaceSelector": {},
                        "podSelector": { "matchLabels": { "app": "jupyterhub" } }
                    }
                ]
            },
            {
                "to": [
                    {
                        "namespaceSelector": {
                            "matchLabels": { "kubernetes.io/metadata.name": "kube-system" }
                        }
                    }
                ],
                "ports": [
                    { "port": 53, "protocol": "UDP" },
                    { "port": 53, "protocol": "TCP" }
                ]
            },
            {
                "to": [
                    { "ipBlock": { "cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"] } },
                    { "ipBlock": { "cidr": "::/0", "except": ["fc00::/7"] } },
                    { "ipBlock": { "cidr": "10.9.8.7/32" } }
                ]
            }
        ]
    }
}"#;

const SERVICE: &str = r#"{
    "spec": {
        "ports": [{ "port": 8888, "targetPort": 8888 }],
        "selector": { "nublado.lsst.io/category": "lab", "nublado.lsst.io/user": "nina" }
    }
}"#;

const NOTEBOOK: &str = r#"{
    "name": "notebook",
    "args": ["/opt/lsst/software/jupyterlab/runlab.sh"],
    "env": [
        {
            "name": "ACCESS_TOKEN",
            "valueFrom": {
                "secretKeyRef": { "key": "token", "name": "nb-nina", "optional": false }
            }
        },
        {
            "name": "NUBLADO_TOKEN",
            "valueFrom": {
                "secretKeyRef": { "key": "token", "name": "nb-nina", "optional": false }
            }
        },
        {
            "name": "BUTLER",
            "valueFrom": {
                "secretKeyRef": { "key": "butler", "name": "nb-nina", "optional": false }
            }
        },
        {
            "name": "JUPYTERHUB_API_TOKEN",
            "valueFrom": {
                "secretKeyRef": {
                    "key": "JUPYTERHUB_API_TOKEN",
                    "name": "nb-nina",
                    "optional": false
                }
            }
        },
        {
            "name": "KUBERNETES_NODE_NAME",
            "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } }
        },
        {
            "name": "K8S_NODE_NAME",
            "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } }
        }
    ],
    "envFrom": [{ "configMapRef": { "name": "nb-nina-env" } }],
    "image": "registry.example.com/people/lab:w_2024_10@sha256:10",
    "imagePullPolicy": "IfNotPresent",
    "ports": [{ "containerPort": 8888, "name": "jupyterlab" }],
    "resources": {
        "limits": { "cpu": "4.0", "memory": "12884901888" },
        "requests": { "cpu": "4.0", "memory": "1073741824" }
    },
    "securityContext": {
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["all"] },
        "readOnlyRootFilesystem": true,
        "runAsGroup": 40001,
        "runAsNonRoot": true,
        "runAsUser": 40001
    },
    "volumeMounts": [
        { "mountPath": "/home", "name": "home", "readOnly": false },
        { "mountPath": "/etc/passwd", "name": "passwd", "readOnly": true, "subPath": "passwd" },
        { "mountPath": "/etc/group", "name": "group", "readOnly": true, "subPath": "group" },
        { "mountPath": "/etc/nublado/secrets", "name": "secrets", "readOnly": true },
        { "mountPath": "/etc/nublado/environment", "name": "env", "readOnly": true },
        { "mountPath": "/tmp", "name": "tmp", "readOnly": false },
        { "mountPath": "/etc/nublado/runtime", "name": "runtime", "readOnly": true },
        { "mountPath": "/etc/butler", "name": "secrets", "readOnly": true, "subPath": "butler" }
    ],
    "workingDir": "/home\/nina"
}"#;

const PROVISION: &str = r#"{
    "name": "provision",
    "env": [
        { "name": "NUBLADO_HOME", "value": "/home\/nina" },
        { "name": "NUBLADO_UID", "value": "40001" },
        { "name": "NUBLADO_GID", "value": "40001" },
        {
            "name": "JUPYTERHUB_API_TOKEN",
            "valueFrom": {
                "secretKeyRef": {
                    "key": "JUPYTERHUB_API_TOKEN",
                    "name": "nb-nina",
                    "optional": false
                }
            }
        }
    ],
    "envFrom": [{ "configMapRef": { "name": "nb-nina-env" } }],
    "image": "registry.example.com/provision:2",
    "imagePullPolicy": "IfNotPresent",
    "resources": {
        "limits": { "cpu": "4.0", "memory": "12884901888" },
        "requests": { "cpu": "4.0", "memory": "1073741824" }
    },
    "securityContext": {
        "allowPrivilegeEscalation": true,
        "privileged": true,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": false,
        "runAsUser": 0
    },
    "volumeMounts": [{ "mountPath": "/home", "name": "home", "readOnly": false }]
}"#;

/// The pod without its containers.
const POD: &str = r#"{
    "spec": {
        "automountServiceAccountToken": false,
        "imagePullSecrets": [{ "name": "nb-nina-pull" }],
        "restartPolicy": "OnFailure",
        "securityContext": { "supplementalGroups": [50010] },
        "tolerations": [],
        "volumes": [
            {
                "name": "home",
                "nfs": { "path": "/homes", "readOnly": false, "server": "10.9.8.7" }
            },
            {
                "name": "passwd",
                "configMap": {
                    "name": "nb-nina-nss",
                    "items": [{ "key": "passwd", "mode": 420, "path": "passwd" }]
                }
            },
            {
                "name": "group",
                "configMap": {
                    "name": "nb-nina-nss",
                    "items": [{ "key": "group", "mode": 420, "path": "group" }]
                }
            },
            { "name": "secrets", "secret": { "secretName": "nb-nina" } },
            { "name": "env", "configMap": { "name": "nb-nina-env" } },
            { "name": "tmp", "emptyDir": { "medium": "Memory", "sizeLimit": "3221225472" } },
            {
                "name": "runtime",
                "downwardAPI": {
                    "items": [
                        {
                            "path": "limits_cpu",
                            "resourceFieldRef": {
                                "containerName": "notebook",
                                "resource": "limits.cpu"
                            }
                        },
                        {
                            "path": "requests_cpu",
                            "resourceFieldRef": {
                                "containerName": "notebook",
                                "resource": "requests.cpu"
                            }
                        },
                        {
                            "path": "limits_memory",
                            "resourceFieldRef": {
                                "containerName": "notebook",
                                "resource": "limits.memory"
                            }
                        },
                        {
                            "path": "requests_memory",
                            "resourceFieldRef": {
                                "containerName": "notebook",
                                "resource": "requests.memory"
                            }
                        }
                    ]
                }
            }
        ]
    }
}"#;

#[test]
fn the_namespace_is_of_the_person() {
    let mut expected = object("Namespace", "nublado-nina", "{}");
    let metadata = expected["metadata"].as_object_mut().expect("metadata");
    metadata.remove("namespace");
    assert_eq!(lab(false).namespace, expected);
}

#[test]
fn the_configuration_takes_precedence_over_the_controller_and_that_over_the_hub() {
    assert_eq!(lab(false).env, object("ConfigMap", "nb-nina-env", ENV));
}

#[test]
fn users_and_groups_are_those_of_the_person() {
    let expected = object("ConfigMap", "nb-nina-nss", NAME_SERVICE);
    assert_eq!(lab(false).config_maps, [expected]);
}

#[test]
fn secrets_have_the_token_and_those_of_the_configuration() {
    let expected = [
        object("Secret", "nb-nina", SECRET),
        object("Secret", "nb-nina-pull", PULL_SECRET),
    ];
    assert_eq!(lab(false).secrets, expected);
}

#[test]
fn connections_of_labs_are_limited_in_both_directions() {
    let expected = object("NetworkPolicy", "nb-nina", NETWORK_POLICY);
    assert_eq!(lab(false).network_policy, expected);
    assert_eq!(lab(false).service, object("Service", "nb-nina", SERVICE));
    assert_eq!(lab(false).quota, None);
}

#[test]
fn the_pod_runs_as_the_person_and_provisions_once() {
    let mut expected = object("Pod", "nb-nina", POD);
    let groups = r#"[{"name": "observers", "id": 50010}, {"name": "nina", "id": 40001}]"#;
    let annotations = &mut expected["metadata"]["annotations"];
    annotations["nublado.lsst.io/user-groups"] = groups.into();
    annotations["nublado.lsst.io/user-name"] = "Nina Sky".into();
    expected["spec"]["containers"] = json!([parsed(NOTEBOOK)]);
    assert_eq!(lab(true).pod, expected);
    expected["spec"]["initContainers"] = json!([parsed(PROVISION)]);
    assert_eq!(lab(false).pod, expected);
}
