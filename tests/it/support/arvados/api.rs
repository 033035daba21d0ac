//! The API's HTTPS side: who calls, what they may see, and how it can fail.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use http::{
    Method, Request, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, LOCATION},
};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{
    Inner,
    query::Query,
    records::{Kind, Record, Records, random_text},
};

/// How every call to the API goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Takes the request and never answers.
    Hang,
    /// Takes the request and closes the connection.
    Close,
    /// Answers this status with an error as the API writes it.
    Status(u16),
    /// Answers 200 with half of an object.
    Garbage,
    /// Answers 302 to another path of the API; who follows shows in the calls.
    Redirect,
}

/// Where [`Fault::Redirect`] points.
pub const ELSEWHERE: &str = "/elsewhere";

/// One request as the API got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub method: String,
    pub path_and_query: String,
    /// What came after `Bearer` or `OAuth2`.
    pub token: Option<String>,
}

/// What the API answers instead of a record.
type Refusal = (StatusCode, String);

pub async fn accept(listener: TcpListener, inner: Arc<Inner>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&inner)));
    }
}

async fn serve(stream: TcpStream, inner: Arc<Inner>) {
    let Ok(stream) = TlsAcceptor::from(Arc::clone(&inner.authority.server))
        .accept(stream)
        .await
    else {
        return;
    };
    inner.handshakes.fetch_add(1, Ordering::SeqCst);
    let answers = service_fn(|request| {
        let inner = Arc::clone(&inner);
        async move { answer(&request, &inner).await }
    });
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answers)
        .await;
}

/// An error closes the connection without an answer.
async fn answer(
    request: &Request<Incoming>,
    inner: &Inner,
) -> Result<Response<Full<Bytes>>, &'static str> {
    let token = token_of(request);
    let call = Call {
        method: request.method().to_string(),
        path_and_query: request
            .uri()
            .path_and_query()
            .map_or("/", |p| p.as_str())
            .to_owned(),
        token: token.clone(),
    };
    inner.calls.lock().expect("no panic").push(call);
    let fault = *inner.fault.lock().expect("no panic");
    match fault {
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Close) => Err("closed as asked"),
        Some(Fault::Status(code)) => {
            let status = StatusCode::from_u16(code).expect("a status");
            Ok(error(
                status,
                status.canonical_reason().unwrap_or("an error"),
            ))
        }
        Some(Fault::Garbage) => Ok(respond(StatusCode::OK, r#"{"uuid": "zzzzz-dz6"#.to_owned())),
        Some(Fault::Redirect) => {
            let mut response = respond(StatusCode::FOUND, String::new());
            response
                .headers_mut()
                .insert(LOCATION, ELSEWHERE.parse().expect("a path"));
            Ok(response)
        }
        None => {
            let records = inner.records.lock().expect("no panic");
            let path = request.uri().path();
            Ok(
                match look_up(
                    &records,
                    request.method(),
                    path,
                    request.uri().query(),
                    token.as_deref(),
                ) {
                    Ok(found) => respond(StatusCode::OK, found.to_string()),
                    Err((status, text)) => error(status, &text),
                },
            )
        }
    }
}

/// The schemes are written exactly so; the API knows no others and no other spelling.
fn token_of(request: &Request<Incoming>) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let token = value
        .strip_prefix("Bearer ")
        .or_else(|| value.strip_prefix("OAuth2 "))?;
    Some(token.to_owned())
}

fn look_up(
    records: &Records,
    method: &Method,
    path: &str,
    query: Option<&str>,
    token: Option<&str>,
) -> Result<Value, Refusal> {
    let no_endpoint = |status| (status, "API endpoint not found".to_owned());
    let mut segments = path
        .strip_prefix("/arvados/v1/")
        .ok_or_else(|| no_endpoint(StatusCode::NOT_FOUND))?
        .split('/');
    let kind = segments.next().and_then(Kind::of_path);
    let (Some(kind), uuid, None) = (kind, segments.next(), segments.next()) else {
        return Err(no_endpoint(StatusCode::NOT_FOUND));
    };
    if ![Method::GET, Method::HEAD].contains(method) {
        return Err(no_endpoint(StatusCode::METHOD_NOT_ALLOWED));
    }
    let user = token.and_then(|token| records.user_of_token(token));
    let user = user.ok_or_else(|| (StatusCode::UNAUTHORIZED, "Not logged in".to_owned()))?;
    let bad_parameter = |text| (StatusCode::UNPROCESSABLE_ENTITY, text);
    let query = Query::parse(query.unwrap_or_default()).map_err(bad_parameter)?;
    let readable = |record: &&Record| records.may_read(user, kind, record);
    let found = match (kind, uuid) {
        // Who is not active may still learn that.
        (Kind::User, Some("current")) => Some(user),
        (_, Some(uuid)) => records.get(kind, uuid).filter(readable),
        (_, None) => {
            return query
                .list(kind, records.all(kind).iter().filter(readable))
                .map_err(bad_parameter);
        }
    };
    let found = found.ok_or_else(|| (StatusCode::NOT_FOUND, "Path not found".to_owned()))?;
    query.one(found).map_err(bad_parameter)
}

/// `errors` and `error_token` as documented; each error ends in the request's id.
fn error(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let id = format!("req-{}", random_text(20));
    let error_token = format!("{}+{}", chrono::Utc::now().timestamp(), &random_text(8));
    let body = json!({ "errors": [format!("{text} ({id})")], "error_token": error_token });
    let mut response = respond(status, body.to_string());
    response
        .headers_mut()
        .insert("x-request-id", id.parse().expect("a text"));
    response
}

fn respond(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        "application/json; charset=utf-8"
            .parse()
            .expect("a media type"),
    );
    response
}
