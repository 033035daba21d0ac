//! The groups of a signed-in person, as a running gateway knows them.

use std::{fs, path::Path};

use anyhow::{Context, bail};
use http::{HeaderValue, Request, StatusCode, header};
use serde::Deserialize;
use url::Url;

use crate::{
    model::secret::Secret,
    ops::http_client::{CallCounter, HttpClient},
};

/// The answer of `/sessions?subject=…`.
#[derive(Deserialize)]
struct ListedSessions {
    sessions: Vec<ListedSession>,
}

/// One sign-in in it.
#[derive(Deserialize)]
struct ListedSession {
    groups: Vec<String>,
}

/// The groups of the person's sign-ins, which must be the same in all of them.
///
/// # Errors
/// The gateway cannot be asked, or the person is not signed in there.
pub(super) fn groups(admin: &str, token_file: &Path, subject: &str) -> anyhow::Result<Vec<String>> {
    let token = fs::read_to_string(token_file)
        .with_context(|| format!("cannot read {}", token_file.display()))?;
    let request = request(admin, &Secret::new(token.trim()), subject)?;
    let client = HttpClient::new(None, CallCounter::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let called = runtime.block_on(client.call("sessions", request));
    let response = called.with_context(|| format!("cannot ask {admin}"))?;
    match response.status() {
        StatusCode::OK => groups_in(response.body(), subject),
        StatusCode::UNAUTHORIZED => bail!(
            "{admin} refuses the token; the address must be an IP address, and the token that of \
             admin.token_file"
        ),
        StatusCode::NOT_FOUND => bail!("{admin} has no sessions: set admin.token_file"),
        status => bail!("{admin} answers {status}"),
    }
}

fn request(admin: &str, token: &Secret, subject: &str) -> anyhow::Result<Request<Vec<u8>>> {
    let mut url = Url::parse(admin).with_context(|| format!("--admin {admin}"))?;
    url.set_path("/sessions");
    url.query_pairs_mut()
        .clear()
        .append_pair("subject", subject);
    let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.expose()))
        .context("the token cannot stand in a header")?;
    authorization.set_sensitive(true);
    let request = Request::get(url.as_str()).header(header::AUTHORIZATION, authorization);
    Ok(request.body(Vec::new())?)
}

fn groups_in(body: &[u8], subject: &str) -> anyhow::Result<Vec<String>> {
    let listed: ListedSessions =
        serde_json::from_slice(body).context("the answer is no list of sessions")?;
    let mut sessions = listed.sessions.into_iter().map(|mut session| {
        session.groups.sort_unstable();
        session.groups
    });
    let Some(groups) = sessions.next() else {
        bail!("{subject} is not signed in at this gateway");
    };
    if sessions.any(|other| other != groups) {
        bail!(
            "the sessions of {subject} have different groups; they agree after the next recheck, \
             or name the groups with --user and --group"
        );
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_all_sessions() {
        for (body, wanted) in [
            (r#"{"sessions":[{"groups":["b","a"]}]}"#, Ok(vec!["a", "b"])),
            (
                r#"{"sessions":[{"groups":["a","b"]},{"groups":["b","a"],"apps":[]}]}"#,
                Ok(vec!["a", "b"]),
            ),
            (
                r#"{"sessions":[{"groups":["a"]},{"groups":[]}]}"#,
                Err("different groups"),
            ),
            (r#"{"sessions":[]}"#, Err("not signed in")),
            ("[]", Err("no list")),
        ] {
            match (groups_in(body.as_bytes(), "alice"), wanted) {
                (Ok(groups), Ok(wanted)) => assert_eq!(groups, wanted, "{body}"),
                (Err(error), Err(wanted)) => {
                    assert!(error.to_string().contains(wanted), "{error}");
                }
                (result, wanted) => panic!("{body}: {result:?}, not {wanted:?}"),
            }
        }
    }

    #[test]
    fn the_subject_is_escaped_and_the_token_is_not_shown() {
        let token = Secret::new("a-token");
        let request = request("http://127.0.0.1:9090", &token, "a&b=c d").expect("a request");
        assert_eq!(
            request.uri().to_string(),
            "http://127.0.0.1:9090/sessions?subject=a%26b%3Dc+d"
        );
        assert!(!format!("{request:?}").contains("a-token"));
        assert!(super::request("no address", &token, "a").is_err());
    }
}
