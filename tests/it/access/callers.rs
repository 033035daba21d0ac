//! The callers of the decision table: by a session, by a token of a person or of a program.

use std::sync::Arc;

use ludgate::{
    demo::provider::DemoProvider,
    identity::service_tokens::POLL_INTERVAL,
    model::{
        access::GroupName,
        caller::{Caller, Credential},
        clock::Clock,
        known_claims::{KnownClaim, KnownClaims},
        principal::{PersonClaims, Principal},
    },
};
use serde_json::json;

use super::rule_apps::{add_apps, pointer};
use crate::support::{
    browser::{Browser, From},
    service_tokens::TokenFolder,
    until::until_async,
    world::{World, client, free_port},
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Who {
    Anonymous,
    Alice,
    Bob,
    Admin,
    AliceByToken,
    BadToken,
    /// By a service token; it is in phusers.
    Service,
    /// By a service token for another app.
    ServiceElsewhere,
    /// An account of another issuer.
    Workload,
}

pub const PEOPLE: [Who; 9] = [
    Who::Anonymous,
    Who::Alice,
    Who::Bob,
    Who::Admin,
    Who::AliceByToken,
    Who::BadToken,
    Who::Service,
    Who::ServiceElsewhere,
    Who::Workload,
];
pub struct People {
    alice: Browser,
    bob: Browser,
    admin: Browser,
    token: String,
    bad_token: String,
    service: String,
    service_elsewhere: String,
    workload: String,
}

impl People {
    /// The header lines with the credentials of a caller.
    pub fn credentials(&self, who: Who) -> String {
        match who {
            Who::Anonymous => String::new(),
            Who::Alice => self.alice.cookie_line("/"),
            Who::Bob => self.bob.cookie_line("/"),
            Who::Admin => self.admin.cookie_line("/"),
            Who::AliceByToken => format!("Authorization: Bearer {}\r\n", self.token),
            Who::BadToken => format!("Authorization: Bearer {}\r\n", self.bad_token),
            Who::Service => format!("Authorization: Bearer {}\r\n", self.service),
            Who::ServiceElsewhere => {
                format!("Authorization: Bearer {}\r\n", self.service_elsewhere)
            }
            Who::Workload => format!("Authorization: Bearer {}\r\n", self.workload),
        }
    }
}

/// The same caller, for `explain`.
pub fn caller(who: Who) -> Caller {
    let person = |subject: &str, groups: &[&str], claims: &[(&str, &[&str])], credential| {
        let groups = groups.iter().filter_map(|g| GroupName::new(g)).collect();
        let known = claims.iter().map(|(name, values)| KnownClaim {
            pointer: pointer(name),
            values: values.iter().map(|value| (*value).into()).collect(),
        });
        let claims = PersonClaims {
            subject: subject.into(),
            email: Some(format!("{subject}@example.com")),
            is_email_verified: subject != "carol",
            groups,
            claims: KnownClaims::new(known.collect()),
            ..PersonClaims::default()
        };
        let admins = [GroupName::new("admins").expect("a group")];
        Caller::Person {
            principal: Arc::new(Principal::new(claims, &admins)),
            credential,
        }
    };
    let sales = ("/department", &["sales"][..]);
    let unsuspended = ("/suspended", &[][..]);
    match who {
        Who::Anonymous => Caller::Anonymous,
        Who::BadToken | Who::ServiceElsewhere => Caller::BadToken,
        Who::Service => program("service:nightly", &["phusers"], false),
        Who::Workload => program("ci:deploy", &[], true),
        Who::Alice => person(
            "alice",
            &["phusers", "friends"],
            &[sales, unsuspended],
            Credential::Cookie,
        ),
        Who::AliceByToken => person(
            "alice",
            &["phusers", "friends"],
            &[sales],
            Credential::Bearer,
        ),
        Who::Bob => person(
            "bob",
            &["friends"],
            &[("/department", &[]), ("/suspended", &["true"])],
            Credential::Cookie,
        ),
        Who::Admin => person(
            "carol",
            &["admins"],
            &[("/department", &[]), unsuspended],
            Credential::Cookie,
        ),
    }
}

/// A caller without an address and without claims.
fn program(subject: &str, groups: &[&str], is_foreign: bool) -> Caller {
    let claims = PersonClaims {
        subject: subject.into(),
        groups: groups.iter().filter_map(|g| GroupName::new(g)).collect(),
        are_groups_partial: is_foreign,
        is_foreign,
        ..PersonClaims::default()
    };
    Caller::Person {
        principal: Arc::new(Principal::new(claims, &[])),
        credential: Credential::Bearer,
    }
}

/// A site with service tokens that trusts another issuer, and that issuer.
pub async fn site(tokens: &TokenFolder) -> (World, DemoProvider) {
    let (clock, manual_clock) = Clock::manual();
    let port = free_port();
    let provider = DemoProvider::start(client(&format!("127.0.0.1:{port}")), clock.clone());
    let provider = provider.await.expect("a provider");
    let ci = DemoProvider::start(client("127.0.0.1:1"), clock.clone());
    let ci = ci.await.expect("an issuer");
    let extra = format!(
        "{}[[identity.trusted_issuers]]\nissuer = \"{}\"\naudiences = [\"ludgate\"]\n\
         subject_prefix = \"ci:\"\n",
        tokens.table(),
        ci.issuer()
    );
    let world = World::behind(provider, clock, manual_clock, port, &extra, add_apps);
    (world.await.ready().await, ci)
}

/// The callers. The service token is for these apps.
pub async fn people(
    world: &World,
    ci: &DemoProvider,
    tokens: &TokenFolder,
    apps: &[&str],
) -> People {
    let provider = &world.provider;
    provider.set_claim("carol", "groups", json!(["admins"]));
    provider.set_claim("carol", "email_verified", json!(false));
    provider.set_claim("alice", "department", json!(["sales"]));
    provider.set_claim("bob", "suspended", json!(true));
    let token = provider.access_token("alice");
    let (head, _) = token.rsplit_once('.').expect("a JWS");
    People {
        alice: world.signed_in("alice").await,
        bob: world.signed_in("bob").await,
        admin: world.signed_in("carol").await,
        bad_token: format!("{head}.{}", "A".repeat(86)),
        token,
        service: tokens.create("nightly", apps, &["phusers"], 3600).await,
        service_elsewhere: tokens
            .create("other", &["elsewhere"], &["phusers"], 3600)
            .await,
        workload: workload(world, ci),
    }
}

fn workload(world: &World, ci: &DemoProvider) -> String {
    let now = world.running.internals().wall_seconds();
    let header = json!({"alg": "ES256", "kid": ci.key_id()});
    let claims = json!({
        "iss": ci.issuer(), "aud": "ludgate", "sub": "deploy", "iat": now, "exp": now + 3600,
        "groups": ["phusers", "admins"], "department": "sales", "email": "alice@example.com",
        "email_verified": true,
    });
    ci.sign(&header, &claims)
}

/// Waits until the gateway knows the tokens of programs.
pub async fn until_known(world: &World, people: &People) {
    for (who, wanted) in [(Who::Service, 200), (Who::Workload, 403)] {
        until_async("the token is known", async || {
            world.manual_clock.advance(POLL_INTERVAL);
            let (line, mut program) = (people.credentials(who), world.browser());
            let answer = program.send("GET", "/apps/usr/x", From::Program, &line, b"");
            answer.await.status() == wanted
        })
        .await;
    }
}
