//! Charts from git repositories, with the program `git`.
//!
//! Nothing is checked out: git fetches into a bare repository, and the files of one folder are
//! read from its objects. So filters, hooks, attributes, submodules and symbolic links have no
//! effect. Each process has limits of its own and is killed with all that it started when the
//! download ends.

mod environment;
mod failure;
mod fetch;
mod objects;
mod path_text;
mod process;
mod remote;
mod request;
mod ssh;
mod tree;

use std::path::Path;

use tokio::fs;

pub(crate) use self::request::GitRequest;
use self::{
    environment::GitEnvironment,
    fetch::Fetcher,
    remote::{GitRemote, Transport},
    tree::{TreeWriter, WriteLimits},
};
use super::{error::SourceError, repository_path::RepositoryPath};

/// The server of a git remote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteServer<'a> {
    /// Without brackets and port.
    pub(crate) host: &'a str,
    /// Whether others in the network cannot read what is sent to it.
    pub(crate) has_encryption: bool,
}

/// A fetched commit, from which folders can be read.
#[derive(Debug)]
pub(crate) struct GitCheckout {
    environment: GitEnvironment,
    remote: GitRemote,
    commit: String,
    left: WriteLimits,
}

impl GitCheckout {
    /// Fetches a commit into a folder, which must exist and be readable by this user only.
    ///
    /// # Errors
    /// Permanent if the remote, the revision or the credentials are wrong; transient if the remote
    /// does not answer.
    pub(crate) async fn fetch(
        request: GitRequest<'_>,
        folder: &Path,
    ) -> Result<GitCheckout, SourceError> {
        let remote = GitRemote::parse(request.remote, &request.settings.hosts)?;
        fetch::check_revision(request.revision)?;
        let home = folder.join("home");
        let created = fs::create_dir_all(&home).await;
        created.map_err(|error| SourceError::local("cannot create a folder", error))?;
        let environment = GitEnvironment::new(&remote, request, folder).await?;
        let fetcher = Fetcher {
            environment: &environment,
            remote: &remote,
        };
        let commit = fetcher.fetch(request.revision).await?;
        tracing::debug!(commit, "fetched the commit of a chart");
        Ok(GitCheckout {
            environment,
            remote,
            commit,
            left: WriteLimits::new(&request.settings.limits),
        })
    }

    /// The server that the commit came from.
    pub(crate) fn server(&self) -> RemoteServer<'_> {
        RemoteServer {
            host: &self.remote.host,
            has_encryption: match self.remote.transport {
                Transport::Https | Transport::Ssh => true,
                Transport::Http => false,
            },
        }
    }

    /// The commit, as 40 hexadecimal digits.
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    /// Writes a folder of the repository below another folder, at its path in the repository.
    ///
    /// # Errors
    /// Permanent if there is no such folder, or it has links or submodules, or exceeds a limit.
    pub(crate) async fn write(
        &mut self,
        path: &RepositoryPath,
        root: &Path,
    ) -> Result<(), SourceError> {
        let writer = TreeWriter {
            environment: &self.environment,
            commit: &self.commit,
        };
        writer.write(path, root, &mut self.left).await
    }
}
