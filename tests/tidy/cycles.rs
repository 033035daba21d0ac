//! Import cycles between the files of a package, parent and child modules among them.
//!
//! A file uses another when a path in its code leads there. A re-export (`pub use`) is followed to
//! where the item lives, and is no use by itself. Code for tests counts for nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    files::{File, rust_files},
    report::complain,
    tokens::tokens_without_tests,
};

/// A module's path inside its package; the package's root has an empty one.
type Module = Vec<String>;

#[test]
fn no_files_of_a_package_import_each_other() {
    let files = rust_files(&["src", "crates"]).expect("readable sources");
    let mut packages: BTreeMap<String, Vec<&File>> = BTreeMap::new();
    for file in &files {
        let path = file.path.to_string_lossy();
        if let Some((package, _)) = path.split_once("src/") {
            packages.entry(package.to_owned()).or_default().push(file);
        }
    }
    assert!(
        packages.len() > 3,
        "several packages are seen: {packages:?}",
        packages = packages.keys()
    );
    complain(
        "files import each other in a circle; put what they share below both",
        packages.values().flat_map(|files| in_cycles(files)),
    );
}

/// Every file that uses itself by way of others.
fn in_cycles(files: &[&File]) -> Vec<String> {
    let package = Package::new(files);
    let uses: BTreeMap<&Module, BTreeSet<Module>> = package
        .sources
        .keys()
        .map(|module| (module, package.used_by(module)))
        .collect();
    let reachable = |from: &Module| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&Module> = uses[from].iter().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(&uses[next]);
            }
        }
        seen
    };
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = uses
        .keys()
        .map(|module| (*module, reachable(module)))
        .collect();
    let mut found = Vec::new();
    for (module, others) in reach
        .iter()
        .filter(|(module, others)| others.contains(*module))
    {
        let circle = uses[*module]
            .iter()
            .filter(|next| others.contains(next) && reach[*next].contains(*module))
            .map(|next| package.shown(next))
            .collect::<Vec<_>>();
        let path = package.shown(module);
        found.push(format!(
            "{path} uses {}, which lead back",
            circle.join(", ")
        ));
    }
    found
}

struct Package<'f> {
    sources: BTreeMap<Module, &'f File>,
    paths: BTreeMap<Module, Vec<Named>>,
}

/// A path that code names.
struct Named {
    /// From the package's root.
    path: Module,
    /// Under which name others find it here.
    exported: Option<String>,
}

