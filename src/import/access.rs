//! The access rule. It admits the people that oauth2-proxy admits, or fewer.

use super::{
    given::GivenOptions,
    identity::claim_name,
    provider::Provider,
    report::ImportOutcome::{Default as Same, NotNeeded},
};
use crate::model::access::{
    Access, GroupName,
    clause::{ClaimPointer, Clause},
    compound::WrittenRule,
};

/// A clause that admits no person: no one has a verified address of this domain (RFC 2606 section
/// 2).
const CLOSED: &str = "email:no-access@example.invalid";
/// A clause that admits all people with a verified address.
const VERIFIED: &str = "claim:/email_verified=true";
/// Maximum of addresses in a rule: below the 32 clauses of a rule, with room for groups.
const MAX_ADDRESSES: usize = 24;
/// Options with groups that the provider has in no claim.
const OTHER_GROUPS: [(&str, &str); 8] = [
    ("google_groups", "google"),
    ("gitlab_projects", "gitlab"),
    ("github_org", "github"),
    ("github_team", "github"),
    ("github_repo", "github"),
    ("github_users", "github"),
    ("bitbucket_team", "bitbucket"),
    ("bitbucket_repository", "bitbucket"),
];

/// The access rule of all apps.
pub(crate) struct AccessDraft {
    /// The rule.
    pub(crate) rule: WrittenRule,
    /// Claims that it names.
    pub(crate) claims: Vec<String>,
    /// A comment for the written file.
    pub(crate) comment: Option<&'static str>,
}

/// A rule that admits no person.
pub(crate) fn closed() -> WrittenRule {
    clause(CLOSED)
}

/// Finds the rule. `emails` is the content of the file with addresses, if that could be read.
pub(crate) fn access(
    options: &GivenOptions,
    provider: &Provider,
    emails: Option<&str>,
) -> AccessDraft {
    let people = people(options, emails);
    let restrictions = restrictions(options, provider);
    let rule = match restrictions {
        None => people,
        Some(groups) => WrittenRule::All(vec![people, any(groups)]),
    };
    let is_understood = !options.may_restrict_further();
    if !is_understood {
        options.miss("apps.access: an option is unknown or blank, and may be a restriction");
    }
    let rule = match Access::from_written(&rule) {
        Ok(_) if is_understood && !mentions(&rule, CLOSED) => rule,
        Ok(_) => closed(),
        Err(error) => {
            options.miss(format!(
                "apps.access: the rule {error}; write one with groups"
            ));
            closed()
        }
    };
    let comment = if mentions(&rule, CLOSED) {
        options.miss("apps.access: the written rule admits no one; replace it");
        Some("Admits no one. Replace it by a rule of docs/access.md.")
    } else if mentions(&rule, VERIFIED) {
        Some(
            "Everyone with a verified address. If the provider sends no email_verified in the ID \
             token, this admits no one: then use groups, or \"user\" for all users who sign in.",
        )
    } else {
        None
    };
    AccessDraft {
        claims: claims(&rule),
        rule,
        comment,
    }
}

/// The people by their addresses.
fn people(options: &GivenOptions, emails: Option<&str>) -> WrittenRule {
    let mut clauses = Vec::new();
    let domains = options.texts("email_domains");
    let is_for_all = domains.iter().any(|domain| domain == "*");
    let claim = email_claim(options);
    if claim != "email" {
        return by_other_claim(options, &claim, is_for_all);
    }
    if is_for_all {
        options.mapped(
            "email_domains",
            "apps.access, as email_verified; see its comment",
        );
        let what = "email_domains admits every address";
        options.answer("authenticated_emails_file", NotNeeded, what);
        return clause(VERIFIED);
    }
    for domain in &domains {
        let written = format!("email:*@{domain}");
        let plain = Clause::parse(&written).filter(|_| !domain.contains('@'));
        match plain {
            Some(_) => {
                options.mapped("email_domains", format!("{domain}: apps.access"));
                clauses.push(clause(&written));
            }
            None => options.not_supported(
                "email_domains",
                format!("{domain}: name each domain; a rule is for no subdomains"),
            ),
        }
    }
    clauses.extend(addresses(options, emails));
    if !options.has("email_domains") && !options.has("authenticated_emails_file") {
        options.miss(
            "email_domains or authenticated_emails_file: give the configuration file too, not \
             only the alpha configuration",
        );
    }
    match clauses.is_empty() {
        true => closed(),
        false => any(clauses),
    }
}

