//! Taste is tested: what no compiler refuses and every reader would notice.
//!
//! Plain text in, offenders out. Where code is judged, comments and literals count for nothing.
//! Each check collects all offenders and shows them at once.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The rooms of the root package, lowest first. A room imports from lower steps and from itself,
/// never from its own step or above. Between packages Cargo enforces the same.
const STEPS: &[&[&str]] = &[
    // Packages of their own, under the names that the root package has for them.
    &["model", "ops", "cluster", "identity", "session"],
    &["streams"],
    &[
        "peer",
        "incoming",
        "route",
        "authorize",
        "arvados",
        "listener",
    ],
    &["forward", "catalog"],
    &["gateway"],
    &["admin"],
    &["settings", "cli"],
    &["run"],
    &["demo", "testing"],
    &["commands"],
    &["main", "lib"],
];
const MAX_LINES: usize = 500;
/// Files that became too long when the code was set at 100 columns, until they are split.
const TO_BE_SPLIT: [&str; 8] = [
    "crates/identity/src/session/record.rs",
    "crates/identity/src/session/redis.rs",
    "crates/identity/src/session/store.rs",
    "src/gateway/consult.rs",
    "src/gateway/thread.rs",
    "src/run.rs",
    "src/settings/file.rs",
    "tests/tidy.rs",
];
const MAX_COMMENT_WIDTH: usize = 100;
const MAX_ARCHITECTURE_LINES: usize = 200;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 4] = ["util", "utils", "common", "helpers"];
/// Folders on the root of somebody's machine; written apart, so that this file does not name such a
/// path.
const MACHINE_FOLDERS: [&str; 3] = ["root", "work", "home"];
/// Built, not written; packages of npm are skipped wherever they are.
const BUILT_FOLDERS: [&str; 3] = [".git", "target", "fuzz/target"];

#[test]
fn no_rust_file_is_over_five_hundred_lines() {
    let files = rust_files(&["src", "crates", "tests"]).expect("readable sources");
    complain(
        "files are too long; split them",
        files.iter().filter_map(too_long),
    );
}

#[test]
fn every_source_file_begins_with_a_header() {
    let files = rust_files(&["src", "crates"]).expect("readable sources");
    complain(
        "files do not begin with a `//!` header",
        files.iter().filter_map(headless),
    );
}

#[test]
fn comments_fit_into_a_hundred_columns() {
    let files = rust_files(&["src", "crates", "tests"]).expect("readable sources");
    complain(
        "comment lines are too wide; wrap them",
        files.iter().flat_map(wide_comments),
    );
}

#[test]
fn imports_point_one_way() {
    let files = rust_files(&["src"]).expect("readable sources");
    complain(
        "imports point the wrong way (see STEPS in tests/tidy.rs)",
        files.iter().flat_map(wrong_ways),
    );
}

#[test]
fn nothing_unfinished_or_switched_off_is_left() {
    let files = rust_files(&["src", "crates", "tests"]).expect("readable sources");
    complain(
        "something is unfinished or switched off",
        files.iter().flat_map(unfinished),
    );
}

#[test]
fn every_name_says_what_is_inside() {
    let paths = everything_below(Path::new("")).expect("a readable project");
    assert!(
        paths.contains(&PathBuf::from("Cargo.toml")),
        "the walk sees the project"
    );
    complain(
        "names say nothing about what is inside",
        paths.iter().filter_map(|path| empty_name(path)),
    );
}

#[test]
fn no_text_names_a_path_of_somebodys_machine() {
    let mut offenders = Vec::new();
    for path in everything_below(Path::new("")).expect("a readable project") {
        let in_scope = ["src", "crates", "tests", "docs", "config", "templates"]
            .iter()
            .any(|top| path.starts_with(top));
        let is_page =
            path.parent() == Some(Path::new("")) && path.extension().is_some_and(|e| e == "md");
        if (in_scope || is_page) && root().join(&path).is_file() {
            // What is not UTF-8 is no text.
            if let Ok(text) =
                String::from_utf8(fs::read(root().join(&path)).expect("a readable file"))
            {
                offenders.extend(machine_paths(&File { path, text }));
            }
        }
    }
    complain("texts name paths of one machine", offenders.into_iter());
}

#[test]
fn the_architecture_fits_on_two_hundred_lines() {
    let text =
        fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let lines = text.lines().count();
    assert!(lines > 0, "ARCHITECTURE.md is empty");
    assert!(
        lines <= MAX_ARCHITECTURE_LINES,
        "ARCHITECTURE.md: {lines} lines, {MAX_ARCHITECTURE_LINES} allowed"
    );
}

