//! Where a browser may be sent back to after signing in or out: a path on our own origin, or `/`.

use crate::{identity::oidc::pending::MAX_RETURN, incoming::path, model::site::Site};

/// The path to return to; anything that is not clearly one of ours becomes `/`.
///
/// Accepted: a path on the site, or a URL of exactly the site's origin. The result begins with one slash
/// that no reader takes for a host, and holds only bytes that the path policy allows.
pub fn clean(asked: Option<&str>, site: &Site) -> String {
    asked.and_then(|asked| own_path(asked, site)).unwrap_or("/").to_owned()
}

fn own_path<'a>(asked: &'a str, site: &Site) -> Option<&'a str> {
    let path = asked.strip_prefix(&*site.origin.text).unwrap_or(asked);
    let fine = path.len() <= MAX_RETURN
        && path.starts_with('/')
        // `//host` and `/\host` are hosts to a browser; so may be what decodes to them in a sloppy app.
        && !path[1..].starts_with(['/', '\\'])
        && path::check(path).is_ok()
        && path::check_below_root(&path[1..path.find('?').unwrap_or(path.len())]).is_ok()
        && !starts_with_encoded_trick(path)
        // Returning to an endpoint of ours would go in circles.
        && !path.strip_prefix(&*site.endpoints).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    fine.then_some(path)
}

/// `/%5ce`, `/%2fe`, `/%09/e`: an encoded slash, backslash or blank right at the start, in any depth.
fn starts_with_encoded_trick(path: &str) -> bool {
    let mut start: Vec<u8> = path.bytes().take(24).collect();
    for _ in 0..3 {
        start = percent_encoding::percent_decode(&start).collect();
        if start.get(1).is_some_and(|byte| matches!(byte, b'/' | b'\\') || *byte <= b' ') {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        cookie_names::CookieNames,
        site::{Site, WebOrigin},
    };

    #[test]
    fn nobody_is_sent_to_another_origin() {
        let origin = WebOrigin::new(true, "gw.test", 443);
        let site = Site::of(origin, CookieNames::new(true, "c", &[]));
        let long = format!("/{}", "a".repeat(64 * 1024));
        for evil in [
            "",
            "e",
            "//e",
            "///e",
            "/\\e",
            "\\/e",
            "/\t/e",
            "/%09/e",
            "/%5ce",
            "/%255ce",
            "/%2fe",
            "https:e",
            "https:///e",
            "http://gw.test@e",
            "https://gw.test@e",
            "https://gw.test.e",
            "https://gw.test.e/",
            "http://gw.test/x",
            "javascript:1",
            "/%0d%0aSet-Cookie:a=b",
            "/..//e",
            "/a/../..//e",
            "data:,x",
            "https://gw.test//e",
            "/oauth2/start",
            "/oauth2/sign_out?rd=/",
            "/a b",
            "/\u{e9}",
            &long,
        ] {
            assert_eq!(clean(Some(evil), &site), "/", "{evil:?}");
        }
        for (fine, path) in [
            ("/apps/grp/x?y=//z", "/apps/grp/x?y=//z"),
            ("https://gw.test/apps/grp/%2F", "/apps/grp/%2F"),
            ("/", "/"),
        ] {
            assert_eq!(clean(Some(fine), &site), path);
            let parsed = url::Url::parse("https://gw.test/").and_then(|base| base.join(path)).expect("a URL");
            assert_eq!(parsed.host_str(), Some("gw.test"));
        }
        assert_eq!(clean(None, &site), "/");
    }
}