/// The claim with the address.
fn email_claim(options: &GivenOptions) -> String {
    let named = |option| {
        let claim = options.text(option)?;
        if claim == "email" {
            options.answer(option, Same, "");
            return None;
        }
        Some(claim)
    };
    let (claim, former) = (named("oidc_email_claim"), named("user_id_claim"));
    claim.or(former).unwrap_or_else(|| "email".to_owned())
}

/// Rules read the claim `email`, which may differ from the claim that oauth2-proxy reads.
fn by_other_claim(options: &GivenOptions, claim: &str, is_for_all: bool) -> WrittenRule {
    let is_sub = claim == "sub" && is_for_all;
    let what = "access rules read addresses from the claim email alone; use groups, or \"user\"";
    for option in ["oidc_email_claim", "user_id_claim"] {
        match is_sub {
            true => options.answer(option, NotNeeded, "all users who sign in have a subject"),
            false => options.not_supported(option, what),
        }
    }
    let what = "the address is in another claim, so the rule admits no one; replace it";
    options.not_supported("authenticated_emails_file", what);
    if is_sub {
        options.mapped("email_domains", "apps.access");
        return clause("user");
    }
    options.not_supported("email_domains", what);
    closed()
}

/// The addresses of the file.
fn addresses(options: &GivenOptions, emails: Option<&str>) -> Vec<WrittenRule> {
    let option = "authenticated_emails_file";
    let Some(emails) = emails else {
        let what = "the file cannot be read here; write its addresses as clauses email:<address>";
        options.not_supported(option, what);
        return Vec::new();
    };
    let lines = emails.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut found, mut odd) = (Vec::new(), 0);
    for line in lines {
        let written = format!("email:{line}");
        // `*` is not a wildcard in that file.
        match Clause::parse(&written).filter(|_| !line.contains(['*', ',', '"'])) {
            Some(_) => found.push(clause(&written)),
            None => odd += 1,
        }
    }
    if odd > 0 {
        options.not_supported(option, format!("{odd} lines are no plain addresses"));
    }
    if found.len() > MAX_ADDRESSES {
        let count = found.len();
        let what =
            format!("{count} addresses are too many for a rule; make a group of these people");
        options.not_supported(option, what);
        return Vec::new();
    }
    let count = found.len();
    options.mapped(
        option,
        format!("apps.access; {count} addresses, compared by case before the @"),
    );
    found
}

/// Groups and roles, of which one is required; `None` where none is.
fn restrictions(options: &GivenOptions, provider: &Provider) -> Option<Vec<WrittenRule>> {
    let mut clauses = Vec::new();
    let mut is_restricted = false;
    let counted = counted_lists(options, provider);
    for option in [
        "allowed_groups",
        "keycloak_groups",
        "gitlab_groups",
        "allowed_roles",
    ] {
        if !options.has(option) {
            continue;
        }
        if !counted.contains(&option) {
            options.answer(option, NotNeeded, "not read for this provider");
            continue;
        }
        is_restricted = true;
        let names = options.texts(option);
        let is_role = option == "allowed_roles";
        let written = names.iter().filter_map(|name| match is_role {
            true => Some(role(name)),
            false => group(name, options, provider),
        });
        let written: Vec<String> = written
            .filter(|written| Clause::parse(written).is_some())
            .collect();
        let has_claim = written.iter().any(|written| written.starts_with("claim:"));
        clauses.extend(written.iter().map(|written| clause(written)));
        options.mapped(
            option,
            match (is_role, has_claim) {
                (true, _) => "apps.access; the realm must add the roles to the ID token",
                (false, true) => {
                    "apps.access; the ID token must have the groups, with or without / as here"
                }
                (false, false) => "apps.access",
            },
        );
    }
    let mut is_closed = tenants_restrict(options, provider);
    for (option, name) in OTHER_GROUPS {
        if provider.name != name {
            options.answer(option, NotNeeded, "only for another provider");
        } else if options.has(option) {
            is_restricted = true;
            // Members of a group and members of a project are both admitted. The others narrow.
            is_closed |= option != "gitlab_projects";
            let what = "no claim has this; use groups of a claim in the access rule";
            options.not_supported(option, what);
        }
    }
    (is_restricted || is_closed).then(|| match clauses.is_empty() || is_closed {
        true => vec![closed()],
        false => clauses,
    })
}

