//! The sample app that shows the headers it received, the identity headers first.
//!
//! The page is `templates/demo/whoami.html`; `visitor` lists the identity headers.

use askama::Template;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::visitor;

#[derive(Template)]
#[template(path = "demo/whoami.html")]
struct WhoamiPage<'p> {
    home: &'p str,
    summary: String,
    rows: Vec<HeaderRow>,
}

struct HeaderRow {
    name: String,
    value: String,
    is_identity: bool,
}

/// The page for a request; `home` is the address of the launcher.
pub fn page(headers: &HeaderMap, home: &str) -> String {
    let mut rows = Vec::new();
    for name in &visitor::IDENTITY {
        for value in headers.get_all(name) {
            rows.push(row(name, value, true));
        }
    }
    for (name, value) in headers
        .iter()
        .filter(|(name, _)| !visitor::IDENTITY.contains(name))
    {
        rows.push(row(name, value, false));
    }
    let page = WhoamiPage {
        home,
        summary: summary(headers),
        rows,
    };
    page.render().unwrap_or_default()
}

fn row(name: &HeaderName, value: &HeaderValue, is_identity: bool) -> HeaderRow {
    HeaderRow {
        name: name.as_str().to_owned(),
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
        is_identity,
    }
}

fn summary(headers: &HeaderMap) -> String {
    let all = headers.len();
    let of_identity = visitor::IDENTITY
        .iter()
        .filter(|name| headers.contains_key(*name))
        .count();
    match of_identity {
        0 => format!("{all} headers; none of them says who you are. Was the gateway asked?"),
        1 => format!("{all} headers; the highlighted one says who you are."),
        told => format!("{all} headers; the {told} highlighted ones say who you are."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let value = HeaderValue::from_static;
        list.iter()
            .map(|(name, text)| (HeaderName::from_static(name), value(text)))
            .collect()
    }

    #[test]
    fn who_you_are_comes_first_and_is_marked() {
        let sent = [
            ("accept", "*/*"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-user", "ada"),
        ];
        let page = page(&headers(&sent), "../");
        let at = |text: &str| page.find(text).unwrap();
        assert!(at("x-forwarded-user</code> <span class=\"badge\">you") < at("<code>accept"));
        assert!(
            page.contains(
                "<tr><th scope=\"row\"><code>x-forwarded-proto</code></th><td>https</td>"
            )
        );
        assert!(page.contains("3 headers; the highlighted one says who you are."));
    }

    #[test]
    fn a_header_is_shown_not_run() {
        let page = page(
            &headers(&[
                ("user-agent", "<script>alert(1)</script>"),
                ("x-a", "{{style}}"),
                ("x-b", "'\""),
            ]),
            "../",
        );
        assert!(
            page.contains("&#60;script&#62;alert(1)&#60;/script&#62;") && !page.contains("<script")
        );
        assert!(page.contains("<td>{{style}}</td>"));
        assert!(page.contains("<td>&#39;&#34;</td>"));
        assert!(page.contains("none of them says who you are"));
    }
}
