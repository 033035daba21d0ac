//! Sign-in by device code (RFC 8628). The site asks its identity provider on the terminal's behalf,
//! so the terminal calls no other server.

use std::time::Duration;

use http::StatusCode;
use ludgate_model::secret::Secret;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    connection::{MAX_SHOWN, SiteConnection, api_token},
    error::ClientError,
};

/// Shortest and longest pause between polls.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// How much a pause grows when the provider says `slow_down` (RFC 8628 section 3.5).
const SLOWER: Duration = Duration::from_secs(5);
/// Longest lifetime of a code, in seconds.
const MAX_LIFETIME: u64 = 3600;

/// A code that a person enters in a browser on any device.
#[derive(Deserialize)]
pub struct OfferedDeviceCode {
    /// What the terminal polls with. Secret.
    device_code: String,
    /// What the person enters.
    pub user_code: String,
    /// Where the person enters it.
    pub verification_uri: String,
    /// The same with the code in it.
    pub verification_uri_complete: Option<String>,
    /// How long it works, in seconds.
    expires_in: u64,
    /// Pause between polls, in seconds.
    #[serde(default = "default_interval")]
    interval: u64,
}

/// What the answer to a poll means.
#[derive(Debug)]
enum PollStep {
    Granted(Secret),
    /// Polls go on with this pause.
    Again(Duration),
}

impl SiteConnection {
    /// Begins a sign-in by device code.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the site or its identity provider has no device codes.
    pub async fn begin_device_sign_in(&self) -> Result<OfferedDeviceCode, ClientError> {
        let (status, body) = self.post_form("/oidc/auth-flow/device", &[]).await?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status != StatusCode::OK {
            return Err(self.refusal(status, &answer));
        }
        serde_json::from_value(answer).map_err(|error| self.no_api(error.to_string()))
    }

    /// Polls until the person has agreed, and returns the API token. Goes on while the site cannot
    /// be reached.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the code `access_denied` or `expired_token`, or see
    /// [`ClientError`].
    pub async fn finish_device_sign_in(
        &self,
        code: &OfferedDeviceCode,
    ) -> Result<Secret, ClientError> {
        let lifetime = Duration::from_secs(code.expires_in.min(MAX_LIFETIME));
        let end = Instant::now() + lifetime;
        let mut pause = Duration::from_secs(code.interval).clamp(MIN_PAUSE, MAX_PAUSE);
        let form = [("device_code", code.device_code.as_str())];
        while Instant::now() + pause <= end {
            sleep(pause).await;
            let polled = self.post_form("/oidc/auth-flow/device/token", &form);
            match self.step(polled.await, pause)? {
                PollStep::Granted(token) => return Ok(token),
                PollStep::Again(next) => pause = next,
            }
        }
        Err(expired())
    }

    fn step(
        &self,
        polled: Result<(StatusCode, impl AsRef<[u8]>), ClientError>,
        pause: Duration,
    ) -> Result<PollStep, ClientError> {
        let slower = |pause: Duration| PollStep::Again(pause.min(MAX_PAUSE));
        let (status, body) = match polled {
            Ok(answer) => answer,
            Err(ClientError::Unreachable { .. }) => return Ok(slower(pause * 2)),
            Err(error) => return Err(error),
        };
        let answer: Value = serde_json::from_slice(body.as_ref()).unwrap_or_default();
        match (status, answer["error"].as_str()) {
            (StatusCode::OK, _) => match api_token(&answer) {
                Some(token) => Ok(PollStep::Granted(token)),
                None => Err(self.no_api("an answer without a token".to_owned())),
            },
            (StatusCode::BAD_REQUEST, Some("authorization_pending")) => Ok(PollStep::Again(pause)),
            (StatusCode::BAD_REQUEST, Some("slow_down")) => Ok(slower(pause + SLOWER)),
            (StatusCode::BAD_REQUEST, Some("expired_token")) => Err(expired()),
            (StatusCode::BAD_REQUEST, Some("access_denied")) => {
                let message = "the sign-in was refused in the browser".to_owned();
                let code = "access_denied".to_owned();
                Err(ClientError::Refused { code, message })
            }
            (_, _) => {
                let error = self.refusal(status, &answer);
                let is_away = matches!(error, ClientError::Unreachable { .. });
                is_away.then(|| slower(pause * 2)).ok_or(error)
            }
        }
    }

