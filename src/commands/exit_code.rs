//! Exit codes of the commands.

/// Exit code of success.
pub const DONE: u8 = 0;
/// Exit code of a failure at run time.
pub const FAILED: u8 = 1;
/// Exit code of wrong usage or invalid configuration.
pub const BAD_CONFIGURATION: u8 = 2;
