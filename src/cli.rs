//! The command line, as clap reads it.

pub mod apps;
pub mod demo;
pub mod installs;
pub mod tokens;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use apps::AppsCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use demo::DemoPart;
use installs::InstallsCommand;
use tokens::TokensCommand;

/// Authenticating gateway for the web apps of a platform.
#[derive(Debug, Parser)]
#[command(name = "ludgate", version, about, after_help = "Example: ludgate demo")]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a demo on loopback: gateway, identity provider and four sample apps in one process.
    #[command(after_help = "Example: ludgate demo --listen 127.0.0.1:8080")]
    Demo(DemoArgs),
    /// Run the gateway.
    #[command(after_help = "Example: ludgate gateway /etc/ludgate/ludgate.toml")]
    Gateway(ServiceArgs),
    /// Run the controllers that the configuration names.
    #[command(after_help = "Example: ludgate controller /etc/ludgate/ludgate.toml")]
    Controller(ServiceArgs),
    /// Serve the API: apps by GraphQL, and logs of their pods.
    #[command(after_help = "Example: ludgate api /etc/ludgate/ludgate.toml")]
    Api(ServiceArgs),
    /// Start and stop a JupyterLab for each person, for JupyterHub.
    #[command(after_help = "Example: ludgate labs /etc/ludgate/ludgate.toml")]
    Labs(ServiceArgs),
    /// List, make and change apps of a site, and read their logs.
    #[command(after_help = "Example: ludgate apps list")]
    Apps {
        /// The subcommand.
        #[command(subcommand)]
        command: AppsCommand,
    },
    /// List, install, upgrade and delete applications from Helm charts.
    #[command(after_help = "Example: ludgate installs list")]
    Installs {
        /// The subcommand.
        #[command(subcommand)]
        command: InstallsCommand,
    },
    /// Make, list and revoke tokens of programs.
    #[command(after_help = "Example: ludgate tokens list --config ludgate.toml")]
    Tokens {
        /// The subcommand.
        #[command(subcommand)]
        command: TokensCommand,
    },
    /// Check or print the configuration.
    #[command(after_help = "Example: ludgate config check ludgate.toml")]
    Config {
        /// The subcommand.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print the Kubernetes CustomResourceDefinitions.
    #[command(after_help = "Example: ludgate crd print | kubectl apply -f -")]
    Crd {
        /// The subcommand.
        #[command(subcommand)]
        command: CrdCommand,
    },
    /// Check templates of apps.
    #[command(after_help = "Example: ludgate template check mlflow.yaml")]
    Template {
        /// The subcommand.
        #[command(subcommand)]
        command: TemplateCommand,
    },
    /// Print the decision for a request, step by step.
    #[command(
        after_help = "Example: ludgate explain --config ludgate.toml https://hub.example.com/apps/mlflow/ --user alice --group phusers"
    )]
    Explain(ExplainArgs),
    /// Make a folder that every user can write to. Pods of apps run this before the app.
    #[command(
        after_help = "Example: ludgate prepare-folder /project/phusers/phapplications/mlflow"
    )]
    PrepareFolder(PrepareFolderArgs),
}

/// `ludgate demo`
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DemoArgs {
    /// One part alone, as the Helm chart runs them.
    #[command(subcommand)]
    pub part: Option<DemoPart>,
    /// Address and port to listen on; loopback only.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Log every request as a JSON line on standard output.
    #[arg(long)]
    pub log_requests: bool,
}

/// `ludgate gateway`, `controller`, `api` and `labs`
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct ServiceArgs {
    /// The configuration file.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The configuration file, in place of FILE.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ServiceArgs {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        let given = self.file.as_deref().or(self.config.as_deref());
        // Never empty: clap requires one of the two.
        given.unwrap_or(Path::new(""))
    }
}

