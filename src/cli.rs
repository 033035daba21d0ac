//! The command line, as clap reads it.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// The gate in front of a platform's apps.
#[derive(Debug, Parser)]
#[command(name = "ludgate", version, about, after_help = "Example: ludgate demo")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Try it: gateway, identity provider and four sample apps in one process, on loopback.
    #[command(after_help = "Example: ludgate demo --listen 127.0.0.1:8080")]
    Demo(DemoArgs),
    /// Run the gateway.
    #[command(after_help = "Example: ludgate gateway --config /etc/ludgate/ludgate.toml")]
    Gateway(GatewayArgs),
    /// Check, print or explain the configuration.
    #[command(after_help = "Example: ludgate config check ludgate.toml")]
    Config {
        /// Which of them.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print the definitions of the custom resources.
    #[command(after_help = "Example: ludgate crd print | kubectl apply -f -")]
    Crd {
        /// What to do with them.
        #[command(subcommand)]
        command: CrdCommand,
    },
    /// Say, step by step, what a request would get.
    #[command(
        after_help = "Example: ludgate explain --config ludgate.toml https://hub.example.com/apps/mlflow/ --user alice --group phusers"
    )]
    Explain(ExplainArgs),
}

/// `ludgate demo`
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Where to listen; loopback only.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Print the JSON line of every request.
    #[arg(long)]
    pub log_requests: bool,
}

/// `ludgate gateway`
#[derive(Args, Debug)]
pub struct GatewayArgs {
    /// The configuration file.
    #[arg(long)]
    pub config: PathBuf,
}

/// `ludgate config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show every mistake at once; exit code 2 when there is one.
    #[command(after_help = "Example: ludgate config check ludgate.toml")]
    Check {
        /// The configuration file.
        file: PathBuf,
    },
    /// Print a commented file with every key and its default.
    #[command(after_help = "Example: ludgate config print > ludgate.toml")]
    Print,
    /// Print the Markdown reference.
    #[command(after_help = "Example: ludgate config reference > docs/configuration.md")]
    Reference,
}

/// `ludgate crd …`
#[derive(Debug, Subcommand)]
pub enum CrdCommand {
    /// Print them as YAML: PhApplication and PhAppTemplate.
    #[command(after_help = "Example: ludgate crd print | kubectl apply -f -")]
    Print,
}

/// `ludgate explain`
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// The configuration file.
    #[arg(long)]
    pub config: PathBuf,
    /// The address, as in a browser; or a path on the site.
    pub url: String,
    /// The person's subject; without it nobody is signed in.
    #[arg(long)]
    pub user: Option<String>,
    /// A group the person is in; may be repeated.
    #[arg(long = "group", requires = "user")]
    pub groups: Vec<String>,
    /// The method.
    #[arg(long, default_value = "GET")]
    pub method: String,
    /// Who asks: a person opening a page, a script, or a WebSocket.
    #[arg(long = "as", default_value = "navigation")]
    pub kind: RequestKind,
    /// The Origin header.
    #[arg(long)]
    pub origin: Option<String>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RequestKind {
    /// A person opens a page.
    Navigation,
    /// A script of a page, or a program.
    Fetch,
    /// A WebSocket handshake.
    Websocket,
}