#[test]
fn the_readme_names_the_two_commands() {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md is there");
    for command in ["make demo", "make test"] {
        assert!(
            text.contains(command),
            "README.md does not mention `{command}`"
        );
    }
}

/// One text of the project, its path relative to the root.
struct File {
    path: PathBuf,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file and folder below a folder of the project, relative to the root, sorted.
fn everything_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        // Links are not followed: what they point to is judged where it lives, if it is ours.
        if entry.file_type()?.is_dir() {
            if path.ends_with("node_modules")
                || BUILT_FOLDERS.iter().any(|built| path == Path::new(built))
            {
                continue;
            }
            found.extend(everything_below(&path)?);
        }
        found.push(path);
    }
    found.sort();
    Ok(found)
}

fn rust_files(folders: &[&str]) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    for folder in folders {
        let paths = everything_below(Path::new(folder))?;
        for path in paths
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        {
            let text = fs::read_to_string(root().join(&path))?;
            files.push(File { path, text });
        }
        assert!(
            !files.is_empty(),
            "{folder} holds no Rust file: the check would check nothing"
        );
    }
    Ok(files)
}

fn complain(what: &str, offenders: impl Iterator<Item = String>) {
    let offenders: Vec<String> = offenders.collect();
    assert!(
        offenders.is_empty(),
        "{} {what}:\n  {}\n",
        offenders.len(),
        offenders.join("\n  ")
    );
}

fn too_long(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    let is_known = TO_BE_SPLIT
        .iter()
        .any(|known| file.path == Path::new(known));
    (lines > MAX_LINES && !is_known).then(|| {
        format!(
            "{}: {lines} lines, {MAX_LINES} allowed",
            file.path.display()
        )
    })
}

fn headless(file: &File) -> Option<String> {
    (!file.text.starts_with("//!")).then(|| file.path.display().to_string())
}

/// rustfmt wraps code and leaves comments alone.
fn wide_comments(file: &File) -> Vec<String> {
    let is_wide = |line: &str| {
        line.trim_start().starts_with("//") && line.chars().count() > MAX_COMMENT_WIDTH
    };
    let wide = file
        .text
        .lines()
        .enumerate()
        .filter(|(_, line)| is_wide(line));
    wide.map(|(index, _)| format!("{}:{}", file.path.display(), index + 1))
        .collect()
}

fn machine_paths(file: &File) -> Vec<String> {
    let mut offenders = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for folder in MACHINE_FOLDERS {
            if line.contains(&format!("/{folder}/")) {
                offenders.push(format!("{}:{}: /{folder}/", file.path.display(), index + 1));
            }
        }
    }
    offenders
}

fn empty_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    let is_empty = EMPTY_NAMES.contains(&stem) || path.file_name()? == "mod.rs";
    is_empty.then(|| path.display().to_string())
}

fn unfinished(file: &File) -> Vec<String> {
    let tokens = tokens_of(&file.text);
    let text = |at: usize| tokens.get(at).map_or("", |(_, text)| *text);
    let found = |at: usize| match text(at) {
        // `!=` after a name is a comparison.
        name @ ("todo" | "unimplemented" | "dbg") if text(at + 1) == "!" && text(at + 2) != "=" => {
            Some(name)
        }
        "#" if text(at + 1) == "[" && text(at + 2) == "ignore" => Some("#[ignore]"),
        _ => None,
    };
    let found = (0..tokens.len()).filter_map(|at| found(at).map(|what| (tokens[at].0, what)));
    found
        .map(|(line, what)| format!("{}:{line}: {what}", file.path.display()))
        .collect()
}

fn wrong_ways(file: &File) -> Vec<String> {
    let (from, depth) = room_of(&file.path);
    if step_of(from).is_none() {
        return vec![format!("{}: {}", file.path.display(), on_no_step(from))];
    }
    let mut offenders = Vec::new();
    for (line, to) in rooms_named(&file.text, depth) {
        if let Some(why) = wrong_way(from, &to) {
            offenders.push(format!(
                "{}:{line}: {from} names crate::{to}: {why}",
                file.path.display()
            ));
        }
    }
    offenders
}

/// `src/arvados/store.rs` belongs to `arvados`, two modules deep; the crate's root files are no
/// modules.
fn room_of(path: &Path) -> (&str, usize) {
    let modules: Vec<&str> = path
        .iter()
        .skip(1)
        .filter_map(|part| part.to_str())
        .collect();
    match modules.as_slice() {
        [] => ("lib", 0),
        [root @ ("main.rs" | "lib.rs")] => (root.trim_end_matches(".rs"), 0),
        [room, ..] => (room.trim_end_matches(".rs"), modules.len()),
    }
}

