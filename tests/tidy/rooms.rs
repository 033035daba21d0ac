//! Which room may import which: every arrow points down.

use std::path::Path;

use crate::{
    files::{File, rust_files},
    report::complain,
    tokens::tokens_of,
};

/// The rooms of the root package, lowest first. A room imports from lower steps and from itself,
/// never from its own step or above. Between packages Cargo enforces the same.
const STEPS: &[&[&str]] = &[
    // Packages of their own, under the names that the root package has for them.
    &["model"],
    &["ops", "cluster"],
    &["controllers", "client"],
    &["session"],
    &["identity"],
    &["labs", "installs"],
    &["api"],
    &["streams", "proxy_protocol", "net"],
    &["peer", "incoming", "route", "authorize", "listener"],
    &["caller", "catalog", "forward", "return_to"],
    &["decide", "health_checks", "integrations", "pages"],
    &["body_budget"],
    &["gateway", "saved_form"],
    &["access_log", "stream_policy"],
    &["respond"],
    &["endpoints"],
    &["handler"],
    &["admin", "hub_proxy"],
    &["settings", "cli"],
    &["run", "import"],
    &["demo", "testing"],
    &["commands"],
    &["main", "lib"],
];

#[test]
fn imports_point_one_way() {
    let files = rust_files(&["src"]).expect("readable sources");
    complain(
        "imports point the wrong way (see STEPS in tests/tidy/rooms.rs)",
        files.iter().flat_map(wrong_ways),
    );
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
    format!("{room:?} is on no step; add it to STEPS in tests/tidy/rooms.rs")
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

#[cfg(test)]
mod tests {
    use super::*;

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
            ("incoming", "model", true),
            ("incoming", "incoming", true),
            ("gateway", "peer", true),
            ("incoming", "peer", false),
            ("incoming", "gateway", false),
            ("cellar", "model", false),
            ("incoming", "cellar", false),
            ("main", "self", false),
        ] {
            assert_eq!(
                wrong_way(from, to).is_none(),
                fine,
                "{from} names {to}: {:?}",
                wrong_way(from, to)
            );
        }
        let offenders = wrong_ways(&File::new(
            "src/incoming/store.rs",
            "use crate::{\n    model,\n    gateway,\n};",
        ));
        assert_eq!(
            offenders,
            ["src/incoming/store.rs:3: incoming names crate::gateway: that is up"]
        );
        assert_eq!(
            wrong_ways(&File::new("src/cellar.rs", "")).len(),
            1,
            "a room without a step"
        );
        assert_eq!(room_of(Path::new("src/incoming/store.rs")), ("incoming", 2));
        assert_eq!(room_of(Path::new("src/main.rs")), ("main", 0));
        let rooms = STEPS.concat();
        assert!(
            rooms
                .iter()
                .all(|room| rooms.iter().filter(|r| r == &room).count() == 1),
            "each room once"
        );
    }
}
