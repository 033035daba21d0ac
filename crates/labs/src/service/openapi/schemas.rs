//! The shapes of requests and answers whose JSON is not written by `serde`. Tests compare them
//! with what is answered.

#![allow(dead_code, reason = "only the schemas of these types are used")]

use std::collections::BTreeMap;

use schemars::JsonSchema;

use crate::{
    images::{ImageAnswer, NodeAnswer, PrepullImagesAnswer},
    user::LabGroup,
};

/// One value, or a list with at most one, as forms send it.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(super) enum FormValue<T> {
    One(T),
    List(Vec<T>),
}

/// What a lab is started with.
#[derive(JsonSchema)]
pub(super) struct CreateBody {
    options: CreateOptions,
    /// Variables of the hub.
    env: BTreeMap<String, String>,
}

/// The options of the form. Exactly one of the image fields is needed.
#[derive(JsonSchema)]
struct CreateOptions {
    image_list: Option<FormValue<String>>,
    image_dropdown: Option<FormValue<String>>,
    image_class: Option<FormValue<String>>,
    image_type: Option<FormValue<String>>,
    image_tag: Option<FormValue<String>>,
    size: FormValue<String>,
    enable_debug: Option<FormValue<bool>>,
    reset_user_env: Option<FormValue<bool>>,
}

/// Says that the pod of file systems is to start.
#[derive(JsonSchema)]
pub(super) struct AdminStartBody {
    /// Only `true`.
    start: bool,
}

/// The pod of file systems.
#[derive(JsonSchema)]
pub(super) struct AdminStartAnswer {
    /// When it started (RFC 3339).
    start_time: String,
}

/// A file server that runs.
#[derive(JsonSchema)]
pub(super) struct FileServerAnswer {
    running: bool,
}

/// Errors.
#[derive(JsonSchema)]
pub(super) struct ErrorAnswer {
    detail: Vec<ErrorDetail>,
}

/// An error.
#[derive(JsonSchema)]
struct ErrorDetail {
    /// Where in the request.
    loc: Option<Vec<String>>,
    msg: String,
    r#type: String,
}

/// CPU in cores and memory in bytes.
#[derive(JsonSchema)]
struct AmountsAnswer {
    cpu: f64,
    memory: u64,
}

/// Resources of a pod.
#[derive(JsonSchema)]
struct ResourcesAnswer {
    limits: AmountsAnswer,
    requests: AmountsAnswer,
}

/// The person of a lab.
#[derive(JsonSchema)]
struct UserAnswer {
    username: String,
    name: Option<String>,
    uid: u32,
    gid: u32,
    groups: Vec<LabGroup>,
}

/// The options of a lab, resolved.
#[derive(JsonSchema)]
struct OptionsAnswer {
    image: String,
    size: String,
    enable_debug: bool,
    reset_user_env: bool,
}

/// A lab, as Nublado answers it.
#[derive(JsonSchema)]
pub(super) struct NubladoLab {
    user: UserAnswer,
    options: OptionsAnswer,
    /// `pending`, `running`, `terminating`, `terminated` or `failed`.
    status: String,
    internal_url: Option<String>,
    resources: ResourcesAnswer,
    quota: Option<AmountsAnswer>,
}

/// An event of a lab.
#[derive(JsonSchema)]
struct EventAnswer {
    event: String,
    data: String,
}

/// A lab, as SQR-066 describes it.
#[derive(JsonSchema)]
pub(super) struct Sqr066Lab {
    username: String,
    /// `pending`, `running`, `terminating` or `failed`.
    status: String,
    /// `present` or `missing`.
    pod: String,
    internal_url: Option<String>,
    /// The options that were chosen.
    options: BTreeMap<String, serde_json::Value>,
    /// Variables of the hub, without secrets.
    env: BTreeMap<String, String>,
    uid: u32,
    gid: u32,
    groups: Vec<LabGroup>,
    quotas: ResourcesAnswer,
    events: Vec<EventAnswer>,
}

/// Images, as Nublado answers them.
#[derive(JsonSchema)]
pub(super) struct NubladoImages {
    recommended: Option<ImageAnswer>,
    latest_weekly: Option<ImageAnswer>,
    latest_daily: Option<ImageAnswer>,
    latest_release: Option<ImageAnswer>,
    all: Vec<ImageAnswer>,
}

/// Images, as SQR-066 describes them.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Sqr066Images {
    recommended: Option<ImageAnswer>,
    latest_weekly: Option<ImageAnswer>,
    latest_daily: Option<ImageAnswer>,
    latest_release: Option<ImageAnswer>,
    all: Vec<ImageAnswer>,
}

/// The state of prepulling.
#[derive(JsonSchema)]
pub(super) struct PrepullsAnswer {
    /// The configuration of images.
    config: BTreeMap<String, serde_json::Value>,
    images: PrepullImagesAnswer,
    nodes: Vec<NodeAnswer>,
}
