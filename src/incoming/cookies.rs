//! The Cookie header, as bytes: split on `;`, strip space and tab, compare names exactly, decode
//! nothing.
//!
//! A cookie library would trim Unicode space or percent-decode, and could so read a cookie of
//! another name as ours.

use http::{HeaderMap, header};

use super::malformed::Malformed;
use crate::model::{cookie_names::CookieNames, vhost::VirtualHost};

/// More cookies than this on one request to the site is a broken page or an attack.
const MAX_COOKIES: usize = 100;
/// A cookie of ours is 43 bytes, a token of an integration at most 1 KiB; one far longer is
/// neither.
const MAX_OURS: usize = 4096;
/// Cookies of one name that are considered, where the browser protects the name (`__Host-`).
const MAX_CANDIDATES: usize = 4;
/// The app session on a path cannot have that prefix, so a page on a sibling host can set cookies
/// of its name for the domain above both, and browsers send those with a longer path first. None of
/// them may hide the real one.
const MAX_APP_CANDIDATES: usize = MAX_COOKIES;
/// Candidates that need no allocation.
const INLINE: usize = 4;

/// The values presented under one of our names.
#[derive(Clone, Debug, Default)]
pub struct Candidates<'h> {
    first: [&'h [u8]; INLINE],
    len: usize,
    more: Vec<&'h [u8]>,
}

impl<'h> Candidates<'h> {
    /// The distinct values, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = &'h [u8]> + use<'_, 'h> {
        let (first, len) = (self.first, self.len);
        first.into_iter().take(len).chain(self.more.iter().copied())
    }

    /// Whether nothing was presented.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn add(&mut self, value: &'h [u8], limit: usize) {
        let is_known = self.first[..self.len].contains(&value) || self.more.contains(&value);
        if is_known || self.len + self.more.len() >= limit {
            return;
        }
        match self.first.get_mut(self.len) {
            Some(slot) => {
                *slot = value;
                self.len += 1;
            }
            None => self.more.push(value),
        }
    }
}

/// Our cookies on one request.
#[derive(Clone, Debug, Default)]
pub struct Presented<'h> {
    /// The sign-in.
    pub sign_in: Candidates<'h>,
    /// The browser binding of a pending sign-in.
    pub bind: Candidates<'h>,
    /// The session of an app.
    pub app: Candidates<'h>,
    /// Which tenant of the address the browser knows.
    pub tenant: Candidates<'h>,
    /// A credential of an integration.
    pub credential: Candidates<'h>,
    /// The console's access token.
    pub access_token: Candidates<'h>,
}

/// Finds our cookies: those that have a meaning at this place.
///
/// # Errors
/// [`Malformed::Cookies`] above a hundred cookies on the site, or when one of ours is over 4 KiB.
pub fn scan<'h>(
    headers: &'h HeaderMap,
    names: &CookieNames,
    vhost: &VirtualHost,
) -> Result<Presented<'h>, Malformed> {
    let mut found = Presented::default();
    let (app, tenant) = (names.app_at(vhost), names.tenant_at(vhost));
    let is_site = *vhost == VirtualHost::Site;
    let mut count = 0;
    for line in headers.get_all(header::COOKIE) {
        for pair in pairs(line.as_bytes()) {
            count += 1;
            let mut limit = MAX_CANDIDATES;
            let target = match pair.name {
                name if name == app.as_bytes() => {
                    limit = MAX_APP_CANDIDATES;
                    &mut found.app
                }
                // Only the site sets the sign-in's cookie. On another host, one of its name was set
                // by another program.
                name if is_site && name == names.sign_in.as_bytes() => &mut found.sign_in,
                name if name == names.bind.as_bytes() => &mut found.bind,
                name if !is_site && name == tenant.as_bytes() => &mut found.tenant,
                name if !is_site && names.is_credential(name) => &mut found.credential,
                // The same for the console, which is on the site.
                name if is_site && names.is_access_token(name) => {
                    // The console's own: however long it is, it is no reason to refuse.
                    found.access_token.add(pair.value, limit);
                    continue;
                }
                _ => continue,
            };
            if pair.value.len() > MAX_OURS {
                return Err(Malformed::Cookies);
            }
            target.add(pair.value, limit);
        }
    }
    // On an app's host a sibling host may have set them, for the parent domain. Refusing them would
    // lock users out, so only the size of the head bounds them there.
    if is_site && count > MAX_COOKIES {
        Err(Malformed::Cookies)
    } else {
        Ok(found)
    }
}

