//! The sample app for the members of a group: it greets the person and lists their groups.
//!
//! The page is `team.html`. That only members come here is the gateway's doing; nothing is checked
//! in here.

use http::HeaderMap;

use super::{
    page::{self, Piece},
    visitor,
};

const PAGE: &str = include_str!("team.html");

/// The page for a request; `home` is where all apps are.
pub fn page(headers: &HeaderMap, home: &str) -> String {
    let name = visitor::name(headers);
    let groups = list(&visitor::groups(headers), visitor::has_more_groups(headers));
    page::fill(
        PAGE,
        &[
            ("home", Piece::Text(home)),
            ("name", Piece::Text(&name)),
            ("groups", Piece::Markup(&groups)),
        ],
    )
}

/// The groups as HTML; `more`: there are some that I was not told.
fn list(groups: &[String], more: bool) -> String {
    if groups.is_empty() {
        return "<p>I was told no groups. Did you come here without the gateway?</p>".to_owned();
    }
    let items: String = groups
        .iter()
        .map(|group| {
            format!(
                "<li><bdi class=\"badge\">{}</bdi></li>",
                page::escape(group)
            )
        })
        .collect();
    let note = if more {
        "<p>There are more, too many for a header; I was told the one that let you in.</p>"
    } else {
        "<p><small>From the header <code>X-Forwarded-Groups</code>.</small></p>"
    };
    // The role, because some browsers take it from a list without bullets.
    format!("<ul class=\"groups\" role=\"list\">{items}</ul>{note}")
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn told(list: &[(HeaderName, &'static str)]) -> HeaderMap {
        list.iter()
            .map(|(name, text)| (name.clone(), HeaderValue::from_static(text)))
            .collect()
    }

    #[test]
    fn a_member_is_greeted_by_name_with_their_groups() {
        let page = page(
            &told(&[
                (visitor::USER, "0d5e"),
                (visitor::PREFERRED_USERNAME, "Zo%C3%AB"),
                (visitor::GROUPS, "team,a%2Cb"),
            ]),
            "../",
        );
        assert!(page.contains("Welcome, <bdi>Zoë</bdi>!"));
        assert!(
            page.contains("<bdi class=\"badge\">team</bdi>") && page.contains("badge\">a,b</bdi>")
        );
        assert!(!page.contains("There are more"));
    }

    #[test]
    fn names_and_groups_are_shown_not_run() {
        let page = page(
            &told(&[(visitor::USER, "<i>eve"), (visitor::GROUPS, "<script>,x")]),
            "../",
        );
        assert!(page.contains("&lt;i&gt;eve") && page.contains("&lt;script&gt;"));
        assert!(!page.contains("<script") && !page.contains("<i>"));
    }

    #[test]
    fn a_list_that_was_cut_says_so() {
        let cut = told(&[
            (visitor::GROUPS, "team"),
            (visitor::GROUPS_TRUNCATED, "true"),
        ]);
        let page = page(&cut, "../");
        assert!(page.contains("There are more") && page.contains("badge\">team</bdi>"));
    }

    #[test]
    fn without_the_gateway_the_page_still_stands() {
        let page = page(&HeaderMap::new(), "../");
        assert!(
            page.contains("Welcome, <bdi>somebody</bdi>!") && page.contains("I was told no groups")
        );
    }
}
