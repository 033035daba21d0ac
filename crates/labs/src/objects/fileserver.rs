//! The file server of a person: a Job, its Service, and the rule of the proxy in front.

use serde_json::{Value, json};

use crate::{
    config::{ContainerImage, FileServers, LabConfig, VolumeMount, VolumeSource},
    images::Toleration,
    metadata::{ObjectMetadata, annotate},
    user::LabUser,
};

/// Port of a file server.
const PORT: u16 = 8000;
/// Folder in which a file server finds the volumes.
const ROOT: &str = "/mnt";

/// What the objects of all file servers depend on.
#[derive(Clone, Copy, Debug)]
pub struct FileServerContext<'c> {
    /// The configuration of file servers.
    pub config: &'c FileServers,
    /// The configuration of labs, for its volumes.
    pub lab: &'c LabConfig,
    /// URL of the site.
    pub base_url: &'c str,
    /// Host of the site.
    pub host: &'c str,
    /// Image of the servers.
    pub image: &'c ContainerImage,
    /// Peers of NetworkPolicies that may connect to the servers.
    pub peers: &'c [Value],
}

/// The objects of a file server.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredFileServer {
    /// Claims of volumes that are mounted.
    pub claims: Vec<Value>,
    /// Lets the gateway alone connect to the server, which asks for no password. Operators may let
    /// in others by another policy. Nublado has none.
    pub policy: Value,
    /// The server.
    pub job: Value,
    /// Its address.
    pub service: Value,
    /// Who may use it at which path: a GafaelfawrIngress, for proxies that know it.
    pub ingress: Value,
}

impl DesiredFileServer {
    /// The objects that Nublado creates, in this order.
    pub fn in_order(&self) -> impl Iterator<Item = &Value> {
        self.claims
            .iter()
            .chain([&self.ingress, &self.service, &self.job])
    }
}

/// The objects of a person's file server.
pub fn file_server(context: FileServerContext<'_>, user: &LabUser) -> DesiredFileServer {
    let config = context.config;
    let metadata = ObjectMetadata {
        category: "fileserver",
        username: Some(user.username.clone()),
        application: config.application.clone(),
    };
    let name = format!("{}-fs", user.username);
    let parts = FileServerParts {
        context,
        user,
        path: format!("{}/{}", config.path_prefix, user.username),
        metadata,
        name,
    };
    DesiredFileServer {
        claims: parts.claims(),
        policy: parts.policy(),
        job: parts.job(),
        service: parts.service(),
        ingress: parts.ingress(),
    }
}

struct FileServerParts<'f> {
    context: FileServerContext<'f>,
    user: &'f LabUser,
    path: String,
    metadata: ObjectMetadata,
    name: String,
}

impl FileServerParts<'_> {
    fn metadata(&self, name: &str) -> Value {
        self.metadata
            .named(name, Some(&self.context.config.namespace))
    }

    fn mounted(&self) -> impl Iterator<Item = &crate::config::LabVolume> {
        let mounts = &self.context.config.volume_mounts;
        let volumes = self.context.lab.volumes.iter();
        volumes.filter(|volume| mounts.iter().any(|mount| mount.volume == volume.name))
    }

    fn claims(&self) -> Vec<Value> {
        let claims = self.mounted().filter_map(|volume| match &volume.source {
            VolumeSource::Claim { template, .. } => Some(json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": self.metadata(&volume.claim_name(&self.name)),
                "spec": template.to_spec(),
            })),
            VolumeSource::HostPath(_) | VolumeSource::Nfs { .. } => None,
        });
        claims.collect()
    }

    fn policy(&self) -> Value {
        let peers = self.context.peers;
        // An empty `from` would let everyone in.
        let ingress = match peers.is_empty() {
            true => json!([]),
            false => json!([{ "from": peers, "ports": [{ "port": PORT }] }]),
        };
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.metadata(&self.name),
            "spec": {
                "podSelector": { "matchLabels": self.metadata.selector() },
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        })
    }

    fn job(&self) -> Value {
        let annotations = &self.context.config.extra_annotations;
        let mut metadata = self.metadata(&self.name);
        annotate(&mut metadata, annotations);
        let mut template = json!({ "name": self.name, "labels": self.metadata.selector() });
        annotate(&mut template, annotations);
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": { "template": { "metadata": template, "spec": self.pod() } },
        })
    }

    fn pod(&self) -> Value {
        let (config, user) = (self.context.config, self.user);
        let groups: Vec<u32> = user.groups.iter().map(|group| group.id).collect();
        let tolerations: Vec<Value> = config
            .tolerations
            .iter()
            .map(Toleration::to_object)
            .collect();
        let volumes: Vec<Value> = self
            .mounted()
            .map(|volume| volume.to_pod(&self.name))
            .collect();
        let mut spec = json!({
            "containers": [self.container()],
            "restartPolicy": "Never",
            "securityContext": {
                "runAsGroup": user.gid,
                "runAsNonRoot": true,
                "runAsUser": user.uid,
                "supplementalGroups": groups,
            },
            "tolerations": tolerations,
            "volumes": volumes,
        });
        if let Some(affinity) = &config.affinity {
            spec["affinity"] = affinity.clone();
        }
        if !config.node_selector.is_empty() {
            spec["nodeSelector"] = json!(config.node_selector);
        }
        spec
    }

    fn container(&self) -> Value {
        let config = self.context.config;
        let mounts: Vec<Value> = config
            .volume_mounts
            .iter()
            .map(|mount| {
                let path = format!("{ROOT}{}", mount.path);
                VolumeMount {
                    path,
                    ..mount.clone()
                }
                .to_container()
            })
            .collect();
        let image = self.context.image;
        let mut container = json!({
            "command": ["/usr/local/bin/worblehat"],
            "env": [
                { "name": "WORBLEHAT_BASE_HREF", "value": self.path },
                {
                    "name": "WORBLEHAT_TIMEOUT",
                    "value": config.idle_timeout.as_secs().to_string(),
                },
                { "name": "WORBLEHAT_DIR", "value": ROOT },
            ],
            "image": format!("{}:{}", image.repository, image.tag),
            "imagePullPolicy": image.pull_policy.as_str(),
            "name": "fileserver",
            "ports": [{ "containerPort": PORT, "name": "http" }],
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["all"] },
                "readOnlyRootFilesystem": true,
            },
            "volumeMounts": mounts,
        });
        if let Some(resources) = config.resources {
            container["resources"] = resources.to_container();
        }
        container
    }

    fn service(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(&self.name),
            "spec": {
                "ports": [{ "port": PORT, "targetPort": PORT }],
                "selector": self.metadata.selector(),
            },
        })
    }

    fn ingress(&self) -> Value {
        let username = &self.user.username;
        let backend = json!({ "service": { "name": self.name, "port": { "number": PORT } } });
        let path = json!({ "backend": backend, "path": self.path, "pathType": "Prefix" });
        json!({
            "apiVersion": "gafaelfawr.lsst.io/v1alpha1",
            "kind": "GafaelfawrIngress",
            "metadata": self.metadata(&self.name),
            "config": {
                "allowOptions": true,
                "authType": "basic",
                "baseUrl": self.context.base_url,
                "scopes": { "all": ["write:files"] },
                "service": "nublado-files",
                "username": username,
            },
            "template": {
                "metadata": { "labels": self.metadata.selector(), "name": self.name },
                "spec": {
                    "rules": [{ "host": self.context.host, "http": { "paths": [path] } }],
                },
            },
        })
    }
}
