//! Addresses in the responses of an app that does not see its mount: `Location`, `Content-Location`
//! and `Refresh` get the mount back (docs/behaviour.md#headers).
//!
//! Invariant: only an address of the site's own origin changes, and it stays at that origin.
//! Ambiguous values pass unchanged.

use http::{HeaderMap, HeaderValue, header};

use crate::{
    incoming::path::check_below_root,
    model::{app::App, header_values::single, path_prefix::below, site::Site},
    route::path::RESERVED,
};

/// Puts the mount back into the addresses of a response, if the app got its path without it.
pub(super) fn restore_mount(headers: &mut HeaderMap, app: &App, site: &Site) {
    let Some(seen) = app.spec.path_rewrite.prefix() else {
        return;
    };
    // On its own host an app has no mount.
    if app.mount.is_empty() {
        return;
    }
    let mount = Mount {
        public: &app.mount,
        seen,
        origin: &site.origin.text,
    };
    for name in [header::LOCATION, header::CONTENT_LOCATION, header::REFRESH] {
        let written = single(headers, &name).map(HeaderValue::as_bytes);
        let Some(Ok(written)) = written.map(std::str::from_utf8) else {
            continue;
        };
        let restored = if name == header::REFRESH {
            mount.in_refresh(written)
        } else {
            mount.before(written)
        };
        if let Some(Ok(value)) = restored.map(HeaderValue::try_from) {
            headers.insert(name, value);
        }
    }
}

/// The mount of an app on the site.
struct Mount<'a> {
    /// As browsers see it, without a slash at the end.
    public: &'a str,
    /// What the app sees in its place; often nothing.
    seen: &'a str,
    /// The origin of the site.
    origin: &'a str,
}

impl Mount<'_> {
    /// The address with the mount; `None`: the address stays as it is.
    ///
    /// An address that has the mount already was written by an app that reads `X-Forwarded-Prefix`.
    /// One below `/.ludgate` stays, so that an app can lead to the sign-out.
    fn before(&self, address: &str) -> Option<String> {
        let (origin, rest) = match address.strip_prefix(self.origin) {
            Some(rest) => (self.origin, rest),
            None => ("", address),
        };
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let (path, query) = rest.split_at(end);
        let path = if path.is_empty() && !origin.is_empty() {
            "/"
        } else {
            path
        };
        // Browsers read two slashes, and a backslash as a slash, as the beginning of a host.
        let is_host = origin.is_empty() && path.starts_with("//");
        let is_plain = |byte: u8| byte > b' ' && byte != b'\\' && byte != 0x7f;
        if !path.starts_with('/')
            || is_host
            || !path.bytes().all(is_plain)
            || check_below_root(&path[1..]).is_err()
        {
            return None;
        }
        if below(path, self.public).is_some() || below(path, RESERVED).is_some() {
            return None;
        }
        let below_app = below(path, self.seen)?;
        Some(format!("{origin}{}{below_app}{query}", self.public))
    }

    /// The same for `Refresh`: seconds, then an address, perhaps after `url=` and in quotes (HTML
    /// Standard, shared declarative refresh steps).
    fn in_refresh(&self, value: &str) -> Option<String> {
        let is_time = |c: char| c.is_ascii_digit() || c == '.';
        let time = value.trim_ascii_start();
        let separated = time.trim_start_matches(is_time);
        let is_separator = |c: char| c.is_ascii_whitespace() || matches!(c, ';' | ',');
        if separated.len() == time.len() || !separated.starts_with(is_separator) {
            return None;
        }
        let rest = separated.trim_ascii_start();
        let rest = rest.strip_prefix([';', ',']).unwrap_or(rest);
        let rest = after_url_word(rest.trim_ascii_start());
        let (start, address) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let quoted = rest[1..].split(quote).next().unwrap_or_default();
                (value.len() - rest.len() + 1, quoted)
            }
            Some(_) | None => (value.len() - rest.len(), rest.trim_ascii_end()),
        };
        let (before, after) = (&value[..start], &value[start + address.len()..]);
        Some(format!("{before}{}{after}", self.before(address)?))
    }
}

