//! A configuration of another proxy, translated into one of Ludgate.
//!
//! Invariant: the translation admits no person that the other proxy would refuse. What cannot be
//! translated is left out, stays protected, and is named in the report.

mod access;
mod alpha;
mod apps;
mod draft;
mod given;
mod headers;
mod identity;
mod input;
mod options;
mod provider;
mod report;
mod route_pattern;
mod routes;
mod session;
mod site;
#[cfg(test)]
mod tests;
mod upstream;
mod value;

use access::access;
use apps::{AppDefaults, apps};
use given::{Given, GivenOptions};
pub use input::ImportSource;
use input::InputForm;
pub use report::{ImportError, ImportErrors, ImportOutcome, ImportReport, ReportLine};

/// A translated configuration.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The text of `ludgate.toml`. It holds no secret; files that it names may not exist yet.
    pub file: String,
    /// What became of each option.
    pub report: ImportReport,
}

/// Largest input, in bytes.
pub const MAX_INPUT: usize = input::MAX_INPUT;

/// Translates a configuration of oauth2-proxy: a configuration file, the alpha configuration and
/// variables, in any order. `read_emails` reads `authenticated_emails_file`, as it is written in
/// the input.
///
/// # Errors
/// All mistakes of inputs that cannot be read.
pub fn import_oauth2_proxy(
    sources: &[ImportSource],
    read_emails: impl Fn(&str) -> Option<String>,
) -> Result<Imported, ImportErrors> {
    let mut inputs: Vec<(InputForm, Vec<Given>)> = Vec::new();
    let mut errors = Vec::new();
    for source in sources {
        match input::read(source) {
            Ok(input) => inputs.push(input),
            Err(mistakes) => errors.extend(mistakes),
        }
    }
    if !errors.is_empty() {
        return Err(ImportErrors(errors));
    }
    inputs.sort_by_key(|(form, _)| *form);
    let given = inputs.into_iter().flat_map(|(_, given)| given).collect();
    let options = GivenOptions::new(given);
    let emails = options.text("authenticated_emails_file");
    let emails = emails.and_then(|file| read_emails(&file));
    let file = file(&options, emails.as_deref());
    let report = options.into_report();
    Ok(Imported { file, report })
}

/// The text of the file.
fn file(options: &GivenOptions, emails: Option<&str>) -> String {
    let provider = provider::provider(options);
    let access = access(options, &provider, emails);
    let site = site::site(options);
    let identity = identity::identity(options, &provider, &access.claims);
    let session = session::session(options);
    let routes = routes::open_routes(options);
    let upstreams = upstream::upstreams(options);
    let has_identity = provider.issuer.is_some() && options.has("client_id");
    let headers = headers::headers(options, has_identity);
    let defaults = AppDefaults {
        access: &access,
        routes: &routes,
        headers: &headers,
        host: site.host.as_deref(),
    };
    let apps = apps(options, &upstreams, &defaults);
    let mut text = String::from(
        "# Translated from a configuration of oauth2-proxy. Apps are at <site.url>/apps/<id>/.\n\
         # Check it with: ludgate config check ludgate.toml\n",
    );
    let session = Some(session).filter(draft::DraftTable::has_content);
    for table in site
        .tables
        .iter()
        .chain([&identity])
        .chain(&session)
        .chain(&apps)
    {
        text.push('\n');
        text.push_str(&table.text());
    }
    text
}
