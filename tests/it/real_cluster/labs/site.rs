//! A namespace with a lab controller: its rights, its people, a registry with the image of labs.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{Api, ResourceExt, api::ListParams};
use ludgate::{demo::provider::DemoProvider, model::clock::Clock};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::process::LabsProcess;
use crate::support::{
    changes::POD_PATIENCE,
    kube_namespace::{KubeNamespace, kind_of, kubectl},
    until::{holds_within, in_time},
    world::free_port,
};

/// The name of the hub, whose token stops labs and reads their status.
pub const HUB: &str = "service-account-hub";
/// The people who may have labs, with their UID and GID.
pub const PEOPLE: [(&str, u32); 2] = [("alice", 1101), ("bob", 1102)];
/// The name of the labs' image in the registry.
const REPOSITORY: &str = "library/lab";
/// The ServiceAccount.
const ACCOUNT: &str = "ludgate-labs";
/// The taint that tests/real/kube/cluster/suite.sh gives to hollow nodes.
const HOLLOW: &str = "ludgate.test/hollow";

/// What differs between tests.
#[derive(Clone, Copy, Debug)]
pub struct LabChoices {
    pub dialect: &'static str,
    /// The program of labs, as YAML.
    pub command: &'static str,
    /// Whether labs have a volume `scratch`, of the storage class that `LabSite::storage_class`
    /// names.
    pub has_scratch: bool,
    /// Whether images are pulled beforehand, to hollow nodes too.
    pub pulls: bool,
}

impl LabChoices {
    /// Labs with a home and nothing else.
    pub fn plain(dialect: &'static str) -> LabChoices {
        LabChoices {
            dialect,
            command: "[lab]",
            has_scratch: false,
            pulls: false,
        }
    }
}

/// A lab controller in a namespace of its own.
pub struct LabSite {
    pub labs: LabsProcess,
    pub provider: DemoProvider,
    /// Of the controller. Labs have others.
    pub namespace: KubeNamespace,
    /// Folders of this machine that labs mount.
    pub folder: TempDir,
    dialect: &'static str,
    _left: LeftLabs,
    _registry: Child,
}

impl LabSite {
    /// Starts a controller whose people are the provider's, and waits until it knows the images.
    pub async fn start(provider: DemoProvider, choices: LabChoices) -> LabSite {
        LabSite::with(provider, choices, "").await
    }

    /// The same. `more` are further keys of `[labs]`, in which `NAMESPACE` is the name of the
    /// controller's namespace.
    pub async fn with(provider: DemoProvider, choices: LabChoices, more: &str) -> LabSite {
        for (person, id) in PEOPLE {
            provider.set_claim(person, "uid", id.into());
            provider.set_claim(person, "gid", id.into());
            let quota = json!({ "notebook": { "cpu": 4, "memory": 8 } });
            provider.set_claim(person, "quota", quota);
        }
        let namespace = KubeNamespace::new().await;
        grant_labs(&namespace).await;
        let secret = "--from-literal=motto=per aspera";
        let command = ["create", "secret", "generic", "lab-secret", secret];
        namespace.kubectl(&command, "").await;
        let folder = tempfile::tempdir().expect("a folder");
        make_homes(&folder.path().join("homes"));
        let (registry, address) = serve_images().await;

        let own = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: String| {
            std::fs::write(own.path().join(file), text).expect("written");
        };
        let yaml = labs_yaml(&namespace, folder.path(), &address, choices);
        write("labs.yaml", yaml);
        let kubeconfig = namespace.kubeconfig_of(ACCOUNT).await;
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
        write(
            "ludgate.toml",
            format!(
                "[site]\nurl = \"https://hub.example.com\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
                 [kubernetes]\nnamespace = \"{}\"\nkubeconfig = \"{}\"\n\
                 [identity]\nissuer = \"{}\"\nclient_id = \"ludgate\"\n\
                 [labs]\naddress = \"{listen}\"\nconfig = \"labs.yaml\"\ndialect = \"{}\"\n\
                 scopes = {{ hub = [\"name:{HUB}\"], admin = [\"name:{HUB}\"] }}\n{}",
                namespace.name,
                kubeconfig.display(),
                provider.issuer(),
                choices.dialect,
                more.replace("NAMESPACE", &namespace.name),
            ),
        );
        let variables = match choices.pulls {
            true => owner(&namespace).await,
            false => Vec::new(),
        };
        let mut site = LabSite {
            labs: LabsProcess::new(own, listen, variables),
            _left: LeftLabs(PEOPLE.map(|(person, _)| format!("{}-{person}", namespace.name))),
            provider,
            namespace,
            folder,
            dialect: choices.dialect,
            _registry: registry,
        };
        site.labs.start().await;
        site.until_form(&address).await;
        site
    }

