//! Every documented option of oauth2-proxy 7, by its name in the configuration file.

mod alpha;
mod entry;
mod provider;
mod requests;
mod server;
mod session;

use std::{collections::HashMap, sync::LazyLock};

pub(crate) use alpha::find_alpha;
pub(crate) use entry::{OptionEntry, Treatment};

/// Every option, those that only the alpha configuration has among them.
pub(crate) fn all() -> impl Iterator<Item = &'static OptionEntry> {
    [
        provider::OPTIONS,
        session::OPTIONS,
        requests::OPTIONS,
        server::OPTIONS,
        alpha::OPTIONS,
    ]
    .into_iter()
    .flatten()
}

/// The entries by their names in lower case.
static BY_NAME: LazyLock<HashMap<String, &OptionEntry>> = LazyLock::new(|| {
    all()
        .map(|entry| (entry.name.to_ascii_lowercase(), entry))
        .collect()
});

/// Former and singular names, and the names for them here.
const ALIASES: [(&str, &str); 5] = [
    ("google_group", "google_groups"),
    ("gitlab_group", "gitlab_groups"),
    ("gitlab_project", "gitlab_projects"),
    ("keycloak_group", "keycloak_groups"),
    ("htpasswd_user_group", "htpasswd_user_groups"),
];

/// Finds an option by its name in a configuration file, or in a variable of the environment.
/// oauth2-proxy compares names without regard to case.
pub(crate) fn find(name: &str) -> Option<&'static OptionEntry> {
    let name = name.replace('-', "_").to_ascii_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name.as_str(), |(_, name)| name);
    BY_NAME.get(name).copied()
}

/// Options that restrict who is admitted.
const RESTRICTIONS: [&str; 14] = [
    "email_domains",
    "allowed_groups",
    "allowed_roles",
    "keycloak_groups",
    "gitlab_groups",
    "gitlab_projects",
    "google_groups",
    "github_org",
    "github_team",
    "github_repo",
    "github_users",
    "bitbucket_team",
    "bitbucket_repository",
    "entra_id_allowed_tenants",
];

/// Whether an option restricts who is admitted.
pub(crate) fn is_restriction(option: &str) -> bool {
    RESTRICTIONS.contains(&option)
}

/// The known name that is nearest to an unknown one.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let known = all().map(|entry| entry.name);
    let near = known.map(|known| (strsim::damerau_levenshtein(known, name), known));
    let (_, known) = near
        .min()
        .filter(|(distance, known)| *distance <= 2.max(known.len() / 4))?;
    Some(known)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_option_has_one_entry() {
        let names: BTreeSet<&str> = all().map(|entry| entry.name).collect();
        assert_eq!(names.len(), all().count());
        for (alias, name) in ALIASES {
            assert!(names.contains(name) && !names.contains(alias), "{alias}");
        }
        for name in RESTRICTIONS {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn names_are_found_in_the_spelling_of_flags_and_in_any_case() {
        for (written, name) in [
            ("email_domains", Some("email_domains")),
            (
                "auth-request-response-mode",
                Some("auth_request_response_mode"),
            ),
            ("google_group", Some("google_groups")),
            ("Allowed_Groups", Some("allowed_groups")),
            ("GOOGLE_GROUP", Some("google_groups")),
            ("providers[].ID", Some("providers[].id")),
            ("email_domain", None),
        ] {
            assert_eq!(find(written).map(|entry| entry.name), name, "{written}");
        }
        assert_eq!(nearest("email_domain"), Some("email_domains"));
        assert_eq!(nearest("something_else_entirely"), None);
    }
}
