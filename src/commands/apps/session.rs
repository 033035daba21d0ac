//! The site and the token that the commands use.

use std::{
    env,
    io::{self, BufRead, Write},
    path::PathBuf,
};

use anyhow::{Context, bail};

use super::output::printable;
use crate::{
    cli::apps::SignInArgs,
    client::{
        connection::SiteConnection,
        saved_site::{self, SavedSite},
    },
    commands::exit_code::DONE,
    model::{secret::Secret, site::WebOrigin},
};

/// Names the site, in place of the one that was signed in to.
const SITE: &str = "LUDGATE_SITE";
/// The token, in place of the one that was remembered.
const TOKEN: &str = "LUDGATE_TOKEN";

/// Connects to the site that the environment or the last sign-in names.
pub(in crate::commands) fn connect() -> anyhow::Result<SiteConnection> {
    let variable = |name| env::var(name).ok().filter(|text| !text.is_empty());
    let site = match variable(SITE) {
        Some(text) => Some(WebOrigin::parse(&text).with_context(|| format!("{SITE}={text}"))?),
        None => None,
    };
    let (site, token) = match (site, variable(TOKEN)) {
        (Some(site), Some(token)) => (site, Secret::new(token)),
        // A token goes to its own site only.
        (None, Some(_)) => bail!("set {SITE} too: the site that {TOKEN} is for"),
        (site, None) => saved(site)?,
    };
    Ok(SiteConnection::new(site, Some(token))?)
}

/// The last sign-in, which must be at this site if one is named.
fn saved(site: Option<WebOrigin>) -> anyhow::Result<(WebOrigin, Secret)> {
    let saved = SavedSite::load(&path()?)
        .with_context(|| format!("cannot read {}; sign in again", path_text()))?;
    match (site, saved) {
        (None, Some(saved)) => Ok((saved.site, saved.token)),
        (Some(site), Some(saved)) if saved.site == site => Ok((site, saved.token)),
        (Some(site), _) => {
            bail!("no token for {site}: ludgate apps sign-in {site}; or set {TOKEN}")
        }
        (None, None) => bail!(
            "sign in first: ludgate apps sign-in https://hub.example.com; or set {SITE} and {TOKEN}"
        ),
    }
}

/// Signs in to a site.
pub(super) async fn sign_in(args: &SignInArgs) -> anyhow::Result<u8> {
    let site = WebOrigin::parse(args.site.trim())?;
    let token = if args.token_stdin {
        Secret::new(read_line()?)
    } else if args.device {
        by_device_code(&site).await?
    } else {
        eprint!(
            "Open this address in a browser, sign in, and copy the code:\n\n  {site}/oidc/auth-flow/request\n\nCode: "
        );
        io::stderr().flush()?;
        let code = read_line()?;
        SiteConnection::new(site.clone(), None)?
            .exchange_code(&code)
            .await?
    };
    let saved = SavedSite { site, token };
    let name = match username(&saved).await {
        Err(error) if args.token_stdin => return Err(error),
        // A code works once, so its token is kept in any case.
        name => name,
    };
    saved
        .save(&path()?)
        .with_context(|| format!("cannot write {}", path_text()))?;
    match name {
        Ok(name) => eprintln!("Signed in to {} as {}.", saved.site, printable(&name)),
        Err(error) => eprintln!("Signed in to {}; {error}", saved.site),
    }
    Ok(DONE)
}

/// Shows a code, and waits until the person has entered it.
async fn by_device_code(site: &WebOrigin) -> anyhow::Result<Secret> {
    let site = SiteConnection::new(site.clone(), None)?;
    let offered = site.begin_device_sign_in().await?;
    let address = printable(&offered.verification_uri);
    let code = printable(&offered.user_code);
    eprint!(
        "Open this address in a browser on any device, and enter the code:\n\n  {address}\n  Code: {code}\n\n"
    );
    if let Some(complete) = &offered.verification_uri_complete {
        let complete = printable(complete);
        eprint!("Or open this address, which has the code in it:\n\n  {complete}\n\n");
    }
    eprintln!("Waiting for the sign-in in the browser; Ctrl-C gives up.");
    Ok(site.finish_device_sign_in(&offered).await?)
}

async fn username(saved: &SavedSite) -> anyhow::Result<String> {
    let token = Some(saved.token.clone());
    let site = SiteConnection::new(saved.site.clone(), token)?;
    Ok(site.username().await?)
}

/// Forgets the token.
pub(super) fn sign_out() -> anyhow::Result<u8> {
    let was_signed_in =
        saved_site::forget(&path()?).with_context(|| format!("cannot remove {}", path_text()))?;
    eprintln!(
        "{}",
        match was_signed_in {
            true => "Signed out. The token works elsewhere until the sign-in service revokes it.",
            false => "You were not signed in.",
        }
    );
    Ok(DONE)
}

fn path() -> anyhow::Result<PathBuf> {
    saved_site::default_path().context("set HOME: the token is remembered in a file there")
}

fn path_text() -> String {
    let path = saved_site::default_path();
    path.map(|path| path.display().to_string())
        .unwrap_or_default()
}

fn read_line() -> anyhow::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    match line.trim() {
        "" => bail!("nothing was entered"),
        text => Ok(text.to_owned()),
    }
}
