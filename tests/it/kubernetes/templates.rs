//! The shipped templates of apps, and the command that checks templates.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::support::process::program;

/// What a template must say.
struct Facts {
    name: &'static str,
    title: &'static str,
    version: &'static str,
    image: &'static str,
    port: u16,
    /// The prefix is removed before a request is forwarded.
    rewrite: bool,
    /// The variables that people are asked for.
    variables: &'static [&'static str],
}

const SHIPPED: [Facts; 11] = [
    Facts {
        name: "code-server",
        title: "Code Server",
        version: "v4.91.1",
        image: "codercom/code-server:4.91.1",
        port: 8080,
        rewrite: true,
        variables: &[],
    },
    Facts {
        name: "dagster",
        title: "Dagster",
        version: "v1.8.0",
        image: "infuseai/primehub-apps:dagster-v1.8.0",
        port: 3000,
        rewrite: false,
        variables: &["DAGSTER_PYTHON_FILE", "DAGSTER_HOME"],
    },
    Facts {
        name: "filebrowser",
        title: "File Browser",
        version: "v2.30.0",
        image: "filebrowser/filebrowser:v2.30.0",
        port: 80,
        rewrite: false,
        variables: &["FB_BASEURL", "FB_ROOT", "FB_USERNAME", "FB_PASSWORD"],
    },
    Facts {
        name: "label-studio-1.13.0",
        title: "Label Studio",
        version: "1.13.0",
        image: "heartexlabs/label-studio:1.13.0",
        port: 8080,
        rewrite: true,
        variables: &[
            "DEFAULT_USERNAME",
            "DEFAULT_PASSWORD",
            "LABEL_STUDIO_BASE_DATA_DIR",
            "LOCAL_FILES_SERVING_ENABLED",
            "DISABLE_SIGNUP_WITHOUT_LINK",
        ],
    },
    Facts {
        name: "matlab",
        title: "Matlab",
        version: "r2020b",
        image: "nvcr.io/partners/matlab:r2020b",
        port: 6080,
        rewrite: true,
        variables: &[],
    },
    Facts {
        name: "mlflow-1.30.1",
        title: "MLflow 1",
        version: "v1.30.1",
        image: "infuseai/primehub-apps:mlflow-server-v1.30.1",
        port: 5000,
        rewrite: false,
        variables: &["BACKEND_STORE_URI", "DEFAULT_ARTIFACT_ROOT"],
    },
    Facts {
        name: "mlflow-2.20.3",
        title: "MLflow 2",
        version: "v2.20.3",
        image: "infuseai/primehub-apps:mlflow-server-v2.20.3",
        port: 5000,
        rewrite: false,
        variables: &["BACKEND_STORE_URI", "DEFAULT_ARTIFACT_ROOT"],
    },
    Facts {
        name: "ngc-rapids-notebooks-24.06-cuda-11.8-py-3.11",
        title: "NGC RAPIDS Notebooks (CUDA 11.8)",
        version: "24.06-cuda11.8-py3.11",
        image: "nvcr.io/nvidia/rapidsai/notebooks:24.06-cuda11.8-py3.11",
        port: 8888,
        rewrite: false,
        variables: &[],
    },
    Facts {
        name: "ngc-rapids-notebooks-24.06-cuda-12.2-py-3.11",
        title: "NGC RAPIDS Notebooks (CUDA 12.2)",
        version: "24.06-cuda12.2-py3.11",
        image: "nvcr.io/nvidia/rapidsai/notebooks:24.06-cuda12.2-py3.11",
        port: 8888,
        rewrite: false,
        variables: &[],
    },
    Facts {
        name: "sqlpad",
        title: "sqlpad",
        version: "v7.4.4",
        image: "sqlpad/sqlpad:7.4.4",
        port: 3000,
        rewrite: false,
        variables: &["SQLPAD_ADMIN", "SQLPAD_ADMIN_PASSWORD"],
    },
    Facts {
        name: "streamlit",
        title: "Streamlit",
        version: "v1.37.0",
        image: "infuseai/primehub-apps:streamlit-v1.37.0",
        port: 8501,
        rewrite: false,
        variables: &["FILE_PATH"],
    },
];

struct Output {
    code: Option<i32>,
    out: String,
    err: String,
}

