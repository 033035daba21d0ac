//! docs/labs.md as a reader follows it: each of its commands runs, and dana gets a lab. Then the
//! hub's settings are read by JupyterHub itself, and the service is installed once more by hand.
//!
//! The test does six things differently. Provider and registry have another address and an
//! authority of their own ([`Outside`]). The image of labs is a stand-in that notes its start in
//! the home. Homes are a folder of the node. The namespaces of labs have a prefix of the test's, so
//! that no other test has them, and only dana's is deleted at the end. The rights of the service
//! that is made by hand have the namespace in their names, since other tests have them too. And
//! `pip` gets no dependencies, since the cluster has no network: they are in the folder of
//! tests/real/kube/jupyter/install.sh.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    outside::{CLIENT_SECRET, Outside},
    site::jupyter,
};
use crate::{
    real_cluster::{
        document_reader::{DocumentReader, blocks, ludgate_image, shipped},
        images::{load_ludgate_image, load_notebook_image},
    },
    support::kube_namespace::KubeNamespace,
};

const UID: u32 = 1101;

/// Reads the hub's settings as JupyterHub does, and complains of those that do not exist.
const READ_SETTINGS: &str = r#"
from jupyterhub.app import JupyterHub
from jupyterhub.auth import Authenticator
from ludgate_jupyterhub import RESTSpawner
from traitlets.config import PyFileConfigLoader

config = PyFileConfigLoader("jupyterhub_config.py").load_config()
classes = {kind.__name__: kind for kind in (Authenticator, JupyterHub, RESTSpawner)}
for name, settings in config.items():
    unknown = settings.keys() - set(classes[name].class_trait_names(config=True))
    assert not unknown, (name, unknown)
assert JupyterHub(config=config).spawner_class is RESTSpawner
spawner = RESTSpawner(config=config)
print(spawner.controller_url, spawner.hub_token_file, spawner.user_token_key)
"#;

/// What the document is followed with.
struct Rig {
    namespace: KubeNamespace,
    outside: Outside,
    homes: TempDir,
    reader: DocumentReader,
    /// Of the hub.
    programs: PathBuf,
}

impl Rig {
    async fn start() -> Rig {
        let namespace = KubeNamespace::new().await;
        // The chart makes its own.
        let account = ["delete", "serviceaccount", "ludgate"];
        namespace.kubectl(&account, "").await;
        let rights = ["delete", "role,rolebinding", "ludgate-gateway"];
        namespace.kubectl(&rights, "").await;
        load_ludgate_image(&ludgate_image()).await;
        let outside = Outside::start(load_notebook_image).await;
        let homes = tempfile::tempdir().expect("a folder");
        // The person passes it on the way to the home.
        let all_pass = fs::Permissions::from_mode(0o755);
        fs::set_permissions(homes.path(), all_pass).expect("changed");
        let reader = DocumentReader::new(&namespace).await;
        let rig = Rig {
            namespace,
            outside,
            homes,
            reader,
            programs: jupyter().await.join("venv/bin"),
        };
        rig.write("ca.crt", &rig.outside.ca).await;
        rig.write("client-secret", CLIENT_SECRET).await;
        let token = rig.outside.person_token("dana", UID);
        rig.write("person-token", &token).await;
        rig.write("rig-values.yaml", &rig.values().to_string())
            .await;
        rig.run("kubectl create configmap outside-ca --from-file=ca.crt")
            .await;
        rig
    }

    /// Writes a file into the folder of the reader. The last line break is not part of it.
    async fn write(&self, name: &str, text: &str) {
        let script = format!("cat >whole <<'END'\n{text}\nEND\nhead -c -1 whole >{name}");
        self.reader.run(&script).await;
    }

    /// Values of the chart besides those of the document.
    fn values(&self) -> Value {
        let ca = "/etc/ludgate/ca/ca.crt";
        let home = json!({ "type": "hostPath", "path": self.homes.path() });
        json!({
            "config": { "issuer": self.outside.issuer(), "issuerCA": ca },
            "extraVolumes": [{ "name": "ca", "configMap": { "name": "outside-ca" } }],
            "extraVolumeMounts": [{ "name": "ca", "mountPath": "/etc/ludgate/ca" }],
            "labs": {
                "settings": { "ca": ca },
                "config": {
                    "images": { "source": { "registry": self.outside.address } },
                    "lab": {
                        "namespacePrefix": self.namespace.name,
                        "volumes": [{ "name": "home", "source": home }],
                    },
                },
            },
        })
    }

    /// The commands for this cluster.
    fn adapted(&self, commands: &str) -> String {
        let lab = self.lab_namespace();
        let mut adapted = commands.to_owned();
        for (written, here) in [
            (
                "--values labs-values.yaml",
                "--values labs-values.yaml --values rig-values.yaml",
            ),
            ("https://id.example.com/realms/hub", self.outside.issuer()),
            ("nublado-dana", lab.as_str()),
            (
                "nublado.lsst.io/category=lab",
                "nublado.lsst.io/category=lab,nublado.lsst.io/user=dana",
            ),
            (
                "pip install",
                "pip install --quiet --no-deps --no-index --no-build-isolation --target packages",
            ),
            ("config/rbac/labs.yaml", "rights.yaml"),
            (
                "--from-file=labs.yaml",
                "--from-file=labs.yaml --from-file=ca.crt",
            ),
        ] {
            adapted = adapted.replace(written, here);
        }
        adapted
    }

