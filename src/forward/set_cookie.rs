//! `Set-Cookie` from apps: an app sets cookies for itself, not for its neighbours, and never ours
//! (docs/behaviour.md#cookies).

use http::{HeaderMap, HeaderValue, header};

use crate::{
    incoming::cookies::strip_blanks,
    model::{
        app::{App, AppKind},
        site::Site,
    },
};

/// Maximum number of cookies that an app may set in one response.
const MAX_SET: usize = 64;

/// Rewrites every `Set-Cookie` of a response. Values and all attributes but Path and Domain pass
/// unchanged.
pub fn rewrite(headers: &mut HeaderMap, app: &App, site: &Site) {
    let lines: Vec<HeaderValue> = headers
        .get_all(header::SET_COOKIE)
        .iter()
        .cloned()
        .collect();
    headers.remove(header::SET_COOKIE);
    let most = match app.kind {
        // The console could set as many without us.
        AppKind::Console => usize::MAX,
        AppKind::Hosted => MAX_SET,
    };
    let kept = lines.iter().filter_map(|line| match app.kind {
        AppKind::Console => (!names_withheld(line, app, site)).then(|| line.clone()),
        AppKind::Hosted => hosted(line, app, site),
    });
    for line in kept.take(most) {
        headers.append(header::SET_COOKIE, line);
    }
}

fn names_withheld(line: &HeaderValue, app: &App, site: &Site) -> bool {
    let pair = strip_blanks(
        line.as_bytes()
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default(),
    );
    let (name, value) = match memchr::memchr(b'=', pair) {
        Some(at) => (strip_blanks(&pair[..at]), strip_blanks(&pair[at + 1..])),
        None => (&b""[..], pair),
    };
    if !name.is_empty() {
        return site.cookies.is_withheld_from(app.kind, name);
    }
    // A browser sends a nameless cookie as its bare value, which may then read like one of ours.
    match app.kind {
        AppKind::Console => {
            let read = value.split(|byte| *byte == b'=').next().unwrap_or_default();
            site.cookies.is_withheld_from(app.kind, strip_blanks(read))
        }
        AppKind::Hosted => true,
    }
}

/// One line of a hosted app: no withheld name, no Domain, and on a path a Path below the app.
fn hosted(line: &HeaderValue, app: &App, site: &Site) -> Option<HeaderValue> {
    if names_withheld(line, app, site) {
        return None;
    }
    // All paths of an app's own host belong to the app.
    let owns_all_paths = app.mount.is_empty();
    let mut out = Vec::with_capacity(line.len() + app.mount.len() + 8);
    let mut path: Option<&[u8]> = None;
    for (index, part) in line.as_bytes().split(|byte| *byte == b';').enumerate() {
        let (name, value) = match memchr::memchr(b'=', part) {
            Some(at) => (strip_blanks(&part[..at]), strip_blanks(&part[at + 1..])),
            None => (strip_blanks(part), &b""[..]),
        };
        if index == 0 {
            out.extend_from_slice(part);
        } else if name.eq_ignore_ascii_case(b"path") && !owns_all_paths {
            // The last Path counts (RFC 6265 section 5.3 step 4).
            path = Some(value);
        } else if !name.eq_ignore_ascii_case(b"domain") {
            out.push(b';');
            out.extend_from_slice(part);
        }
    }
    if !owns_all_paths {
        out.extend_from_slice(b"; Path=");
        out.extend_from_slice(&path_below(path, app));
    }
    HeaderValue::try_from(out).ok()
}