    /// The error in an answer, for people.
    fn refusal(&self, status: StatusCode, answer: &Value) -> ClientError {
        match (answer["error"].as_str(), &answer["error_description"]) {
            (Some(code), Value::String(text)) if status == StatusCode::BAD_REQUEST => {
                ClientError::Refused {
                    code: code.to_owned(),
                    message: text.chars().take(MAX_SHOWN).collect(),
                }
            }
            (_, _) => self.wrong_status(status),
        }
    }
}

/// RFC 8628 section 3.2.
fn default_interval() -> u64 {
    5
}

fn expired() -> ClientError {
    ClientError::Refused {
        code: "expired_token".to_owned(),
        message: "the code has expired; sign in again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ludgate_model::site::WebOrigin;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(5);

    fn step(status: u16, body: &str) -> Result<PollStep, ClientError> {
        let site = WebOrigin::parse("https://hub.example.com").expect("a site");
        let site = SiteConnection::new(site, None).expect("a connection");
        let status = StatusCode::from_u16(status).expect("a status");
        site.step(Ok((status, body)), PAUSE)
    }

    fn pause_after(status: u16, body: &str) -> Duration {
        match step(status, body) {
            Ok(PollStep::Again(pause)) => pause,
            other => panic!("{status} {body}: {other:?}"),
        }
    }

    fn error_after(status: u16, body: &str) -> String {
        step(status, body).expect_err("an error").to_string()
    }

    #[test]
    fn polls_go_on_while_the_person_may_still_agree() {
        let pending = "{\"error\":\"authorization_pending\"}";
        assert_eq!(pause_after(400, pending), PAUSE);
        let slow_down = "{\"error\":\"slow_down\"}";
        assert_eq!(pause_after(400, slow_down), Duration::from_secs(10));
        // The gateway's page while the API restarts, and the API without its provider.
        assert_eq!(pause_after(502, "<html>"), Duration::from_secs(10));
        let away = "{\"error\":\"temporarily_unavailable\",\"error_description\":\"x\"}";
        assert_eq!(pause_after(503, away), Duration::from_secs(10));
    }

    #[test]
    fn a_token_a_refusal_and_an_expired_code_end_the_polls() {
        match step(200, "{\"api-token\":\"t\"}") {
            Ok(PollStep::Granted(token)) => assert_eq!(token.expose(), "t"),
            other => panic!("{other:?}"),
        }
        assert!(error_after(200, "{}").contains("without a token"));
        let denied = error_after(400, "{\"error\":\"access_denied\"}");
        assert_eq!(denied, "the sign-in was refused in the browser");
        let expired = error_after(400, "{\"error\":\"expired_token\"}");
        assert_eq!(expired, "the code has expired; sign in again");
        let body = "{\"error\":\"invalid_grant\",\"error_description\":\"used already\"}";
        assert_eq!(error_after(400, body), "used already");
        assert!(error_after(404, "not here").contains("HTTP status 404"));
    }

    #[test]
    fn an_offer_without_an_interval_is_polled_every_five_seconds() {
        let offer: OfferedDeviceCode = serde_json::from_str(
            "{\"device_code\":\"d\",\"user_code\":\"u\",\"verification_uri\":\"https://op.test/device\",\"expires_in\":600}",
        )
        .expect("an offer");
        assert_eq!((offer.interval, offer.expires_in), (5, 600));
        assert_eq!(offer.verification_uri_complete, None);
    }
}
