//! `ludgate template check`.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    path::Path,
};

use serde_json::Value;

use super::exit_code::{BAD_CONFIGURATION, DONE};
use crate::{
    cli::{TemplateCheckArgs, TemplateCommand},
    controllers::{application::template, pod_policy::PodPolicy},
    settings,
};

/// Runs the command, and returns the exit code.
pub fn run(command: &TemplateCommand) -> u8 {
    match command {
        TemplateCommand::Check(args) => check(args),
    }
}

fn check(args: &TemplateCheckArgs) -> u8 {
    let policy = match &args.config {
        None => PodPolicy::default(),
        Some(config) => match settings::load_controller(config) {
            Ok(settings) => settings.applications.map(|it| it.pods).unwrap_or_default(),
            Err(errors) => {
                eprintln!("{}:\n{errors}", config.display());
                return BAD_CONFIGURATION;
            }
        },
    };
    let mut code = DONE;
    let mut names = BTreeSet::new();
    for file in &args.files {
        let shown = file.display();
        let documents = match documents(file) {
            Ok(documents) => documents,
            Err(error) => {
                eprintln!("{shown}: {error}");
                code = BAD_CONFIGURATION;
                continue;
            }
        };
        for document in &documents {
            let name = document["metadata"]["name"].as_str().unwrap_or("?");
            let problems = template::problems(document, &policy);
            for problem in &problems {
                eprintln!("{shown}: {name}: {problem}");
            }
            let namespace = document["metadata"]["namespace"].as_str();
            let is_new = names.insert((namespace.map(str::to_owned), name.to_owned()));
            if !is_new {
                eprintln!("{shown}: {name}: metadata.name: is the name of an earlier template");
            }
            if problems.is_empty() && is_new {
                // A closed pipe is no error of the templates.
                let _ = writeln!(io::stdout(), "{shown}: {name}: valid");
            } else {
                code = BAD_CONFIGURATION;
            }
        }
    }
    code
}

/// The YAML documents of a file; empty ones are left out.
fn documents(file: &Path) -> Result<Vec<Value>, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| error.to_string())?;
    match documents.is_empty() {
        true => Err("has no template".to_owned()),
        false => Ok(documents),
    }
}
