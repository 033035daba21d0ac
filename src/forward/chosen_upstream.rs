//! The upstream that one request goes to.

use std::{net::SocketAddr, time::Instant};

use super::pool::key::PoolKey;
use crate::model::{
    app::App,
    upstream_group::{InProgress, UpstreamGroup},
};

/// The upstream of one request. The request counts as in progress there until this is dropped.
pub struct ChosenUpstream {
    /// The connections that may carry it.
    pub(super) key: PoolKey,
    /// `None` for an app that has one upstream.
    in_progress: Option<InProgress>,
    /// A hash of the visitor who stays at one upstream.
    visitor: Option<u64>,
}

impl ChosenUpstream {
    /// The only upstream of an app, or one of its pods.
    pub(super) fn only(key: PoolKey) -> ChosenUpstream {
        ChosenUpstream {
            key,
            in_progress: None,
            visitor: None,
        }
    }

    /// One of a group.
    pub(super) fn of_group(
        group: &UpstreamGroup,
        visitor: Option<u64>,
        client: Option<SocketAddr>,
        now: Instant,
    ) -> ChosenUpstream {
        let in_progress = group.choose(visitor, now);
        ChosenUpstream {
            key: PoolKey {
                server: in_progress.as_ref().map_or(0, InProgress::index),
                client,
            },
            in_progress,
            visitor,
        }
    }

    /// Chooses another upstream after this one accepted no connection. Returns whether there is
    /// one.
    pub(super) fn move_to_other(&mut self, app: &App) -> bool {
        let (Some(group), Some(failed)) = (&app.group, &self.in_progress) else {
            return false;
        };
        let Some(other) = group.choose_other(failed, self.visitor, Instant::now()) else {
            return false;
        };
        tracing::debug!(
            app = %app.id(), upstream = %app.upstream_at(failed.index()),
            other = %app.upstream_at(other.index()), "no connection; another upstream is tried"
        );
        self.key.server = other.index();
        self.in_progress = Some(other);
        true
    }

    /// The count of the request, for as long as its response or WebSocket lasts.
    pub(super) fn into_in_progress(self) -> Option<InProgress> {
        self.in_progress
    }
}
