//! Answers about images, menus and prepulling.

use chrono::Utc;
use ludgate_labs::{
    dialect::Dialect,
    images::{DropdownFilter, ImageCatalog},
};
use serde_json::{Value, json};

use crate::data::{Data, stem};

/// The catalogue that an answer was made from. `gar-after` is after everything was pulled.
fn catalog(data: &Data, images: &str) -> ImageCatalog {
    match images {
        "gar-before" => data.catalog("gar", images, "empty"),
        "gar-after" => {
            let mut catalog = data.catalog("gar", images, "empty");
            let plan = catalog.prepull_plan();
            let pulled: Vec<(&str, &str)> = plan
                .iter()
                .map(|task| (task.node.as_str(), task.image.tag.tag.as_str()))
                .collect();
            let expected = [
                ("node1", "w_2077_43"),
                ("node1", "w_2077_42"),
                ("node2", "w_2077_43"),
                ("node2", "w_2077_42"),
            ];
            assert_eq!(pulled, expected);
            for task in &plan {
                catalog.mark_pulled(&task.image.digest, &task.node);
            }
            assert!(catalog.prepull_plan().is_empty());
            catalog
        }
        images => data.catalog(images, images, images),
    }
}

pub(crate) fn images_are_listed(data: &Data) -> usize {
    let files = data.files("images");
    for file in &files {
        let answer = catalog(data, stem(file)).spawner_images();
        let expected = without_nulls(data.json(&format!("images/{file}")));
        assert_eq!(answer.to_json(Dialect::Nublado), expected, "{file}");
    }
    files.len()
}

/// Some of the files have nulls for what the answer leaves out.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                fields
                    .map(|(name, value)| (name, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

pub(crate) fn menus_are_shown(data: &Data) -> usize {
    let files = data.files("menu");
    for file in &files {
        let menus = catalog(data, stem(file)).menus(&DropdownFilter::default(), Utc::now());
        assert_eq!(json!(menus), data.json(&format!("menu/{file}")), "{file}");
    }
    files.len()
}

pub(crate) fn prepulling_is_answered(data: &Data) -> usize {
    let files = data.files("prepuller");
    for file in &files {
        let (config, nodes) = match stem(file) {
            "prepulls" => ("standard", "standard"),
            "status" => ("prepuller", "prepuller"),
            other => panic!("{other}: which configuration is it?"),
        };
        let answer = data.catalog(config, "standard", nodes).prepull_answer();
        let answer = answer.to_json(&data.config(config).images, Dialect::Nublado);
        assert_eq!(answer, data.json(&format!("prepuller/{file}")), "{file}");
    }
    files.len()
}