impl<'f> Package<'f> {
    fn new(files: &[&'f File]) -> Package<'f> {
        let sources: BTreeMap<Module, &File> = files
            .iter()
            .filter(|file| !file.path.ends_with("tests.rs") && !file.path.ends_with("main.rs"))
            .map(|file| (module_of(&file.path), *file))
            .collect();
        let paths = sources
            .iter()
            .map(|(module, file)| (module.clone(), named(module, &file.text)))
            .collect();
        Package { sources, paths }
    }

    fn shown(&self, module: &Module) -> String {
        self.sources
            .get(module)
            .map(|file| file.path.display().to_string())
            .unwrap_or_default()
    }

    fn used_by(&self, module: &Module) -> BTreeSet<Module> {
        let paths = self.paths[module]
            .iter()
            .filter(|named| named.exported.is_none());
        let targets = paths.filter_map(|named| self.home(&named.path, 8));
        targets.filter(|target| target != module).collect()
    }

    /// The file in which the end of a path lives.
    fn home(&self, path: &[String], depth: usize) -> Option<Module> {
        let length = (0..=path.len())
            .rev()
            .find(|end| self.sources.contains_key(&path[..*end]))?;
        let module = path[..length].to_vec();
        let Some(item) = path.get(length) else {
            return Some(module);
        };
        let export = self.paths[&module]
            .iter()
            .find(|named| named.exported.as_ref() == Some(item));
        match export {
            Some(named) if depth > 0 => {
                let rest = [&named.path[..], &path[length + 1..]].concat();
                // What another package exports lives there.
                self.home(&rest, depth - 1)
            }
            // The package's root declares modules and exports them; it has nothing to use.
            Some(_) | None => (!module.is_empty()).then_some(module),
        }
    }
}

/// `src/gateway/thread.rs` is `gateway::thread`.
fn module_of(path: &Path) -> Module {
    let text = path.to_string_lossy();
    let inner = text.split_once("src/").map_or("", |(_, inner)| inner);
    let inner = inner.trim_end_matches(".rs");
    if inner == "lib" {
        return Module::new();
    }
    inner.split('/').map(str::to_owned).collect()
}

/// The paths in a file's code that lead to the package itself.
fn named(module: &Module, source: &str) -> Vec<Named> {
    let tokens: Vec<&str> = tokens_without_tests(source)
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    let text = |at: usize| tokens.get(at).copied().unwrap_or_default();
    let children: BTreeSet<&str> = (0..tokens.len())
        .filter(|at| text(*at) == "mod" && text(at + 2) == ";")
        .map(|at| text(at + 1))
        .collect();
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let starts = at == 0 || !["::", "in", "."].contains(&text(at - 1));
        let is_path = text(at + 1) == "::"
            && (["crate", "super", "self"].contains(&text(at)) || children.contains(text(at)));
        if starts && is_path {
            // `pub use`, or `pub(..) use`.
            let is_export = at > 1 && text(at - 1) == "use" && ["pub", ")"].contains(&text(at - 2));
            for (segments, name) in branches(&tokens, at).0 {
                if let Some(path) = from_root(module, &segments) {
                    let exported = is_export.then_some(name);
                    found.push(Named { path, exported });
                }
            }
        }
    }
    found
}

/// A path, and the name under which it is found.
type Branch = (Vec<String>, String);

/// The paths of the tree that begins here, and where it ends.
fn branches(tokens: &[&str], start: usize) -> (Vec<Branch>, usize) {
    let text = |at: usize| tokens.get(at).copied().unwrap_or_default();
    let mut segments: Vec<String> = Vec::new();
    let mut at = start;
    loop {
        if text(at) == "{" {
            let mut found = Vec::new();
            at += 1;
            while at < tokens.len() && text(at) != "}" {
                let (inner, end) = branches(tokens, at);
                for (rest, name) in inner {
                    found.push(([&segments[..], &rest[..]].concat(), name));
                }
                at = if text(end) == "," { end + 1 } else { end };
            }
            return (found, at + 1);
        }
        segments.push(text(at).to_owned());
        at += 1;
        let continues = text(at) == "::" && text(at + 1) != "<";
        if !continues {
            break;
        }
        at += 1;
    }
    let last = segments.last().cloned().unwrap_or_default();
    if text(at) == "as" {
        return (vec![(segments, text(at + 1).to_owned())], at + 2);
    }
    (vec![(segments, last)], at)
}

/// The path from the package's root; `None` when it leads out of the module tree.
fn from_root(module: &Module, segments: &[String]) -> Option<Module> {
    let mut path = match segments.first()?.as_str() {
        "crate" => Module::new(),
        _ => module.clone(),
    };
    for segment in segments {
        match segment.as_str() {
            "crate" | "self" | "*" => {}
            "super" => {
                path.pop()?;
            }
            name => path.push(name.to_owned()),
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File::new(path, text))
            .collect();
        let files: Vec<&File> = files.iter().collect();
        in_cycles(&files)
            .into_iter()
            .filter_map(|shown| Some(shown.split_once(' ')?.0.to_owned()))
            .collect()
    }

    #[test]
    fn a_circle_is_found_and_a_line_is_none() {
        let a = ("src/a.rs", "use crate::b::B;");
        let b = ("src/b.rs", "use super::{c::{C, D}, d};");
        let lib = ("src/lib.rs", "pub mod a; pub mod b; pub mod c; pub mod d;");
        let d = ("src/d.rs", "");
        assert!(cycles(&[lib, a, b, ("src/c.rs", "struct C;"), d]).is_empty());
        let found = cycles(&[lib, a, b, ("src/c.rs", "fn f() { crate::a::g() }"), d]);
        assert_eq!(found, ["src/a.rs", "src/b.rs", "src/c.rs"]);
    }

    #[test]
    fn a_parent_and_its_child_that_use_each_other_are_a_circle() {
        let child = ("src/a/b.rs", "use super::A;");
        assert_eq!(
            cycles(&[("src/a.rs", "mod b; struct A(b::B);"), child]),
            ["src/a.rs", "src/a/b.rs"]
        );
        assert!(cycles(&[("src/a.rs", "mod b; pub use b::B; struct A;"), child]).is_empty());
    }

    #[test]
    fn an_export_is_followed_and_code_for_tests_is_left_out() {
        let parent = ("src/a.rs", "mod b; mod c; pub use b::B as Renamed;");
        let b = ("src/a/b.rs", "use super::c::C;");
        assert_eq!(
            cycles(&[parent, b, ("src/a/c.rs", "use crate::a::Renamed;")]),
            ["src/a/b.rs", "src/a/c.rs"]
        );
        let tested = "mod tests { use super::super::Renamed; }";
        assert!(cycles(&[parent, b, ("src/a/c.rs", tested)]).is_empty());
    }
}
