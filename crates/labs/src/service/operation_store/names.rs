//! The keys of Redis. All keys of a person are in one slot of a cluster, since only the part in
//! braces is hashed. Usernames are parts of the names of namespaces too, so they are no secret.

/// The time when the data of Redis began, by its own clock in milliseconds.
pub(super) const EPOCH: &str = "ludgate:labs:epoch";

/// The keys of one lab controller. Another one with the same Redis has others.
pub(super) struct StoreNames {
    prefix: String,
}

impl StoreNames {
    /// `scope` differs between lab controllers.
    pub(super) fn new(scope: &str) -> StoreNames {
        StoreNames {
            prefix: format!("ludgate:labs:{scope}"),
        }
    }

    /// The channel of announcements.
    pub(super) fn channel(&self) -> String {
        format!("{}:changes", self.prefix)
    }

    /// The persons who may have an operation that has not ended, by when they were added.
    pub(super) fn open(&self) -> String {
        format!("{}:open", self.prefix)
    }

    /// The lock of a person.
    pub(super) fn lock(&self, username: &str) -> String {
        format!("{}:{{{username}}}:lock", self.prefix)
    }

    /// The last operation of a person.
    pub(super) fn operation(&self, username: &str) -> String {
        format!("{}:{{{username}}}:operation", self.prefix)
    }

    /// The events of an operation.
    pub(super) fn events(&self, username: &str, number: u64) -> String {
        format!("{}:{{{username}}}:events:{number}", self.prefix)
    }
}
