//! The API writes PhApplications for people who may, and nothing else. No controller runs here.

mod command_line;
mod device_code;
mod documents;
mod groups;
mod hanging;
mod logs;
mod template_import;
mod through_gateway;
mod tokens;

use serde_json::{Value, json};

use crate::support::{
    api::{Api, PLATFORM},
    kube_namespace::{KubeNamespace, application, phapplications},
    world::World,
};

const CREATE: &str = "mutation Create($data: PhApplicationCreateInput!) { createPhApplication(data: $data) { id status stop } }";
const UPDATE: &str = "mutation Update($where: PhApplicationWhereUniqueInput!, $data: PhApplicationUpdateInput!) { updatePhApplication(where: $where, data: $data) { id scope env { name value } } }";
const LIST: &str = "query List($where: PhApplicationWhereInput, $first: Int, $after: String) { phApplicationsConnection(where: $where, first: $first, after: $after) { pageInfo { hasNextPage endCursor } edges { cursor node { id groupName } } } }";
const GET: &str = "query Get($where: PhApplicationWhereUniqueInput!) { phApplication(where: $where) { id displayName appName appVersion appIcon appDefaultEnv { name } appTemplate { id name docLink description template } groupName instanceType instanceTypeSpec { name displayName cpuLimit memoryLimit gpuLimit } scope appUrl internalAppUrl svcEndpoints env { name value } stop status message pods { logEndpoint } } }";

/// A namespace with a template.
async fn namespace() -> KubeNamespace {
    let namespace = KubeNamespace::new().await;
    let template = json!({
        "apiVersion": "primehub.io/v1alpha1",
        "kind": "PhAppTemplate",
        "metadata": { "name": "mlflow" },
        "spec": {
            "name": "MLflow",
            "version": "v2",
            "icon": "data:image/png;base64,AAAA",
            "defaultEnvs": [{ "name": "STORE", "defaultValue": "sqlite" }],
            "template": { "spec": {
                "podTemplate": { "spec": { "containers": [{
                    "name": "mlflow",
                    "image": "mlflow:2",
                    "env": [{ "name": "A", "value": "1" }],
                }] } },
                "svcTemplate": { "spec": { "ports": [{ "port": 5000 }] } },
                "httpPort": 5000,
            } },
        },
    });
    namespace
        .kubectl(&["apply", "-f", "-"], &template.to_string())
        .await;
    namespace
}

fn new_app(id: &str, group: &str) -> Value {
    json!({ "data": {
        "templateId": "mlflow",
        "id": id,
        "displayName": format!("The {id}"),
        "groupName": group,
        "instanceType": "cpu-1",
        "scope": "group",
        "env": [{ "name": "B", "value": "2", "required": true }],
    } })
}

fn named(id: &str) -> Value {
    json!({ "where": { "id": id } })
}

async fn ids(api: &Api, person: &str, filter: Value) -> Vec<String> {
    let listed = api.data(person, LIST, json!({ "where": filter })).await;
    let edges = listed["phApplicationsConnection"]["edges"].as_array();
    let ids = edges
        .expect("a list")
        .iter()
        .map(|edge| &edge["node"]["id"]);
    ids.map(|id| id.as_str().expect("an id").to_owned())
        .collect()
}

impl KubeNamespace {
    /// An app, as it is stored.
    async fn object(&self, id: &str) -> Value {
        let api = self.api(&phapplications());
        serde_json::to_value(api.get(id).await.expect("an app")).expect("JSON")
    }

    /// The spec of an app, as it is stored.
    async fn stored(&self, id: &str) -> Value {
        self.object(id).await["spec"].clone()
    }
}