    async fn run(&self, commands: &str) -> String {
        let curl = "export CURL_CA_BUNDLE=ca.crt";
        let python = format!("export PATH=\"{}:$PATH\"", self.programs.display());
        let commands = self.adapted(commands);
        self.reader
            .run(&format!("{curl}\n{python}\n{commands}"))
            .await
    }

    fn lab_namespace(&self) -> String {
        format!("{}-dana", self.namespace.name)
    }

    /// The rights of the document for this namespace.
    fn rights(&self) -> String {
        let name = &self.namespace.name;
        let own = format!("name: ludgate-labs-{name}");
        let mut rights = shipped("config/rbac/labs.yaml");
        // The account keeps its name.
        for before in [
            "kind: ClusterRole\nmetadata:\n  ",
            "kind: ClusterRoleBinding\nmetadata:\n  ",
            "kind: ClusterRole\n  ",
        ] {
            let written = format!("{before}name: ludgate-labs\n");
            assert!(rights.contains(&written), "{written}");
            rights = rights.replace(&written, &format!("{before}{own}\n"));
        }
        rights.replace("namespace: hub", &format!("namespace: {name}"))
    }

    /// The configuration of the document for this cluster.
    fn configuration(&self, text: &str) -> String {
        let name = &self.namespace.name;
        let mut text = self.adapted(text);
        for (written, here) in [
            ("namespace = \"hub\"", format!("namespace = \"{name}\"")),
            ("[identity]\n", "[identity]\nca = \"ca.crt\"\n".to_owned()),
            ("[labs]\n", "[labs]\nca = \"ca.crt\"\n".to_owned()),
        ] {
            assert!(text.contains(written), "{written}");
            text = text.replace(written, &here);
        }
        text
    }
}

/// Checks what the commands print that start and delete a lab.
fn check_lab(printed: &str) {
    let parts = [
        // The form.
        "name=\"size\" id=\"small\" value=\"small\" checked",
        "name=\"size\" id=\"large\"",
        // The start.
        "event: info\r\ndata: lab creation initiated for dana\r\n",
        "data: Created Kubernetes objects for user lab\r\n",
        "event: complete\r\ndata: Operation complete for dana\r\n",
        // The status, and what there is.
        "\"status\":\"running\"",
        "pod/nb-dana",
        "service/nb-dana",
        "configmap/nb-dana-nss",
        "secret/nb-dana",
        "networkpolicy.networking.k8s.io/nb-dana",
        // The end.
        "event: complete\r\ndata: Lab for dana deleted\r\n",
    ];
    let mut rest = printed;
    for part in parts {
        let found = rest.split_once(part);
        let (_, after) = found.unwrap_or_else(|| panic!("no {part:?} in its place in {printed}"));
        rest = after;
    }
    let variable = "\"JUPYTERHUB_SERVICE_PREFIX\":\"/user/dana/\"";
    assert!(printed.contains(variable), "no {variable} in {printed}");
    let is_shown = printed.contains("JUPYTERHUB_API_TOKEN");
    assert!(!is_shown, "a secret in {printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_document_lead_from_a_hub_to_a_lab_of_a_person() {
    let document = shipped("docs/labs.md");
    let [
        configure,
        install,
        hub_token,
        forward,
        try_out,
        package,
        store,
        by_hand,
        uninstall,
    ] = blocks(&document, "sh")[..]
    else {
        panic!("the document has other blocks with commands");
    };
    let [settings] = blocks(&document, "python")[..] else {
        panic!("the document has other settings of the hub");
    };
    let [configuration] = blocks(&document, "toml")[..] else {
        panic!("the document has other configurations");
    };
    let [deployment] = blocks(&document, "yaml")[..] else {
        panic!("the document has other objects");
    };
    let rig = Rig::start().await;

    rig.run(configure).await;
    let printed = rig.run(install).await;
    assert!(printed.contains("ludgate is installed"), "{printed}");
    rig.run(store).await;
    rig.run(hub_token).await;
    let ports = rig.reader.forward_ports(forward).await;
    check_lab(&rig.run(try_out).await);
    ports.stop().await;
    let note = rig.homes.path().join("dana/started");
    let note = fs::read_to_string(note).expect("a note of the lab");
    assert_eq!(note, format!("dana {UID}\n"));

    rig.run(package).await;
    rig.write("jupyterhub_config.py", settings).await;
    rig.write("read_settings.py", READ_SETTINGS).await;
    let printed = rig.run("PYTHONPATH=packages python read_settings.py").await;
    let wanted = "http://ludgate-labs:8083/nublado /run/hub-token/token access_token\n";
    assert!(printed.ends_with(wanted), "{printed}");

    rig.run("kubectl get configmap ludgate -o jsonpath='{.data.labs\\.yaml}' >labs.yaml")
        .await;
    let printed = rig.run(uninstall).await;
    assert!(printed.contains("ludgate is uninstalled"), "{printed}");

    rig.write("rights.yaml", &rig.rights()).await;
    rig.write("ludgate.toml", &rig.configuration(configuration))
        .await;
    rig.write("labs-deployment.yaml", deployment).await;
    let printed = rig.run(by_hand).await;
    assert!(printed.contains("successfully rolled out"), "{printed}");
    rig.run("kubectl delete -f labs-deployment.yaml -f rights.yaml")
        .await;
}
