//! The client and the address that an answer is rendered for.

use http::Method;

use crate::{
    incoming::IncomingRequest,
    model::{
        arrival::RequestClass, authentication::AuthenticationRequirement, principal::Principal,
        site::Site, vhost::VirtualHost,
    },
    pages, return_to,
};

/// The client of an answer, and the address that it asked for.
#[derive(Clone, Copy)]
pub struct Audience<'r> {
    /// The site.
    pub site: &'r Site,
    /// A page rather than problem+json.
    pub wants_html: bool,
    /// A gRPC call, which reads neither.
    pub grpc: bool,
    /// The page is shown in a frame.
    pub framed: bool,
    /// The origin of the address; `None`: none of ours.
    pub vhost: Option<VirtualHost>,
    /// The target there; a sign-in comes back to it.
    pub target: &'r str,
    /// The caller, where it is a person.
    pub person: Option<&'r Principal>,
    /// Loading the address again changes nothing.
    pub may_reload: bool,
    /// Where to sign in; `None`: where the address alone leads.
    pub sign_in_at: Option<&'r str>,
}

impl<'r> Audience<'r> {
    /// The audience of a parsed request.
    pub fn new(request: &'r IncomingRequest<'_>, person: Option<&'r Principal>) -> Audience<'r> {
        let arrival = &request.arrival;
        Audience {
            site: request.site(),
            wants_html: request.wants_html(),
            grpc: arrival.grpc.is_some(),
            framed: arrival.class == RequestClass::Frame,
            vhost: Some(arrival.vhost),
            target: arrival.target.as_str(),
            person,
            may_reload: arrival.method == Method::GET,
            sign_in_at: None,
        }
    }

    /// The audience of a malformed request.
    pub fn of_malformed(site: &'r Site, wants_html: bool, grpc: bool) -> Audience<'r> {
        Audience {
            site,
            wants_html,
            grpc,
            framed: false,
            vhost: None,
            target: "/",
            person: None,
            may_reload: false,
            sign_in_at: None,
        }
    }

    /// The address that begins a sign-in and comes back; absolute, so that it works from anywhere.
    pub(super) fn sign_in(&self) -> String {
        match self.sign_in_at {
            Some(address) => address.to_owned(),
            None => self.sign_in_with(None),
        }
    }

    /// The address that begins a sign-in which meets a requirement.
    pub(super) fn sign_in_with(&self, requirement: Option<&AuthenticationRequirement>) -> String {
        let vhost = self.vhost.unwrap_or(VirtualHost::Site);
        let back = return_to::address(&vhost, self.target, self.site);
        let start = pages::start_with(self.site, &back, requirement);
        self.site.url(&VirtualHost::Site, &start)
    }

    /// The address that was asked for.
    pub(super) fn address(&self) -> String {
        let vhost = self.vhost.unwrap_or(VirtualHost::Site);
        self.site.url(&vhost, self.target)
    }

    /// The launcher, as a link from the page.
    pub(super) fn home(&self) -> String {
        let launcher = self.site.launcher();
        match self.vhost {
            Some(VirtualHost::Site) => launcher,
            Some(VirtualHost::Host(_) | VirtualHost::Port(_)) | None => {
                self.site.url(&VirtualHost::Site, &launcher)
            }
        }
    }
}