/// The path of an app's cookie, confined to its mount.
fn path_below(asked: Option<&[u8]>, app: &App) -> Vec<u8> {
    let mount = app.mount.as_bytes();
    let asked = asked.unwrap_or_default();
    let below = |prefix: &[u8]| {
        asked
            .strip_prefix(prefix)
            .filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    // An app that does not see its mount names paths below what it sees instead.
    let seen = app.spec.path_rewrite.prefix();
    match below(mount).or_else(|| below(seen?.as_bytes())) {
        Some([]) | None => [mount, b"/"].concat(),
        Some(rest) => [mount, rest].concat(),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::model::{
        access::Access,
        app::{AppId, AppSpec, PathRewrite, Upstream, UpstreamScheme},
        cookie_names::CookieNames,
        site::{Site, WebOrigin},
    };

    fn rewritten(lines: &[&str], path_rewrite: PathRewrite) -> Vec<String> {
        let app = App::hosted(spec(path_rewrite), "/apps/evil".to_owned(), None);
        rewritten_for(&Arc::new(app), lines)
    }

    fn spec(path_rewrite: PathRewrite) -> AppSpec {
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "localhost".into(),
            port: 1,
        };
        let id = AppId::new("evil").expect("an id");
        AppSpec {
            path_rewrite,
            ..AppSpec::new(id, upstream, Access::Public, Duration::from_secs(1))
        }
    }

    fn rewritten_for(app: &Arc<App>, lines: &[&str]) -> Vec<String> {
        let origin = WebOrigin::new(true, "gw.test", 443);
        let site = Site::with_default_paths(
            origin,
            CookieNames::new(true, "phapplication-session-id", &["accessToken".into()])
                .with_credential("other_token"),
        );
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(
                header::SET_COOKIE,
                HeaderValue::from_str(line).expect("a value"),
            );
        }
        rewrite(&mut headers, app, &site);
        headers
            .get_all(header::SET_COOKIE)
            .iter()
            .map(|value| value.to_str().expect("ASCII").to_owned())
            .collect()
    }

    #[test]
    fn an_app_cannot_set_our_cookies_or_the_console_s() {
        for line in [
            "__Host-ludgate=x; Path=/; Secure",
            "__host-LUDGATE=x; Path=/",
            " __Host-ludgate =x",
            "ludgate=x; Domain=test",
            "phapplication-session-id=x",
            "accessToken=x",
            "accessToken.sig=x",
            "=__Host-ludgate=x",
            "__Host-ludgate",
        ] {
            assert!(rewritten(&[line], PathRewrite::Keep).is_empty(), "{line:?}");
        }
    }

    #[test]
    fn an_app_s_cookie_stays_with_the_app() {
        for (line, strip, expected) in [
            ("own=1", false, "own=1; Path=/apps/evil/"),
            ("own=1; Path=/", false, "own=1; Path=/apps/evil/"),
            (
                "own=1; path=/apps/evil/x; HttpOnly",
                false,
                "own=1; HttpOnly; Path=/apps/evil/x",
            ),
            ("own=1; Path=/apps/evil", false, "own=1; Path=/apps/evil/"),
            (
                "own=1; Path=/apps/evilness",
                false,
                "own=1; Path=/apps/evil/",
            ),
            (
                "own=1; Domain=gw.test; Path=/x",
                true,
                "own=1; Path=/apps/evil/x",
            ),
            (
                "own=\"a b\"; DOMAIN=.test;Secure",
                false,
                "own=\"a b\";Secure; Path=/apps/evil/",
            ),
            (
                "own=1; Path=/apps/evil/; Path=/",
                false,
                "own=1; Path=/apps/evil/",
            ),
        ] {
            let rewrite = match strip {
                true => PathRewrite::strip(),
                false => PathRewrite::Keep,
            };
            assert_eq!(rewritten(&[line], rewrite), [expected], "{line:?}");
        }
    }

    #[test]
    fn a_cookie_below_another_prefix_is_moved_below_the_mount() {
        for (path, expected) in [
            ("/new", "/apps/evil/"),
            ("/new/x", "/apps/evil/x"),
            ("/apps/evil/x", "/apps/evil/x"),
            ("/newer", "/apps/evil/"),
            ("/", "/apps/evil/"),
        ] {
            let rewrite = PathRewrite::ReplacePrefix("/new".into());
            let line = format!("own=1; Path={path}");
            let wanted = format!("own=1; Path={expected}");
            assert_eq!(rewritten(&[&line], rewrite), [wanted], "{path}");
        }
    }

    #[test]
    fn on_a_host_of_its_own_a_cookie_loses_its_domain_and_nothing_else() {
        let app = Arc::new(App::on_host(spec(PathRewrite::Keep)));
        for (line, expected) in [
            ("own=1; Path=/x; HttpOnly", "own=1; Path=/x; HttpOnly"),
            ("own=1", "own=1"),
            ("own=1; Domain=svc.test; Path=/", "own=1; Path=/"),
        ] {
            assert_eq!(rewritten_for(&app, &[line]), [expected], "{line:?}");
        }
        for ours in [
            "__Host-ludgate-app=x; Path=/; Secure",
            "ludgate-app-2000=x",
            "other_token=x",
        ] {
            assert!(rewritten_for(&app, &[ours]).is_empty(), "{ours:?}");
        }
    }

    #[test]
    fn the_number_of_cookies_in_one_answer_is_bounded() {
        let lines: Vec<String> = (0..200).map(|n| format!("c{n}=1")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(rewritten(&lines, PathRewrite::Keep).len(), MAX_SET);
    }

    #[test]
    fn the_console_sets_what_it_likes_but_for_what_reads_like_ours() {
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "localhost".into(),
            port: 1,
        };
        let app = Arc::new(App::console(upstream, Duration::from_secs(1)).expect("an id"));
        for theirs in [
            "accessToken=x; Domain=gw.test; Path=/",
            "nameless",
            "=nameless",
            "",
            "a=ludgate",
        ] {
            assert_eq!(rewritten_for(&app, &[theirs]), [theirs], "{theirs:?}");
        }
        for ours in [
            "ludgate=x",
            " Ludgate =x",
            "ludgate",
            "=ludgate=x",
            " = __Host-ludgate =x; Secure",
        ] {
            assert!(rewritten_for(&app, &[ours]).is_empty(), "{ours:?}");
        }
        let lines: Vec<String> = (0..200).map(|n| format!("c{n}=1")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(rewritten_for(&app, &lines), lines);
    }
}
