//! References of images: `registry/repository:tag@digest`.

use std::{fmt, str::FromStr};

/// A reference with its registry. Tag and digest are optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// Host, with its port if that is not the default.
    pub registry: String,
    /// What the registry calls the image.
    pub repository: String,
    /// The tag.
    pub tag: Option<String>,
    /// The digest, with its algorithm.
    pub digest: Option<String>,
}

/// The text is no reference of an image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("Invalid Docker reference \"{0}\"")]
pub struct NoImageReference(pub String);

impl FromStr for ImageReference {
    type Err = NoImageReference;

    fn from_str(text: &str) -> Result<ImageReference, NoImageReference> {
        parse(text).ok_or_else(|| NoImageReference(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<ImageReference> {
    let (start, digest) = match text.split_once('@') {
        Some((start, digest)) => (start, Some(checked(digest, is_digest)?)),
        None => (text, None),
    };
    let (registry, path) = start.split_once('/')?;
    // The registry may have a port, so a tag is looked for behind it.
    let (repository, tag) = match path.split_once(':') {
        Some((repository, tag)) => (repository, Some(checked(tag, is_tag)?)),
        None => (path, None),
    };
    Some(ImageReference {
        registry: checked(registry, is_registry)?,
        repository: checked(repository, is_repository)?,
        tag,
        digest,
    })
}

fn checked(text: &str, is_valid: impl Fn(&str) -> bool) -> Option<String> {
    is_valid(text).then(|| text.to_owned())
}

fn is_registry(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b".-:[]".contains(&b);
    !text.is_empty() && text.bytes().all(allowed)
}

fn is_repository(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    text.split('/')
        .all(|part| !part.is_empty() && part.bytes().all(allowed))
}

/// Whether a text is a tag that the distribution specification allows.
pub(crate) fn is_tag(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    (1..=128).contains(&text.len()) && text.bytes().all(allowed) && !text.starts_with(['.', '-'])
}

pub(crate) fn is_digest(text: &str) -> bool {
    let is_hex = |hash: &str| !hash.is_empty() && hash.bytes().all(|b| b.is_ascii_hexdigit());
    let is_algorithm = |name: &str| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+._-".contains(&b);
        !name.is_empty() && name.bytes().all(allowed)
    };
    text.split_once(':')
        .is_some_and(|(algorithm, hash)| is_algorithm(algorithm) && is_hex(hash))
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_written_back() {
        for text in [
            "lighthouse.ceres/library/sketchbook:latest_daily@sha256:1234",
            "lighthouse.ceres/library/sketchbook",
            "localhost:5000/lab:w_2022_37",
            "[::1]:5000/lab@sha256:ab",
        ] {
            let reference: ImageReference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "sketchbook",
            "a/",
            "a/b:",
            "a/b@",
            "a/b@1234",
            "a/b@sha 256:12",
            "a/B",
            "a/b:.x",
            "a b/c",
            "a//b",
        ] {
            assert!(text.parse::<ImageReference>().is_err(), "{text}");
        }
    }
}
