//! Apps with rules of several clauses and with rules of their paths, at the address of `usr`.

use http::Method;
use ludgate::{
    model::{
        access::{
            Access,
            clause::ClaimPointer,
            compound::WrittenRule::{self, All, Any},
        },
        app::{AppId, AppSpec},
        path_rule::{PathRule, PathRules},
    },
    settings::Settings,
};

pub fn pointer(text: &str) -> ClaimPointer {
    ClaimPointer::new(text).expect("a pointer")
}

fn texts(texts: &[&str]) -> Vec<WrittenRule> {
    let clauses = texts
        .iter()
        .map(|text| WrittenRule::Clause((*text).to_owned()));
    clauses.collect()
}

fn compound_rules() -> Vec<(&'static str, WrittenRule)> {
    let sales = All(texts(&["group:friends", "claim:/department=sales"]));
    let mut nested = texts(&["owner:bob"]);
    nested.push(sales);
    vec![
        ("any", Any(texts(&["group:phusers", "group:admins"]))),
        ("all", All(texts(&["group:phusers", "group:friends"]))),
        ("one", Any(texts(&["group:phusers"]))),
        ("email", Any(texts(&["email:bob@Example.COM"]))),
        ("domain", Any(texts(&["email:*@example.com"]))),
        (
            "letters",
            Any(texts(&[
                "email:Alice@example.com",
                "email:*@mail.example.com",
            ])),
        ),
        ("claim", Any(texts(&["claim:/department=sales"]))),
        ("nested", Any(nested)),
        ("not-group", All(texts(&["user", "deny:group:phusers"]))),
        ("not-owner", Any(texts(&["user", "deny:owner:carol"]))),
        (
            "not-claim",
            All(texts(&["user", "deny:claim:/suspended=true"])),
        ),
        ("open", Any(texts(&["public", "group:phusers"]))),
        ("wrong", Any(texts(&["user", "grp:phusers"]))),
    ]
}

/// Apps that are at the address of the app `usr`, some of them with rules that no file can have.
pub fn add_apps(settings: &mut Settings) {
    let identity = settings.identity.as_mut().expect("a provider");
    identity.claims = vec![pointer("/department"), pointer("/suspended")];
    let usr = settings.apps[1].clone();
    let app = |id: &str, access: Access| AppSpec {
        id: AppId::new(id).expect("an id"),
        access,
        ..usr.clone()
    };
    let rule = |prefix: &str, methods: Vec<Method>, access: &str| {
        PathRule::new(prefix, methods, Access::parse(access)).expect("a rule")
    };
    let compound = compound_rules().into_iter().map(|(id, written)| {
        let access = Access::from_written(&written);
        app(
            id,
            access.unwrap_or_else(|_| Access::Unknown("a text".into())),
        )
    });
    let paths = PathRules::new(vec![
        rule("/open", Vec::new(), "public"),
        rule("/hook", vec![Method::POST], "public"),
        rule("/team", Vec::new(), "group:phusers"),
        rule("/team/his", Vec::new(), "owner:bob"),
    ]);
    let more = [
        app("unk", Access::parse("primehub")),
        AppSpec {
            paths: paths.expect("few"),
            ..app("paths", Access::User)
        },
        AppSpec {
            cors_preflight: true,
            ..app("cors", Access::User)
        },
    ];
    let added: Vec<AppSpec> = compound.chain(more).collect();
    settings.apps.extend(added);
}