impl World {
    /// Asks the API behind this gateway as a person.
    async fn graphql(&self, person: &str, query: &str, variables: Value) -> Value {
        let token = self.provider.access_token(person);
        let body = json!({ "query": query, "variables": variables }).to_string();
        let length = body.len();
        let request = format!(
            "POST /api/graphql HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.exchange(&request).await.json()
    }
}

/// A mutation that needs the id of an app only.
fn mutation(verb: &str) -> String {
    format!(
        "mutation($where: PhApplicationWhereUniqueInput!) {{ {verb}PhApplication(where: $where) {{ id groupName stop }} }}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_made_changed_stopped_started_and_deleted() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let made = api.data("alice", CREATE, new_app("lab", "phusers")).await;
    let wanted = json!({ "id": "lab", "status": "Starting", "stop": false });
    assert_eq!(made["createPhApplication"], wanted);
    let spec = namespace.stored("lab").await;
    assert_eq!(
        spec["podTemplate"]["spec"]["containers"][0]["env"],
        json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }])
    );
    namespace
        .status(
            "lab",
            json!({ "phase": "Ready", "message": "x", "serviceName": "app-lab" }),
        )
        .await;
    let seen = api.data("alice", GET, named("lab")).await["phApplication"].clone();
    for (field, wanted) in [
        ("displayName", json!("The lab")),
        ("appName", json!("mlflow")),
        ("appVersion", json!("v2")),
        ("appIcon", json!("data:image/png;base64,AAAA")),
        ("appUrl", json!("https://hub.example.com/apps/lab")),
        ("internalAppUrl", json!("http://app-lab:5000/apps/lab")),
        ("svcEndpoints", json!(["app-lab:5000"])),
        ("env", json!([{ "name": "B", "value": "2" }])),
        ("status", json!("Ready")),
        ("pods", json!([])),
        ("appDefaultEnv", json!([{ "name": "STORE" }])),
        (
            "instanceTypeSpec",
            json!({ "name": "cpu-1", "displayName": "cpu-1", "cpuLimit": 0.5, "memoryLimit": 0.5, "gpuLimit": 0 }),
        ),
    ] {
        assert_eq!(seen[field], wanted, "{field}");
    }
    let change = json!({ "where": { "id": "lab" }, "data": { "env": [], "scope": "public" } });
    let changed = api.data("alice", UPDATE, change).await;
    let wanted = json!({ "id": "lab", "scope": "public", "env": [] });
    assert_eq!(changed["updatePhApplication"], wanted);
    for (verb, stop) in [("stop", true), ("start", false)] {
        api.data("alice", &mutation(verb), named("lab")).await;
        assert_eq!(namespace.stored("lab").await["stop"], stop);
    }
    let delete = mutation("delete");
    let deleted = api.data("alice", &delete, named("lab")).await;
    assert_eq!(deleted["deletePhApplication"]["groupName"], "phusers");
    let gone = api.error("alice", &delete, named("lab")).await;
    let wanted = "phapplications.primehub.io \"lab\" not found";
    assert_eq!(gone, ("RESOURCE_NOT_FOUND".to_owned(), wanted.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_of_another_group_is_like_one_that_does_not_exist() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    api.data("alice", CREATE, new_app("hers", "phusers")).await;
    api.data("bob", CREATE, new_app("theirs", "friends")).await;
    assert_eq!(ids(&api, "bob", json!({})).await, ["theirs"]);
    assert_eq!(ids(&api, "alice", json!({})).await, ["hers", "theirs"]);
    assert_eq!(ids(&api, "carol", json!({})).await, ["hers", "theirs"]);
    let foreign = json!({ "groupName_in": ["phusers"] });
    assert!(ids(&api, "bob", foreign).await.is_empty());
    assert!(
        ids(&api, "alice", json!({ "groupName_in": [] }))
            .await
            .is_empty()
    );
    let change = json!({ "where": { "id": "hers" }, "data": { "scope": "public" } });
    let update = api.error("bob", UPDATE, change).await;
    let verbs = ["start", "stop", "delete"].map(mutation);
    let wanted = (
        "RESOURCE_NOT_FOUND".to_owned(),
        "phapplications.primehub.io \"hers\" not found".to_owned(),
    );
    assert_eq!(update, wanted);
    for operation in verbs.iter().map(String::as_str).chain([GET]) {
        assert_eq!(
            api.error("bob", operation, named("hers")).await,
            wanted,
            "{operation}"
        );
    }
    let listed = json!({ "where": { "id": "hers", "groupName_in": ["phusers"] } });
    assert_eq!(api.error("bob", LIST, listed).await, wanted);
    let made = api.error("bob", CREATE, new_app("new", "phusers")).await;
    assert_eq!(made, ("NOT_AUTH".to_owned(), "Not Authorised!".to_owned()));
    assert_eq!(namespace.stored("hers").await["scope"], "group");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_has_one_clear_message_and_writes_nothing() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let long = "a".repeat(59);
    for (field, value, wanted) in [
        ("id", json!(long), "id: "),
        ("id", json!("a.b"), "id: "),
        ("id", json!("Lab"), "id: "),
        ("id", json!("lab-"), "id: "),
        (
            "templateId",
            json!("nope"),
            "phapptemplates.primehub.io \"nope\" not found",
        ),
        (
            "templateId",
            json!("../x"),
            "phapptemplates.primehub.io \"../x\" not found",
        ),
        (
            "instanceType",
            json!("nope"),
            "instanceType: the group phusers has no instance type \"nope\"",
        ),
        (
            "scope",
            json!("all"),
            "scope: must be one of public, primehub, group",
        ),
        ("displayName", json!(""), "displayName: is required"),
        (
            "env",
            json!([{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }]),
            "env[0]: A: valueFrom is not allowed",
        ),
        (
            "env",
            json!([{ "name": "PRIMEHUB_GROUP", "value": "x" }]),
            "env[0]: PRIMEHUB_GROUP: ",
        ),
        ("env", json!("A=1"), "env: must be a list"),
        ("groupName", json!(7), "Invalid value for argument"),
    ] {
        let mut app = new_app("lab", "phusers");
        app["data"][field] = value.clone();
        let (_, said) = api.error("alice", CREATE, app).await;
        assert!(
            said.starts_with(wanted) && said.len() < 250,
            "{field} {value}: {said}"
        );
    }
    // An instance type that another group lists as its own.
    let mut app = new_app("lab", "friends");
    app["data"]["instanceType"] = "gpu-1".into();
    let (code, _) = api.error("bob", CREATE, app).await;
    assert_eq!(code, "REQUEST_BODY_INVALID");
    assert!(ids(&api, "carol", json!({})).await.is_empty());
    api.data("alice", CREATE, new_app("lab", "phusers")).await;
    let (code, said) = api.error("alice", CREATE, new_app("lab", "phusers")).await;
    assert_eq!(code, "RESOURCE_CONFLICT");
    assert!(said.contains("already exists"), "{said}");
    let change = json!({ "where": { "id": "lab" }, "data": { "instanceType": "nope" } });
    let (code, _) = api.error("alice", UPDATE, change).await;
    assert_eq!(code, "REQUEST_BODY_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_of_another_namespace_keeps_its_name() {
    let (first, second) = (namespace().await, KubeNamespace::new().await);
    for namespace in [&first, &second] {
        namespace.grant("api.yaml").await;
    }
    let account = format!("--serviceaccount={}:ludgate-api", first.name);
    let binding = [
        "create",
        "rolebinding",
        "first",
        "--role=ludgate-api",
        &account,
    ];
    second.kubectl(&binding, "").await;
    second
        .app("lab", "group", json!({ "groupName": "friends" }))
        .await;
    let kubeconfig = first.kubeconfig_of("ludgate-api").await;
    let site = "https://hub.example.com";
    let api = Api::with_change(&first.name, &kubeconfig, site, PLATFORM, |settings| {
        settings.cluster.namespaces.push(second.name.clone());
    });
    let api = api.await;
    let (code, said) = api.error("alice", CREATE, new_app("lab", "phusers")).await;
    assert_eq!(code, "RESOURCE_CONFLICT");
    assert!(said.contains("\"lab\" already exists"), "{said}");
    let apps = first.kubectl(&["get", "phapplications", "-o", "name"], "");
    assert_eq!(apps.await, "");
    api.data("alice", CREATE, new_app("lab-2", "phusers")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_and_a_stop_at_the_same_time_both_take_effect() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    api.data("alice", CREATE, new_app("lab", "phusers")).await;
    let stop = mutation("stop");
    let updates = (0..8).map(|at| {
        let field = if at % 2 == 0 { "displayName" } else { "scope" };
        let value = if at % 2 == 0 { "Changed" } else { "public" };
        api.data(
            "alice",
            UPDATE,
            json!({ "where": { "id": "lab" }, "data": { field: value } }),
        )
    });
    let (_, _) = tokio::join!(
        futures_util::future::join_all(updates),
        api.data("alice", &stop, named("lab")),
    );
    let spec = namespace.stored("lab").await;
    assert_eq!(
        (&spec["displayName"], &spec["scope"], &spec["stop"]),
        (&json!("Changed"), &json!("public"), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_made_by_hand_is_an_app_like_the_others() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let env = json!([{ "name": "A", "value": "1" }]);
    let pod = json!({ "spec": { "containers": [{ "name": "app", "image": "x:1", "env": env }] } });
    let by_hand = application("by-hand", "group", json!({ "podTemplate": pod }));
    namespace.apply(&phapplications(), &by_hand).await;
    api.data("alice", CREATE, new_app("lab", "phusers")).await;
    assert_eq!(ids(&api, "alice", json!({})).await, ["lab", "by-hand"]);
    let seen = api.data("alice", GET, named("by-hand")).await["phApplication"].clone();
    assert_eq!(seen["appTemplate"], json!(null));
    assert_eq!(seen["env"], env);
    let change =
        json!({ "where": { "id": "by-hand" }, "data": { "env": [{ "name": "B", "value": "2" }] } });
    api.data("alice", UPDATE, change).await;
    let spec = namespace.stored("by-hand").await;
    let container = &spec["podTemplate"]["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{ "name": "B", "value": "2" }]));
    assert_eq!(container["image"], "x:1");
    for (verb, is_stopped) in [("stop", true), ("start", false)] {
        let changed = api.data("alice", &mutation(verb), named("by-hand")).await;
        let wanted = json!({ "id": "by-hand", "groupName": "phusers", "stop": is_stopped });
        assert_eq!(changed[format!("{verb}PhApplication")], wanted);
        assert_eq!(namespace.stored("by-hand").await["stop"], is_stopped);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_repeat_nor_lose_an_app_when_one_is_deleted_between_them() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    for at in 0..25 {
        namespace
            .app(&format!("app-{at:02}"), "group", json!({}))
            .await;
    }
    let mut seen: Vec<String> = Vec::new();
    let mut after = json!(null);
    loop {
        let variables =
            json!({ "first": 12, "after": after, "where": { "groupName_in": ["phusers"] } });
        let page = api.data("alice", LIST, variables).await["phApplicationsConnection"].clone();
        for edge in page["edges"].as_array().expect("edges") {
            seen.push(edge["node"]["id"].as_str().expect("an id").to_owned());
        }
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        // The row that the cursor names.
        namespace.delete(seen.last().expect("a row")).await;
        after = page["pageInfo"]["endCursor"].clone();
    }
    let all: Vec<String> = (0..25).map(|at| format!("app-{at:02}")).collect();
    assert_eq!(seen, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_types_are_those_of_the_group() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let query = "{ me { effectiveGroups { name instanceTypes { name global gpuLimit tolerations { key } } } } }";
    let answer = api.data("alice", query, json!({})).await;
    let cpu = json!({ "name": "cpu-1", "global": true, "gpuLimit": 0, "tolerations": [] });
    let gpu = json!({ "name": "gpu-1", "global": false, "gpuLimit": 1, "tolerations": [] });
    assert_eq!(
        answer["me"]["effectiveGroups"],
        json!([
            { "name": "friends", "instanceTypes": [cpu] },
            { "name": "phusers", "instanceTypes": [cpu, gpu] },
        ])
    );
    let all = "{ instanceTypes { name } }";
    let (code, _) = api.error("alice", all, json!({})).await;
    assert_eq!(code, "NOT_AUTH");
    let all = api.data("carol", all, json!({})).await;
    assert_eq!(all["instanceTypes"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_service_would_be_that_of_another_program_is_refused() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let service = |name: &str, owners: Value| {
        let metadata = json!({ "name": name, "ownerReferences": owners });
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": { "ports": [{ "port": 5432 }] },
        })
    };
    let foreign = service("app-db", json!([])).to_string();
    namespace.kubectl(&["apply", "-f", "-"], &foreign).await;
    let (code, message) = api.error("alice", CREATE, new_app("db", "phusers")).await;
    assert!(
        message.contains("a Service \"app-db\" of another program"),
        "{code} {message}"
    );
    assert_eq!(ids(&api, "alice", json!({})).await, [""; 0]);
    // That of an app of this name which was just deleted is no hindrance.
    let owner = json!([{
        "apiVersion": "primehub.io/v1alpha1",
        "kind": "PhApplication",
        "name": "lab",
        "uid": "00000000-0000-4000-8000-000000000000",
    }]);
    let earlier = service("app-lab", owner).to_string();
    namespace.kubectl(&["apply", "-f", "-"], &earlier).await;
    api.data("alice", CREATE, new_app("lab", "phusers")).await;
}
