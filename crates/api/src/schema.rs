//! The GraphQL schema: PrimeHub's types and operations, as far as its clients use them.
//!
//! Objects below the root are `serial`, so that the fields of an answer have the order of the
//! document (GraphQL, October 2021, section 7.2.2). `response_order` sorts the root.

mod app_template;
mod application;
mod call;
mod connection;
mod filters;
mod inputs;
mod instance_type;
mod mutation;
mod people;
mod query;

use async_graphql::{EmptySubscription, Schema};

pub use call::CallContext;
use mutation::Mutation;
use query::Query;

/// Deepest nesting of fields. A standard introspection query has 13.
const MAX_DEPTH: usize = 16;
/// Maximum number of fields of a query. A write counts for 50.
const MAX_COMPLEXITY: usize = 500;
/// Deepest nesting that the parser follows.
const MAX_RECURSION: usize = 32;
/// Maximum number of directives of a field.
const MAX_DIRECTIVES: usize = 4;

/// The schema with its limits.
pub type ApiSchema = Schema<Query, Mutation, EmptySubscription>;

/// Makes the schema.
pub fn schema() -> ApiSchema {
    Schema::build(Query, Mutation, EmptySubscription)
        .limit_depth(MAX_DEPTH)
        .limit_complexity(MAX_COMPLEXITY)
        .limit_recursive_depth(MAX_RECURSION)
        .limit_directives(MAX_DIRECTIVES)
        .finish()
}
