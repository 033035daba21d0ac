//! The custom resources: a definition that accepts what people have, and loses nothing of it.

use ludgate::cluster::crd::{application::PhApplication, definitions, template::PhAppTemplate};
use serde_json::{Value, json};

use crate::support::process::program;

fn schema_of(kind: &str) -> Value {
    let definition = definitions()
        .into_iter()
        .find(|definition| definition.spec.names.kind == kind);
    let definition = serde_json::to_value(definition.expect("defined")).expect("JSON");
    assert_eq!(definition["spec"]["scope"], "Namespaced");
    definition["spec"]["versions"][0].clone()
}

#[test]
fn a_phapplication_is_defined_as_consoles_write_it() {
    let version = schema_of("PhApplication");
    assert_eq!(version["name"], "v1alpha1");
    assert_eq!(version["subresources"]["status"], json!({}));
    let columns: Vec<_> = version["additionalPrinterColumns"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|column| {
            (
                column["name"].as_str().expect("a name"),
                column["jsonPath"].as_str().expect("a path"),
            )
        })
        .collect();
    let expected = [
        ("Group", ".spec.groupName"),
        ("Status", ".status.phase"),
        ("Message", ".status.message"),
    ];
    assert_eq!(columns, expected);
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let required = [
        "displayName",
        "groupName",
        "instanceType",
        "podTemplate",
        "scope",
        "svcTemplate",
    ];
    assert_eq!(spec["required"], json!(required));
    // An unknown scope must reach the gateway, and be denied there.
    assert_eq!(
        (
            &spec["properties"]["scope"]["type"],
            &spec["properties"]["scope"]["enum"]
        ),
        (&json!("string"), &Value::Null)
    );
    for template in ["podTemplate", "svcTemplate"] {
        let whole = &spec["properties"][template]["properties"]["spec"];
        assert_eq!(
            whole["x-kubernetes-preserve-unknown-fields"], true,
            "{template}"
        );
        assert_eq!(spec["properties"][template]["required"], json!(["spec"]));
    }
}

#[test]
fn an_object_is_read_and_written_without_loss() {
    let written = json!({
        "apiVersion": "primehub.io/v1alpha1", "kind": "PhApplication",
        "metadata": { "name": "mlflow-x1y2z", "namespace": "hub" },
        "spec": {
            "displayName": "MLflow", "groupName": "phusers", "instanceType": "cpu-1", "scope": "group",
            "podTemplate": { "spec": { "containers": [{ "name": "a", "image": "b", "aFieldOfTomorrow": [1] }] } },
            "svcTemplate": { "spec": { "ports": [{ "name": "http", "port": 5000, "targetPort": 5000 }] } },
            "stop": false, "httpPort": 5000, "rewrite": true, "appRoot": "/",
        },
        "status": { "phase": "Ready", "message": "Deployment is ready", "serviceName": "app-mlflow-x1y2z" },
    });
    let read: PhApplication = serde_json::from_value(written.clone()).expect("an object");
    assert_eq!(serde_json::to_value(&read).expect("JSON"), written);
    let least = json!({
        "apiVersion": "primehub.io/v1alpha1", "kind": "PhApplication", "metadata": { "name": "x" },
        "spec": {
            "displayName": "", "groupName": "", "instanceType": "", "scope": "no such scope",
            "podTemplate": { "spec": {} }, "svcTemplate": { "spec": {} },
        },
    });
    let read: PhApplication = serde_json::from_value(least.clone()).expect("an object");
    assert_eq!(serde_json::to_value(&read).expect("JSON"), least);
    let template = json!({
        "apiVersion": "primehub.io/v1alpha1", "kind": "PhAppTemplate", "metadata": { "name": "mlflow" },
        "spec": {
            "name": "MLflow", "version": "v1", "defaultEnvs": [{ "name": "A", "defaultValue": "1", "optional": true }],
            "template": { "spec": { "podTemplate": { "spec": {} }, "httpPort": 5000 } },
        },
    });
    let read: PhAppTemplate = serde_json::from_value(template.clone()).expect("an object");
    assert_eq!(serde_json::to_value(&read).expect("JSON"), template);
}

#[test]
fn crd_print_writes_the_definitions_of_all_groups_or_of_one_as_yaml_documents() {
    let [apps, templates, viewers, charts, installations] = [
        "phapplications.primehub.io",
        "phapptemplates.primehub.io",
        "pvcviewers.kubeflow.org",
        "applicationdefinitions.apps.kubermatic.k8c.io",
        "applicationinstallations.apps.kubermatic.k8c.io",
    ];
    let cases: [(&[&str], &[&str]); 4] = [
        (&[], &[apps, templates, viewers, charts, installations]),
        (&["--group=primehub.io"], &[apps, templates]),
        (&["--group=kubeflow.org"], &[viewers]),
        (
            &["--group=apps.kubermatic.k8c.io"],
            &[charts, installations],
        ),
    ];
    for (group, wanted) in cases {
        let output = std::process::Command::new(program())
            .args(["crd", "print"])
            .args(group)
            .output()
            .expect("the binary runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success());
        let names: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("  name: "))
            .collect();
        assert_eq!(names, wanted, "{group:?}");
        assert_eq!(text.matches("---\n").count(), wanted.len());
    }
}
