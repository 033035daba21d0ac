//! The sample app for the members of a group: it greets the person and lists their groups.
//!
//! The page is `templates/demo/team.html`. The gateway admits members only; nothing is checked
//! here.

use askama::Template;
use http::HeaderMap;

use super::visitor;

#[derive(Template)]
#[template(path = "demo/team.html")]
struct TeamPage<'p> {
    home: &'p str,
    name: String,
    groups: Vec<String>,
    /// The list was cut for its length.
    more: bool,
}

/// The page for a request; `home` is the address of the launcher.
pub fn page(headers: &HeaderMap, home: &str) -> String {
    let page = TeamPage {
        home,
        name: visitor::name(headers),
        groups: visitor::groups(headers),
        more: visitor::has_more_groups(headers),
    };
    page.render().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(list: &[(HeaderName, &'static str)]) -> HeaderMap {
        list.iter()
            .map(|(name, text)| (name.clone(), HeaderValue::from_static(text)))
            .collect()
    }

    #[test]
    fn a_member_is_greeted_by_name_with_their_groups() {
        let page = page(
            &headers(&[
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
            &headers(&[(visitor::USER, "<i>eve"), (visitor::GROUPS, "<script>,x")]),
            "../",
        );
        assert!(page.contains("&#60;i&#62;eve") && page.contains("&#60;script&#62;"));
        assert!(!page.contains("<script") && !page.contains("<i>"));
    }

    #[test]
    fn a_list_that_was_cut_says_so() {
        let cut = headers(&[
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
            page.contains("Welcome, <bdi>unknown user</bdi>!")
                && page.contains("The request named no groups")
        );
    }
}
