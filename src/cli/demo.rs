//! The arguments of parts of the demo.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

/// `ludgate demo …`
#[derive(Debug, Subcommand)]
pub enum DemoPart {
    /// Run only the identity provider. It signs in without a password.
    #[command(
        after_help = "Example: ludgate demo provider --listen 127.0.0.1:8081 --site http://localhost:8080 --client-secret-file secret"
    )]
    Provider(DemoProviderArgs),
    /// Run only a sample app, behind a gateway.
    #[command(after_help = "Example: ludgate demo app whoami --listen 0.0.0.0:8080")]
    App(DemoAppArgs),
}

/// `ludgate demo provider`
#[derive(Args, Debug)]
pub struct DemoProviderArgs {
    /// Address and port to listen on; loopback only.
    #[arg(long)]
    pub listen: SocketAddr,
    /// The site of its only client, `ludgate-demo`.
    #[arg(long)]
    pub site: String,
    /// A file with the client's secret.
    #[arg(long)]
    pub client_secret_file: PathBuf,
}

/// `ludgate demo app`
#[derive(Args, Debug)]
pub struct DemoAppArgs {
    /// The app.
    pub app: DemoApp,
    /// Address and port to listen on. It trusts the identity headers that it receives.
    #[arg(long)]
    pub listen: SocketAddr,
    /// The URL of the launcher, for a link.
    #[arg(long, default_value = "/")]
    pub launcher: String,
}

/// A sample app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DemoApp {
    /// A page.
    Hello,
    /// Shows the headers that it receives.
    Whoami,
    /// Greets a member of a group.
    Team,
    /// A chat, by WebSocket or Server-Sent Events.
    Chat,
}
