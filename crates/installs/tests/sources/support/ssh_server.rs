//! OpenSSH's server on loopback, with keys of its own.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use tempfile::TempDir;

use super::command::program;

/// A server that accepts one key, for the user of the tests.
pub(crate) struct SshServer {
    child: Child,
    port: u16,
    user: String,
    folder: TempDir,
}

impl SshServer {
    /// Starts the server, and waits until it listens.
    pub(crate) fn start() -> SshServer {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["host", "client", "stranger"] {
            make_key(&folder.path().join(name));
        }
        let public = fs::read(folder.path().join("client.pub")).expect("a key");
        fs::write(folder.path().join("authorized"), public).expect("written");
        // As root, it wants a folder that the package's service makes.
        if user() == "root" {
            let separated = Path::new("/run/sshd");
            fs::create_dir_all(separated).expect("a folder");
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(separated, mode).expect("permissions");
        }
        let port = free_port();
        fs::write(folder.path().join("config"), config(folder.path(), port)).expect("written");
        let mut child = program("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(folder.path().join("config"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("sshd is installed");
        let stderr = child.stderr.take().expect("a pipe");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let listens = lines.any(|line| line.contains("Server listening on"));
        assert!(listens, "sshd does not listen");
        // It must not stop because nothing reads what it writes.
        std::thread::spawn(move || lines.for_each(drop));
        SshServer {
            child,
            port,
            user: user(),
            folder,
        }
    }

    /// The remote of a repository.
    pub(crate) fn remote(&self, repository: &Path) -> String {
        let (user, port) = (&self.user, self.port);
        format!("ssh://{user}@127.0.0.1:{port}{}", repository.display())
    }

    /// The private key `client`, which the server accepts, or `stranger`.
    pub(crate) fn key(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect("a key")
    }

    /// The server's own line of `known_hosts`, or one with the key of `stranger`.
    pub(crate) fn known_host(&self, name: &str) -> String {
        let public = self.folder.path().join(format!("{name}.pub"));
        let public = fs::read_to_string(public).expect("a key");
        format!("[127.0.0.1]:{} {public}", self.port)
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(folder: &Path, port: u16) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    format!(
        "ListenAddress 127.0.0.1:{port}\n\
         HostKey {}\n\
         AuthorizedKeysFile {}\n\
         PidFile none\n\
         StrictModes no\n\
         UsePAM no\n\
         PasswordAuthentication no\n\
         KbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\n",
        file("host"),
        file("authorized"),
    )
}

fn make_key(path: &Path) {
    let made = program("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
        .arg(path)
        .status();
    assert!(made.expect("ssh-keygen is installed").success());
}

fn user() -> String {
    let output = program("id").arg("-un").output().expect("id is installed");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A free port below those that the system gives to outgoing connections, so that it stays free
/// until the server takes it. Tests run in processes of their own: the process id spreads them.
fn free_port() -> u16 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let tries = std::iter::repeat_with(|| {
        let spread = std::process::id()
            .wrapping_mul(7919)
            .wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed) * 101);
        10_000 + u16::try_from(spread % 20_000).expect("below 20,000")
    });
    tries.take(1000).find(free).expect("a free port")
}
