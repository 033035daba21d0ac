//! Tables for people, JSON for programs.

use std::io::{self, Write};

use serde::Serialize;

use crate::{
    client::hosted_app::{HostedApp, OfferedSize, OfferedTemplate, OwnGroup},
    cluster::crd::application::Phase,
    model::text::is_directional,
};

const APP_COLUMNS: [&str; 7] = [
    "ID",
    "NAME",
    "GROUP",
    "TEMPLATE",
    "INSTANCE TYPE",
    "SCOPE",
    "STATUS",
];
/// Columns of rows that come one by one are at least this wide, in characters.
const WATCH_WIDTHS: [usize; 7] = [20, 20, 12, 20, 13, 8, 8];
/// Space between columns.
const GAP: &str = "  ";

/// Standard output, in one of two forms.
pub(super) struct Output {
    is_json: bool,
}

impl Output {
    pub(super) fn new(is_json: bool) -> Output {
        Output { is_json }
    }

    pub(super) fn apps(&self, apps: &[HostedApp]) -> io::Result<()> {
        self.table(apps, &APP_COLUMNS, app_row)
    }

    pub(super) fn templates(&self, templates: &[OfferedTemplate]) -> io::Result<()> {
        self.table(templates, &["ID", "NAME", "VERSION", "VARIABLES"], |it| {
            let names = it.default_envs.iter().filter_map(|it| it.name.as_deref());
            let names: Vec<&str> = names.collect();
            vec![
                it.id.clone(),
                text(&it.name),
                text(&it.version),
                names.join(", "),
            ]
        })
    }

    pub(super) fn groups(&self, groups: &[OwnGroup]) -> io::Result<()> {
        self.table(groups, &["GROUP", "NAME", "INSTANCE TYPES"], |it| {
            let sizes: Vec<String> = it.instance_types.iter().map(size_text).collect();
            vec![it.name.clone(), text(&it.display_name), sizes.join(", ")]
        })
    }

    pub(super) fn app(&self, app: &HostedApp) -> io::Result<()> {
        match self.is_json {
            true => print_json(app),
            false => print(&details(app)),
        }
    }

    pub(super) fn deleted(&self, app: &HostedApp) -> io::Result<()> {
        match self.is_json {
            true => print_json(app),
            false => print(&format!("{} is deleted\n", printable(&app.id))),
        }
    }

    /// Begins a table whose rows come one by one.
    pub(super) fn start_table(&self) -> io::Result<()> {
        match self.is_json {
            true => Ok(()),
            false => print(&line(&APP_COLUMNS.map(str::to_owned), &WATCH_WIDTHS)),
        }
    }

    /// A row of such a table, with the message of an error; in JSON one line.
    pub(super) fn row(&self, app: &HostedApp) -> io::Result<()> {
        if self.is_json {
            let object = serde_json::to_string(app)?;
            return print(&format!("{object}\n"));
        }
        print(&line(&watched_row(app), &WATCH_WIDTHS))
    }

    /// Whether a row is different after a change.
    pub(super) fn shows_change(&self, before: &HostedApp, after: &HostedApp) -> bool {
        match self.is_json {
            true => before != after,
            false => watched_row(before) != watched_row(after),
        }
    }

    fn table<T: Serialize>(
        &self,
        items: &[T],
        columns: &[&str],
        row: impl Fn(&T) -> Vec<String>,
    ) -> io::Result<()> {
        if self.is_json {
            return print_json(&items);
        }
        let mut rows = vec![columns.iter().map(|name| (*name).to_owned()).collect()];
        rows.extend(items.iter().map(row));
        print(&table_text(&rows))
    }
}

fn app_row(app: &HostedApp) -> Vec<String> {
    vec![
        app.id.clone(),
        text(&app.display_name),
        text(&app.group_name),
        text(&app.app_name),
        text(&app.instance_type),
        text(&app.scope),
        text(&app.status),
    ]
}

fn watched_row(app: &HostedApp) -> Vec<String> {
    let mut row = app_row(app);
    if app.status.as_deref() == Some(Phase::Error.as_str()) {
        row.push(text(&app.message));
    }
    row
}

fn details(app: &HostedApp) -> String {
    let template = [text(&app.app_name), text(&app.app_version)].join(" ");
    let mut lines = vec![
        ("id", app.id.clone()),
        ("name", text(&app.display_name)),
        ("group", text(&app.group_name)),
        ("template", template.trim().to_owned()),
        ("instance type", text(&app.instance_type)),
        ("scope", text(&app.scope)),
        ("status", text(&app.status)),
        ("message", text(&app.message)),
        ("url", text(&app.app_url)),
    ];
    for variable in &app.env {
        lines.push(("env", format!("{}={}", variable.name, variable.value)));
    }
    for pod in &app.pods {
        lines.push(("pod", pod.name.clone()));
    }
    let line = |(name, value): &(&str, String)| format!("{name:<15}{}\n", printable(value));
    lines.iter().map(line).collect()
}

fn size_text(size: &OfferedSize) -> String {
    let gpus = match size.gpu_limit {
        Some(count) if count > 0 => format!(", {count} GPU"),
        _ => String::new(),
    };
    format!(
        "{} ({} CPU, {} GiB{gpus})",
        size.name,
        size.cpu_limit.unwrap_or_default(),
        size.memory_limit.unwrap_or_default()
    )
}

/// Rows with columns as wide as their widest cell.
pub(in crate::commands) fn table_text(rows: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let widths = widths.iter().chain(std::iter::repeat(&0));
    let cells: Vec<String> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{:<width$}", printable(cell)))
        .collect();
    format!("{}\n", cells.join(GAP).trim_end())
}

/// Replaces control characters and those that change the direction: other people choose names, and
/// a terminal would obey them.
pub(in crate::commands) fn printable(text: &str) -> String {
    let is_shown = |c: char| !c.is_control() && !is_directional(c);
    let shown = |c: char| {
        if is_shown(c) {
            c
        } else {
            char::REPLACEMENT_CHARACTER
        }
    };
    text.chars().map(shown).collect()
}

fn text(value: &Option<String>) -> String {
    value.clone().unwrap_or_default()
}

/// Prints JSON for programs.
pub(in crate::commands) fn print_json<T: Serialize + ?Sized>(value: &T) -> io::Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Prints a text as it is.
pub(in crate::commands) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_a_name_cannot_steer_the_terminal() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [
            row(["ID", "NAME"]),
            row(["größe", "\u{1b}[2Jhello\u{202e}"]),
            row(["a", ""]),
        ];
        assert_eq!(
            table_text(&rows),
            "ID     NAME\ngröße  \u{fffd}[2Jhello\u{fffd}\na\n"
        );
    }
}
