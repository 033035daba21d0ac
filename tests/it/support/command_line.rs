//! `ludgate apps` and `ludgate installs` as processes, with a home folder of their own.

use std::process::Stdio;

use serde_json::Value;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};

use super::process::program;

/// A person's terminal.
pub struct Terminal {
    home: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

/// What a command printed.
pub struct Printed {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Printed {
    /// The output of a command that worked.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// The only line of a command that failed.
    pub fn error(self) -> String {
        assert_eq!(self.code, Some(1), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "");
        self.stderr.trim_end().to_owned()
    }

    /// The output as JSON.
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("JSON")
    }
}

impl Terminal {
    /// A person who has not signed in.
    pub fn new() -> Terminal {
        Terminal {
            home: tempfile::tempdir().expect("a folder"),
            variables: Vec::new(),
        }
    }

    /// A person with a token in the environment.
    pub fn with_token(site: &str, token: &str) -> Terminal {
        let mut terminal = Terminal::new();
        terminal.variables = vec![
            ("LUDGATE_SITE", site.to_owned()),
            ("LUDGATE_TOKEN", token.to_owned()),
        ];
        terminal
    }

    pub fn set(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.to_owned()));
    }

    pub fn unset(&mut self, name: &str) {
        self.variables.retain(|(known, _)| *known != name);
    }

    /// Starts `ludgate apps` with these arguments.
    pub fn spawn(&self, arguments: &str) -> Child {
        self.spawn_part("apps", arguments)
    }

    fn spawn_part(&self, part: &str, arguments: &str) -> Child {
        Command::new(program())
            .arg(part)
            .args(arguments.split(' '))
            .env_clear()
            .env("HOME", self.home.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts")
    }

    /// Runs a command.
    pub async fn run(&self, arguments: &str) -> Printed {
        finish(self.spawn(arguments), "").await
    }

    /// Runs another part of the program, such as `installs`.
    pub async fn run_part(&self, part: &str, arguments: String) -> Printed {
        finish(self.spawn_part(part, &arguments), "").await
    }
}

/// Gives a command its input, and waits for its end.
pub async fn finish(mut child: Child, input: &str) -> Printed {
    let mut stdin = child.stdin.take().expect("an input");
    // A command that reads nothing may have ended already.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ran");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Printed {
        code: output.status.code(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}
