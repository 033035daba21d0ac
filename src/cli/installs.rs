//! The arguments of `ludgate installs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::apps::{OutputArgs, ShownArgs};

/// `ludgate installs …`
#[derive(Debug, Subcommand)]
pub enum InstallsCommand {
    /// List the applications that can be installed.
    Catalog(OutputArgs),
    /// List installations.
    #[command(after_help = "Example: ludgate installs list --namespace team-a")]
    List(ListInstallsArgs),
    /// Show an installation.
    Get(GetInstallArgs),
    /// Install an application.
    #[command(
        after_help = "Example: ludgate installs install docs --namespace team-a --app wiki --values values.yaml --watch"
    )]
    Install(InstallArgs),
    /// Change the version or the values of an installation.
    #[command(
        after_help = "Example: ludgate installs upgrade docs --namespace team-a --app-version 1.1.0 --watch"
    )]
    Upgrade(UpgradeArgs),
    /// Delete an installation, and uninstall its application.
    Delete(DeleteInstallArgs),
    /// List the versions and values that an installation has and had.
    History(HistoryArgs),
    /// Go back to an earlier version and its values.
    #[command(
        after_help = "Example: ludgate installs rollback docs --namespace team-a --to 3 --watch"
    )]
    Rollback(RollbackArgs),
}

/// Where installations are.
#[derive(Args, Clone, Debug)]
pub struct PlaceArgs {
    /// The namespace of the installation.
    #[arg(long, short)]
    pub namespace: String,
    /// The cluster: the name of a target.
    #[arg(long, default_value = "self")]
    pub target: String,
}

/// `ludgate installs list`
#[derive(Args, Debug)]
pub struct ListInstallsArgs {
    /// Only installations in this namespace.
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// The cluster: the name of a target.
    #[arg(long, default_value = "self")]
    pub target: String,
    /// How the list is printed.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `ludgate installs get`
#[derive(Args, Debug)]
pub struct GetInstallArgs {
    /// The installation.
    pub name: String,
    /// Where it is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// How it is shown.
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// `ludgate installs install`
#[derive(Args, Debug)]
pub struct InstallArgs {
    /// The name of the installation.
    pub name: String,
    /// Where it is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The application; see `ludgate installs catalog`.
    #[arg(long)]
    pub app: String,
    /// The version. Absent: the default version of the application, or its only one.
    #[arg(long)]
    pub app_version: Option<String>,
    /// The namespace of the application's objects. Absent: the default of the application, or the
    /// namespace of the installation.
    #[arg(long, value_name = "NAMESPACE")]
    pub into: Option<String>,
    /// A file with the values of the chart, in YAML. Absent: those of the application.
    #[arg(long, value_name = "FILE")]
    pub values: Option<PathBuf>,
    /// Remove a failed installation, and roll a failed upgrade back.
    #[arg(long)]
    pub atomic: bool,
    /// How the installation is shown.
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// `ludgate installs upgrade`
#[derive(Args, Debug)]
pub struct UpgradeArgs {
    /// The installation.
    pub name: String,
    /// Where it is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The version. Absent: it stays.
    #[arg(long, required_unless_present = "values")]
    pub app_version: Option<String>,
    /// A file with all values of the chart, in YAML. Absent: they stay.
    #[arg(long, value_name = "FILE")]
    pub values: Option<PathBuf>,
    /// How the installation is shown.
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// `ludgate installs delete`
#[derive(Args, Debug)]
pub struct DeleteInstallArgs {
    /// The installation.
    pub name: String,
    /// Where it is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Wait until the application is uninstalled.
    #[arg(long)]
    pub watch: bool,
}

/// `ludgate installs history`
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// The installation.
    pub name: String,
    /// Where it is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// How the list is printed.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `ludgate installs rollback`
#[derive(Args, Debug)]
pub struct RollbackArgs {
    /// The installation.
    pub name: String,
    /// Where it is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The number in `ludgate installs history`. Absent: the last one before the current one.
    #[arg(long, value_name = "NUMBER")]
    pub to: Option<u64>,
    /// How the installation is shown.
    #[command(flatten)]
    pub shown: ShownArgs,
}
