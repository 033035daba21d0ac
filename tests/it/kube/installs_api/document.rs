//! docs/installations.md: its objects are valid, and its kubectl commands run. Its commands of
//! `ludgate`, and those of docs/installations-api.md, exist. What needs a controller is not run
//! here.

use std::process::Stdio;

use clap::Parser;
use kube::{Api, api::DynamicObject};
use ludgate::{
    cli::Cli,
    cluster::crd::{definition::ApplicationDefinition, installation::ApplicationInstallation},
};
use ludgate_installs::validation::{definition, installation, source::SourceRules};
use tokio::process::Command;

use crate::support::{
    documents::blocks,
    kube_namespace::{KubeNamespace, kind_of, kubectl},
};

const DOCUMENT: &str = include_str!("../../../../docs/installations.md");
const API_DOCUMENT: &str = include_str!("../../../../docs/installations-api.md");
/// The namespace in the document.
const NAMESPACE: &str = "apps";

/// The commands of kubectl that need no other file.
fn is_for_kubectl(block: &str) -> bool {
    block.starts_with("kubectl ") && !block.contains("edge.kubeconfig") && !block.contains("rbac/")
}

async fn run(script: &str) {
    // The cluster has the definitions already, and nothing is written into this folder.
    let left_out = [
        "kubectl apply -f config/crd/\n",
        "kubectl config view --raw --flatten --minify >admin.kubeconfig\n",
    ];
    let script = left_out
        .into_iter()
        .fold(script.to_owned(), |script, line| script.replace(line, ""));
    let output = Command::new("sh")
        .args(["-eu", "-c", &script])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .output();
    let output = output.await.expect("a shell");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{printed}");
}

#[test]
fn the_commands_of_the_terminal_exist() {
    let blocks = [DOCUMENT, API_DOCUMENT].map(|document| blocks(document, "sh"));
    let lines = blocks.into_iter().flatten().flat_map(str::lines);
    let commands: Vec<&str> = lines.filter(|line| line.starts_with("ludgate ")).collect();
    assert!(commands.len() >= 8, "{commands:?}");
    for command in commands {
        let parsed = Cli::try_parse_from(command.split_whitespace());
        assert!(parsed.is_ok(), "{command}: {:?}", parsed.err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_are_valid_and_the_commands_change_them() {
    let rig = KubeNamespace::new().await;
    let kind = kind_of::<ApplicationDefinition>();
    let definitions: Api<DynamicObject> = Api::all_with(rig.client.clone(), &kind);
    let kind = kind_of::<ApplicationInstallation>();
    let installs: Api<DynamicObject> = Api::namespaced_with(rig.client.clone(), NAMESPACE, &kind);
    let mut versions = Vec::new();
    for block in blocks(DOCUMENT, "sh")
        .into_iter()
        .filter(|block| is_for_kubectl(block))
    {
        run(block).await;
        let Some(installed) = installs.get_opt("docs").await.expect("an answer") else {
            continue;
        };
        let installed: ApplicationInstallation = installed.try_parse().expect("readable");
        let named = definitions.get("wiki").await.expect("a definition");
        let named: ApplicationDefinition = named.try_parse().expect("readable");
        assert_eq!(installation::validate_new(&installed, Some(&named)), []);
        versions.push(installed.spec.application_ref.version);
    }
    versions.dedup();
    assert_eq!(versions, ["1.0.0", "1.1.0"]);
    assert!(installs.get_opt("docs").await.expect("an answer").is_none());
    for name in ["wiki", "dashboard", "notes"] {
        let stored = definitions.get(name).await.expect("a definition");
        let stored: ApplicationDefinition = stored.try_parse().expect("readable");
        let rules = SourceRules::default();
        assert_eq!(definition::validate_new(&stored, rules), [], "{name}");
    }
    let names = ["wiki", "dashboard", "notes"];
    kubectl(
        &[&["delete", "applicationdefinition"], &names[..]].concat(),
        "",
    )
    .await;
    let namespaces = [NAMESPACE, "installs", "shared"];
    let delete = [
        &["delete", "namespace", "--wait=false"],
        namespaces.as_slice(),
    ];
    kubectl(&delete.concat(), "").await;
}
