//! The pages people see. Templates escape everything; the policy lets them load and run nothing.

mod access_texts;

use std::sync::Arc;

use askama::Template;
use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, StatusCode};

use crate::{
    authorize::grounds,
    catalog::snapshot::Snapshot,
    model::{
        access::Access,
        app::{AppState, Isolation},
        authentication::AuthenticationRequirement,
        principal::Principal,
        site::Site,
        vhost::VirtualHost,
    },
};
pub use access_texts::{needed, who};

/// The style of every page; it stands in the page itself, and its hash in the policy.
const STYLE: &str = include_str!("../templates/style.css");

/// Run by a page that waits for an app.
pub const WAITING: &str = include_str!("../templates/waiting.js");

/// Maximum number of apps on the launcher.
const MOST_CARDS: usize = 500;

/// The list of apps.
#[derive(Template)]
#[template(path = "launcher.html")]
pub struct Launcher<'p> {
    /// The person's name, when signed in.
    pub person: Option<&'p str>,
    /// A sentence for first-time visitors.
    pub welcome: Option<&'p str>,
    /// Where to sign in.
    pub sign_in: String,
    /// Where to sign out.
    pub sign_out: String,
    /// The apps, by title.
    pub apps: Vec<Card>,
    /// How many more there are.
    pub more: usize,
}

/// One app in the launcher.
pub struct Card {
    /// The name.
    pub title: String,
    /// A short text, such as an emoji.
    pub icon: String,
    /// Where it is.
    pub href: String,
    /// Its own host, when it has one beside its path.
    pub host: Option<String>,
    /// Who may open it, in words.
    pub who: String,
    /// Whether this person may open it.
    pub open: bool,
    /// Its state, when there is nothing to open now.
    pub state: Option<&'static str>,
}

/// The page of every refusal (401, 403, 404 and others), which `respond` fills: what happened, and
/// what to do about it.
#[derive(Template)]
#[template(path = "refusal.html")]
pub struct RefusalPage<'p> {
    /// Status and its name.
    pub status: String,
    /// A few words.
    pub title: &'p str,
    /// One sentence.
    pub sentence: &'p str,
    /// What the app's controller says about it.
    pub message: Option<&'p str>,
    /// Seconds after which the page first checks whether the state has changed.
    pub waits: Option<u8>,
    /// The reason word, as in problem+json.
    pub reason: &'static str,
    /// The script of a page that waits.
    pub script: &'static str,
    /// Which app.
    pub app: Option<String>,
    /// What the app's access rule requires, in words.
    pub needed: Option<String>,
    /// The signed-in person.
    pub person: Option<String>,
    /// For the operator.
    pub request_id: &'p str,
    /// The suggested next step.
    pub action: Option<Action>,
    /// The launcher.
    pub home: String,
    /// Links open outside the frame that holds the page.
    pub new_tab: bool,
}

/// A link to the suggested next step.
pub struct Action {
    /// Its text.
    pub label: &'static str,
    /// Where it leads.
    pub href: String,
    /// Opens in a new tab, out of a frame.
    pub new_tab: bool,
}

/// Offers to sign in.
#[derive(Template)]
#[template(path = "sign_in.html")]
pub struct SignInPage<'p> {
    /// Who is signed in already.
    pub person: Option<&'p str>,
    /// Where the button leads.
    pub start: String,
    /// The provider, or several in words.
    pub provider: &'p str,
    /// The launcher.
    pub home: String,
}

/// Lets a person choose where to sign in.
#[derive(Template)]
#[template(path = "providers.html")]
pub struct ProvidersPage<'p> {
    /// The providers, the default one first.
    pub providers: Vec<ProviderLink<'p>>,
    /// The launcher.
    pub home: String,
}

/// A link to one provider.
pub struct ProviderLink<'p> {
    /// Its name for people.
    pub name: &'p str,
    /// Begins the sign-in there.
    pub href: String,
}

/// Asks before signing out.
#[derive(Template)]
#[template(path = "sign_out.html")]
pub struct SignOutPage<'p> {
    /// Who is signed in.
    pub person: &'p str,
    /// Where the form goes.
    pub action: String,
    /// CSRF token: proves that the form comes from this page.
    pub token: String,
    /// Where to go afterwards.
    pub return_to: String,
    /// The launcher.
    pub home: String,
}

/// Signed out here; the page goes on to the provider. A redirect could be blocked: browsers apply
/// `form-action` to every redirect that follows a form, wherever the provider sends it on to.
#[derive(Template)]
#[template(path = "signed_out.html")]
pub struct SignedOutPage {
    /// Where the provider ends its session.
    pub onward: String,
}

/// Shown on the way to the provider. It keeps the fragment of the address, which browsers do not
/// send to servers.
#[derive(Template)]
#[template(path = "start.html")]
pub struct StartPage {
    /// The same address, with a mark that this page was shown.
    pub onward: String,
    /// Its script.
    pub script: &'static str,
}

/// A session was renewed in a window of its own.
#[derive(Template)]
#[template(path = "renewed.html")]
pub struct RenewedPage {
    /// Its script.
    pub script: &'static str,
}

/// A rendered page, before it is a response.
pub struct Page {
    /// The status.
    pub status: StatusCode,
    /// The document.
    pub html: String,
    /// What the document may load and run.
    pub policy: Policy,
}

