//! docs/installations.md and docs/installations-api.md as a reader follows them: each of their
//! commands runs, and the three charts are installed with pods, one from each kind of source.
//!
//! The test does five things differently. The sources are servers of the test without TLS, and the
//! configuration permits them. Helm is that of the tests. The gateway and the API are in the
//! process of the test, with a provider of their own. The cluster's kubectl is older than
//! `x-kubernetes-validations`, so the server alone validates the definitions. And the target is the
//! same cluster.

use std::{env, time::Duration};

use kube::{Api as KubeApi, Client, api::DynamicObject};
use tempfile::TempDir;
use tokio::process::Child;

use crate::{
    real_cluster::{
        document_reader::{DocumentReader, blocks, shipped},
        labs::process::print_after_panic,
    },
    support::{
        api::{Api, PLATFORM},
        changes::{Changes, POD_PATIENCE},
        chart_repository::ChartRepository,
        git_server::GitServer,
        helm::logged_program,
        installs::{installations, is_ready},
        kube_namespace::{KubeNamespace, kubectl, try_kubectl},
        until::holds_within,
        world::{World, free_port},
    },
};

/// The namespace of the document.
const NAMESPACE: &str = "apps";
/// All of its namespaces, and that of one more application.
const NAMESPACES: [&str; 6] = [
    NAMESPACE,
    "installs",
    "shared",
    "apps-docs",
    "apps-notes",
    "apps-board",
];
const DEFINITIONS: [&str; 3] = ["wiki", "dashboard", "notes"];
/// An installation of the definition that the document only shows.
const INSTALL_DASHBOARD: &str = concat!(
    "ludgate installs install board --namespace apps --app dashboard --into apps-board --watch\n",
    "kubectl -n apps-board rollout status deployment/dashboard --timeout=120s\n",
    "ludgate installs delete board --namespace apps --watch",
);
/// A command in the text.
const ABANDON: &str =
    "kubectl -n apps annotate applicationinstallation docs ludgate.dev/abandon-release=true";
/// Longest time of the whole document for its reader.
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// What the document is followed with.
struct Rig {
    client: Client,
    reader: DocumentReader,
    repository: ChartRepository,
    git: GitServer,
    /// Helm, and the log of the controller.
    folder: TempDir,
    /// Its context is that of the reader.
    _namespace: KubeNamespace,
}

impl Rig {
    async fn start() -> Rig {
        let charts = [("wiki", "0.1.0"), ("wiki", "0.2.0"), ("dashboard", "0.1.0")];
        let namespace = KubeNamespace::new().await;
        Rig {
            client: namespace.client.clone(),
            reader: DocumentReader::new(&namespace).await,
            repository: ChartRepository::of_web_charts(&charts).await,
            git: GitServer::start("notes").await,
            folder: tempfile::tempdir().expect("a folder"),
            _namespace: namespace,
        }
    }

    async fn run(&self, commands: &str) -> String {
        let unchecked = "kubectl apply --validate=false -f config/crd/";
        let commands = commands.replace("kubectl apply -f config/crd/", unchecked);
        self.reader.run(&commands).await
    }

    /// The definitions with the sources of the test.
    fn definitions(&self, text: &str) -> String {
        let oci = format!("\"{}\", plainHTTP: true", self.repository.oci_url());
        let mut text = text.to_owned();
        for (written, here) in [
            ("https://charts.example.com/stable", self.repository.url()),
            ("\"oci://registry.example.com/charts\"", oci),
            ("https://git.example.com/charts.git", self.git.remote()),
        ] {
            assert!(text.contains(written), "no {written} in {text}");
            text = text.replace(written, &here);
        }
        text
    }

