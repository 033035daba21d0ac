//! Claims of a person that access rules name, beside those that identify people.

use super::access::clause::ClaimPointer;

/// The values of claims, by pointer. A claim that has no entry is not known, which is different
/// from a claim without a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownClaims(Box<[KnownClaim]>);

/// One claim and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownClaim {
    /// The claim.
    pub pointer: ClaimPointer,
    /// Its values as texts; none, if the person does not have the claim.
    pub values: Box<[Box<str>]>,
}

impl KnownClaims {
    /// These claims. Of two with one pointer the first counts.
    pub fn new(claims: Vec<KnownClaim>) -> KnownClaims {
        KnownClaims(claims.into())
    }

    /// The values of a claim; `None`: they are not known. Does not allocate.
    pub fn values(&self, pointer: &ClaimPointer) -> Option<&[Box<str>]> {
        let known = self.0.iter().find(|claim| claim.pointer == *pointer);
        known.map(|claim| &*claim.values)
    }

    /// All known claims.
    pub fn iter(&self) -> impl Iterator<Item = &KnownClaim> {
        self.0.iter()
    }
}
