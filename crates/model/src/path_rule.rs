//! Access rules for paths below an app, beside the app's own.
//!
//! Several rules apply where programs may read a path in different ways; then each of them must
//! admit the caller.

use http::Method;

use super::access::Access;

/// Longest prefix, in bytes.
const MAX_PREFIX: usize = 256;
/// Maximum number of rules of one app.
const MAX_RULES: usize = 62;

/// The rule for paths with one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// The prefix below the app's root, without a slash at the end; empty for all paths.
    prefix: Box<str>,
    /// The methods that it is for; empty: all.
    methods: Box<[Method]>,
    /// The rule.
    access: Access,
}

impl PathRule {
    /// A rule; `prefix` is a plain path such as `/health`, or `/`.
    ///
    /// # Errors
    /// What is wrong with the prefix.
    pub fn new(
        prefix: &str,
        methods: Vec<Method>,
        access: Access,
    ) -> Result<PathRule, &'static str> {
        let below = prefix.strip_prefix('/').ok_or("must begin with a slash")?;
        if prefix.len() > MAX_PREFIX {
            return Err("is longer than 256 bytes");
        }
        if !below.is_empty() && !below.split('/').all(is_name) {
            return Err("must be a plain path without a slash at the end: \
                 no empty names, no . and .. in it, and no %, ; or other special characters");
        }
        let prefix = if below.is_empty() { "" } else { prefix };
        Ok(PathRule {
            prefix: prefix.into(),
            methods: methods.into(),
            access,
        })
    }

    /// The prefix below the app's root, without a slash at the end; empty for all paths.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The methods that it is for; empty: all.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// The rule.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Whether some request is for both rules, and neither is more specific.
    pub fn conflicts_with(&self, other: &PathRule) -> bool {
        // A rule for GET is for HEAD too.
        let kind = |method: &Method| match *method {
            Method::HEAD => Method::GET,
            _ => method.clone(),
        };
        let kinds: Vec<Method> = other.methods.iter().map(kind).collect();
        let shares_method = self.methods.iter().any(|one| kinds.contains(&kind(one)));
        let both_for_all = self.methods.is_empty() && other.methods.is_empty();
        self.prefix == other.prefix && (shares_method || both_for_all)
    }
}

/// Whether a name in a path is read alike by all programs.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,:=@".contains(&byte);
    !matches!(name, "" | "." | "..") && name.bytes().all(is_plain)
}

/// The rules of an app's paths, the most specific first: the longest prefix, and of two with one
/// prefix that for certain methods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRules(Box<[PathRule]>);

