//! Fetches one commit.

use super::{
    environment::GitEnvironment, failure, path_text::path_text, process, remote::GitRemote,
};
use crate::source::{chart_source::GitRevision, error::SourceError};

/// What the commands here may write, in bytes.
const MAX_OUTPUT: usize = 1 << 20;
/// Longest name of a branch or tag, in bytes.
const MAX_REFERENCE: usize = 255;
/// Where fetched commits are in the bare repository.
const WANTED: &str = "refs/ludgate/wanted";

/// Fetches from one remote.
#[derive(Debug)]
pub(super) struct Fetcher<'f> {
    pub(super) environment: &'f GitEnvironment,
    pub(super) remote: &'f GitRemote,
}

impl Fetcher<'_> {
    /// Fetches a revision into a new bare repository, and returns its commit.
    pub(super) async fn fetch(&self, revision: &GitRevision) -> Result<String, SourceError> {
        let repository = path_text(&self.environment.repository)?;
        let init = ["init", "-q", "--bare", "--template=", repository];
        let made = process::run_anywhere(self.environment, &init, MAX_OUTPUT).await?;
        if !made.is_success {
            return Err(failure::from_stderr(&made.stderr, "repository"));
        }
        match revision {
            GitRevision::Branch(branch) => self.fetch_last("heads", "branch", branch).await,
            GitRevision::Tag(tag) => self.fetch_last("tags", "tag", tag).await,
            GitRevision::Commit { branch, commit } => self.fetch_commit(branch, commit).await,
        }
    }

    /// The last commit of a branch, or that of a tag, without its history.
    async fn fetch_last(&self, kind: &str, word: &str, name: &str) -> Result<String, SourceError> {
        let reference = format!("+refs/{kind}/{name}:{WANTED}");
        self.git_fetch(&["--depth=1"], &reference, &format!("{word} {name:?}"))
            .await?;
        self.wanted_commit().await
    }

    /// A commit that must belong to a branch. The whole branch is fetched, unless the commit is its
    /// last one: servers also give commits that belong to no branch.
    async fn fetch_commit(&self, branch: &str, commit: &str) -> Result<String, SourceError> {
        if self.last_commit(branch).await? == commit {
            let found = self.fetch_last("heads", "branch", branch).await?;
            return match found == commit {
                true => Ok(found),
                false => Err(SourceError::transient(
                    "the branch changed during the download",
                )),
            };
        }
        let reference = format!("+refs/heads/{branch}:{WANTED}");
        self.git_fetch(&[], &reference, &format!("branch {branch:?}"))
            .await?;
        let arguments = ["merge-base", "--is-ancestor", commit, WANTED];
        let is_ancestor = process::run(self.environment, &arguments, MAX_OUTPUT).await?;
        match is_ancestor.is_success {
            true => Ok(commit.to_owned()),
            false => Err(SourceError::permanent(format!(
                "commit is not in branch {branch}"
            ))),
        }
    }

    /// The last commit of a branch on the server.
    async fn last_commit(&self, branch: &str) -> Result<String, SourceError> {
        let name = format!("refs/heads/{branch}");
        let arguments = ["ls-remote", "--end-of-options", &self.remote.text, &name];
        let listed = process::run(self.environment, &arguments, MAX_OUTPUT).await?;
        if !listed.is_success {
            return Err(failure::from_stderr(
                &listed.stderr,
                &format!("branch {branch:?}"),
            ));
        }
        let text = String::from_utf8_lossy(&listed.stdout);
        let mut commits = text.lines().filter_map(|line| line.split_once('\t'));
        // The name is a pattern for the ends of names.
        let commit = commits.find(|(_, found)| *found == name);
        let commit = commit.map(|(commit, _)| commit.to_owned());
        commit.ok_or_else(|| SourceError::permanent(format!("the remote has no branch {branch:?}")))
    }

    async fn git_fetch(
        &self,
        options: &[&str],
        reference: &str,
        wanted: &str,
    ) -> Result<(), SourceError> {
        let mut arguments = vec!["fetch", "-q", "--no-tags"];
        arguments.extend(options);
        arguments.extend(["--end-of-options", &self.remote.text, reference]);
        let fetched = process::run(self.environment, &arguments, MAX_OUTPUT).await?;
        match fetched.is_success {
            true => Ok(()),
            false => Err(failure::from_stderr(&fetched.stderr, wanted)),
        }
    }

    /// The commit that was fetched. A tag may be an object of its own.
    async fn wanted_commit(&self) -> Result<String, SourceError> {
        let commit = format!("{WANTED}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--end-of-options", &commit];
        let parsed = process::run(self.environment, &arguments, MAX_OUTPUT).await?;
        let text = String::from_utf8_lossy(&parsed.stdout).trim().to_owned();
        match parsed.is_success && is_commit(&text) {
            true => Ok(text),
            false => Err(SourceError::permanent("the tag is not that of a commit")),
        }
    }
}

/// Whether a revision can be that of a git repository: its names become arguments.
///
/// # Errors
/// Permanent, with the name.
pub(super) fn check_revision(revision: &GitRevision) -> Result<(), SourceError> {
    let (name, commit) = match revision {
        GitRevision::Branch(name) | GitRevision::Tag(name) => (name, None),
        GitRevision::Commit { branch, commit } => (branch, Some(commit)),
    };
    if !is_reference(name) {
        let what = format!("{name:?} is no name of a branch or tag");
        return Err(SourceError::permanent(what));
    }
    match commit.filter(|commit| !is_commit(commit)) {
        Some(commit) => Err(SourceError::permanent(format!("{commit:?} is no commit"))),
        None => Ok(()),
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The rules of `git check-ref-format`.
fn is_reference(name: &str) -> bool {
    let is_allowed = |c: char| !c.is_control() && !" ~^:?*[\\".contains(c);
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    name.len() <= MAX_REFERENCE
        && name.chars().all(is_allowed)
        && name.split('/').all(is_part)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && !name.starts_with('-')
        && name != "@"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_branches_follow_the_rules_of_git() {
        for name in ["main", "feature/x", "v1.2.3", "a-b", "ü", "a@b"] {
            assert!(
                check_revision(&GitRevision::Branch(name.to_owned())).is_ok(),
                "{name}"
            );
        }
        let long = "a".repeat(256);
        for name in [
            "",
            "-a",
            "--upload-pack=x",
            "a..b",
            "a b",
            "a:b",
            "a^",
            "a~1",
            "a?",
            "a*",
            "a[b",
            "a\\b",
            "a\n",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.",
            "@",
            "a@{1}",
            &long,
        ] {
            assert!(
                check_revision(&GitRevision::Tag(name.to_owned())).is_err(),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_commit_has_forty_digits() {
        let with = |commit: &str| {
            check_revision(&GitRevision::Commit {
                branch: "main".to_owned(),
                commit: commit.to_owned(),
            })
        };
        assert!(with(&"0123456789abcdef0123".repeat(2)).is_ok());
        for commit in ["", "abc", &"a".repeat(41), &"A".repeat(40), &"g".repeat(40)] {
            assert!(with(commit).is_err(), "{commit}");
        }
    }
}
