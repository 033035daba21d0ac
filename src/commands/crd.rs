//! `ludgate crd print`.

use super::exit_code::{DONE, FAILED};
use crate::{cli::CrdCommand, cluster::crd};

/// Runs the command, and returns the exit code.
pub fn run(command: &CrdCommand) -> u8 {
    match command {
        CrdCommand::Print => match documents() {
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

/// The definitions as YAML documents.
///
/// # Errors
/// When one cannot be written as YAML, which a definition of ours always can.
pub fn documents() -> anyhow::Result<String> {
    let mut out = String::new();
    for definition in crd::definitions() {
        // Via a JSON value, which orders the keys and leaves out absent fields.
        let text = serde_saphyr::to_string(&serde_json::to_value(definition)?)?;
        out += "---\n";
        out += &text;
    }
    Ok(out)
}
