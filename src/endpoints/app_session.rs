//! The session of a sign-in at an app, and its cookie.

use std::{sync::Arc, time::Duration};

use http::HeaderValue;

use crate::{
    incoming::IncomingRequest,
    model::app::AppId,
    session::{
        Sessions, cookie,
        record::{AppSession, SignIn},
    },
};

/// Begins the session of a sign-in at an app, at the request's virtual host; `own_idle` is the
/// idle time of the app, where it has one. The cookie is for this path. `None` when the system has
/// no random bytes.
pub async fn begin(
    sessions: &Sessions,
    request: &IncomingRequest<'_>,
    sign_in: &Arc<SignIn>,
    app: &AppId,
    own_idle: Option<Duration>,
    path: &str,
) -> Option<(Arc<AppSession>, HeaderValue)> {
    let vhost = &request.arrival.vhost;
    let (id, session) = sessions.store.mint(sign_in, app, vhost, own_idle)?;
    sessions.replication.save_app_session(&session).await;
    let site = request.site();
    let name = site.cookies.app_at(vhost);
    let line = cookie::set(&name, id.as_str(), path, site.origin.secure)?;
    Some((session, line))
}