    /// Waits until people can choose an image of this registry.
    async fn until_form(&self, registry: &str) {
        let wanted = format!("value=\"{registry}/{REPOSITORY}:");
        let mut form = String::new();
        let is_shown = holds_within(POD_PATIENCE, async || {
            let token = self.token("alice");
            let answer = self.labs.call("GET lab-form/alice", &token, &Value::Null);
            form = answer.await.text();
            form.contains(&wanted)
        });
        let is_shown = is_shown.await;
        assert!(is_shown, "no {wanted} in {form}");
    }

    /// A person's access token.
    pub fn token(&self, person: &str) -> String {
        self.provider.access_token(person)
    }

    /// The hub's access token.
    pub fn hub_token(&self) -> String {
        let now = Clock::system().wall_seconds();
        let claims = json!({
            "iss": self.provider.issuer(), "aud": "ludgate", "azp": "ludgate", "sub": HUB,
            "preferred_username": HUB, "iat": now, "exp": now + 3600,
        });
        let header = json!({ "alg": "ES256", "typ": "at+jwt", "kid": self.provider.key_id() });
        self.provider.sign(&header, &claims)
    }

    /// The namespace of a person's lab.
    pub fn lab_namespace(&self, person: &str) -> String {
        format!("{}-{person}", self.namespace.name)
    }

    /// The name of a person's pod, and of other objects of the lab.
    pub fn object(&self, person: &str) -> String {
        match self.dialect {
            "nublado" => format!("{person}-nb"),
            _ => format!("nb-{person}"),
        }
    }

    pub fn pods(&self, person: &str) -> Api<Pod> {
        Api::namespaced(self.namespace.client.clone(), &self.lab_namespace(person))
    }

    /// Waits until nothing is left of a person's lab.
    pub async fn until_gone(&self, person: &str) {
        let namespaces: Api<Namespace> = Api::all(self.namespace.client.clone());
        let name = self.lab_namespace(person);
        let is_gone = holds_within(POD_PATIENCE, async || {
            let found = namespaces.get_opt(&name).await;
            found.is_ok_and(|namespace| namespace.is_none())
        });
        if !is_gone.await {
            panic!("{name} is still there: {}", self.what_is_left(person).await);
        }
    }

    /// What is left of a lab that is being deleted, and what the controller says about it.
    async fn what_is_left(&self, person: &str) -> String {
        let namespaces: Api<Namespace> = Api::all(self.namespace.client.clone());
        let namespace = namespaces.get_opt(&self.lab_namespace(person)).await;
        let namespace = namespace
            .map(|found| found.map(|found| (found.metadata.deletion_timestamp, found.status)));
        let pods = self.pods(person).list(&ListParams::default()).await;
        let pods = pods.map(|list| {
            let pods = list.items.into_iter();
            pods.map(|pod| (pod.metadata.deletion_timestamp, pod.status))
                .collect::<Vec<_>>()
        });
        let path = format!("GET labs/{person}");
        let answer = self.labs.call(&path, &self.hub_token(), &Value::Null).await;
        let answer = (answer.status(), answer.text());
        format!("namespace {namespace:?}, pods {pods:?}, controller {answer:?}")
    }

    /// The storage class of the volumes `scratch`. Nothing makes volumes of it.
    pub fn storage_class(&self) -> String {
        storage_class(&self.namespace)
    }
}

/// The folder that tests/real/kube/jupyter/install.sh fills.
pub async fn jupyter() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/kube/jupyter/install.sh");
    let installed = Command::new(script).output().await.expect("a shell");
    let errors = String::from_utf8_lossy(&installed.stderr);
    assert!(installed.status.success(), "{errors}");
    let printed = String::from_utf8(installed.stdout).expect("a path");
    PathBuf::from(printed.trim())
}

fn storage_class(namespace: &KubeNamespace) -> String {
    format!("scratch-{}", namespace.name)
}

