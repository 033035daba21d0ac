//! The sample app that shows the headers it received, those that say who asks on top.
//!
//! The page is `whoami.html`; which headers those are, is in `visitor`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    page::{self, Piece},
    visitor,
};

const PAGE: &str = include_str!("whoami.html");

/// The page for a request; `home` is where all apps are.
pub fn page(headers: &HeaderMap, home: &str) -> String {
    let mut rows = String::new();
    for name in &visitor::IDENTITY {
        for value in headers.get_all(name) {
            push_row(&mut rows, name, value, Row::Identity);
        }
    }
    for (name, value) in headers
        .iter()
        .filter(|(name, _)| !visitor::IDENTITY.contains(name))
    {
        push_row(&mut rows, name, value, Row::Other);
    }
    let summary = summary(headers);
    page::fill(
        PAGE,
        &[
            ("home", Piece::Text(home)),
            ("summary", Piece::Text(&summary)),
            ("rows", Piece::Markup(&rows)),
        ],
    )
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

#[derive(Clone, Copy)]
enum Row {
    Identity,
    Other,
}

fn push_row(rows: &mut String, name: &HeaderName, value: &HeaderValue, kind: Row) {
    let name = page::escape(name.as_str());
    let value = page::escape(&String::from_utf8_lossy(value.as_bytes()));
    // Colour alone does not reach everybody.
    let (class, mark) = match kind {
        Row::Identity => (" class=\"identity\"", " <span class=\"badge\">you</span>"),
        Row::Other => ("", ""),
    };
    rows.push_str(&format!(
        "<tr{class}><th scope=\"row\"><code>{name}</code>{mark}</th><td>{value}</td></tr>\n"
    ));
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
            ]),
            "../",
        );
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script")
        );
        assert!(page.contains("<td>{{style}}</td>"));
        assert!(page.contains("none of them says who you are"));
    }
}
