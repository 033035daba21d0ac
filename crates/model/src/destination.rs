//! The destination of a request: one app, and the target below its root.
//!
//! `authorize` checks this value and `forward` sends it, so both see the same target. The request
//! line is not parsed again.

use std::sync::Arc;

use http::uri::PathAndQuery;

use super::{
    access::Access,
    app::{App, AppKind, PathRewrite},
    path_rule::{RuleIndex, RuleSet},
};

/// An app and the target within it.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The app that gets the request.
    pub app: Arc<App>,
    target: PathAndQuery,
    /// Index in `target` of the slash after the id, where the path below the app begins.
    root: usize,
    /// The rules that apply. Without [`Destination::with_rules`], all that the app has.
    rules: RuleSet,
}

impl Destination {
    /// `root` is the index of the slash that ends the app's mount; 0 for an app at `/`.
    pub fn new(app: Arc<App>, target: PathAndQuery, root: usize) -> Destination {
        debug_assert_eq!(target.as_str().as_bytes().get(root), Some(&b'/'));
        let rules = app.spec.paths.all_with_own();
        Destination {
            app,
            target,
            root,
            rules,
        }
    }

    /// The mount itself, without a slash, of an app that serves it.
    pub fn bare(app: Arc<App>, target: PathAndQuery) -> Destination {
        let root = target.path().len();
        let rules = app.spec.paths.all_with_own();
        Destination {
            app,
            target,
            root,
            rules,
        }
    }

    /// The same destination, to which only these rules of its app apply.
    pub fn with_rules(self, rules: RuleSet) -> Destination {
        Destination { rules, ..self }
    }

    /// The rules that apply.
    pub fn rules(&self) -> RuleSet {
        self.rules
    }

    /// The path below the app's root, with its leading slash; empty for the mount itself.
    pub fn path(&self) -> &str {
        self.target.path().get(self.root..).unwrap_or_default()
    }

    /// Whether every caller is let in, so that no credential is read.
    pub fn is_open(&self) -> bool {
        if self.rules == RuleSet::OWN || self.app.kind == AppKind::Console {
            return self.app.is_open();
        }
        let is_open = |access: &Access| match access {
            Access::Public => true,
            // Denied without a look at the caller.
            Access::Unknown(_) => false,
            Access::User
            | Access::Group(_)
            | Access::Owner(_)
            | Access::Admins
            | Access::Person(_)
            | Access::Compound(_) => self.rules.is_for_preflight(),
        };
        let mut rules = self
            .rules
            .iter()
            .map(|index| self.app.rule(index))
            .peekable();
        rules.peek().is_some() && rules.all(is_open)
    }

    /// Whether every signed-in person is let in, so that no group matters.
    pub fn is_for_every_user(&self) -> bool {
        is_for_every_user(&self.app, self.rules)
    }

    /// Whether it is the mount itself. The cookie of an app session has a path with a final slash,
    /// so browsers do not send it there.
    pub fn is_bare(&self) -> bool {
        self.root == self.target.path().len()
    }

    /// The target for the app: whole, or with another prefix in place of the mount.
    ///
    /// # Errors
    /// `None` if the rewritten target is invalid; then the request is not sent.
    pub fn upstream_target(&self) -> Option<PathAndQuery> {
        let below = &self.target.as_str()[self.root..];
        match &self.app.spec.path_rewrite {
            PathRewrite::Keep => Some(self.target.clone()),
            PathRewrite::ReplacePrefix(prefix) if prefix.is_empty() => {
                PathAndQuery::try_from(below).ok()
            }
            PathRewrite::ReplacePrefix(prefix) => {
                PathAndQuery::try_from(format!("{prefix}{below}")).ok()
            }
        }
    }

    /// The target in the browser's address.
    pub fn public_target(&self) -> &PathAndQuery {
        &self.target
    }
}

/// Whether these rules of an app let every signed-in person in.
pub fn is_for_every_user(app: &App, rules: RuleSet) -> bool {
    if rules == RuleSet::OWN {
        return app.spec.access == Access::User;
    }
    let mut needs_person = false;
    let is_for_all = |index: RuleIndex| {
        let access = app.rule(index);
        needs_person |= *access == Access::User;
        matches!(access, Access::User | Access::Public)
    };
    rules.iter().all(is_for_all) && needs_person
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        access::Access,
        app::{AppId, AppSpec, Upstream, UpstreamScheme},
    };

    fn sent(path_rewrite: PathRewrite, target: &str) -> String {
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "localhost".into(),
            port: 1,
        };
        let id = AppId::for_viewer("team", "v").expect("an id");
        let spec = AppSpec {
            path_rewrite,
            ..AppSpec::new(id, upstream, Access::User, Duration::from_secs(1))
        };
        let mount = "/pvcviewers/team/v".to_owned();
        let root = mount.len();
        let app = Arc::new(App::hosted(spec, mount, None));
        let target = PathAndQuery::try_from(target).expect("a target");
        let sent = Destination::new(app, target, root).upstream_target();
        sent.expect("valid").to_string()
    }

    #[test]
    fn another_prefix_takes_the_place_of_the_mount() {
        let other = || PathRewrite::ReplacePrefix("/newrewrite".into());
        for (rewrite, target, wanted) in [
            (
                PathRewrite::Keep,
                "/pvcviewers/team/v/x?y=/z",
                "/pvcviewers/team/v/x?y=/z",
            ),
            (PathRewrite::strip(), "/pvcviewers/team/v/x?y=/z", "/x?y=/z"),
            (PathRewrite::strip(), "/pvcviewers/team/v/", "/"),
            (PathRewrite::strip(), "/pvcviewers/team/v//x", "//x"),
            (other(), "/pvcviewers/team/v/", "/newrewrite/"),
            (other(), "/pvcviewers/team/v/x%2Fy?z", "/newrewrite/x%2Fy?z"),
        ] {
            assert_eq!(sent(rewrite, target), wanted, "{target}");
        }
    }
}
