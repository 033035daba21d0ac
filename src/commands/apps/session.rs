//! The site and the token that the commands use.

use std::{
    env,
    io::{self, BufRead, Write},
    path::PathBuf,
};

use anyhow::{Context, bail};

use crate::{
    cli::apps::SignInArgs,
    client::{
        connection::SiteConnection,
        saved_site::{self, SavedSite},
        site_url::SiteUrl,
    },
    commands::exit_code::DONE,
    model::secret::Secret,
};

/// Names the site, in place of the one that was signed in to.
const SITE: &str = "LUDGATE_SITE";
/// The token, in place of the one that was remembered.
const TOKEN: &str = "LUDGATE_TOKEN";

/// Connects to the site that the environment or the last sign-in names.
pub(super) fn connect() -> anyhow::Result<SiteConnection> {
    let site = env::var(SITE).ok().filter(|text| !text.is_empty());
    let token = env::var(TOKEN).ok().filter(|text| !text.is_empty());
    let saved = SavedSite::load(&path()?)
        .with_context(|| format!("cannot read {}; sign in again", path_text()))?;
    let site = match (site, &saved) {
        (Some(site), _) => SiteUrl::parse(&site).with_context(|| format!("{SITE}={site}"))?,
        (None, Some(saved)) => saved.site.clone(),
        (None, None) => bail!(
            "sign in first: ludgate apps sign-in https://hub.example.com; or set {SITE} and {TOKEN}"
        ),
    };
    let token = match (token, saved) {
        (Some(token), _) => Secret::new(token),
        // A token goes to its own site only.
        (None, Some(saved)) if saved.site == site => saved.token,
        (None, _) => bail!("no token for {site}: ludgate apps sign-in {site}; or set {TOKEN}"),
    };
    Ok(SiteConnection::new(site, Some(token))?)
}

/// Signs in to a site.
pub(super) async fn sign_in(args: &SignInArgs) -> anyhow::Result<u8> {
    let site = SiteUrl::parse(&args.site)?;
    let token = if args.token_stdin {
        Secret::new(read_line()?)
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
    let username = SiteConnection::new(site.clone(), Some(token.clone()))?
        .username()
        .await?;
    let saved = SavedSite {
        site: site.clone(),
        token,
    };
    saved
        .save(&path()?)
        .with_context(|| format!("cannot write {}", path_text()))?;
    eprintln!("Signed in to {site} as {username}.");
    Ok(DONE)
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
