//! The OpenAPI document, from the types of requests and answers.

mod schemas;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use schemas::{
    AdminStartAnswer, AdminStartBody, CreateBody, ErrorAnswer, FileServerAnswer, NubladoImages,
    NubladoLab, PrepullsAnswer, Sqr066Images, Sqr066Lab,
};

/// Status, media type and schema of an answer.
type Success = (u16, Option<(&'static str, Value)>);

/// What the document says about an operation.
struct Operation {
    method: &'static str,
    /// Below the prefix if it starts with a slash, else below the version of the spawner.
    path: &'static str,
    summary: &'static str,
    /// The scope that a caller needs.
    scope: &'static str,
    /// The answer if all is well.
    answer: Success,
    /// Statuses of errors.
    errors: &'static [u16],
}

/// The document of the API below a prefix.
pub(super) fn document(prefix: &str, dialect: Dialect) -> Value {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let create = schema::<CreateBody>(&mut generator);
    let start = schema::<AdminStartBody>(&mut generator);
    let error = schema::<ErrorAnswer>(&mut generator);
    let mut paths = Map::new();
    for operation in operations(&mut generator, dialect) {
        let (path, body) = match operation.path.starts_with('/') {
            true => (format!("{prefix}{}", operation.path), &start),
            false => (format!("{prefix}/spawner/v1/{}", operation.path), &create),
        };
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        let method = operation.method;
        entry[method] = operation.describe(body, &error);
    }
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Labs", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "bearer": [] }],
    })
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

const HUB: &str = "admin:jupyterlab";
const PERSON: &str = "exec:notebook";
const ADMIN: &str = "exec:admin";

const LAB: &str = "labs/{username}";
const EVENTS: &str = "labs/{username}/events";
const FILE_SERVER: &str = "/fileserver/v1/users/{username}";
const FSADMIN: &str = "/fsadmin/v1/service";

fn operations(generator: &mut SchemaGenerator, dialect: Dialect) -> Vec<Operation> {
    let lab = match dialect {
        Dialect::Sqr066 => schema::<Sqr066Lab>(generator),
        Dialect::Nublado => schema::<NubladoLab>(generator),
    };
    let mut operations = Vec::from(hub_operations(generator, &lab, dialect));
    operations.extend(person_operations(lab, dialect));
    operations.extend(reader_operations(generator, dialect));
    if dialect == Dialect::Nublado {
        operations.extend(file_operations(generator));
    }
    operations
}

fn json_body(schema: Value) -> Success {
    (200, Some(("application/json", schema)))
}

fn text_body(media: &'static str) -> Success {
    (200, Some((media, json!({ "type": "string" }))))
}

fn hub_operations(
    generator: &mut SchemaGenerator,
    lab: &Value,
    dialect: Dialect,
) -> [Operation; 3] {
    let names = json_body(schema::<Vec<String>>(generator));
    let deleted = match dialect {
        Dialect::Sqr066 => (202, None),
        Dialect::Nublado => (204, None),
    };
    let lab = json_body(lab.clone());
    let errors = &[404, 409, 500];
    [
        operation("get", "labs", "Persons whose labs run", HUB, names, &[]),
        operation("get", LAB, "State of a lab", HUB, lab, &[404]),
        operation("delete", LAB, "Delete a lab", HUB, deleted, errors),
    ]
}

fn person_operations(lab: Value, dialect: Dialect) -> [Operation; 4] {
    let created = match dialect {
        Dialect::Sqr066 => (303, None),
        Dialect::Nublado => (201, None),
    };
    let events = text_body("text/event-stream");
    let form = text_body("text/html");
    let create = "labs/{username}/create";
    let errors = &[400, 409, 413, 422];
    let status = json_body(lab);
    [
        operation("post", create, "Start a lab", PERSON, created, errors),
        operation("get", EVENTS, "Last events", PERSON, events, &[404]),
        operation("get", "lab-form/{username}", "Form", PERSON, form, &[]),
        operation("get", "user-status", "Own lab", PERSON, status, &[404]),
    ]
}

fn reader_operations(generator: &mut SchemaGenerator, dialect: Dialect) -> [Operation; 2] {
    let (images, reader) = match dialect {
        Dialect::Sqr066 => (schema::<Sqr066Images>(generator), HUB),
        Dialect::Nublado => (schema::<NubladoImages>(generator), ADMIN),
    };
    let images = json_body(images);
    let prepulls = json_body(schema::<PrepullsAnswer>(generator));
    [
        operation("get", "images", "Images", reader, images, &[]),
        operation("get", "prepulls", "Pulled images", reader, prepulls, &[]),
    ]
}

/// File servers and the pod for administrators. The page that opens a file server is for people.
fn file_operations(generator: &mut SchemaGenerator) -> [Operation; 7] {
    let names = json_body(schema::<Vec<String>>(generator));
    let status = json_body(schema::<FileServerAnswer>(generator));
    let own = status.clone();
    let started = json_body(schema::<AdminStartAnswer>(generator));
    let all = "/fileserver/v1/users";
    let mine = "/fileserver/v1/user-status";
    let gone: Success = (204, None);
    let failed: &[u16] = &[404, 500];
    let start = "Start the pod of file systems";
    let stop = "Delete the pod of file systems";
    let since = "When the pod of file systems started";
    [
        operation("get", all, "Running file servers", ADMIN, names, &[404]),
        operation("get", FILE_SERVER, "A file server", ADMIN, status, &[404]),
        operation(
            "delete",
            FILE_SERVER,
            "Delete it",
            ADMIN,
            gone.clone(),
            failed,
        ),
        operation("get", mine, "Own file server", PERSON, own, &[404]),
        operation("get", FSADMIN, since, ADMIN, started.clone(), &[404]),
        operation("post", FSADMIN, start, ADMIN, started, &[404, 422, 500]),
        operation("delete", FSADMIN, stop, ADMIN, gone, failed),
    ]
}

fn operation(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    scope: &'static str,
    answer: Success,
    errors: &'static [u16],
) -> Operation {
    Operation {
        method,
        path,
        summary,
        scope,
        answer,
        errors,
    }
}

impl Operation {
    fn describe(self, body: &Value, error: &Value) -> Value {
        let mut responses = Map::new();
        let (status, content) = self.answer;
        let mut success = json!({ "description": self.summary });
        if let Some((media, schema)) = content {
            success["content"][media]["schema"] = schema;
        }
        if [201, 303].contains(&status) {
            let location = json!({ "schema": { "type": "string", "format": "uri" } });
            success["headers"]["Location"] = location;
        }
        responses.insert(status.to_string(), success);
        for status in self.errors.iter().chain(&[401, 403, 503]) {
            let content = json!({ "application/json": { "schema": error } });
            let failure = json!({ "description": "Error", "content": content });
            responses.insert(status.to_string(), failure);
        }
        let mut described = json!({
            "summary": self.summary,
            "description": format!("Needs the scope `{}`.", self.scope),
            "responses": responses,
        });
        if self.path.contains("{username}") {
            described["parameters"] = json!([{
                "name": "username",
                "in": "path",
                "required": true,
                "schema": { "type": "string", "maxLength": 63 },
            }]);
        }
        if self.method == "post" {
            described["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": body } },
            });
        }
        described
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reference_of_the_document_leads_to_a_schema() {
        for dialect in [Dialect::Sqr066, Dialect::Nublado] {
            let document = document("/nublado", dialect);
            let text = document.to_string();
            let references = text.split("\"$ref\":\"#").skip(1);
            let references: Vec<&str> = references
                .filter_map(|rest| rest.split('"').next())
                .collect();
            assert!(references.len() > 5, "{text}");
            for reference in references {
                assert!(document.pointer(reference).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn the_dialects_differ_in_statuses_and_schemas() {
        let create = |dialect| {
            let document = document("/nublado", dialect);
            let path = "/nublado/spawner/v1/labs/{username}/create";
            let responses = document["paths"][path]["post"]["responses"].clone();
            (responses["201"].is_object(), responses["303"].is_object())
        };
        assert_eq!(create(Dialect::Nublado), (true, false));
        assert_eq!(create(Dialect::Sqr066), (false, true));
    }
}
