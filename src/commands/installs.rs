//! `ludgate installs`: applications from Helm charts, for people in a terminal and for scripts.

mod changes;
mod output;
mod watch;

use super::{
    apps::{
        output::{print, printable},
        run_client, session,
    },
    exit_code::{DONE, FAILED},
};
use crate::{
    cli::{
        apps::ShownArgs,
        installs::{DeleteInstallArgs, HistoryArgs, InstallsCommand, PlaceArgs, RollbackArgs},
    },
    client::{
        connection::SiteConnection, install_calls::InstallPlace, installed_app::InstalledApp,
    },
};
use output::InstallsOutput;
use watch::InstallEnd;

/// Runs the command, and returns the exit code.
pub fn run(command: &InstallsCommand) -> u8 {
    run_client(execute(command))
}

async fn execute(command: &InstallsCommand) -> anyhow::Result<u8> {
    let site = session::connect()?;
    match command {
        InstallsCommand::Catalog(args) => {
            let offered = site.offered_applications().await?;
            InstallsOutput::new(args.json).catalog(&offered)?;
            Ok(DONE)
        }
        InstallsCommand::List(args) => {
            let namespace = args.namespace.as_deref();
            let installed = site.installed_apps(&args.target, namespace).await?;
            InstallsOutput::new(args.output.json).installations(&installed)?;
            Ok(DONE)
        }
        InstallsCommand::Get(args) => {
            let place = place(&args.place);
            let installed = site.installed_app(&place, &args.name).await?;
            show(&site, &place, installed, args.shown).await
        }
        InstallsCommand::Install(args) => {
            let new = changes::new_installation(&site, args).await?;
            let place = place(&args.place);
            let installed = site.install_app(&place.target, &new).await?;
            show(&site, &place, installed, args.shown).await
        }
        InstallsCommand::Upgrade(args) => {
            let place = place(&args.place);
            let patch = changes::upgrade(args)?;
            let installed = site.patch_installed_app(&place, &args.name, &patch).await?;
            show(&site, &place, installed, args.shown).await
        }
        InstallsCommand::Delete(args) => delete(&site, args).await,
        InstallsCommand::History(args) => history(&site, args).await,
        InstallsCommand::Rollback(args) => roll_back(&site, args).await,
    }
}

fn place(args: &PlaceArgs) -> InstallPlace {
    InstallPlace {
        target: args.target.clone(),
        namespace: args.namespace.clone(),
    }
}

/// Prints an installation, and with `--watch` its changes.
async fn show(
    site: &SiteConnection,
    place: &InstallPlace,
    installed: InstalledApp,
    shown: ShownArgs,
) -> anyhow::Result<u8> {
    let output = InstallsOutput::new(shown.output.json);
    if !shown.watch {
        output.installation(&installed)?;
        return Ok(DONE);
    }
    Ok(
        match watch::follow(site, place, installed, &output).await? {
            InstallEnd::Ready => DONE,
            InstallEnd::Failed => FAILED,
        },
    )
}

async fn delete(site: &SiteConnection, args: &DeleteInstallArgs) -> anyhow::Result<u8> {
    let place = place(&args.place);
    site.uninstall_app(&place, &args.name).await?;
    if args.watch {
        watch::until_deleted(site, &place, &args.name).await?;
    }
    print(&format!("{} is deleted\n", printable(&args.name)))?;
    Ok(DONE)
}

async fn history(site: &SiteConnection, args: &HistoryArgs) -> anyhow::Result<u8> {
    let place = place(&args.place);
    let revisions = site.installed_revisions(&place, &args.name).await?;
    InstallsOutput::new(args.output.json).revisions(&revisions)?;
    Ok(DONE)
}

async fn roll_back(site: &SiteConnection, args: &RollbackArgs) -> anyhow::Result<u8> {
    let place = place(&args.place);
    let revisions = site.installed_revisions(&place, &args.name).await?;
    let patch = changes::rollback(&revisions, args.to)?;
    let installed = site.patch_installed_app(&place, &args.name, &patch).await?;
    show(site, &place, installed, args.shown).await
}
