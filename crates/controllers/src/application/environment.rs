//! The environment variables of an app's container.

use serde_json::{Value, json};

/// Names of the variables that every app gets.
pub const PRESET_NAMES: [&str; 5] = [
    "PRIMEHUB_APP_ID",
    "PRIMEHUB_APP_ROOT",
    "PRIMEHUB_APP_BASE_URL",
    "PRIMEHUB_URL",
    "PRIMEHUB_GROUP",
];

/// The variables that every app gets. They come first, so that later values, and the command, can
/// refer to them: Kubernetes expands `$(NAME)` only for variables above.
pub struct Presets<'a> {
    /// `PRIMEHUB_APP_ID`.
    pub id: &'a str,
    /// `PRIMEHUB_APP_ROOT`: where the app's data is.
    pub root: &'a str,
    /// `PRIMEHUB_APP_BASE_URL`: the path of the app's pages, without a slash at the end.
    pub base_url: &'a str,
    /// `PRIMEHUB_URL`: the origin of the site.
    pub site_url: &'a str,
    /// `PRIMEHUB_GROUP`.
    pub group: &'a str,
}

impl Presets<'_> {
    /// In the order of `PRESET_NAMES`.
    fn values(&self) -> [&str; 5] {
        [self.id, self.root, self.base_url, self.site_url, self.group]
    }

    /// `env` of a container: the presets, then its own entries. A name occurs once, since
    /// server-side apply refuses duplicates: at its first place, where later values can refer to
    /// it, with its last value. An entry cannot replace a preset.
    pub fn merge(&self, own: &[Value]) -> Vec<Value> {
        let presets = PRESET_NAMES.into_iter().zip(self.values());
        let mut merged: Vec<Value> = presets
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        for entry in own {
            let same = |other: &Value| other["name"] == entry["name"];
            match merged.iter().position(same) {
                Some(at) if at < PRESET_NAMES.len() => {}
                Some(at) => merged[at] = entry.clone(),
                None => merged.push(entry.clone()),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESETS: Presets<'_> = Presets {
        id: "lab",
        root: "/data",
        base_url: "/apps/lab",
        site_url: "https://hub.example.com",
        group: "My_Group",
    };

    fn names(merged: &[Value]) -> Vec<&str> {
        merged
            .iter()
            .filter_map(|entry| entry["name"].as_str())
            .collect()
    }

    #[test]
    fn presets_come_first_and_cannot_be_replaced() {
        let merged = PRESETS.merge(&[
            json!({ "name": "OWN", "value": "$(PRIMEHUB_APP_ROOT)/x" }),
            json!({ "name": "PRIMEHUB_GROUP", "value": "another" }),
        ]);
        assert_eq!(
            names(&merged),
            [
                "PRIMEHUB_APP_ID",
                "PRIMEHUB_APP_ROOT",
                "PRIMEHUB_APP_BASE_URL",
                "PRIMEHUB_URL",
                "PRIMEHUB_GROUP",
                "OWN",
            ]
        );
        assert_eq!(merged[4]["value"], "My_Group");
        assert_eq!(merged[5]["value"], "$(PRIMEHUB_APP_ROOT)/x");
    }

    #[test]
    fn a_repeated_name_keeps_its_first_place_and_gets_its_last_value() {
        let merged = PRESETS.merge(&[
            json!({ "name": "FOO", "value": "template" }),
            json!({ "name": "BAR", "value": "$(FOO)" }),
            json!({ "name": "FOO", "value": "user" }),
        ]);
        assert_eq!(names(&merged)[5..], ["FOO", "BAR"]);
        assert_eq!(merged[5]["value"], "user");
    }
}
