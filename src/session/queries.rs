//! The graph: queries, and the notes that only its mutations write. Does not know the attributes.

use serde::{Deserialize, Serialize};

use crate::facts::Note;
use crate::session::call::{Call, Reply};
use crate::value::{Map, Value};

/// The graph of everything that can be asked for. A query sees one moment of its session.
pub trait Queries: Send + Sync {
    /// A query of the graph.
    fn query(&self, call: Call, query: GraphQuery, reply: Reply<QueryAnswer>);

    /// Keeps a note for the project's later sessions; returns the note once it is on disk.
    fn remember(&self, call: Call, text: String, reply: Reply<Note>);

    /// Removes a note; returns whether it existed.
    fn forget(&self, call: Call, note: String, reply: Reply<bool>);
}

/// An EQL query.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GraphQuery {
    /// The query as text: one EDN vector.
    pub text: String,
    /// The initially known attributes: one EDN map as text.
    pub entity: Option<String>,
    /// Whether an attribute that cannot be resolved fails the query.
    pub strict: bool,
}

/// A query's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QueryAnswer {
    /// The resolved attributes.
    pub result: Value<'static>,
    /// The attributes that could not be resolved.
    pub missing: Vec<Value<'static>>,
    /// The attributes whose resolver failed, with the reasons.
    pub errors: Option<Map<'static>>,
}
