//! The configuration is read again while the gateway runs: it takes effect whole or not at all,
//! and sessions and streams that are still allowed go on.

use std::{path::Path, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

use ludgate::{catalog::snapshot::Snapshot, model::access::Access, settings};

use crate::support::{
    backend::Backend,
    kubernetes_api::{Fault, KubernetesApi, RequestKind, SLICES},
    message::{Message, PATIENCE},
    process::program,
    raw::Raw,
    world::{World, free_port},
};

#[tokio::test(flavor = "multi_thread")]
async fn other_apps_are_published_at_once_and_sessions_and_streams_of_the_rest_go_on() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let (mut kept, mut gone, mut narrowed) = (
        world.websocket(&alice, "grp").await,
        world.websocket(&alice, "usr").await,
        world.websocket(&alice, "strip").await,
    );
    let apps = |text: &str| {
        let whole =
            format!("[identity]\nissuer = \"http://127.0.0.1:9\"\nclient_id = \"x\"\n{text}");
        settings::parse(&whole, Path::new("."), std::iter::empty())
            .expect("settings")
            .apps
    };
    let app = |id: &str, access: &str| {
        let upstream = world.backend("grp").address();
        format!(
            "[[apps]]\nid = \"{id}\"\naccess = \"{access}\"\nupstream = \"http://{upstream}\"\n"
        )
    };
    world.running.replace_apps(apps(
        &[
            app("grp", "group:phusers"),
            app("strip", "group:other"),
            app("new", "user"),
        ]
        .concat(),
    ));
    assert_eq!(gone.farewell().await, Some(1008), "an app that is gone");
    assert_eq!(
        narrowed.farewell().await,
        Some(1008),
        "an app that is hers no longer"
    );
    assert!(kept.carries().await, "an app that is as it was");
    assert_eq!(
        alice.open("/apps/new/").await.status(),
        200,
        "her sign-in goes on"
    );
    assert_eq!(alice.open("/apps/usr/").await.status(), 404);
    assert_eq!(alice.open("/apps/strip/").await.status(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn apps_of_the_file_change_beside_those_of_a_cluster_and_come_before_them() {
    let api = KubernetesApi::start().await;
    api.app("theirs", "public", json!({}));
    api.app("both", "public", json!({}));
    let world = api.world("").await;
    let access =
        |snapshot: &Snapshot, id: &str| snapshot.find(id).map(|app| app.spec.access.kind());
    assert_eq!(
        access(&world.running.internals().snapshot(), "both"),
        Some("public")
    );
    let text = "[[apps]]\nid = \"both\"\naccess = \"public\"\nupstream = \"http://127.0.0.1:9\"\n";
    let mut apps = settings::parse(text, Path::new("."), std::iter::empty())
        .expect("settings")
        .apps;
    apps[0].access = Access::User;
    world.running.replace_apps(apps);
    world
        .until(|snapshot| access(snapshot, "both") == Some("user"))
        .await;
    let now = world.running.internals().snapshot();
    assert_eq!(
        (access(&now, "theirs"), access(&now, "grp")),
        (Some("public"), None)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_of_the_file_is_narrowed_also_while_the_cluster_has_not_told_its_apps() {
    let api = KubernetesApi::start().await;
    api.script(RequestKind::List(SLICES), 1, Fault::Hang);
    let world = api.gateway("").await;
    let text = "[[apps]]\nid = \"pub\"\naccess = \"public\"\nupstream = \"http://127.0.0.1:9\"\n";
    let mut apps = settings::parse(text, Path::new("."), std::iter::empty())
        .expect("settings")
        .apps;
    apps[0].access = Access::User;
    let status = async |app: &str| {
        world
            .exchange(&format!("GET /apps/{app}/ HTTP/1.1\r\nHost: HOST\r\n\r\n"))
            .await
            .status()
    };
    assert_eq!(status("pub").await, 200);
    world.running.replace_apps(apps);
    assert_eq!(status("pub").await, 401);
    assert_eq!(
        status("theirs").await,
        503,
        "it is still not known what there is"
    );
}

/// `ludgate gateway` with a file of the test's own.
struct Process {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
    port: u16,
    admin: u16,
    folder: tempfile::TempDir,
}

impl Process {
    async fn start(apps: &str) -> Process {
        let (port, admin, folder) = (
            free_port(),
            free_port(),
            tempfile::tempdir().expect("a folder"),
        );
        let mut process = {
            write(folder.path(), port, admin, apps);
            let mut child = Command::new(program())
                .args(["gateway", "--config"])
                .arg(folder.path().join("ludgate.toml"))
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .expect("it runs");
            let said = BufReader::new(child.stderr.take().expect("piped")).lines();
            Process {
                child,
                said,
                port,
                admin,
                folder,
            }
        };
        process.until_said("listening").await;
        process
    }

    fn write(&self, apps: &str) {
        write(self.folder.path(), self.port, self.admin, apps);
    }

    fn hang_up(&self) {
        self.signal("-HUP");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().expect("it runs").to_string();
        let sent = std::process::Command::new("kill")
            .args([name, &id])
            .status()
            .expect("kill");
        assert!(sent.success());
    }

    /// Waits for a diagnostic line with this text.
    async fn until_said(&mut self, wanted: &str) -> Value {
        let found = async {
            loop {
                let line = self
                    .said
                    .next_line()
                    .await
                    .expect("readable")
                    .expect("it runs");
                if line.contains(wanted) {
                    return serde_json::from_str(&line).expect("JSON");
                }
            }
        };
        tokio::time::timeout(PATIENCE, found)
            .await
            .unwrap_or_else(|_| panic!("never said: {wanted}"))
    }

    async fn get(&self, port: u16, path: &str) -> Message {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
        Raw::exchange(([127, 0, 0, 1], port).into(), request).await
    }

    async fn status(&self, path: &str) -> u16 {
        self.get(self.port, path).await.status()
    }
}

fn write(folder: &Path, port: u16, admin: u16, apps: &str) {
    let text = format!(
        "[listen]\naddress = \"127.0.0.1:{port}\"\n[admin]\naddress = \"127.0.0.1:{admin}\"\n\
         [site]\nurl = \"http://127.0.0.1:{port}\"\n{apps}"
    );
    // As editors and controllers do it: another file in its place.
    std::fs::write(folder.join("next"), text).expect("written");
    std::fs::rename(folder.join("next"), folder.join("ludgate.toml")).expect("renamed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_put_in_force_and_a_bad_one_changes_nothing() {
    let backend = Backend::start("any").await;
    let app = |id: &str| {
        format!(
            "[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
            backend.address()
        )
    };
    let mut process = Process::start(&app("one")).await;
    assert_eq!(
        (
            process.status("/apps/one/").await,
            process.status("/apps/two/").await
        ),
        (200, 404)
    );
    // By itself, within seconds.
    process.write(&app("two"));
    process.until_said("reloaded the configuration").await;
    assert_eq!(
        (
            process.status("/apps/one/").await,
            process.status("/apps/two/").await
        ),
        (404, 200)
    );
    // Every mistake is told, and nothing changes.
    process.write("[[apps]]\nid = \"UPPER\"\naccess = \"none\"\nupstream = \"x\"\n");
    process.hang_up();
    let said = process.until_said("cannot reload the configuration").await["mistakes"]
        .as_str()
        .expect("mistakes")
        .to_owned();
    assert!(
        said.contains("apps[0].id")
            && said.contains("apps[0].access")
            && said.contains("3 mistakes"),
        "{said}"
    );
    assert_eq!(process.status("/apps/two/").await, 200);
    let metrics = process.get(process.admin, "/metrics").await.text();
    assert!(
        metrics.contains("ludgate_config_last_reload_success 0"),
        "{metrics}"
    );
    let ready = process.get(process.admin, "/readyz?verbose").await;
    assert!(
        ready.status() == 200
            && ready
                .text()
                .contains("the previous configuration is in force"),
        "{}",
        ready.text()
    );
    // What needs a restart is named; the apps are in force.
    process.write(&format!("{}[session]\nidle = \"10m\"\n", app("three")));
    process.hang_up();
    let said = process
        .until_said("reloaded the apps of the configuration")
        .await;
    assert_eq!(said["needs_restart"], "session");
    assert_eq!(
        (
            process.status("/apps/two/").await,
            process.status("/apps/three/").await
        ),
        (404, 200)
    );
    let metrics = process.get(process.admin, "/metrics").await.text();
    assert!(
        metrics.contains("ludgate_config_last_reload_success 1"),
        "{metrics}"
    );
    // A file that is gone is a bad one.
    std::fs::remove_file(process.folder.path().join("ludgate.toml")).expect("removed");
    process.hang_up();
    process.until_said("cannot reload the configuration").await;
    assert_eq!(process.status("/apps/three/").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_told_to_stop_takes_connections_until_proxies_know() {
    let backend = Backend::start("any").await;
    let app = format!(
        "[[apps]]\nid = \"one\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
        backend.address()
    );
    let mut process = Process::start(&format!("[limits]\nstop_grace = \"1s\"\n{app}")).await;
    assert_eq!(process.get(process.admin, "/readyz").await.status(), 200);
    process.signal("-TERM");
    process.until_said("still accepting connections").await;
    assert_eq!(process.get(process.admin, "/readyz").await.status(), 503);
    assert_eq!(process.status("/apps/one/").await, 200);
    let ended = tokio::time::timeout(PATIENCE, process.child.wait())
        .await
        .expect("it ends");
    assert_eq!(ended.expect("an exit").code(), Some(0));
}
