//! Which rows of a list are wanted.

use super::inputs::{AppFilter, TemplateFilter};
use crate::app_record::AppRecord;

impl AppFilter {
    /// Whether an app is wanted; the id is looked up before.
    pub(super) fn wants(&self, app: &AppRecord) -> bool {
        let template = app.template_name().unwrap_or_default();
        let in_group = match &self.group_name_in {
            Some(groups) => groups.iter().flatten().any(|group| group == app.group()),
            None => true,
        };
        let of_template = match &self.app_name_contains {
            Some(part) => template.contains(part),
            None => true,
        };
        let is_found = match &self.search {
            Some(text) => {
                let text = text.to_lowercase();
                let has = |name: &str| name.to_lowercase().contains(&text);
                has(&app.id) || has(template) || has(app.display_name())
            }
            None => true,
        };
        in_group && of_template && is_found
    }
}

impl TemplateFilter {
    /// Whether a template is wanted; the id is looked up before.
    pub(super) fn wants(&self, name: &str) -> bool {
        match &self.name_contains {
            Some(part) => name.contains(part),
            None => true,
        }
    }
}
