//! The controller of viewers is killed at each of its writes.

use super::life::ViewerLife;
use crate::{kube::killed::killed_at_each_write, support::api_faults::Fault};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_for_a_viewer_that_was_never_sent_is_made_by_the_next_process() {
    killed_at_each_write::<ViewerLife>(Fault::HangBefore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_for_a_viewer_without_an_answer_is_not_repeated_by_the_next_process() {
    killed_at_each_write::<ViewerLife>(Fault::HangAfter).await;
}