impl PathRules {
    /// Sorts the rules; `None` if there are more than 62.
    pub fn new(mut rules: Vec<PathRule>) -> Option<PathRules> {
        rules.sort_by_key(|rule| (usize::MAX - rule.prefix.len(), rule.methods.is_empty()));
        (rules.len() <= MAX_RULES).then(|| PathRules(rules.into()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules with their numbers, the most specific first.
    pub fn iter(&self) -> impl Iterator<Item = (RuleIndex, &PathRule)> {
        (1..=u8::MAX).map(RuleIndex).zip(self.0.iter())
    }

    /// A rule by its number; `None` for the app's own.
    pub fn get(&self, index: RuleIndex) -> Option<&PathRule> {
        self.0.get(usize::from(index.0).checked_sub(1)?)
    }

    /// The app's own rule and all of these.
    pub fn all_with_own(&self) -> RuleSet {
        self.iter()
            .fold(RuleSet::OWN, |set, (index, _)| set.with(index))
    }
}

/// The number of a rule of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleIndex(u8);

impl RuleIndex {
    /// The app's own rule.
    pub const OWN: RuleIndex = RuleIndex(0);
}

/// The rules that apply to a request. Each of them must admit the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleSet(u64);

/// The bit of [`RuleSet::for_preflight`].
const PREFLIGHT: u64 = 1 << 63;

impl RuleSet {
    /// No rule: nothing is admitted.
    pub const NONE: RuleSet = RuleSet(0);
    /// The app's own rule alone.
    pub const OWN: RuleSet = RuleSet(1);

    /// This set and one more rule.
    pub fn with(self, index: RuleIndex) -> RuleSet {
        RuleSet(self.0 | (1 << index.0.min(62)))
    }

    /// This set and the app's own rule.
    pub fn with_own(self) -> RuleSet {
        self.with(RuleIndex::OWN)
    }

    /// The same rules, for a CORS preflight that needs no person.
    pub fn for_preflight(self) -> RuleSet {
        RuleSet(self.0 | PREFLIGHT)
    }

    /// Whether the request is a CORS preflight that needs no person.
    pub fn is_for_preflight(self) -> bool {
        self.0 & PREFLIGHT != 0
    }

    /// The rules of the set.
    pub fn iter(self) -> impl Iterator<Item = RuleIndex> {
        (0..=62)
            .filter(move |bit| self.0 & (1 << *bit) != 0)
            .map(RuleIndex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(prefix: &str, methods: &[&str]) -> PathRule {
        let methods = methods
            .iter()
            .map(|name| Method::from_bytes(name.as_bytes()).expect("a method"));
        PathRule::new(prefix, methods.collect(), Access::User).expect("a rule")
    }

    #[test]
    fn a_prefix_is_a_plain_path() {
        for (written, prefix) in [("/", ""), ("/health", "/health"), ("/a/@b:c", "/a/@b:c")] {
            assert_eq!(rule(written, &[]).prefix(), prefix);
        }
        for bad in [
            "", "health", "//", "/health/", "/a//b", "/./a", "/a/..", "/a%2fb", "/a;b", "/a?b",
            "/a b", "/ä", "/a\\b", "/a#b",
        ] {
            let refused = PathRule::new(bad, Vec::new(), Access::User);
            assert!(refused.is_err(), "{bad:?}");
        }
        let long = format!("/{}", "a".repeat(256));
        assert!(PathRule::new(&long, Vec::new(), Access::User).is_err());
    }

    #[test]
    fn the_most_specific_rule_comes_first() {
        let rules = PathRules::new(vec![
            rule("/", &[]),
            rule("/a", &[]),
            rule("/a", &["POST"]),
            rule("/a/b", &[]),
        ]);
        let rules = rules.expect("few");
        let order: Vec<(&str, bool)> = rules
            .iter()
            .map(|(_, rule)| (rule.prefix(), rule.methods().is_empty()))
            .collect();
        let wanted = [("/a/b", true), ("/a", false), ("/a", true), ("", true)];
        assert_eq!(order, wanted);
        for (index, rule) in rules.iter() {
            assert_eq!(rules.get(index), Some(rule));
        }
        assert_eq!(rules.get(RuleIndex::OWN), None);
        assert_eq!(rules.all_with_own().iter().count(), 5);
    }

    #[test]
    fn a_set_of_all_rules_has_each_of_them_once() {
        let many: Vec<PathRule> = (0..62).map(|n| rule(&format!("/p{n}"), &[])).collect();
        let set = PathRules::new(many.clone()).expect("few").all_with_own();
        assert_eq!(set.iter().count(), 63);
        assert!(!set.is_for_preflight());
        let set = set.for_preflight();
        assert!(set.is_for_preflight());
        assert_eq!(set.iter().count(), 63, "the mark is no rule");
        assert_eq!(RuleSet::NONE.iter().count(), 0);
        let too_many = many.into_iter().chain([rule("/more", &[])]).collect();
        assert_eq!(PathRules::new(too_many), None);
    }

    #[test]
    fn rules_conflict_where_a_request_is_for_both() {
        for (one, other, wanted) in [
            (rule("/a", &[]), rule("/a", &[]), true),
            (rule("/a", &[]), rule("/a", &["GET"]), false),
            (rule("/a", &["GET", "PUT"]), rule("/a", &["PUT"]), true),
            (rule("/a", &["GET"]), rule("/a", &["PUT"]), false),
            (rule("/a", &["GET"]), rule("/a", &["HEAD"]), true),
            (rule("/a", &[]), rule("/b", &[]), false),
        ] {
            assert_eq!(one.conflicts_with(&other), wanted);
        }
    }
}
