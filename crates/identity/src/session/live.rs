//! The result of a session look-up.

use std::sync::Arc;

use super::record::{AppSession, SignIn};
use crate::model::clock::Moment;

/// A live session that was found on a request.
#[derive(Clone, Debug)]
pub enum Live {
    /// The app's own session.
    App(Arc<AppSession>),
    /// Only the sign-in: the app has no session yet.
    SignIn(Arc<SignIn>),
}

impl Live {
    /// The sign-in behind it.
    pub fn sign_in(&self) -> &Arc<SignIn> {
        match self {
            Live::App(session) => session.sign_in(),
            Live::SignIn(sign_in) => sign_in,
        }
    }

    /// Milliseconds until it expires without further use.
    pub fn time_left(&self, now: Moment) -> u64 {
        let of_sign_in = self.sign_in().remaining(now).shortest();
        match self {
            Live::App(session) => session.remaining(now).shortest().min(of_sign_in),
            Live::SignIn(_) => of_sign_in,
        }
    }

    /// Whether it is still neither revoked nor expired.
    pub fn is_live(&self, now: Moment) -> bool {
        match self {
            Live::App(session) => session.is_live(now),
            Live::SignIn(sign_in) => sign_in.is_live(now),
        }
    }
}
