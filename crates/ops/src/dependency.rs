//! The state of what a process depends on, as the verbose readiness probe shows it.

/// The state of one dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DependencyStatus {
    /// It works.
    Fine(String),
    /// It works in part or not at all: what is wrong, and what that means.
    Degraded(String),
}

impl DependencyStatus {
    /// Whether it is degraded.
    pub fn is_degraded(&self) -> bool {
        match self {
            DependencyStatus::Fine(_) => false,
            DependencyStatus::Degraded(_) => true,
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        match self {
            DependencyStatus::Fine(text) => text.clone(),
            DependencyStatus::Degraded(text) => format!("degraded: {text}"),
        }
    }
}