/// What follows `url=`; the whole text where that is not written.
fn after_url_word(text: &str) -> &str {
    let value = text
        .split_at_checked(3)
        .filter(|(word, _)| word.eq_ignore_ascii_case("url"))
        .and_then(|(_, rest)| rest.trim_ascii_start().strip_prefix('='));
    value.map_or(text, str::trim_ascii_start)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderName;

    use super::*;
    use crate::model::{
        access::Access,
        app::{AppId, AppSpec, PathRewrite, Upstream, UpstreamScheme},
        cookie_names::CookieNames,
        site::WebOrigin,
    };

    fn spec(path_rewrite: PathRewrite) -> AppSpec {
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "localhost".into(),
            port: 1,
        };
        let id = AppId::new("abs").expect("an id");
        AppSpec {
            path_rewrite,
            ..AppSpec::new(id, upstream, Access::Public, Duration::from_secs(1))
        }
    }

    fn restored(app: &App, name: &HeaderName, values: &[&str]) -> Vec<String> {
        let origin = WebOrigin::new(true, "gw.test", 443);
        let site = Site::with_default_paths(origin, CookieNames::new(true, "c", &[]));
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            headers.append(name, value);
        }
        restore_mount(&mut headers, app, &site);
        let values = headers.get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    }

    fn stripped() -> App {
        App::hosted(spec(PathRewrite::strip()), "/apps/abs".to_owned(), None)
    }

    #[test]
    fn an_address_of_the_app_gets_the_mount_back_once() {
        for (written, expected) in [
            ("/", "/apps/abs/"),
            ("/page2", "/apps/abs/page2"),
            ("/page2?next=/x#/y", "/apps/abs/page2?next=/x#/y"),
            ("/?q", "/apps/abs/?q"),
            ("/a//b/../c", "/apps/abs/a//b/../c"),
            ("/%e4/ü", "/apps/abs/%e4/ü"),
            ("/apps/absent", "/apps/abs/apps/absent"),
            ("/apps/", "/apps/abs/apps/"),
            ("/oauth2/callback", "/apps/abs/oauth2/callback"),
            ("https://gw.test", "https://gw.test/apps/abs/"),
            ("https://gw.test?q", "https://gw.test/apps/abs/?q"),
            ("https://gw.test/x?y", "https://gw.test/apps/abs/x?y"),
            ("https://gw.test//x", "https://gw.test/apps/abs//x"),
        ] {
            for name in [header::LOCATION, header::CONTENT_LOCATION] {
                assert_eq!(restored(&stripped(), &name, &[written]), [expected]);
                let again = restored(&stripped(), &name, &[expected]);
                assert_eq!(again, [expected], "only once");
            }
        }
    }

    #[test]
    fn other_addresses_and_what_cannot_be_read_pass_unchanged() {
        for written in [
            "",
            "page2",
            "./page2",
            "?q",
            "#f",
            "/apps/abs",
            "/apps/abs?q",
            "/apps/abs/x",
            "https://gw.test/apps/abs/x",
            "/.ludgate/sign_out",
            "https://gw.test/.ludgate/sign_out?rd=/",
            "//evil.test/",
            "///evil.test/",
            "/\\evil.test/",
            "/\t/evil.test/",
            "/a b",
            "/../x",
            "/%2e%2e/x",
            "/a/..%2f../x",
            "https://evil.test/x",
            "https://gw.test.evil.test/x",
            "https://gw.test@evil.test/x",
            "https://gw.test:444/x",
            "https://gw.test\\@evil.test/x",
            "http://gw.test/x",
            "HTTPS://gw.test/x",
            "javascript:1",
        ] {
            let unchanged = restored(&stripped(), &header::LOCATION, &[written]);
            assert_eq!(unchanged, [written]);
        }
        // Browsers differ about which of two they follow.
        let two = ["/a", "/b"];
        assert_eq!(restored(&stripped(), &header::LOCATION, &two), two);
    }

    #[test]
    fn a_changed_address_leads_to_the_app_in_a_browser_too() {
        let base = url::Url::parse("https://gw.test/apps/abs/x/y").expect("a URL");
        for written in ["/", "//x", "/./x", "/a/../b", "/a/%2e%2e/b", "/..;/x", "/é"] {
            let location = restored(&stripped(), &header::LOCATION, &[written]).remove(0);
            if location != written {
                let url = base.join(&location).expect("a URL");
                assert_eq!(url.host_str(), Some("gw.test"), "{location}");
                assert!(url.path().starts_with("/apps/abs/"), "{location}");
            }
        }
    }

    #[test]
    fn the_address_of_a_refresh_gets_the_mount_back() {
        for (written, expected) in [
            ("5; url=/x", "5; url=/apps/abs/x"),
            ("0;URL='/x?y'", "0;URL='/apps/abs/x?y'"),
            (" 1.5 , url = \"/x\" ", " 1.5 , url = \"/apps/abs/x\" "),
            ("5 /x", "5 /apps/abs/x"),
            ("5; /x ", "5; /apps/abs/x "),
            ("5;url='/x", "5;url='/apps/abs/x"),
            (
                "5; url=https://gw.test/x",
                "5; url=https://gw.test/apps/abs/x",
            ),
        ] {
            assert_eq!(
                restored(&stripped(), &header::REFRESH, &[written]),
                [expected]
            );
            assert_eq!(
                restored(&stripped(), &header::REFRESH, &[expected]),
                [expected]
            );
        }
        for written in [
            "5",
            "5;",
            "5; url=",
            "5; url=x",
            "5; url=//evil.test/",
            "5; url=https://evil.test/",
            "5x; url=/x",
            "url=/x",
            "/x",
            "5; ür=/x",
        ] {
            assert_eq!(
                restored(&stripped(), &header::REFRESH, &[written]),
                [written]
            );
        }
    }

    #[test]
    fn only_an_app_that_does_not_see_its_mount_gets_it_back() {
        let mount = || "/apps/abs".to_owned();
        let kept = App::hosted(spec(PathRewrite::Keep), mount(), None);
        let on_host = App::on_host(spec(PathRewrite::strip()));
        for app in [&kept, &on_host] {
            assert_eq!(restored(app, &header::LOCATION, &["/x"]), ["/x"]);
        }
        let replaced = PathRewrite::ReplacePrefix("/new".into());
        let replaced = App::hosted(spec(replaced), mount(), None);
        for (written, expected) in [
            ("/new/x", "/apps/abs/x"),
            ("/new", "/apps/abs"),
            ("/newer/x", "/newer/x"),
            ("/x", "/x"),
        ] {
            assert_eq!(
                restored(&replaced, &header::LOCATION, &[written]),
                [expected]
            );
        }
    }
}
