//! The arguments of `ludgate apps`.

use clap::{Args, Subcommand, ValueEnum};

/// `ludgate apps …`
#[derive(Debug, Subcommand)]
pub enum AppsCommand {
    /// Sign in to a site in a browser, and remember a token for the other commands.
    #[command(after_help = "Example: ludgate apps sign-in https://hub.example.com")]
    SignIn(SignInArgs),
    /// Forget the token.
    SignOut,
    /// List your apps.
    #[command(after_help = "Example: ludgate apps list --group phusers --watch")]
    List(ListAppsArgs),
    /// Show an app.
    Get(GetAppArgs),
    /// Make an app from a template.
    #[command(
        after_help = "Example: ludgate apps create mlflow-1 --template mlflow-2.20.3 --instance-type cpu-1 --watch"
    )]
    Create(CreateAppArgs),
    /// Change an app. Its pods are replaced if the change affects them.
    #[command(after_help = "Example: ludgate apps update mlflow-1 --scope group")]
    Update(UpdateAppArgs),
    /// Start an app.
    Start(GetAppArgs),
    /// Stop an app. Its files stay.
    Stop(GetAppArgs),
    /// Delete an app. Its folder on the group's volume stays.
    Delete(DeleteAppArgs),
    /// Print the log of an app.
    #[command(after_help = "Example: ludgate apps logs mlflow-1 --tail 100 --follow")]
    Logs(LogsArgs),
    /// List the templates that apps are made from.
    Templates(OutputArgs),
    /// List your groups with their instance types.
    Groups(OutputArgs),
}

/// `ludgate apps sign-in`
#[derive(Args, Debug)]
pub struct SignInArgs {
    /// The URL of the site.
    pub site: String,
    /// Read a token from standard input instead of a code.
    #[arg(long)]
    pub token_stdin: bool,
    /// Print a code to enter in a browser on any device, and wait.
    #[arg(long, conflicts_with = "token_stdin")]
    pub device: bool,
}

/// How results are printed.
#[derive(Args, Clone, Copy, Debug)]
pub struct OutputArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `ludgate apps list`
#[derive(Args, Debug)]
pub struct ListAppsArgs {
    /// Only apps of this group; repeatable.
    #[arg(long = "group")]
    pub groups: Vec<String>,
    /// Print each change until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// How the list is printed.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// An app, and how it is shown.
#[derive(Args, Debug)]
pub struct GetAppArgs {
    /// The app.
    pub id: String,
    /// How it is shown.
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// How an app is shown.
#[derive(Args, Clone, Copy, Debug)]
pub struct ShownArgs {
    /// Print each change until the command has its effect, or the app has an error.
    #[arg(long)]
    pub watch: bool,
    /// How it is printed.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `ludgate apps create`
#[derive(Args, Debug)]
pub struct CreateAppArgs {
    /// The app's name in URLs: lower-case letters, digits and dashes.
    pub id: String,
    /// The template; see `ludgate apps templates`.
    #[arg(long)]
    pub template: String,
    /// The instance type; see `ludgate apps groups`.
    #[arg(long)]
    pub instance_type: String,
    /// The group; needed if you are in more than one.
    #[arg(long)]
    pub group: Option<String>,
    /// The name for people. Absent: the id.
    #[arg(long)]
    pub name: Option<String>,
    /// Who may open it.
    #[arg(long, default_value = "group")]
    pub scope: AppScope,
    /// A variable; repeatable. Variables that are not given have the template's values.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub env: Vec<(String, String)>,
    /// How the app is shown.
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// `ludgate apps update`
#[derive(Args, Debug)]
pub struct UpdateAppArgs {
    /// The app.
    pub id: String,
    /// The instance type.
    #[arg(long)]
    pub instance_type: Option<String>,
    /// The name for people.
    #[arg(long)]
    pub name: Option<String>,
    /// Who may open it.
    #[arg(long)]
    pub scope: Option<AppScope>,
    /// Set a variable; repeatable. Other variables stay.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub env: Vec<(String, String)>,
    /// Remove a variable; repeatable.
    #[arg(long, value_name = "NAME")]
    pub unset_env: Vec<String>,
    /// How the app is shown.
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// `ludgate apps delete`
#[derive(Args, Debug)]
pub struct DeleteAppArgs {
    /// The app.
    pub id: String,
    /// How the deleted app is printed.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `ludgate apps logs`
#[derive(Args, Debug)]
pub struct LogsArgs {
    /// The app.
    pub id: String,
    /// Print new lines as they are logged.
    #[arg(long)]
    pub follow: bool,
    /// Only this many lines from the end.
    #[arg(long)]
    pub tail: Option<u32>,
    /// The pod, if the app has several.
    #[arg(long)]
    pub pod: Option<String>,
}

/// Who may open an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AppScope {
    /// Everybody.
    Public,
    /// Everybody who signs in.
    Primehub,
    /// The group.
    Group,
}

impl AppScope {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            AppScope::Public => "public",
            AppScope::Primehub => "primehub",
            AppScope::Group => "group",
        }
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}
