//! Upstreams: the paths that oauth2-proxy sends to each, and its address.

use std::collections::BTreeMap;

use url::Url;

use super::{
    given::{Given, GivenOptions},
    report::ImportOutcome::{Mapped, NotSupported},
};
use crate::{
    model::{access::Access, path_rule::PathRule},
    settings::values,
};

const PATH: &str = "upstreamConfig.upstreams[].path";
const FILES: &str = "Ludgate serves no files and no fixed responses";
const EXACT: &str = "it is for one path alone, and Ludgate sends an app all paths below";
const OWN_PATH: &str = "its address has another path than its route";
const REWRITE: &str = "its route is a regular expression, or its path is rewritten";

/// An upstream.
pub(crate) struct UpstreamDraft {
    /// Its name in the report, such as `upstream 1`.
    pub(crate) label: String,
    /// Its id in the alpha configuration.
    pub(crate) id: Option<String>,
    /// The prefix of its requests, without a slash at the end; empty: all.
    pub(crate) route: String,
    /// Its address for Ludgate, or why it has none.
    pub(crate) address: Result<String, &'static str>,
    /// Whether it gets the Host of the request.
    pub(crate) passes_host: Option<bool>,
    /// Deadline of its response, in milliseconds.
    pub(crate) timeout: Option<u64>,
    /// The numbers of its options; none, where it is part of a list.
    numbers: Vec<usize>,
}

impl UpstreamDraft {
    /// Answers its options.
    pub(crate) fn answer(&self, options: &GivenOptions, outcome: Result<&str, &str>) {
        let (outcome, what) = match outcome {
            Ok(id) => (Mapped, format!("{}: the app {id}", self.label)),
            Err(reason) => (
                NotSupported,
                format!("{} is left out: {reason}", self.label),
            ),
        };
        match self.numbers.is_empty() {
            true => options.answer("upstreams", outcome, what),
            false => self
                .numbers
                .iter()
                .for_each(|number| options.answer_at(*number, outcome, what.as_str())),
        }
    }
}

/// All upstreams.
pub(crate) fn upstreams(options: &GivenOptions) -> Vec<UpstreamDraft> {
    let listed = options.texts("upstreams").into_iter().enumerate();
    let listed = listed.map(|(at, written)| {
        let (path, address) = read_address(&written);
        let (route, address) = match route(&path) {
            Ok(route) => (route, address),
            Err((route, reason)) => (route, address.and(Err(reason))),
        };
        UpstreamDraft {
            label: format!("upstream {}", at + 1),
            id: None,
            route,
            address,
            passes_host: options.switch("pass_host_header"),
            timeout: options.milliseconds("upstream_timeout"),
            numbers: Vec::new(),
        }
    });
    let mut all: Vec<UpstreamDraft> = listed.collect();
    let mut fields: BTreeMap<usize, Vec<(usize, &Given)>> = BTreeMap::new();
    for (number, given) in options.each_of("upstreamConfig.upstreams[].") {
        let index = index(&given.written).unwrap_or_default();
        fields.entry(index).or_default().push((number, given));
    }
    all.extend(
        fields
            .iter()
            .map(|(index, fields)| from_fields(*index, fields)),
    );
    all
}

/// An upstream of the alpha configuration.
fn from_fields(index: usize, fields: &[(usize, &Given)]) -> UpstreamDraft {
    let field = |name: &str| {
        let suffix = format!("[].{name}");
        let mut fields = fields.iter().map(|(_, given)| *given);
        fields.find(|given| given.option.ends_with(&suffix) && !given.value.is_empty())
    };
    let text = |name: &str| field(name).and_then(|given| given.value.text());
    let switch = |name: &str| field(name).and_then(|given| given.value.switch());
    let path = text("path").unwrap_or_else(|| "/".to_owned());
    let (uri_path, address) = read_address(&text("uri").unwrap_or_default());
    let has_own_path = uri_path != "/" && uri_path != path;
    let address = match address {
        Ok(_) if text("rewriteTarget").is_some() || path.starts_with('^') => Err(REWRITE),
        Ok(_) if switch("static") == Some(true) => Err(FILES),
        Ok(_) if has_own_path => Err(OWN_PATH),
        Err(_) if switch("static") == Some(true) => Err(FILES),
        other => other,
    };
    let (route, address) = match route(&path) {
        Ok(route) => (route, address),
        Err((route, reason)) => (route, address.and(Err(reason))),
    };
    let is_translated = |given: &Given| {
        ["id", "uri", "passHostHeader", "timeout"]
            .iter()
            .any(|name| given.option.ends_with(&format!("[].{name}")))
            || given.option == PATH
    };
    let numbers = fields.iter().filter(|(_, given)| is_translated(given));
    UpstreamDraft {
        label: format!("upstream {index}"),
        id: text("id"),
        route,
        address,
        passes_host: switch("passHostHeader"),
        timeout: field("timeout").and_then(|given| given.value.milliseconds()),
        numbers: numbers.map(|(number, _)| *number).collect(),
    }
}

/// The index in a path such as `upstreamConfig.upstreams[3].uri`.
fn index(path: &str) -> Option<usize> {
    let (_, rest) = path.split_once('[')?;
    let (index, _) = rest.split_once(']')?;
    index.parse().ok()
}

/// The prefix of a route. With an error, of the paths that the upstream would have had.
fn route(path: &str) -> Result<String, (String, &'static str)> {
    let below = path.trim_end_matches('/');
    if below.is_empty() {
        return Ok(String::new());
    }
    if PathRule::new(below, Vec::new(), Access::User).is_err() {
        return Err((String::new(), "its route is no plain path"));
    }
    match path.ends_with('/') {
        true => Ok(below.to_owned()),
        false => Err((below.to_owned(), EXACT)),
    }
}

/// The path in an address, and the address for Ludgate. It may hold a password, so no part of it
/// is quoted.
fn read_address(written: &str) -> (String, Result<String, &'static str>) {
    let Ok(url) = Url::parse(written) else {
        return (
            "/".to_owned(),
            Err("its address is no URL with http:// or https://"),
        );
    };
    let root = "/".to_owned();
    match url.scheme() {
        "http" | "https" => {
            let has_user = !url.username().is_empty() || url.password().is_some();
            let address = url.origin().ascii_serialization();
            let address = match values::upstream(&address) {
                _ if has_user => Err("its address has a user or password, which would not be sent"),
                Ok(_) => Ok(address),
                Err(_) => Err("its address is none of an app"),
            };
            (url.path().to_owned(), address)
        }
        "unix" => {
            let address = format!("unix:{}", url.path());
            let address = match values::upstream(&address) {
                Ok(_) => Ok(address),
                Err(_) => Err("its address is no plain path of a socket"),
            };
            (root, address)
        }
        "file" => {
            let path = url.fragment().unwrap_or(url.path()).to_owned();
            (path, Err(FILES))
        }
        "static" => (root, Err(FILES)),
        _ => (root, Err("its address is no URL with http:// or https://")),
    }
}