/// The lists of groups and roles that oauth2-proxy joins for a provider; it ignores the others. If
/// only ignored ones are given, it restricts no one. Here they count then, which is narrower.
fn counted_lists(options: &GivenOptions, provider: &Provider) -> &'static [&'static str] {
    let (joined, ignored): (&[&str], &[&str]) = match provider.name.as_str() {
        "keycloak" => (&["keycloak_groups"], &["allowed_groups"]),
        "keycloak-oidc" => (&["allowed_groups", "allowed_roles"], &["keycloak_groups"]),
        "gitlab" => (&["gitlab_groups", "gitlab_projects"], &["allowed_groups"]),
        _ => (&["allowed_groups"], &[]),
    };
    match joined.iter().any(|option| options.has(option)) {
        true => joined,
        false => ignored,
    }
}

/// Whether the list of Entra ID tenants excludes people of the issuer.
fn tenants_restrict(options: &GivenOptions, provider: &Provider) -> bool {
    let option = "entra_id_allowed_tenants";
    let tenants = options.texts(option);
    let issuer = provider.issuer.as_deref().unwrap_or_default();
    let is_named = issuer
        .split('/')
        .any(|part| tenants.iter().any(|it| it == part));
    if provider.name != "entra-id" || is_named {
        options.answer(option, NotNeeded, "the issuer is that of one tenant");
        return false;
    }
    options.not_supported(option, "one issuer of one tenant is accepted");
    options.has(option)
}

/// The clause of a group. `group:` is for a name with and without a leading `/`, which are two
/// groups for oauth2-proxy. Where a provider may have both, the claim is compared exactly.
fn group(name: &str, options: &GivenOptions, provider: &Provider) -> Option<String> {
    GroupName::new(name)?;
    let is_keycloak = provider.name.starts_with("keycloak");
    if !is_keycloak && !name.starts_with('/') {
        return Some(format!("group:{name}"));
    }
    let claim = options
        .text("oidc_groups_claim")
        // This provider always reads this claim.
        .filter(|_| provider.name != "keycloak")
        .unwrap_or_else(|| "groups".to_owned());
    let claim = claim_name(&claim);
    let pointer = match claim.starts_with('/') {
        true => claim,
        false => format!("/{}", escaped(&claim)),
    };
    let pointer = ClaimPointer::new(&pointer)?;
    Some(format!("claim:{pointer}={name}"))
}

/// The clause of a role: of the realm, or `<client>:<role>`.
fn role(name: &str) -> String {
    match name.split_once(':') {
        None => format!("claim:/realm_access/roles={name}"),
        Some((client, role)) => {
            format!("claim:/resource_access/{}/roles={role}", escaped(client))
        }
    }
}

/// A name as one segment of a JSON pointer (RFC 6901 section 3).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn clause(written: &str) -> WrittenRule {
    WrittenRule::Clause(written.to_owned())
}

fn any(mut rules: Vec<WrittenRule>) -> WrittenRule {
    match (rules.pop(), rules.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            rules.extend(last);
            WrittenRule::Any(rules)
        }
    }
}

/// Whether a rule has a clause.
fn mentions(rule: &WrittenRule, wanted: &str) -> bool {
    clauses(rule).contains(&wanted)
}

fn clauses(rule: &WrittenRule) -> Vec<&str> {
    match rule {
        WrittenRule::Clause(clause) => vec![clause.as_str()],
        WrittenRule::Any(rules) | WrittenRule::All(rules) => {
            rules.iter().flat_map(clauses).collect()
        }
    }
}

/// The claims that a rule names.
fn claims(rule: &WrittenRule) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for written in clauses(rule) {
        let parsed = Clause::parse(written);
        let pointer = parsed.as_ref().and_then(Clause::claim);
        let pointer = pointer.map(ClaimPointer::as_str);
        if let Some(pointer) = pointer.filter(|it| !found.iter().any(|claim| claim == it)) {
            found.push(pointer.to_owned());
        }
    }
    found
}
