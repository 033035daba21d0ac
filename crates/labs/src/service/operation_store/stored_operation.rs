//! An operation as Redis has it.

use std::collections::HashMap;

use super::sealing::{OperationSealer, SealedPlace};
use crate::service::{
    operation::OperationKind, operation_end::OperationEnd, operation_request::OperationRequest,
};

/// The field of what a lab is made from.
pub(super) const PLAN: &str = "plan";
/// The field of how an operation ended.
pub(super) const END: &str = "end";

/// An operation as Redis has it.
#[derive(Debug)]
pub(in crate::service) struct StoredOperation {
    /// It differs between two operations on one lab.
    pub(in crate::service) number: u64,
    /// What it does.
    pub(in crate::service) kind: OperationKind,
    /// Whether it has not ended.
    pub(in crate::service) is_open: bool,
    /// The token of the last lock under which it ran. Empty, if it has not begun to run.
    pub(in crate::service) owner: String,
    /// What it is to do.
    pub(in crate::service) request: OperationRequest,
    /// How it ended. An end that cannot be read is none.
    pub(in crate::service) end: Option<OperationEnd>,
}

impl StoredOperation {
    /// Reads the fields; `None` if there is no operation.
    pub(super) fn read(
        username: &str,
        mut fields: HashMap<String, String>,
        sealer: &OperationSealer,
    ) -> Option<StoredOperation> {
        let mut field = |name: &str| fields.remove(name).filter(|text| !text.is_empty());
        let number = field("number")?.parse().ok()?;
        let place = |field| SealedPlace {
            username,
            number,
            field,
        };
        let plan = field(PLAN).and_then(|sealed| {
            let plan = sealer.open(place(PLAN), &sealed);
            if plan.is_none() {
                tracing::warn!(user = username, "cannot decrypt an operation of a lab");
            }
            plan
        });
        Some(StoredOperation {
            number,
            kind: OperationKind::parse(&field("kind")?)?,
            is_open: field("state")? == "open",
            owner: field("owner").unwrap_or_default(),
            request: OperationRequest {
                key: field("key"),
                plan,
                pod: field("pod"),
            },
            end: field(END).and_then(|sealed| sealer.open(place(END), &sealed)),
        })
    }

    /// The version that the script for a new operation compares.
    pub(in crate::service) fn version(&self) -> String {
        let state = if self.is_open { "open" } else { "ended" };
        format!("{}:{state}", self.number)
    }
}