/// One cookie as it stands in the header.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'h> {
    /// Everything between two semicolons, white space included.
    pub raw: &'h [u8],
    /// Before the first `=`; empty when there is none.
    pub name: &'h [u8],
    /// After it.
    pub value: &'h [u8],
}

/// Splits one Cookie header line.
pub fn pairs(line: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    let mut rest = Some(line);
    let split = std::iter::from_fn(move || {
        let line = rest?;
        let (raw, after) = match memchr::memchr(b';', line) {
            Some(at) => (&line[..at], Some(&line[at + 1..])),
            None => (line, None),
        };
        rest = after;
        Some(raw)
    });
    split.map(|raw| {
        let text = strip_blanks(raw);
        match memchr::memchr(b'=', text) {
            Some(at) => Pair {
                raw,
                name: &text[..at],
                value: &text[at + 1..],
            },
            None => Pair {
                raw,
                name: b"",
                value: text,
            },
        }
    })
}

/// Removes SP and HT at both ends and nothing else.
pub fn strip_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn sign_ins(lines: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(
                header::COOKIE,
                HeaderValue::from_bytes(line).expect("a header value"),
            );
        }
        let names = CookieNames::new(true, "app", &[]);
        scan(&headers, &names, &VirtualHost::Site)
            .expect("few cookies")
            .sign_in
            .iter()
            .map(<[u8]>::to_vec)
            .collect()
    }

    #[test]
    fn only_the_exact_bytes_of_a_name_are_that_name() {
        for stranger in [
            &b"\xe2\x80\x80__Host-ludgate=evil"[..],
            b"\xc2\xa0__Host-ludgate=evil",
            b"\xc2\x85__Host-ludgate=evil",
            b"%5F%5FHost-ludgate=evil",
            b"__HOST-ludgate=evil",
            b"__Host-ludgate =evil",
            b"x=\"a, __Host-ludgate=evil\"",
            b"__Host-ludgate",
        ] {
            assert!(
                sign_ins(&[stranger]).is_empty(),
                "{}",
                String::from_utf8_lossy(stranger)
            );
        }
        assert_eq!(sign_ins(&[b"$Version=1; \t__Host-ludgate=mine"]), [b"mine"]);
    }

    #[test]
    fn one_strange_byte_hides_no_other_cookie() {
        assert_eq!(sign_ins(&[b"a=\xff; __Host-ludgate=mine"]), [b"mine"]);
    }

    #[test]
    fn every_cookie_of_our_name_is_a_candidate_once() {
        assert_eq!(
            sign_ins(&[b"__Host-ludgate=a; __Host-ludgate=b", b"__Host-ludgate=a"]),
            [b"a", b"b"]
        );
    }

    #[test]
    fn planted_app_cookies_hide_none() {
        let names = CookieNames::new(true, "app", &[]);
        let planted: String = (0..50).map(|n| format!("app={n}; ")).collect();
        let line =
            HeaderValue::from_str(&format!("{planted}app=0; app=mine")).expect("a header value");
        let headers = HeaderMap::from_iter([(header::COOKIE, line)]);
        let found = scan(&headers, &names, &VirtualHost::Site).expect("few cookies");
        assert_eq!(
            (found.app.iter().count(), found.app.iter().last()),
            (51, Some(&b"mine"[..]))
        );
    }
}
