//! `ludgate explain` beside a running gateway: the real groups of a person, and a real connection
//! to the app.

use std::process::{Command, Output};

use ludgate::model::secret::Secret;

use crate::support::{
    backend::refused_port,
    process::program,
    world::{ADMIN_TOKEN, World},
};

/// Runs the command to its end.
async fn explain(arguments: Vec<String>) -> Output {
    let run = move || {
        Command::new(program())
            .arg("explain")
            .args(arguments)
            .output()
            .expect("the binary runs")
    };
    tokio::task::spawn_blocking(run).await.expect("no panic")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_connects_to_the_app_and_names_what_is_wrong() {
    let world = World::new().await;
    let dead = refused_port().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ludgate.toml");
    let app = |id: &str, upstream: String| {
        format!("[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = \"{upstream}\"\n")
    };
    let alive = world.backend("pub").address();
    let toml = app("alive", format!("http://{alive}")) + &app("dead", format!("http://{dead}"));
    std::fs::write(&file, toml).expect("written");
    for (path, code, wanted) in [
        (
            "/apps/alive/x",
            0,
            format!("connect   http://{alive} accepts connections"),
        ),
        (
            "/apps/dead/x",
            1,
            format!("connect   http://{dead}: upstream_refused: "),
        ),
        ("/apps/none/x", 0, "connect   not tried".to_owned()),
    ] {
        let config = file.display().to_string();
        let arguments = ["--connect", "--config", &config, path].map(str::to_owned);
        let output = explain(arguments.into()).await;
        let said = text(&output.stdout);
        assert!(said.contains(&wanted), "{path}: {said}");
        assert_eq!(output.status.code(), Some(code), "{path}: {said}");
    }
    assert_eq!(world.backend("pub").count(), 0, "no request is sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_takes_the_groups_that_a_running_gateway_knows() {
    let world = World::with("", |settings| {
        settings.admin.token = Some(Secret::new(ADMIN_TOKEN));
    })
    .await
    .ready()
    .await;
    world.signed_in("alice").await;
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let upstream = world.backend("grp").address();
    let toml = format!(
        "[[apps]]\nid = \"grp\"\naccess = \"group:phusers\"\nupstream = \"http://{upstream}\"\n\
         [[apps]]\nid = \"oth\"\naccess = \"group:other\"\nupstream = \"http://{upstream}\"\n"
    );
    std::fs::write(at("ludgate.toml"), toml).expect("written");
    std::fs::write(at("token"), format!("{ADMIN_TOKEN}\n")).expect("written");
    std::fs::write(at("wrong"), "wrong").expect("written");
    let admin = format!("http://{}", world.running.admin);
    for (path, subject, token, code, wanted) in [
        ("/apps/grp/", "alice", "token", 0, "decision  allow (group)"),
        (
            "/apps/oth/",
            "alice",
            "token",
            0,
            "decision  deny (not_in_group)",
        ),
        ("/apps/grp/", "bob", "token", 1, "bob is not signed in"),
        ("/apps/grp/", "alice", "wrong", 1, "refuses the token"),
    ] {
        let (config, token) = (at("ludgate.toml"), at(token));
        let arguments = [
            "--config",
            &config,
            "--admin",
            &admin,
            "--admin-token-file",
            &token,
            "--subject",
            subject,
            path,
        ];
        let output = explain(arguments.map(str::to_owned).into()).await;
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains(wanted), "{path} {subject}: {said}");
        assert_eq!(output.status.code(), Some(code), "{path} {subject}: {said}");
        assert!(!said.contains(ADMIN_TOKEN), "{said}");
    }
}
