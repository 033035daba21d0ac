//! What a tag says.

use std::fmt;

use chrono::NaiveDate;

/// A series of images. The order is that of menus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageKind {
    /// Another name of an image of one of the other kinds.
    Alias,
    /// `r21_0_1`.
    Release,
    /// `w_2021_22`.
    Weekly,
    /// `d_2021_05_27`.
    Daily,
    /// `r22_0_0_rc1`.
    Candidate,
    /// `exp_` and anything.
    Experimental,
    /// A tag that follows no convention.
    Unknown,
}

impl ImageKind {
    /// All kinds, in the order of menus.
    pub const ALL: [ImageKind; 7] = [
        ImageKind::Alias,
        ImageKind::Release,
        ImageKind::Weekly,
        ImageKind::Daily,
        ImageKind::Candidate,
        ImageKind::Experimental,
        ImageKind::Unknown,
    ];

    /// Whether an image of this kind may turn out to be another name of a known one.
    pub fn may_be_alias(self) -> bool {
        matches!(self, ImageKind::Alias | ImageKind::Unknown)
    }
}

impl fmt::Display for ImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageKind::Alias => "Alias",
            ImageKind::Release => "Release",
            ImageKind::Weekly => "Weekly",
            ImageKind::Daily => "Daily",
            ImageKind::Candidate => "Release Candidate",
            ImageKind::Experimental => "Experimental",
            ImageKind::Unknown => "Unknown",
        })
    }
}

/// The version of a tag. Weeklies have year and week, dailies year, month and day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagVersion {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
    /// The number of a release candidate.
    pub candidate: Option<u64>,
}

/// A tag and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTag {
    /// The tag as it is.
    pub tag: String,
    /// The series.
    pub kind: ImageKind,
    /// The name for people.
    pub display_name: String,
    /// Of unknown tags and aliases: the tag without its cycle and its architecture.
    pub base: Option<String>,
    /// The version, unless the tag is an alias or unknown.
    pub version: Option<TagVersion>,
    /// Whether the version is that of a release, not a date.
    pub is_semantic: bool,
    /// Version of the interface that the image implements.
    pub cycle: Option<u64>,
    /// Build number of that interface.
    pub cycle_build: Option<u64>,
    /// Version of the machinery that built the image.
    pub build: Option<u64>,
    /// The only architecture of the image. Without one, the image has all.
    pub architecture: Option<String>,
    /// What else the tag says.
    pub extra: Option<String>,
    /// The day of a daily, the Thursday of a weekly.
    pub date: Option<NaiveDate>,
}

/// `latest_weekly` as `Latest Weekly`.
pub(crate) fn title(base: &str) -> String {
    let mut in_word = false;
    let letters = base.chars().map(|letter| {
        let letter = if letter == '_' { ' ' } else { letter };
        let is_first = letter.is_alphabetic() && !in_word;
        in_word = letter.is_alphabetic();
        if is_first {
            letter.to_uppercase().to_string()
        } else {
            letter.to_lowercase().to_string()
        }
    });
    letters.collect()
}