    /// Writes the configuration, and starts the controller with it.
    async fn start_controller(&self, configuration: &str, command: &str) -> Child {
        let helm = logged_program(self.folder.path()).await;
        let path = env::var("PATH").expect("a PATH");
        let mut text = configuration.to_owned();
        for (written, here) in [
            ("/usr/local/bin/helm", helm.display().to_string()),
            ("/usr/local/bin:/usr/bin:/bin", path),
        ] {
            let written = format!("\"{written}\"");
            assert!(text.contains(&written), "no {written} in {text}");
            text = text.replace(&written, &format!("\"{here}\""));
        }
        text += "\nplain_http = true\nallowed_networks = [\"127.0.0.0/8\"]\n\
                 server_side_apply = \"client\"\n[admin]\naddress = \"127.0.0.1:0\"";
        let write = format!("cat >ludgate.toml <<'END'\n{text}\nEND");
        self.reader.run(&write).await;
        let log = self.folder.path().join("controller.log");
        let script = format!("exec {command} >{} 2>&1", log.display());
        self.reader.spawn(&script)
    }

    fn changes(&self, installation: &str) -> Changes<DynamicObject> {
        Changes::named(self.api(), installation)
    }

    fn api(&self) -> KubeApi<DynamicObject> {
        KubeApi::namespaced_with(self.client.clone(), NAMESPACE, &installations())
    }

    async fn until_ready(&self, installation: &str) {
        self.changes(installation).until(is_ready).await;
    }

    async fn until_gone(&self, installation: &str) {
        let api = self.api();
        let is_gone = holds_within(POD_PATIENCE, async || {
            let found = api.get_opt(installation).await;
            found.is_ok_and(|found| found.is_none())
        });
        assert!(is_gone.await, "{installation} is not gone");
    }

    /// A gateway with the configuration of the document.
    async fn gateway(&self, configuration: &str) -> World {
        let text = format!("{configuration}\n{}", kubeconfig_key());
        World::with(&text, |_| {}).await.ready().await
    }

    /// The API, and the commands by which alice reaches it.
    async fn serve_api(&self, switch: &str) -> (Api, String) {
        let site = format!("http://127.0.0.1:{}", free_port());
        let keys = switch.strip_prefix("[api]\n").expect("keys of the API");
        let kubeconfig = env::var("KUBECONFIG").expect("a KUBECONFIG");
        let platform = format!("{keys}\n{PLATFORM}");
        let api = Api::with(NAMESPACE, kubeconfig.as_ref(), &site, &platform).await;
        for arguments in [
            "create role alice --verb=* --resource=applicationinstallations.apps.kubermatic.k8c.io",
            "create rolebinding alice --role=alice --user=alice",
        ] {
            let arguments: Vec<&str> = arguments.split(' ').collect();
            kubectl(&[&["-n", NAMESPACE], arguments.as_slice()].concat(), "").await;
        }
        let resource = "applicationinstallations.apps.kubermatic.k8c.io";
        let may = [
            "-n",
            NAMESPACE,
            "auth",
            "can-i",
            "list",
            resource,
            "--as=alice",
        ];
        let is_allowed = holds_within(POD_PATIENCE, async || try_kubectl(&may, "").await.is_ok());
        assert!(is_allowed.await, "alice has no rights");
        let token = api.provider.access_token("alice");
        let exports = format!(
            "export LUDGATE_SITE='{site}' LUDGATE_TOKEN='{token}' TOKEN='{token}'\nhub='{site}'\n"
        );
        (api, exports)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        print_after_panic(&self.folder.path().join("controller.log"));
        for (kind, names) in [
            ("namespace", NAMESPACES.as_slice()),
            ("applicationdefinition", DEFINITIONS.as_slice()),
        ] {
            let _ = std::process::Command::new("kubectl")
                .args(["delete", kind, "--wait=false", "--ignore-not-found"])
                .args(names)
                .output();
        }
    }
}

fn kubeconfig_key() -> String {
    let kubeconfig = env::var("KUBECONFIG").expect("a KUBECONFIG");
    format!("kubeconfig = \"{kubeconfig}\"\n")
}

/// Waits until alice sees a page of the gateway.
async fn until_opened(world: &World, path: &str, wanted: &str) {
    let mut alice = world.signed_in("alice").await;
    let mut page = alice.open(path).await;
    let is_open = holds_within(POD_PATIENCE, async || {
        page = alice.open(path).await;
        page.status() == 200 && page.text().trim_end() == wanted
    });
    let is_open = is_open.await;
    assert!(is_open, "{path}: {page:?}");
}

