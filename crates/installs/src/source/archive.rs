//! Archives of charts: gzipped tar files.
//!
//! Names, kinds and sizes of all entries are checked while they are read, so that a small archive
//! cannot become large, and no entry leads out of its folder.

mod entry_name;
mod glob;
mod ignore;
mod pack;
mod read;

pub(crate) use pack::pack_folder;
pub use read::{ChartFolder, unpack_chart};
pub(crate) use read::{WantedChart, check_archive};
