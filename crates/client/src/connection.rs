//! Requests to the API of one site as one person, on one connection if possible.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use ludgate_model::{error_cause::chain_text, secret::Secret, site::WebOrigin};
use ludgate_ops::{http_client::connector, tls_client::NoCertificate};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::error::ClientError;

/// Deadline of a call. The API answers within ten seconds.
const DEADLINE: Duration = Duration::from_secs(15);
/// Largest answer, in bytes: the icons of many templates.
const MAX_ANSWER: usize = 16 << 20;
/// Longest text of a refusal that is shown, in characters.
pub(crate) const MAX_SHOWN: usize = 300;
/// What is encoded in a segment of a path: all but the unreserved characters of RFC 3986 section
/// 2.3. The gateway compares paths byte by byte.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("ludgate/", env!("CARGO_PKG_VERSION")));

/// A site, and the person who calls.
pub struct SiteConnection {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    site: WebOrigin,
    token: Option<Secret>,
}

impl SiteConnection {
    /// A connection that trusts the system's CAs, or those of `SSL_CERT_FILE`. Without a token only
    /// a sign-in works: [`SiteConnection::exchange_code`] or
    /// [`SiteConnection::begin_device_sign_in`].
    ///
    /// # Errors
    /// When no TLS configuration can be made.
    pub fn new(site: WebOrigin, token: Option<Secret>) -> Result<SiteConnection, NoCertificate> {
        Ok(SiteConnection {
            http: Client::builder(TokioExecutor::new()).build(connector(None)?),
            site,
            token,
        })
    }

    /// The site.
    pub fn site(&self) -> &WebOrigin {
        &self.site
    }

