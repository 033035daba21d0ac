//! `ludgate crd print`.

use super::exit_code::{DONE, FAILED};
use crate::{cli::CrdCommand, cluster::crd};

/// Runs the command, and returns the exit code.
pub fn run(command: &CrdCommand) -> u8 {
    match command {
        CrdCommand::Print(args) => match documents(args.group.as_deref()) {
            Ok(documents) => {
                print!("{documents}");
                DONE
            }
            Err(error) => {
                eprintln!("{error:#}");
                FAILED
            }
        },
    }
}

/// The definitions of an API group, or of all, as YAML documents.
///
/// # Errors
/// When one cannot be written as YAML, which a definition of ours always can.
pub fn documents(group: Option<&str>) -> anyhow::Result<String> {
    let mut out = String::new();
    let definitions = crd::definitions().into_iter();
    for definition in definitions.filter(|it| group.is_none_or(|group| it.spec.group == group)) {
        // Via a JSON value, which orders the keys and leaves out absent fields.
        let text = serde_saphyr::to_string(&serde_json::to_value(definition)?)?;
        out += "---\n";
        out += &text;
    }
    Ok(out)
}