/// The blocks of code of a document in this language, which has as many as the test knows.
fn all_blocks<'t, const COUNT: usize>(text: &'t str, language: &str) -> [&'t str; COUNT] {
    let found = <[&str; COUNT]>::try_from(blocks(text, language));
    found.unwrap_or_else(|found| panic!("{} blocks in {language}, not {COUNT}", found.len()))
}

/// Checks what the commands of the terminal print.
fn check_terminal(printed: &str) {
    let mut rest = printed;
    for part in [
        "apps/docs 1.0.0 True InstallationSuccessful\n",
        "apps/docs 1.1.0 True InstallationSuccessful\n",
        "apps/docs 1.0.0 True InstallationSuccessful\n",
        "docs is deleted\n",
    ] {
        let found = rest.split_once(part);
        let (_, after) = found.unwrap_or_else(|| panic!("no {part:?} in its place in {printed}"));
        rest = after;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_document_lead_from_three_charts_to_their_apps() {
    let document = shipped("docs/installations.md");
    let api_document = shipped("docs/installations-api.md");
    let [
        prepare,
        controller,
        define,
        install,
        upgrade,
        publish,
        uninstall,
        rights,
        permit,
        credentials,
        target,
        install_there,
    ] = all_blocks(&document, "sh");
    let [api_rights, call, terminal] = all_blocks(&api_document, "sh");
    let [settings, gateway] = all_blocks(&document, "toml");
    let [api_settings] = all_blocks(&api_document, "toml");
    assert!(document.contains(ABANDON), "no {ABANDON}");
    let rig = Rig::start().await;
    let begun = std::time::Instant::now();

    // The catalogue, and an application of it by kubectl.
    rig.run(prepare).await;
    let mut running = rig.start_controller(settings, controller).await;
    rig.run(&rig.definitions(define)).await;
    rig.run(install).await;
    rig.until_ready("docs").await;
    rig.run(upgrade).await;
    rig.until_ready("docs").await;
    rig.run(publish).await;
    let world = rig.gateway(gateway).await;
    until_opened(&world, "/installs/apps/docs/", "wiki 0.2.0, dark").await;
    rig.run(uninstall).await;
    rig.until_gone("docs").await;

    rig.run(rights).await;
    rig.run(permit).await;
    rig.run(credentials).await;

    // A target.
    let edge = "kubectl config view --raw --flatten --minify >edge.kubeconfig";
    rig.run(&format!("{edge}\n{target}")).await;
    rig.run(install_there).await;
    rig.until_ready("notes").await;
    rig.run("kubectl -n apps-notes rollout status deployment/notes --timeout=120s")
        .await;

    // The API, and the terminal.
    rig.run(api_rights).await;
    let (_api, exports) = rig.serve_api(api_settings).await;
    let call = call.replace("https://hub.example.com", "$hub");
    let printed = rig.run(&format!("{exports}{call}")).await;
    assert!(printed.contains("\"name\":\"notes\""), "{printed}");
    check_terminal(&rig.run(&format!("{exports}{terminal}")).await);
    let printed = rig.run(&format!("{exports}{INSTALL_DASHBOARD}")).await;
    assert!(printed.contains("successfully rolled out"), "{printed}");

    // A release that outlives its installation.
    rig.run(install).await;
    rig.until_ready("docs").await;
    rig.run(&format!("{ABANDON}\n{uninstall}")).await;
    rig.until_gone("docs").await;
    rig.run("kubectl -n apps-docs rollout status deployment/wiki --timeout=120s")
        .await;

    rig.run("kubectl -n apps delete applicationinstallation notes --wait=false")
        .await;
    rig.until_gone("notes").await;
    let took = begun.elapsed();
    println!("the document took {took:?}");
    assert!(took < TEN_MINUTES, "{took:?}");
    running.kill().await.expect("it ends");
}
