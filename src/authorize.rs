//! Checks whether a person may reach an app. Pure: no IO, no clock, no allocation; runs on every
//! request.
//!
//! Invariant: a [`Permit`] can only be made here, and `forward` takes nothing else.

use std::sync::Arc;

use crate::model::{
    access::{Access, GroupName},
    app::{App, AppKind},
    destination::Destination,
    principal::Principal,
};

/// The right to send one request to one app, created by [`authorize`] and consumed by `forward`.
#[derive(Debug)]
pub struct Permit {
    destination: Destination,
    principal: Option<Arc<Principal>>,
    grounds: Grounds,
}

impl Permit {
    /// The authorized destination.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The app.
    pub fn app(&self) -> &Arc<App> {
        &self.destination.app
    }

    /// The person, unless the app is public.
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.principal.as_ref()
    }

    /// Why it was granted.
    pub fn grounds(&self) -> Grounds {
        self.grounds
    }

    /// The app's group, if access was granted because the person is a member.
    pub fn admitting_group(&self) -> Option<&GroupName> {
        match (&self.destination.app.spec.access, self.grounds) {
            (Access::Group(group), Grounds::Group) => Some(group),
            (
                Access::Public
                | Access::User
                | Access::Group(_)
                | Access::Owner(_)
                | Access::Admins
                | Access::Unknown(_),
                Grounds::Public
                | Grounds::Console
                | Grounds::User
                | Grounds::Group
                | Grounds::Owner
                | Grounds::Admin,
            ) => None,
        }
    }
}

/// Why access was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grounds {
    /// The app is public.
    Public,
    /// The app is the console, which authorizes its own requests.
    Console,
    /// The app is open to everyone who signs in.
    User,
    /// A member of the app's group.
    Group,
    /// The owner.
    Owner,
    /// A member of an admin group, for an app that has an owner.
    Admin,
}

impl Grounds {
    /// One word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Grounds::Public => "public",
            Grounds::Console => "console",
            Grounds::User => "user",
            Grounds::Group => "group",
            Grounds::Owner => "owner",
            Grounds::Admin => "admin",
        }
    }
}

/// Why access was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The caller is not signed in.
    Anonymous,
    /// Not a member of the app's group.
    NotInGroup,
    /// Neither the owner nor an admin.
    NotOwner,
    /// The app's access rule is not valid.
    UnknownAccess,
}

/// Checks the person against the app's access rule; the default is to deny.
pub fn grounds(app: &App, person: Option<&Principal>) -> Result<Grounds, Denied> {
    if app.kind == AppKind::Console {
        return Ok(Grounds::Console);
    }
    match (&app.spec.access, person) {
        (Access::Public, _) => Ok(Grounds::Public),
        // Also for anonymous callers: a sign-in would not help, so they are not asked to sign in.
        (Access::Unknown(_), _) => Err(Denied::UnknownAccess),
        (Access::User | Access::Group(_) | Access::Owner(_) | Access::Admins, None) => {
            Err(Denied::Anonymous)
        }
        (Access::User, Some(_)) => Ok(Grounds::User),
        (Access::Group(group), Some(person)) if person.is_in(group) => Ok(Grounds::Group),
        (Access::Group(_), Some(_)) => Err(Denied::NotInGroup),
        (Access::Owner(owner), Some(person)) if person.is_identified_by(owner) => {
            Ok(Grounds::Owner)
        }
        (Access::Owner(_) | Access::Admins, Some(person)) if person.is_admin => Ok(Grounds::Admin),
        (Access::Owner(_) | Access::Admins, Some(_)) => Err(Denied::NotOwner),
    }
}

/// Turns a destination into a permit, or returns it with the reason for the denial.
pub fn authorize(
    destination: Destination,
    person: Option<&Arc<Principal>>,
) -> Result<Permit, (Destination, Denied)> {
    match grounds(&destination.app, person.map(Arc::as_ref)) {
        Ok(grounds) => {
            // Public apps and the console get no identity from the gateway.
            let principal = match grounds {
                Grounds::Public | Grounds::Console => None,
                Grounds::User | Grounds::Group | Grounds::Owner | Grounds::Admin => person.cloned(),
            };
            Ok(Permit {
                destination,
                principal,
                grounds,
            })
        }
        Err(denied) => Err((destination, denied)),
    }
}