/// `ludgate config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show every mistake at once; exit code 2 if there is any.
    #[command(after_help = "Example: ludgate config check ludgate.toml")]
    Check {
        /// The configuration file.
        file: PathBuf,
    },
    /// Print a commented file with every key and its default.
    #[command(after_help = "Example: ludgate config print > ludgate.toml")]
    Print,
    /// Print the reference of all keys as Markdown.
    #[command(after_help = "Example: ludgate config reference > docs/configuration.md")]
    Reference,
    /// Translate a configuration of oauth2-proxy. The configuration goes to standard output, and
    /// what became of each option to standard error; exit code 2 if an option is lost.
    #[command(
        name = "import-oauth2-proxy",
        after_help = "Example: ludgate config import-oauth2-proxy oauth2-proxy.cfg > ludgate.toml"
    )]
    ImportOauth2Proxy(ImportOauth2ProxyArgs),
}

/// `ludgate config import-oauth2-proxy`
#[derive(Args, Debug)]
pub struct ImportOauth2ProxyArgs {
    /// Exit code 0 also if an option is lost.
    #[arg(long)]
    pub partial: bool,
    /// The configuration file, the alpha configuration (YAML), and files with variables
    /// (OAUTH2_PROXY_CLIENT_ID=value).
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// `ludgate crd …`
#[derive(Debug, Subcommand)]
pub enum CrdCommand {
    /// Print the definitions of all custom resources as YAML.
    #[command(after_help = "Example: ludgate crd print | kubectl apply -f -")]
    Print(CrdPrintArgs),
}

/// `ludgate crd print`
#[derive(Args, Debug)]
pub struct CrdPrintArgs {
    /// Only the definitions of this API group.
    #[arg(long, value_parser = ["primehub.io", "kubeflow.org", "apps.kubermatic.k8c.io"])]
    pub group: Option<String>,
}

/// `ludgate template …`
#[derive(Debug, Subcommand)]
pub enum TemplateCommand {
    /// Show every mistake in files of PhAppTemplates; exit code 2 if there is any.
    #[command(after_help = "Example: ludgate template check config/templates/*.yaml")]
    Check(TemplateCheckArgs),
}

/// `ludgate template check`
#[derive(Args, Debug)]
pub struct TemplateCheckArgs {
    /// The controller's configuration file, for the rights that pods of apps may have. Absent: no
    /// rights.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// YAML files, each with one or more templates.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// `ludgate explain`
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// The configuration file.
    #[arg(long)]
    pub config: PathBuf,
    /// The full URL, or a path on the site.
    pub url: String,
    /// The subject and username of the signed-in user. Absent: an anonymous request.
    #[arg(long, group = "person")]
    pub user: Option<String>,
    /// A group of the user; repeatable.
    #[arg(long = "group", requires = "user")]
    pub groups: Vec<String>,
    /// The verified e-mail address of the user.
    #[arg(long, requires = "person")]
    pub email: Option<String>,
    /// A claim of the user, such as /department=sales; repeatable.
    #[arg(long = "claim", requires = "person")]
    pub claims: Vec<String>,
    /// The time since the user entered credentials, such as 10m. Absent: not known.
    #[arg(long, requires = "person")]
    pub auth_age: Option<String>,
    /// The authentication context class of the sign-in (acr). Absent: not known.
    #[arg(long, requires = "person")]
    pub acr: Option<String>,
    /// The subject of a user who is signed in at a running gateway, with the groups that it knows.
    #[arg(long, group = "person", requires = "admin")]
    pub subject: Option<String>,
    /// The admin listener of that gateway, such as http://127.0.0.1:9090.
    #[arg(long, requires = "subject", requires = "admin_token_file")]
    pub admin: Option<String>,
    /// A file with the token of the admin listener.
    #[arg(long, requires = "admin")]
    pub admin_token_file: Option<PathBuf>,
    /// Also connect to the app, without sending a request; exit code 1 if that fails.
    #[arg(long)]
    pub connect: bool,
    /// The HTTP method.
    #[arg(long, default_value = "GET")]
    pub method: String,
    /// The kind of request: a page, a script's fetch, or a WebSocket.
    #[arg(long = "as", default_value = "navigation")]
    pub kind: RequestKind,
    /// The Origin header.
    #[arg(long)]
    pub origin: Option<String>,
}

/// `ludgate prepare-folder`
#[derive(Args, Debug)]
pub struct PrepareFolderArgs {
    /// The folder.
    pub folder: PathBuf,
}

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RequestKind {
    /// A user opens a page.
    Navigation,
    /// A script on a page, or a program.
    Fetch,
    /// A WebSocket handshake.
    Websocket,
}