    /// Runs a GraphQL document, and returns its data.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn query(&self, document: &str, variables: Value) -> Result<Value, ClientError> {
        let body = json!({ "query": document, "variables": variables });
        let request = self
            .request("POST", "/api/graphql")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body.to_string()));
        let (status, bytes) = self.whole(request).await?;
        if status == StatusCode::UNAUTHORIZED {
            return Err(self.sign_in_needed());
        }
        let no_json = |_| self.wrong_status(status);
        let mut answer: Value = serde_json::from_slice(&bytes).map_err(no_json)?;
        if let Some(error) = answer["errors"].get(0) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(ClientError::Refused {
                code: text(&error["extensions"]["code"]),
                message: text(&error["message"]),
            });
        }
        let data = answer["data"].take();
        match data.is_object() {
            true => Ok(data),
            false => Err(self.wrong_status(status)),
        }
    }

    /// Opens the log of a pod. With `follow` it lasts as long as the pod.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn log(
        &self,
        pod: &str,
        follow: bool,
        tail: Option<u32>,
    ) -> Result<LogBytes, ClientError> {
        let pod = segment(pod);
        let tail = tail.map(|lines| format!("&tailLines={lines}"));
        let path = format!(
            "/api/logs/phapplications/{pod}?follow={follow}{}",
            tail.unwrap_or_default()
        );
        let request = self.request("GET", &path).body(Full::default());
        let response = self.within_deadline(self.send(request)).await?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(LogBytes(response.into_body()));
        }
        if status == StatusCode::UNAUTHORIZED {
            return Err(self.sign_in_needed());
        }
        let text = self.within_deadline(self.collect(response)).await?;
        let text = String::from_utf8_lossy(&text);
        Err(ClientError::Refused {
            code: status.to_string(),
            message: text.trim().chars().take(MAX_SHOWN).collect(),
        })
    }

    /// Calls a path of the REST API, and returns the body of the answer.
    ///
    /// # Errors
    /// See [`ClientError`]. The code of a refusal is its HTTP status.
    pub(crate) async fn rest(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = self
            .request(method, path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body));
        let (status, bytes) = self.whole(request).await?;
        if status == StatusCode::UNAUTHORIZED {
            return Err(self.sign_in_needed());
        }
        let no_json = |_| self.wrong_status(status);
        let answer: Value = serde_json::from_slice(&bytes).map_err(no_json)?;
        if status.is_success() {
            return Ok(answer);
        }
        match answer["error"]["message"].as_str() {
            Some(message) => Err(ClientError::Refused {
                code: status.as_u16().to_string(),
                message: message.to_owned(),
            }),
            None => Err(self.wrong_status(status)),
        }
    }

    /// Exchanges the code that a person copied from the browser for an API token.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn exchange_code(&self, code: &str) -> Result<Secret, ClientError> {
        let form = [("code", code.trim())];
        let (status, bytes) = self.post_form("/oidc/auth-flow/exchange", &form).await?;
        let refused = |message: &str| ClientError::Refused {
            code: status.to_string(),
            message: message.to_owned(),
        };
        match status {
            StatusCode::OK => {}
            StatusCode::BAD_REQUEST => {
                return Err(refused(
                    "the code is wrong, used or older than ten minutes; open the address again",
                ));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                return Err(refused("the sign-in service is not available; try again"));
            }
            _ => return Err(self.wrong_status(status)),
        }
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        api_token(&answer).ok_or_else(|| self.no_api("an answer without a token".to_owned()))
    }

    /// Sends a form, and returns status and body.
    pub(crate) async fn post_form(
        &self,
        path: &str,
        form: &[(&str, &str)],
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let form: String = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let request = self
            .request("POST", path)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::from(form));
        self.whole(request).await
    }

    fn request(&self, method: &str, path: &str) -> http::request::Builder {
        let builder = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.site))
            .header(header::USER_AGENT, USER_AGENT);
        match &self.token {
            Some(token) => {
                builder.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()))
            }
            None => builder,
        }
    }

    async fn whole(
        &self,
        request: http::Result<Request<Full<Bytes>>>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        self.within_deadline(async {
            let response = self.send(request).await?;
            let status = response.status();
            Ok((status, self.collect(response).await?))
        })
        .await
    }

    async fn send(
        &self,
        request: http::Result<Request<Full<Bytes>>>,
    ) -> Result<Response<Incoming>, ClientError> {
        // A token with a line break cannot be a header.
        let request = request.map_err(|_| self.sign_in_needed())?;
        let sent = self.http.request(request).await;
        sent.map_err(|error| self.unreachable(chain_text(&error)))
    }

    async fn collect(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        let collected = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await;
        let body = collected.map_err(|error| self.unreachable(chain_text(&*error)))?;
        Ok(body.to_bytes())
    }

    async fn within_deadline<T>(
        &self,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        match tokio::time::timeout(DEADLINE, call).await {
            Ok(result) => result,
            Err(_) => Err(self.unreachable(format!("no answer within {} s", DEADLINE.as_secs()))),
        }
    }

    fn unreachable(&self, cause: String) -> ClientError {
        ClientError::Unreachable {
            site: self.site.to_string(),
            cause,
        }
    }

    fn sign_in_needed(&self) -> ClientError {
        ClientError::SignInNeeded(self.site.to_string())
    }

    /// An answer that is not the API's. While the API restarts, it comes from the gateway.
    pub(crate) fn wrong_status(&self, status: StatusCode) -> ClientError {
        let text = format!("HTTP status {status}");
        match status {
            StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => self.unreachable(text),
            _ => self.no_api(text),
        }
    }

    /// A value in an answer.
    pub(crate) fn parse<T: DeserializeOwned>(&self, value: Value) -> Result<T, ClientError> {
        serde_json::from_value(value).map_err(|error| self.no_api(error.to_string()))
    }

    /// The answer does not come from the API.
    pub(crate) fn no_api(&self, what: String) -> ClientError {
        ClientError::NoApi {
            site: self.site.to_string(),
            what,
        }
    }
}

/// A segment of a path.
pub(crate) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, RESERVED).to_string()
}

/// The token in the answer to a sign-in.
pub(crate) fn api_token(answer: &Value) -> Option<Secret> {
    let token = answer["api-token"].as_str()?;
    (!token.is_empty()).then(|| Secret::new(token))
}

/// The bytes of a log, as they come.
pub struct LogBytes(Incoming);

impl LogBytes {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Bytes>, hyper::Error> {
        while let Some(frame) = self.0.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}