/// Applies the shipped rights. Those for all namespaces get names of their own, since tests run at
/// the same time.
async fn grant_labs(namespace: &KubeNamespace) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/rbac/labs.yaml");
    let mut rights = std::fs::read_to_string(path).expect("the shipped rights");
    for start in [
        "kind: ClusterRole\nmetadata:\n",
        "kind: ClusterRoleBinding\nmetadata:\n",
        "kind: ClusterRole\n",
    ] {
        let shipped = format!("{start}  name: {ACCOUNT}\n");
        assert!(rights.contains(&shipped), "no {shipped}");
        let own = format!("{start}  name: {ACCOUNT}-{}\n", namespace.name);
        rights = rights.replace(&shipped, &own);
    }
    let own = format!("namespace: {}", namespace.name);
    let rights = rights.replace("namespace: hub", &own);
    namespace.kubectl(&["apply", "-f", "-"], &rights).await;
}

/// A home for each person.
fn make_homes(folder: &Path) {
    std::fs::create_dir(folder).expect("a folder");
    for (person, id) in PEOPLE {
        let home = folder.join(person);
        std::fs::create_dir(&home).expect("a folder");
        std::os::unix::fs::chown(&home, Some(id), Some(id)).expect("root");
    }
}

/// The configuration, in the form of Nublado's controller.
fn labs_yaml(
    namespace: &KubeNamespace,
    folder: &Path,
    registry: &str,
    choices: LabChoices,
) -> String {
    let mut volume = String::new();
    let mut mount = "";
    let mut tolerations = String::new();
    if choices.has_scratch {
        volume = format!(
            "    - name: scratch\n      source:\n        type: persistentVolumeClaim\n        \
             accessModes: [ReadWriteOnce]\n        storageClassName: {}\n        \
             resources: {{ requests: {{ storage: 1Gi }} }}\n",
            storage_class(namespace)
        );
        mount = "    - { containerPath: /scratch, volumeName: scratch }\n";
    }
    if choices.pulls {
        tolerations = format!("  tolerations: [{{ key: {HOLLOW}, operator: Exists }}]\n");
    }
    format!(
        "lab:
  namespacePrefix: {}
  labStartCommand: {}
  spawnTimeout: 120
  deleteTimeout: 60
  secrets: [{{ secretName: lab-secret, secretKey: motto, env: MOTTO }}]
  sizes:
    - size: small
      resources: {{ limits: {{ cpu: 1, memory: 1Gi }}, requests: {{ cpu: 50m, memory: 64Mi }} }}
{tolerations}  volumes:
    - {{ name: home, source: {{ type: hostPath, path: {}/homes }} }}
{volume}  volumeMounts:
    - {{ containerPath: /home, volumeName: home }}
{mount}images:
  source: {{ type: docker, registry: '{registry}', repository: {REPOSITORY} }}
",
        namespace.name,
        choices.command,
        folder.display()
    )
}

/// Serves the image that tests/real/kube/jupyter/image.sh makes. Nodes pull it from there.
async fn serve_images() -> (Child, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/kube/jupyter");
    let mut registry = Command::new("python3")
        .arg("-B")
        .arg(folder.join("registry.py"))
        .arg(jupyter().await.join("image"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let output = registry.stdout.take().expect("an output");
    let mut lines = BufReader::new(output).lines();
    let line = in_time("the registry", lines.next_line()).await;
    let address = line.expect("readable").expect("an address");
    (registry, address)
}

/// The variables that name the controller's pod, to which the pods belong that pull images. Here it
/// is another pod, since the controller runs outside of the cluster.
async fn owner(namespace: &KubeNamespace) -> Vec<(&'static str, String)> {
    let pod = json!({
        "metadata": { "name": "controller" },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "main", "image": "localhost/busybox:1" }],
        },
    });
    namespace.apply(&kind_of::<Pod>(), &pod).await;
    let made = namespace.api(&kind_of::<Pod>()).get("controller").await;
    let uid = made.expect("a pod").uid().expect("a UID");
    vec![
        ("POD_NAME", "controller".to_owned()),
        ("POD_NAMESPACE", namespace.name.clone()),
        ("POD_UID", uid),
    ]
}

/// Removes the namespaces of labs when the test ends.
struct LeftLabs([String; PEOPLE.len()]);

impl Drop for LeftLabs {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kubectl")
            .args(["delete", "namespace", "--wait=false", "--ignore-not-found"])
            .args(&self.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// Offers a volume of this machine to a claim in another namespace.
pub async fn offer_volume(site: &LabSite, person: &str, claim: &str) {
    let folder = site.folder.path().join("scratch");
    std::fs::create_dir(&folder).expect("a folder");
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": site.lab_namespace(person) },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": "1Gi" },
            "claimRef": { "namespace": site.lab_namespace(person), "name": claim },
            "hostPath": { "path": folder, "type": "Directory" },
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": site.storage_class(),
        },
    });
    kubectl(&["apply", "-f", "-"], &volume.to_string()).await;
}
