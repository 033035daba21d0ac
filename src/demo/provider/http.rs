//! The server of the demo's provider: routes, the page with the people, redirects with codes.

use std::convert::Infallible;

use askama::Template;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::form_urlencoded;

use super::state::{DemoProvider, Grant};
use super::tokens::Refused;
use crate::{model::header_values::bearer_token, session::cookie::NewId};

/// Largest form, in bytes.
const MAX_FORM: usize = 64 * 1024;

type Answer = Response<Full<Bytes>>;

/// The page on which a person is chosen.
#[derive(Template)]
#[template(path = "provider.html")]
struct WhoAreYou {
    people: Vec<Choice>,
}

struct Choice {
    name: &'static str,
    groups: String,
    href: String,
}

/// Serves until the process ends.
pub async fn serve(provider: DemoProvider, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let provider = provider.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let provider = provider.clone();
                async move { Ok::<_, Infallible>(provider.answer(request).await) }
            });
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl DemoProvider {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        match (&parts.method, parts.uri.path()) {
            (&Method::GET, "/.well-known/openid-configuration") => {
                self.count("discovery");
                json_answer(StatusCode::OK, &self.description())
            }
            (&Method::GET, "/keys") => {
                self.count("keys");
                let keys: Vec<Value> = self
                    .state()
                    .keys
                    .iter()
                    .map(|key| key.public_jwk())
                    .collect();
                json_answer(StatusCode::OK, &json!({ "keys": keys }))
            }
            (&Method::GET, "/authorize") => {
                self.count("authorize");
                self.authorize(&query)
            }
            (&Method::POST, "/token") => {
                self.with_form(body, &parts.headers, |form, authorization| {
                    self.token(form, authorization)
                        .map(|tokens| json_answer(StatusCode::OK, &tokens))
                })
                .await
            }
            (&Method::POST, "/device_authorization") => {
                self.with_form(body, &parts.headers, |form, authorization| {
                    self.device_authorization(form, authorization)
                        .map(|codes| json_answer(StatusCode::OK, &codes))
                })
                .await
            }
            (&Method::GET, "/device") => {
                html_answer(self.device_page(&|name| parameter(query.as_bytes(), name)))
            }
            (&Method::GET, "/userinfo") => {
                self.count("userinfo");
                self.userinfo(&parts.headers)
            }
            (&Method::POST, "/revoke") => {
                self.with_form(body, &parts.headers, |form, authorization| {
                    self.revoke(form, authorization)
                        .map(|()| plain(StatusCode::OK, ""))
                })
                .await
            }
            (&Method::POST, "/introspect") => {
                self.with_form(body, &parts.headers, |form, authorization| {
                    self.introspect(form, authorization)
                        .map(|answer| json_answer(StatusCode::OK, &answer))
                })
                .await
            }
            (&Method::GET, "/end_session") => self.end_session(&query).await,
            (_, _) => plain(
                StatusCode::NOT_FOUND,
                "The demo's sign-in service has nothing here.",
            ),
        }
    }

    /// Reads the form and answers it, or returns an error.
    async fn with_form(
        &self,
        body: Incoming,
        headers: &HeaderMap,
        answer: impl FnOnce(&dyn Fn(&str) -> Option<String>, Option<&str>) -> Result<Answer, Refused>,
    ) -> Answer {
        let Ok(form) = Limited::new(body, MAX_FORM).collect().await else {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "too large");
        };
        let form = form.to_bytes();
        let authorization = headers.get(header::AUTHORIZATION);
        let authorization = authorization.and_then(|value| value.to_str().ok());
        answer(&|name| parameter(&form, name), authorization).unwrap_or_else(|(status, error)| {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
            json_answer(status, &json!({ "error": error }))
        })
    }

    fn userinfo(&self, headers: &HeaderMap) -> Answer {
        let token = headers.get(header::AUTHORIZATION).and_then(bearer_token);
        match token.and_then(|token| self.whose(token)) {
            Some(person) => {
                let claims = self.claims_of(&person);
                #[cfg(feature = "testing")]
                let claims = self.reduced(claims);
                json_answer(StatusCode::OK, &Value::Object(claims))
            }
            None => json_answer(StatusCode::UNAUTHORIZED, &json!({"error": "invalid_token"})),
        }
    }

    fn description(&self) -> Value {
        let issuer = self.issuer();
        #[cfg(feature = "testing")]
        if self.state().hooks.is_keys_only {
            return json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") });
        }
        json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "userinfo_endpoint": format!("{issuer}/userinfo"),
            "jwks_uri": format!("{issuer}/keys"),
            "revocation_endpoint": format!("{issuer}/revoke"),
            "introspection_endpoint": format!("{issuer}/introspect"),
            "end_session_endpoint": format!("{issuer}/end_session"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
            "device_authorization_endpoint": format!("{issuer}/device_authorization"),
            "grant_types_supported": [
                "authorization_code",
                "refresh_token",
                "urn:ietf:params:oauth:grant-type:device_code",
            ],
            "scopes_supported": ["openid", "profile", "email", "offline_access"],
            "authorization_response_iss_parameter_supported": true,
            "backchannel_logout_supported": true,
            "backchannel_logout_session_supported": true,
        })
    }

    /// Checks the client and its redirect URI before any redirect. Then issues a code for the
    /// chosen person, or shows the page to choose one.
    fn authorize(&self, query: &str) -> Answer {
        let value = |name: &str| parameter(query.as_bytes(), name);
        let redirect_uri = value("redirect_uri").unwrap_or_default();
        let client = self.client();
        if value("client_id").as_deref() != Some(&client.id)
            || !client.redirect_uris.contains(&redirect_uri)
        {
            return plain(StatusCode::BAD_REQUEST, "Unknown client or redirect URI.");
        }
        let state = value("state").unwrap_or_default();
        let back = |answer: &[(&str, &str)]| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query
                .extend_pairs(answer)
                .append_pair("state", &state)
                .append_pair("iss", self.issuer());
            redirect(&format!("{redirect_uri}?{}", query.finish()))
        };
        let challenge = value("code_challenge")
            .filter(|_| value("code_challenge_method").as_deref() == Some("S256"));
        let Some(challenge) =
            challenge.filter(|_| value("response_type").as_deref() == Some("code"))
        else {
            return back(&[("error", "invalid_request")]);
        };
        let chosen = value("login_as");
        let person = self
            .state()
            .people
            .values()
            .map(|person| person.name)
            .find(|name| Some(*name) == chosen.as_deref());
        let Some(person) = person else {
            return self.who_are_you(query);
        };
        let session = NewId::random()
            .map(|id| id.as_str().to_owned())
            .unwrap_or_default();
        let issued = self.now();
        let grant = Grant {
            person,
            nonce: value("nonce"),
            challenge,
            redirect_uri: redirect_uri.clone(),
            session,
            issued,
            auth_time: issued,
            is_offline: value("scope")
                .is_some_and(|scope| scope.split(' ').any(|it| it == "offline_access")),
        };
        match self.new_code(grant) {
            Some(code) => back(&[("code", &code)]),
            None => back(&[("error", "server_error")]),
        }
    }

    fn who_are_you(&self, query: &str) -> Answer {
        let people = self
            .state()
            .people
            .values()
            .map(|person| {
                let groups = person.claims.get("groups").and_then(Value::as_array);
                let groups: Vec<&str> = groups
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                let href = format!("/authorize?{query}&login_as={}", person.name);
                Choice {
                    name: person.name,
                    groups: groups.join(", "),
                    href,
                }
            })
            .collect();
        html_answer(WhoAreYou { people }.render().unwrap_or_default())
    }

    /// RP-initiated logout: calls the client's back channel, then redirects the browser.
    async fn end_session(&self, query: &str) -> Answer {
        let hint = parameter(query.as_bytes(), "id_token_hint");
        if let Some(hint) = hint {
            self.tell_client(&hint).await;
        }
        let back = parameter(query.as_bytes(), "post_logout_redirect_uri");
        match back.filter(|uri| self.client().post_logout_redirect_uris.contains(uri)) {
            Some(uri) => redirect(&uri),
            None => plain(
                StatusCode::OK,
                "You are signed out of the demo's sign-in service.",
            ),
        }
    }

    /// Back-channel logout 1.0 section 2.5: a logout token for the session that the ID token names.
    async fn tell_client(&self, id_token: &str) {
        use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
        let Some(uri) = self.client().backchannel_logout_uri.clone() else {
            return;
        };
        let payload = id_token
            .split('.')
            .nth(1)
            .and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let claims: Option<Value> = payload.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(claims) = claims else { return };
        let now = self.now();
        let token = self.sign(
            &json!({"alg": "ES256", "typ": "logout+jwt", "kid": self.key_id()}),
            &json!({
                "iss": self.issuer(), "aud": self.client().id, "iat": now, "exp": now + 120,
                "jti": NewId::random().map(|id| id.as_str().to_owned()).unwrap_or_default(),
                "sub": claims.get("sub"), "sid": claims.get("sid"),
                "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
            }),
        );
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("logout_token", &token)
            .finish();
        let request = Request::post(uri)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from(form)));
        if let Ok(request) = request {
            // Sign-out succeeds even if the client cannot be reached.
            let _ = Client::builder(TokioExecutor::new())
                .build_http()
                .request(request)
                .await;
        }
    }
}

fn parameter(encoded: &[u8], name: &str) -> Option<String> {
    form_urlencoded::parse(encoded)
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

fn redirect(location: &str) -> Answer {
    let mut answer = plain(StatusCode::FOUND, "");
    if let Ok(location) = HeaderValue::from_str(location) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    answer
}

fn html_answer(page: String) -> Answer {
    let mut answer = plain(StatusCode::OK, page);
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

fn json_answer(status: StatusCode, body: &Value) -> Answer {
    let mut answer = plain(status, body.to_string());
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    answer
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    answer
}
