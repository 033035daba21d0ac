//! A chart with real pods. Its page has the name and the version of the chart, and the value
//! `theme`.

use std::{fs, path::Path, process::Command};

use super::helm::charts;

/// Writes the chart into a folder that does not exist yet, under this name and version.
pub fn write_web_chart(folder: &Path, name: &str, version: &str) {
    let copied = Command::new("cp")
        .arg("-r")
        .arg(charts().join("web"))
        .arg(folder)
        .status();
    assert!(copied.expect("cp").success());
    let file = folder.join("Chart.yaml");
    let mut text = fs::read_to_string(&file).expect("a chart");
    for (written, own) in [
        ("\nname: web\n", format!("\nname: {name}\n")),
        ("\nversion: 0.1.0\n", format!("\nversion: {version}\n")),
    ] {
        assert!(text.contains(written), "no {written:?} in {text}");
        text = text.replace(written, &own);
    }
    fs::write(file, text).expect("written");
}