fn check(arguments: &[&str]) -> Output {
    let output = Command::new(program())
        .args(["template", "check"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Output {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// The files of config/templates, with their content.
fn shipped() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/templates");
    let entries = fs::read_dir(folder).expect("the folder");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let read = files.into_iter().map(|file| {
        let text = fs::read_to_string(&file).expect("a text");
        let content = serde_saphyr::from_str(&text).expect("YAML");
        (file.display().to_string(), content)
    });
    read.collect()
}

#[test]
fn every_shipped_template_is_valid_and_keeps_its_facts() {
    let shipped = shipped();
    let files: Vec<&str> = shipped.iter().map(|(file, _)| file.as_str()).collect();
    let output = check(&files);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""));
    assert_eq!(output.out.lines().count(), SHIPPED.len());
    for facts in SHIPPED {
        let name = facts.name;
        let mut found = shipped.iter().map(|(_, template)| template);
        let template = found
            .find(|template| template["metadata"]["name"] == name)
            .expect("shipped");
        let spec = &template["spec"];
        assert_eq!(
            (&spec["name"], &spec["version"]),
            (&json!(facts.title), &json!(facts.version))
        );
        let asked = spec["defaultEnvs"].as_array().cloned().unwrap_or_default();
        let asked: Vec<_> = asked.iter().map(|variable| &variable["name"]).collect();
        assert_eq!(asked, facts.variables.to_vec(), "{name}");
        let app = &spec["template"]["spec"];
        let container = &app["podTemplate"]["spec"]["containers"][0];
        assert_eq!(container["image"], facts.image);
        assert_eq!(app["httpPort"], facts.port, "{name}");
        let port = json!([{ "name": "http", "containerPort": facts.port }]);
        assert_eq!(container["ports"], port, "{name}");
        let port = json!([{ "name": "http", "port": facts.port, "targetPort": "http" }]);
        assert_eq!(app["svcTemplate"]["spec"]["ports"], port, "{name}");
        let probe = &container["readinessProbe"]["tcpSocket"];
        assert_eq!(probe, &json!({ "port": "http" }), "{name}");
        assert_eq!(app["rewrite"] == true, facts.rewrite, "{name}");
    }
}

#[test]
fn every_mistake_of_all_files_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write(
        "two.yaml",
        "apiVersion: primehub.io/v1alpha1\nkind: PhAppTemplate\nmetadata: {name: first}\n\
         spec: {name: First, version: 1.7}\n---\n\
         apiVersion: primehub.io/v1alpha1\nkind: Deployment\nmetadata: {name: second}\n\
         spec: {name: Second, template: {spec: {podTemplate: {spec: {containers: [{name: a, image: x, comand: [a]}]}}, svcTemplate: {spec: {}}}}}\n",
    );
    write("broken.yaml", "kind: [PhAppTemplate\n");
    write("empty.yaml", "");
    let output = check(&[
        &path("two.yaml"),
        &path("broken.yaml"),
        &path("empty.yaml"),
        &path("absent.yaml"),
    ]);
    assert_eq!((output.code, output.out.as_str()), (Some(2), ""));
    let lines: Vec<&str> = output.err.lines().collect();
    for wanted in [
        "two.yaml: first: spec.version: is not text; put it in quotes",
        "two.yaml: second: kind: must be PhAppTemplate",
        "two.yaml: second: spec.template.spec.podTemplate.spec.containers[0].comand: unknown field",
        "empty.yaml: has no template",
        "absent.yaml: No such file",
    ] {
        assert!(lines.iter().any(|line| line.contains(wanted)), "{lines:?}");
    }
    assert!(lines.iter().any(|line| line.contains("broken.yaml: ")));
    let (file, _) = shipped().swap_remove(0);
    let twice = check(&[&file, &file]);
    assert_eq!((twice.code, twice.out.lines().count()), (Some(2), 1));
    let wanted = "code-server: metadata.name: is the name of an earlier template";
    assert!(twice.err.contains(wanted), "{}", twice.err);
}

#[test]
fn a_configuration_grants_rights_to_templates() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let (_, mut template) = shipped().swap_remove(0);
    template["spec"]["template"]["spec"]["podTemplate"]["spec"]["hostNetwork"] = true.into();
    let template = file("template.yaml", &template.to_string());
    let config = file(
        "ludgate.toml",
        "[site]\nurl = \"https://hub.example.com\"\n[kubernetes]\nnamespace = \"hub\"\n\
         [controller.applications]\nallowed_pod_rights = [\"host_namespaces\"]\n",
    );
    let refused = check(&[&template]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.err.contains("not allowed: hostNetwork"),
        "{}",
        refused.err
    );
    let allowed = check(&["--config", &config, &template]);
    assert_eq!((allowed.code, allowed.err.as_str()), (Some(0), ""));
}