fn step_of(room: &str) -> Option<usize> {
    STEPS.iter().position(|rooms| rooms.contains(&room))
}

fn on_no_step(room: &str) -> String {
    format!("{room:?} is on no step; add it to STEPS in tests/tidy.rs")
}

/// Why a room must not name another; `None` when it may.
fn wrong_way(from: &str, to: &str) -> Option<String> {
    if from == to {
        return None;
    }
    match (step_of(from), step_of(to)) {
        (None, _) => Some(on_no_step(from)),
        (_, None) => Some(on_no_step(to)),
        (Some(own), Some(target)) if target < own => None,
        (Some(own), Some(target)) if target == own => Some("both are on one step".to_owned()),
        (Some(_), Some(_)) => Some("that is up".to_owned()),
    }
}

/// The first segment of every path that starts at the crate's root, with its line: `crate::x::y`,
/// `crate::{x, y::z}`, and `super::super::x` where it leaves the room. `depth` is that of the
/// file's module.
fn rooms_named(source: &str, depth: usize) -> Vec<(usize, String)> {
    let tokens = tokens_of(source);
    let text = |at: usize| tokens.get(at).map_or("", |(_, text)| *text);
    let mut found = Vec::new();
    // Inline modules that are open, each with the count of braces around it.
    let (mut braces, mut inline) = (0usize, Vec::new());
    for at in 0..tokens.len() {
        match text(at) {
            "{" => {
                braces += 1;
                if at >= 2 && text(at - 2) == "mod" {
                    inline.push(braces);
                }
            }
            "}" => {
                if inline.last() == Some(&braces) {
                    inline.pop();
                }
                braces = braces.saturating_sub(1);
            }
            "crate" if text(at + 1) == "::" => found.extend(heads(&tokens, at + 2)),
            // Under another name the crate's rooms could no longer be told.
            "crate" if text(at + 1) == "as" => found.push((tokens[at].0, "self".to_owned())),
            "super" if at < 2 || text(at - 2) != "super" => {
                let mut end = at;
                while text(end) == "super" && text(end + 1) == "::" {
                    end += 2;
                }
                if (end - at) / 2 == depth + inline.len() {
                    found.extend(heads(&tokens, end));
                }
            }
            _ => {}
        }
    }
    found
}

