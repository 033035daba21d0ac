//! Bodies on their way through: streamed with back-pressure, counted, never collected.

pub use super::{
    download::{Download, DownloadError},
    upload::{Source, Upload, UploadAborted, UploadPolicy, UploadProgress, UploadState},
};
