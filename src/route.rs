//! Which target a request names. Raw bytes, case-sensitive, before anything is looked up.

pub mod host;
pub mod path;

use std::fmt;

/// What a target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'t> {
    /// `<prefix>/<id>/…`; `root` is the index of the slash after the id. Below the prefix of
    /// viewers the id is `<namespace>/<name>`.
    App {
        /// Follows the grammar of ids of that prefix; whether such an app exists is another
        /// question.
        id: &'t str,
        /// Index into the target.
        root: usize,
    },
    /// `<prefix>/<id>` without the slash: redirected to the form with it.
    AppWithoutSlash {
        /// The id.
        id: &'t str,
    },
    /// The launcher.
    Launcher,
    /// `<prefix>` without the slash, the prefix of viewers with at most a namespace below it, or
    /// `/` where no console is.
    ToLauncher,
    /// One of our endpoints.
    Endpoint(Endpoint),
    /// The API for people and their tools.
    Api,
    /// The console in sidecar mode.
    Console,
    /// Under the prefix, but no id that could exist.
    NotAnId,
    /// Nothing here.
    Nowhere,
}

impl fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::App { id, .. } => write!(f, "app {id}"),
            Route::AppWithoutSlash { id } => write!(f, "app {id}, without a slash at the end"),
            Route::Launcher => f.write_str("launcher"),
            Route::ToLauncher => f.write_str("redirect to the launcher"),
            Route::Endpoint(endpoint) => write!(f, "endpoint {}", endpoint.as_str()),
            Route::Api => f.write_str("API"),
            Route::Console => f.write_str("console"),
            Route::NotAnId => f.write_str("not a valid app id"),
            Route::Nowhere => f.write_str("no matching route"),
        }
    }
}

/// The endpoints that are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Begins a sign-in.
    Start,
    /// Where the provider sends the browser back.
    Callback,
    /// A page that offers to sign in.
    SignIn,
    /// Asks, then ends the sign-in.
    SignOut,
    /// The caller's identity, as JSON.
    Userinfo,
    /// The provider notifies us of a sign-out, from server to server.
    BackchannelLogout,
    /// The same, in a frame of the provider's page.
    FrontchannelLogout,
    /// The last page of a window that renews a session.
    Renewed,
    /// The script that opens that window.
    RenewScript,
    /// Whether the session of a page is still valid, as JSON.
    SessionStatus,
    /// The script that tells the user of a page when it is not.
    SessionScript,
    /// The public keys that apps verify signed identities with.
    Jwks,
    /// The log of a pod of an app.
    Logs,
    /// On an app's own host: takes the ticket that the site gave out.
    Enter,
    /// On every origin: another proxy asks whether it may forward a request.
    Auth,
}

impl Endpoint {
    /// Its name in the path, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Endpoint::Start => "start",
            Endpoint::Callback => "callback",
            Endpoint::SignIn => "sign_in",
            Endpoint::SignOut => "sign_out",
            Endpoint::Userinfo => "userinfo",
            Endpoint::BackchannelLogout => "backchannel_logout",
            Endpoint::FrontchannelLogout => "frontchannel_logout",
            Endpoint::Renewed => "renewed",
            Endpoint::RenewScript => "renew_script",
            Endpoint::SessionStatus => "session_status",
            Endpoint::SessionScript => "session_script",
            Endpoint::Jwks => "jwks",
            Endpoint::Logs => "logs",
            Endpoint::Enter => "enter",
            Endpoint::Auth => "auth",
        }
    }

    /// Reads the name of an endpoint on the site.
    pub fn named(name: &str) -> Option<Endpoint> {
        [
            Endpoint::Start,
            Endpoint::Callback,
            Endpoint::SignIn,
            Endpoint::SignOut,
            Endpoint::Userinfo,
            Endpoint::BackchannelLogout,
            Endpoint::FrontchannelLogout,
        ]
        .into_iter()
        .find(|endpoint| endpoint.as_str() == name)
    }
}
