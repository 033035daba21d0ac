//! Taste is tested: what no compiler refuses and every reader would notice.
//!
//! Plain text in, offenders out. Where code is judged, comments and literals count for nothing.
//! Each check collects all offenders and shows them at once. Each has a test that shows it can
//! fail. A list of known offenders only shrinks: an entry that offends no more fails the check too.

mod citations;
mod comments;
mod cycles;
mod documents;
mod files;
mod functions;
mod names;
mod report;
mod rooms;
mod shape;
mod skips;
mod tokens;
