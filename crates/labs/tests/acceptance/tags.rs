//! Tags: the name of the file is the tag, its content what the tag says.

use ludgate_labs::tag::ImageTag;
use serde_json::{Value, json};

use crate::data::{Data, stem};

pub(crate) fn tags_are_read(data: &Data) -> usize {
    let files = data.files("rspimagetag");
    for file in &files {
        let tag = ImageTag::parse(stem(file));
        assert_eq!(
            described(&tag),
            data.json(&format!("rspimagetag/{file}")),
            "{file}"
        );
    }
    files.len()
}

fn described(tag: &ImageTag) -> Value {
    let version = tag.version.map(|version| {
        json!({
            "major": version.major,
            "minor": version.minor,
            "patch": version.patch,
            "prerelease": version.candidate.map(|number| format!("rc{number}")),
            "build": null,
        })
    });
    json!({
        "tag": tag.tag,
        "image_type": tag.kind.to_string(),
        "display_name": tag.display_name,
        "base": tag.base,
        "version": version,
        "semantic": tag.is_semantic,
        "cycle": tag.cycle,
        "cycle_build": tag.cycle_build,
        "build": tag.build,
        "architecture": tag.architecture,
        "extra": tag.extra,
        "date": tag.date.map(|date| format!("{date} 00:00:00")),
    })
}
