//! `ludgate apps`: apps of a site, for people in a terminal and for scripts.

mod changes;
pub(super) mod output;
pub(super) mod session;
pub(super) mod watch;

use std::io::{self, Write};

use anyhow::{Context, bail};

use super::exit_code::{DONE, FAILED};
use crate::{
    cli::apps::{AppsCommand, DeleteAppArgs, GetAppArgs, ListAppsArgs, LogsArgs, ShownArgs},
    client::{calls::AppOperation, connection::SiteConnection, hosted_app::HostedApp},
    ops::core_dumps,
};
use output::{Output, printable};
use watch::{WatchEnd, WatchGoal};

/// Runs the command, and returns the exit code.
pub fn run(command: &AppsCommand) -> u8 {
    run_client(execute(command))
}

/// Runs a command that calls a site, and returns the exit code.
pub(super) fn run_client(command: impl Future<Output = anyhow::Result<u8>>) -> u8 {
    core_dumps::disable();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ran = match runtime {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => Err(error).context("cannot start the runtime"),
    };
    match ran {
        Ok(code) => code,
        // The reader of standard output, such as `head`, has closed it.
        Err(error) if is_closed_pipe(&error) => DONE,
        Err(error) => {
            eprintln!("{}", printable(&format!("{error:#}")));
            FAILED
        }
    }
}

async fn execute(command: &AppsCommand) -> anyhow::Result<u8> {
    match command {
        AppsCommand::SignIn(args) => session::sign_in(args).await,
        AppsCommand::SignOut => session::sign_out(),
        AppsCommand::List(args) => list(args).await,
        AppsCommand::Get(args) => {
            let site = session::connect()?;
            let app = site.app(&args.id).await?;
            show(&site, app, WatchGoal::Settled, args.shown).await
        }
        AppsCommand::Create(args) => {
            let site = session::connect()?;
            let new = changes::new_app(&site, args).await?;
            let app = site.create(&new).await?;
            show(&site, app, WatchGoal::Ready, args.shown).await
        }
        AppsCommand::Update(args) => {
            let site = session::connect()?;
            let change = changes::change(&site, args).await?;
            let app = site.update(&args.id, &change).await?;
            show(&site, app, WatchGoal::Ready, args.shown).await
        }
        AppsCommand::Start(args) => operate(args, AppOperation::Start).await,
        AppsCommand::Stop(args) => operate(args, AppOperation::Stop).await,
        AppsCommand::Delete(args) => delete(args).await,
        AppsCommand::Logs(args) => print_log(args).await,
        AppsCommand::Templates(args) => {
            let templates = session::connect()?.templates().await?;
            Output::new(args.json).templates(&templates)?;
            Ok(DONE)
        }
        AppsCommand::Groups(args) => {
            let groups = session::connect()?.groups().await?;
            Output::new(args.json).groups(&groups)?;
            Ok(DONE)
        }
    }
}

async fn list(args: &ListAppsArgs) -> anyhow::Result<u8> {
    let site = session::connect()?;
    let output = Output::new(args.output.json);
    let apps = site.apps(&args.groups).await?;
    if args.watch {
        watch::follow_list(&site, &args.groups, apps, &output).await?;
    } else {
        output.apps(&apps)?;
    }
    Ok(DONE)
}

async fn operate(args: &GetAppArgs, operation: AppOperation) -> anyhow::Result<u8> {
    let site = session::connect()?;
    let app = site.operate(&args.id, operation).await?;
    let goal = match operation {
        AppOperation::Start => WatchGoal::Ready,
        AppOperation::Stop | AppOperation::Delete => WatchGoal::Stopped,
    };
    show(&site, app, goal, args.shown).await
}

/// Prints an app, and with `--watch` its changes.
async fn show(
    site: &SiteConnection,
    app: HostedApp,
    goal: WatchGoal,
    shown: ShownArgs,
) -> anyhow::Result<u8> {
    let output = Output::new(shown.output.json);
    if !shown.watch {
        output.app(&app)?;
        return Ok(DONE);
    }
    Ok(match watch::follow_app(site, app, goal, &output).await? {
        WatchEnd::Reached => DONE,
        WatchEnd::Failed => FAILED,
    })
}

async fn delete(args: &DeleteAppArgs) -> anyhow::Result<u8> {
    let site = session::connect()?;
    let app = site.operate(&args.id, AppOperation::Delete).await?;
    Output::new(args.output.json).deleted(&app)?;
    Ok(DONE)
}

async fn print_log(args: &LogsArgs) -> anyhow::Result<u8> {
    let site = session::connect()?;
    let app = site.app(&args.id).await?;
    // The API lists running pods before those that end, and the newest first.
    let pod = match (&args.pod, app.pods.first()) {
        (Some(pod), _) => pod,
        (None, Some(pod)) => &pod.name,
        (None, None) => bail!(
            "{} has no pod; its status is {}",
            app.id,
            app.status.as_deref().unwrap_or_default()
        ),
    };
    let mut log = site.log(pod, args.follow, args.tail).await?;
    let mut stdout = io::stdout().lock();
    while let Some(bytes) = log.next().await.context("the log ended early")? {
        stdout.write_all(&bytes)?;
        stdout.flush()?;
    }
    Ok(DONE)
}

/// Whether the reader of standard output has closed it.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