impl Page {
    /// Renders a template. A template over strings cannot fail; if it did, the page would be empty.
    pub fn new(status: StatusCode, template: &impl Template, policy: Policy) -> Page {
        let html = template.render().unwrap_or_default();
        Page {
            status,
            html,
            policy,
        }
    }

    /// A page of status 200 that runs nothing.
    pub fn plain(template: &impl Template) -> Page {
        Page::new(StatusCode::OK, template, Policy::Plain { framed: false })
    }

    /// A page of status 200 that runs this script.
    pub fn scripted(template: &impl Template, script: &'static str) -> Page {
        Page::new(StatusCode::OK, template, Policy::Script(script))
    }
}

/// The Content-Security-Policy of a page of ours.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// No script.
    Plain {
        /// The page may stand in a frame.
        framed: bool,
    },
    /// This script.
    Script(&'static str),
    /// The script that checks whether the app answers.
    Waiting {
        /// The page may stand in a frame.
        framed: bool,
    },
    /// This script, and a form that an app answers by a redirect to anywhere.
    Forms(&'static str),
}

impl Policy {
    /// The value of the header.
    pub fn to_header(self) -> HeaderValue {
        let text = match self {
            Policy::Plain { framed } => base_policy(framed),
            Policy::Script(script) => {
                format!("{}; {}", base_policy(false), script_source(script))
            }
            Policy::Waiting { framed } => {
                let script = script_source(WAITING);
                format!("{}; {script}; connect-src 'self'", base_policy(framed))
            }
            Policy::Forms(script) => {
                let anywhere = base_policy(false).replace("form-action 'self'; ", "");
                format!("{anywhere}; {}", script_source(script))
            }
        };
        HeaderValue::try_from(text)
            .unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
    }
}

fn base_policy(framed: bool) -> String {
    // The template engine drops the newline at the end of a file; the browser hashes the text in
    // the page.
    let style = hash_source(STYLE.trim_end());
    let ancestors = if framed {
        ""
    } else {
        "; frame-ancestors 'none'"
    };
    format!("default-src 'none'; style-src {style}; form-action 'self'; base-uri 'none'{ancestors}")
}

fn script_source(script: &str) -> String {
    format!("script-src {}", hash_source(script))
}

/// An inline source of exactly this text (Content Security Policy Level 3, 2.3.1).
fn hash_source(text: &str) -> String {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    format!("'sha256-{}'", STANDARD.encode(hash))
}

/// The launcher for a person, or for a visitor, who sees public apps only.
pub fn launcher<'p>(snapshot: &'p Snapshot, person: Option<&'p Arc<Principal>>) -> Launcher<'p> {
    let site = snapshot.site();
    let mut apps: Vec<Card> = snapshot
        .apps()
        .filter(|app| person.is_some() || app.spec.access == Access::Public)
        // There are many viewers, installed apps and labs, and each is for few people.
        .filter(|app| {
            let id = app.id();
            let is_for_few = id.is_viewer() || id.is_installation() || id.lab_username().is_some();
            !is_for_few || grounds(app, person.map(Arc::as_ref)).is_ok()
        })
        .map(|app| Card {
            title: app.title().to_owned(),
            icon: app.spec.icon.clone().unwrap_or_else(|| "▫".into()),
            href: match (app.spec.isolation, app.host) {
                (Isolation::Host, Some(label)) => site.url(&VirtualHost::Host(label), "/"),
                (Isolation::Host, None) | (Isolation::Both | Isolation::Path, _) => {
                    format!("{}/", app.mount)
                }
            },
            host: app
                .host
                .filter(|_| app.spec.isolation == Isolation::Both)
                .map(|label| site.url(&VirtualHost::Host(label), "/")),
            state: (app.spec.state != AppState::Running).then(|| app.spec.state.as_str()),
            who: who(&app.spec.access),
            open: grounds(app, person.map(Arc::as_ref)).is_ok(),
        })
        .collect();
    apps.sort_by(|a, b| b.open.cmp(&a.open).then_with(|| a.title.cmp(&b.title)));
    // Anyone can request this page, so its length is limited.
    let more = apps.len().saturating_sub(MOST_CARDS);
    apps.truncate(MOST_CARDS);
    Launcher {
        person: person.map(|person| &*person.display_name),
        welcome: site.welcome.as_deref(),
        sign_in: start(site, &site.launcher()),
        sign_out: site.endpoint("sign_out"),
        apps,
        more,
    }
}

/// The address that begins a sign-in and comes back to `return_to`.
pub fn start(site: &Site, return_to: &str) -> String {
    with_return(&site.endpoint("start"), return_to)
}

/// The same, for a sign-in that meets a requirement.
pub fn start_with(
    site: &Site,
    return_to: &str,
    requirement: Option<&AuthenticationRequirement>,
) -> String {
    let start = start(site, return_to);
    match requirement {
        Some(requirement) => format!("{start}&{}", parameters(requirement)),
        None => start,
    }
}

/// The parameters of a requirement, as at the provider (OpenID Connect Core section 3.1.2.1).
pub fn parameters(requirement: &AuthenticationRequirement) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    if let Some(seconds) = requirement.max_age() {
        query.append_pair("max_age", &seconds.to_string());
    }
    if let Some(values) = requirement.acr_values() {
        query.append_pair("acr_values", &values);
    }
    query.finish()
}

/// An address with `rd`, encoded.
pub fn with_return(path: &str, return_to: &str) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("rd", return_to)
        .finish();
    format!("{path}?{query}")
}