/// The first segments of the paths that begin here: one, or those of a group.
fn heads(tokens: &[(usize, &str)], start: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut expected = true;
    for (line, token) in tokens.iter().skip(start) {
        match *token {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "," => expected = depth == 1,
            name if expected => {
                found.push((*line, name.to_owned()));
                expected = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// The code as words, `::`, and every other visible character by itself, each with its line.
/// Comments and literals are left out.
fn tokens_of(source: &str) -> Vec<(usize, &str)> {
    let (mut tokens, mut line, mut rest) = (Vec::new(), 1, source);
    while let Some(first) = rest.chars().next() {
        let skipped = not_code(rest).or(first.is_whitespace().then(|| first.len_utf8()));
        let length = skipped.unwrap_or_else(|| {
            match rest.find(|c: char| !c.is_alphanumeric() && c != '_') {
                _ if rest.starts_with("::") => 2,
                Some(0) => first.len_utf8(),
                Some(end) => end,
                None => rest.len(),
            }
        });
        let (text, after) = rest.split_at(length);
        if skipped.is_none() {
            tokens.push((line, text));
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// The length of the comment or literal that the text begins with. An unclosed one takes the rest.
fn not_code(text: &str) -> Option<usize> {
    let close = |from: usize, mark: &str| {
        text[from..]
            .find(mark)
            .map_or(text.len(), |at| from + at + mark.len())
    };
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    if text.starts_with('"') {
        return Some(quoted(text, '"'));
    }
    if let Some(after) = text.strip_prefix('\'') {
        let mut characters = after.chars();
        return match (characters.next(), characters.next()) {
            (Some('\\'), _) => Some(quoted(text, '\'')),
            (Some(c), Some('\'')) => Some(c.len_utf8() + 2),
            // A lifetime.
            (_, _) => None,
        };
    }
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| text.starts_with(prefix))?;
    let hashes = text[prefix.len()..]
        .bytes()
        .take_while(|byte| *byte == b'#')
        .count();
    let open = prefix.len() + hashes;
    text[open..]
        .starts_with('"')
        .then(|| close(open + 1, &format!("\"{}", "#".repeat(hashes))))
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == mark => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.to_owned(),
        }
    }

    fn named(source: &str, depth: usize) -> String {
        let rooms = rooms_named(source, depth).into_iter();
        rooms
            .map(|(line, room)| format!("{line} {room}"))
            .collect::<Vec<_>>()
            .join(", ")
    }

    #[test]
    fn a_room_is_found_however_its_path_is_written() {
        let source = "use crate::model::app::App;
            use crate::{admin, forward::{self, pool::{Pool, x}},
                identity::oidc,
                peer, session,
            };
            pub(in crate::gateway) fn f(a: crate::route::Route) -> &'static str { crate::x!() }
            mod tests {
                use crate :: catalog :: Catalog;
            }
            use crate as everything;
            use crate::*;";
        let expected = "1 model, 2 admin, 2 forward, 3 identity, 4 peer, 4 session, 6 gateway, 6 route, 6 x, \
                        8 catalog, 10 self, 11 *";
        assert_eq!(named(source, 1), expected);
    }

    #[test]
    fn super_counts_where_it_leaves_the_room() {
        let source = "use super::keys;
            use super::super::gateway;
            mod tests {
                use super::super::record;
                fn f() { super::super::super::admin::g() }
            }
            use super::store;";
        assert_eq!(named(source, 2), "2 gateway, 5 admin");
        assert_eq!(
            named("use super::{gateway, model::app};", 1),
            "1 gateway, 1 model"
        );
    }

    #[test]
    fn comments_and_literals_name_nothing() {
        let source = r##"//! crate::a
            /* crate::b /* crate::c */ crate::d */
            const X: &str = "crate::e \" crate::f";
            const Y: &str = r#"crate::g" crate::h"#;
            const Z: (char, char) = ('"', '\'');
            fn f<'a>(x: &'a str) { crate::model::g(b"crate::i", br"crate::j\") }"##;
        assert_eq!(named(source, 1), "6 model");
    }

    #[test]
    fn up_sideways_and_nowhere_are_told_from_down() {
        for (from, to, fine) in [
            ("arvados", "model", true),
            ("arvados", "arvados", true),
            ("gateway", "peer", true),
            ("arvados", "incoming", false),
            ("arvados", "gateway", false),
            ("cellar", "model", false),
            ("arvados", "cellar", false),
            ("main", "self", false),
        ] {
            assert_eq!(
                wrong_way(from, to).is_none(),
                fine,
                "{from} names {to}: {:?}",
                wrong_way(from, to)
            );
        }
        let offenders = wrong_ways(&file(
            "src/arvados/store.rs",
            "use crate::{\n    model,\n    gateway,\n};",
        ));
        assert_eq!(
            offenders,
            ["src/arvados/store.rs:3: arvados names crate::gateway: that is up"]
        );
        assert_eq!(
            wrong_ways(&file("src/cellar.rs", "")).len(),
            1,
            "a room that nobody placed"
        );
        assert_eq!(room_of(Path::new("src/arvados/store.rs")), ("arvados", 2));
        assert_eq!(room_of(Path::new("src/main.rs")), ("main", 0));
        let rooms = STEPS.concat();
        assert!(
            rooms
                .iter()
                .all(|room| rooms.iter().filter(|r| r == &room).count() == 1),
            "each room once"
        );
    }

    #[test]
    fn every_other_check_can_fail() {
        let sample = "fn f() { todo!(); }
            fn g() { dbg!(todo != 1); unimplemented!(\"todo!\"); } // todo!()
            #[ignore = \"slow\"]";
        let found = unfinished(&file("x.rs", sample)).join(", ");
        assert_eq!(
            found,
            "x.rs:1: todo, x.rs:2: dbg, x.rs:2: unimplemented, x.rs:3: #[ignore]"
        );
        assert!(too_long(&file("x.rs", &"\n".repeat(501))).is_some());
        assert!(too_long(&file("x.rs", &"\n".repeat(500))).is_none());
        assert_eq!(
            wide_comments(&file(
                "x.rs",
                &format!("fn f() {{}}\n  // {}", "x".repeat(96))
            )),
            ["x.rs:2"]
        );
        assert!(wide_comments(&file("x.rs", &format!("  // {}", "x".repeat(95)))).is_empty());
        assert!(headless(&file("x.rs", "\n//! late")).is_some());
        let path = format!("/{}/", MACHINE_FOLDERS[0]);
        assert_eq!(
            machine_paths(&file("x.md", &format!("\nsee {path}x"))),
            [format!("x.md:2: {path}")]
        );
        for (name, fine) in [
            ("a/util", false),
            ("a/helpers.rs", false),
            ("mod.rs", false),
            ("a/mod", true),
        ] {
            assert_eq!(empty_name(Path::new(name)).is_none(), fine, "{name}");
        }
    }
}
