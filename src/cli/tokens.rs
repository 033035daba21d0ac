//! The arguments of `ludgate tokens`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `ludgate tokens …`
#[derive(Debug, Subcommand)]
pub enum TokensCommand {
    /// Make a token, and print it. It is not shown again.
    #[command(
        after_help = "Example: ludgate tokens create --config ludgate.toml --name nightly --app mlflow --group phusers --expires 90d"
    )]
    Create(CreateTokenArgs),
    /// List the tokens, without their secrets.
    #[command(after_help = "Example: ludgate tokens list --config ludgate.toml")]
    List(ListTokensArgs),
    /// Revoke a token.
    #[command(after_help = "Example: ludgate tokens revoke --config ludgate.toml nightly")]
    Revoke(RevokeTokenArgs),
}

/// `ludgate tokens create`
#[derive(Args, Debug)]
pub struct CreateTokenArgs {
    /// The gateway's configuration file; its table [tokens] says where tokens are stored.
    #[arg(long)]
    pub config: PathBuf,
    /// The name of the program. The app sees the user service:<name>.
    #[arg(long)]
    pub name: String,
    /// The id of an app that the token is for; repeatable.
    #[arg(long = "app", required = true, value_delimiter = ',')]
    pub apps: Vec<String>,
    /// A group that the program is in, for access rules; repeatable.
    #[arg(long = "group", alias = "groups", value_delimiter = ',')]
    pub groups: Vec<String>,
    /// How long the token is valid, such as 90d; at most 730d.
    #[arg(long)]
    pub expires: String,
}

/// `ludgate tokens list`
#[derive(Args, Debug)]
pub struct ListTokensArgs {
    /// The gateway's configuration file.
    #[arg(long)]
    pub config: PathBuf,
}

/// `ludgate tokens revoke`
#[derive(Args, Debug)]
pub struct RevokeTokenArgs {
    /// The gateway's configuration file.
    #[arg(long)]
    pub config: PathBuf,
    /// The name of the program; or sha256: and the beginning of the token's SHA-256, at least 8 hex
    /// digits.
    pub name: String,
}
