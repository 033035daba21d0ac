//! The routes of file servers, of a whole process of labs with the shipped rights: a person opens
//! files, and an administrator ends the server.

use std::net::SocketAddr;

use ludgate::{
    demo::provider::DemoProvider,
    model::clock::Clock,
    run::labs::{LabsIdentity, RunningLabs, start_labs},
    settings,
};

use crate::support::{
    changes::POD_PATIENCE, file_servers::ACCOUNT, kube_namespace::KubeNamespace, message::Message,
    raw::Raw, until::holds_within, world::client,
};

/// The Job, the pod and the Service of alice's server.
const SERVER: &str = "alice-fs";
const USERS: &str = "/nublado/fileserver/v1/users";

/// A process of labs, and the people of its provider. `carol` is an administrator.
struct FileRoutes {
    namespace: KubeNamespace,
    provider: DemoProvider,
    running: RunningLabs,
    _folder: tempfile::TempDir,
}

impl FileRoutes {
    async fn start() -> FileRoutes {
        let provider = DemoProvider::start(client("127.0.0.1"), Clock::system()).await;
        let provider = provider.expect("started");
        for claim in ["uid", "gid"] {
            provider.set_claim("alice", claim, 1101.into());
        }
        let namespace = KubeNamespace::new().await;
        namespace.grant("labs.yaml").await;
        let kubeconfig = namespace.kubeconfig_of(ACCOUNT).await;
        let folder = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: String| {
            std::fs::write(folder.path().join(file), text).expect("written");
        };
        write("labs.yaml", labs_yaml(&namespace.name));
        write(
            "ludgate.toml",
            format!(
                "[site]\nurl = \"https://hub.example.com\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
                 [kubernetes]\nnamespace = \"{}\"\nkubeconfig = \"{}\"\n\
                 [identity]\nissuer = \"{}\"\nclient_id = \"ludgate\"\n\
                 [labs]\naddress = \"127.0.0.1:0\"\nconfig = \"labs.yaml\"\ndialect = \"nublado\"\n\
                 helper_image = \"example/helper:1\"\nscopes = {{ admin = [\"name:carol\"] }}\n",
                namespace.name,
                kubeconfig.display(),
                provider.issuer(),
            ),
        );
        let read = settings::load_labs(&folder.path().join("ludgate.toml"));
        let read = read.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let identity = LabsIdentity {
            lease: "test".to_owned(),
            pod: None,
        };
        let running = start_labs(read, identity, Clock::system()).await;
        FileRoutes {
            namespace,
            provider,
            running: running.expect("started"),
            _folder: folder,
        }
    }

    /// A request of a person; `start` is such as `GET /files`.
    async fn call(&self, start: &str, person: &str) -> Message {
        let token = self.provider.access_token(person);
        let line = format!("Authorization: Bearer {token}\r\n");
        exchange(self.running.address, start, &line).await
    }

    /// Opens the files of alice, as soon as the process leads.
    async fn open_files(&self) -> Message {
        let mut page = Message::default();
        let is_answered = holds_within(POD_PATIENCE, async || {
            page = self.call("GET /files", "alice").await;
            page.status() != 503
        });
        assert!(is_answered.await, "{}", page.text());
        page
    }

    /// Waits until the server of alice runs, as an administrator sees it.
    async fn until_known(&self, is_running: bool) {
        let wanted = match is_running {
            true => 200,
            false => 404,
        };
        let path = format!("GET {USERS}/alice");
        let is_so = holds_within(POD_PATIENCE, async || {
            self.call(&path, "carol").await.status() == wanted
        });
        assert!(is_so.await, "not {wanted} for {path}");
    }
}

/// One request on a connection of its own.
async fn exchange(address: SocketAddr, start: &str, more: &str) -> Message {
    let request = format!("{start} HTTP/1.1\r\nHost: {address}\r\n{more}Connection: close\r\n\r\n");
    Raw::exchange(address, request).await
}

/// The configuration: file servers with a volume of their own.
fn labs_yaml(namespace: &str) -> String {
    format!(
        r"
baseUrl: https://hub.example.com
lab:
  namespacePrefix: {namespace}
  sizes:
    - size: small
      resources:
        limits: {{ cpu: 1, memory: 3Gi }}
        requests: {{ cpu: 250m, memory: 1Gi }}
  volumes:
    - name: home
      source: {{ type: nfs, server: nfs.test, serverPath: /home }}
    - name: scratch
      source:
        type: persistentVolumeClaim
        storageClassName: none
        accessModes: [ReadWriteMany]
        resources: {{ requests: {{ storage: 1Gi }} }}
images:
  source: {{ type: docker, registry: '127.0.0.1:9', repository: example/lab }}
fileserver:
  enabled: true
  namespace: {namespace}
  creationTimeout: 120
  volumeMounts:
    - {{ containerPath: /scratch, volumeName: scratch }}
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_opens_files_and_an_administrator_ends_the_server() {
    let labs = FileRoutes::start().await;
    let anonymous = exchange(labs.running.address, "GET /files", "");
    assert_eq!(anonymous.await.status(), 401);
    labs.until_known(false).await;

    let namespace = &labs.namespace;
    let starting = async {
        let job = namespace.until_job(SERVER).await;
        namespace.make_pod_of(&job).await;
        namespace.set_pod_phase(SERVER, "Running").await;
    };
    let (page, ()) = tokio::join!(labs.open_files(), starting);
    assert_eq!(page.status(), 200, "{}", page.text());
    let link = "https://hub.example.com/files/alice";
    assert!(page.text().contains(link), "{}", page.text());
    labs.until_known(true).await;
    let own = labs.call("GET /nublado/fileserver/v1/user-status", "alice");
    assert_eq!(own.await.json()["running"], true);

    // A person is no administrator.
    let path = format!("DELETE {USERS}/alice");
    assert_eq!(labs.call(&path, "alice").await.status(), 403);
    let ended = labs.call(&path, "carol").await;
    assert_eq!(ended.status(), 204, "{}", ended.text());
    labs.until_known(false).await;
    assert_eq!(namespace.file_server_objects().await, "");
}
