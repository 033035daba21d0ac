//! Ports that cannot work: of the Service, and the one with the app's pages.

use std::collections::BTreeSet;

use serde_json::Value;

/// Where the Service's spec is.
const SERVICE: &str = "spec.template.spec.svcTemplate.spec";

/// A field with a wrong port.
pub struct PortProblem {
    /// Where it is.
    pub field: String,
    /// The problem, and what is allowed.
    pub what: String,
}

/// The problems of an app's ports. `app` is the part of a template that becomes an app's spec.
pub fn problems(app: &Value) -> Vec<PortProblem> {
    let service = &app["svcTemplate"]["spec"];
    let ports = service["ports"].as_array().map(Vec::as_slice);
    let ports = ports.unwrap_or_default();
    let mut found = Vec::new();
    found.extend(dropped(service, SERVICE, &["ports"]));
    let containers = container_ports(app);
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let field = format!("{SERVICE}.ports[{at}]");
        if !port["nodePort"].is_null() {
            found.push(problem(format!("{field}.nodePort"), "has no effect"));
        }
        if !port["port"]
            .as_i64()
            .is_some_and(|it| (1..=65535).contains(&it))
        {
            found.push(problem(
                format!("{field}.port"),
                "must be a number from 1 to 65535",
            ));
        }
        let name = port["name"].as_str();
        if ports.len() > 1 && !name.is_some_and(|name| names.insert(name)) {
            let what = "must be there, and different from those of the other ports";
            found.push(problem(format!("{field}.name"), what));
        }
        if let Some(target) = port["targetPort"].as_str()
            && !containers.contains(&target)
        {
            let what = format!("no port of the container has the name {target:?}");
            found.push(problem(format!("{field}.targetPort"), what));
        }
    }
    found.extend(page(app, ports));
    found
}

/// The gateway finds the pods' port by the Service's port with this number.
fn page(app: &Value, ports: &[Value]) -> Option<PortProblem> {
    let number = app["httpPort"].as_i64()?;
    let field = "spec.template.spec.httpPort";
    let Some(port) = ports.iter().find(|port| port["port"] == number) else {
        let what = format!("{number} is no port of {SERVICE}.ports, so the app has no page");
        return Some(problem(field, what));
    };
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    (protocol != "TCP").then(|| {
        let what = format!("{number} is a {protocol} port of {SERVICE}.ports; pages need TCP");
        problem(field, what)
    })
}

/// The fields of an object that the controller does not use.
pub fn dropped(object: &Value, path: &str, used: &[&str]) -> Vec<PortProblem> {
    let fields = object.as_object().into_iter().flatten();
    let unused =
        fields.filter(|(field, value)| !used.contains(&field.as_str()) && !value.is_null());
    let problem = |(field, _): (&String, &Value)| {
        problem(
            format!("{path}.{field}"),
            format!("has no effect, only {} has", used.join(", ")),
        )
    };
    unused.map(problem).collect()
}

/// The names of the first container's ports.
fn container_ports(app: &Value) -> Vec<&str> {
    let container = &app["podTemplate"]["spec"]["containers"][0];
    let ports = container["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| port["name"].as_str()).collect()
}

fn problem(field: impl Into<String>, what: impl Into<String>) -> PortProblem {
    PortProblem {
        field: field.into(),
        what: what.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(service: Value, http_port: Value) -> Vec<String> {
        let container = json!({ "ports": [{ "name": "http", "containerPort": 5000 }] });
        let app = json!({
            "podTemplate": { "spec": { "containers": [container] } },
            "svcTemplate": { "spec": service },
            "httpPort": http_port,
        });
        let found = problems(&app);
        found
            .iter()
            .map(|it| format!("{}: {}", it.field, it.what))
            .collect()
    }

    #[test]
    fn good_ports_have_no_problems() {
        let two = json!({ "ports": [
            { "name": "http", "port": 80, "targetPort": "http" },
            { "name": "dns", "port": 53, "protocol": "UDP" },
        ] });
        assert_eq!(lines(two, json!(80)), [""; 0]);
        assert_eq!(lines(json!({}), json!(null)), [""; 0]);
    }

    #[test]
    fn each_problem_is_named_with_its_field() {
        for (service, http_port, wanted) in [
            (
                json!({ "ports": [{ "port": 80, "targetPort": "web" }] }),
                json!(80),
                "ports[0].targetPort: no port of the container has the name \"web\"",
            ),
            (
                json!({ "ports": [{ "port": 53, "protocol": "UDP" }] }),
                json!(53),
                "httpPort: 53 is a UDP port",
            ),
            (
                json!({ "ports": [{ "port": 80 }] }),
                json!(81),
                "httpPort: 81 is no port of",
            ),
            (
                json!({ "ports": [{ "port": 70000 }] }),
                json!(null),
                "ports[0].port: must be a number from 1 to 65535",
            ),
            (
                json!({ "ports": [{ "name": "a", "port": 1 }, { "name": "a", "port": 2 }] }),
                json!(null),
                "ports[1].name: must be there, and different",
            ),
            (
                json!({ "ports": [{ "port": 1, "nodePort": 30000 }] }),
                json!(null),
                "ports[0].nodePort: has no effect",
            ),
            (
                json!({ "type": "LoadBalancer" }),
                json!(null),
                "type: has no effect, only ports has",
            ),
        ] {
            let found = lines(service, http_port);
            assert!(found.len() == 1 && found[0].contains(wanted), "{found:?}");
        }
    }
}
