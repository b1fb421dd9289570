//! Queries in EQL over a graph that describes itself.
//!
//! A query is text. [`parse`] turns it into a tree, `compile` replaces names by the graph's numbers, `plan`
//! finds the ways from known attributes to others, and `run` answers. `resolvers` declares the attributes,
//! one file per namespace, mostly as a [`table`] over typed facts. A [`world::World`] gives the facts at the
//! moment of a query; the engine makes it from its snapshots.

pub mod ast;
pub mod compile;
pub mod datum;
pub mod explain;
pub mod graph;
pub mod kept;
pub mod number;
pub mod parse;
pub mod plan;
mod resolvers;
pub mod run;
mod split_query;
pub mod table;
pub mod world;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use crate::catalogue::ErrorCode;
use crate::edn;
use crate::limits::{MAX_QUERY_VALUES, QUERIES_BYTES, QUERY_BYTES, QUERY_MILLIS};
use crate::meter::{Exhausted, Meter};
use crate::query::compile::{Level, What};
use crate::query::run::Outcomes;
use crate::query::world::World;
use crate::session::{ApiError, Call, GraphQuery, QueryAnswer, Reply, SessionApi};
use crate::value::{Map, Value};

pub use resolvers::graph;
pub use split_query::{SplitQuery, is_of_host, parted};

/// A query that is ready to run.
#[derive(Debug, Clone)]
pub struct Prepared {
    level: Arc<Level>,
    entity: Map<'static>,
    strict: bool,
}

/// Reads a query, or takes the prepared one.
///
/// # Errors
/// `request/invalid-query` with `:data {:offset …}` if the text is not a query, or `:entity` is not a map.
pub fn prepare(query: &GraphQuery) -> Result<Prepared, ApiError> {
    let entity = match &query.entity {
        None => Map::new(),
        Some(text) => entity(text)?,
    };
    let level = match kept::get(&query.text) {
        Some(level) => level,
        None => {
            let parsed = parse::parse(&query.text).map_err(|error| {
                ApiError::new(ErrorCode::InvalidQuery, format!("The query is not valid EQL. {error}"))
                    .with("offset", Value::from(error.offset))
                    .with("expected", error.expected)
            })?;
            let level = Arc::new(Level::new(&parsed, &|name| graph().attr(name)));
            kept::keep(&query.text, &level);
            level
        }
    };
    Ok(Prepared { level, entity, strict: query.strict })
}

fn entity(text: &str) -> Result<Map<'static>, ApiError> {
    let invalid = |message: String, offset: usize| {
        ApiError::new(ErrorCode::InvalidQuery, message).with("offset", Value::from(offset))
    };
    match edn::read_one(text.as_bytes()) {
        Ok(Value::Map(map)) => Ok(map.into_owned()),
        Ok(other) => Err(invalid(format!(":entity must be an EDN map, not a {}.", other.kind_name()), 0)),
        Err(error) => Err(invalid(format!(":entity is not EDN: {error}"), error.offset())),
    }
}

/// Which bound an answer reached.
fn too_much(why: Exhausted) -> String {
    match why {
        Exhausted::Steps | Exhausted::Bytes => format!(
            "The answer holds more than {MAX_QUERY_VALUES} values or {QUERY_BYTES} bytes, or what leads to it does; ask \
             for less, or with :limit."
        ),
        Exhausted::Pool => {
            format!("Answers to other queries hold nearly {QUERIES_BYTES} bytes; ask again.")
        }
        Exhausted::Time => format!("The answer takes more than {QUERY_MILLIS} ms; ask for less."),
        Exhausted::Stopped => "The query was stopped.".to_owned(),
    }
}

impl Prepared {
    /// Whether the query waits for the disk or for a change, or can be long because it has a join below a join, and
    /// therefore needs a thread of its own.
    pub fn waits(&self) -> bool {
        self.level.mutates() || self.level.joins() > 1 || graph().is_slow(&self.level)
    }

    /// Runs the query's mutations in order, each after the previous one has finished.
    pub fn mutate(&self, api: &dyn SessionApi, call: &Call) -> Outcomes {
        let mut outcomes = Vec::new();
        for (place, ask) in self.level.asks.iter().enumerate() {
            let What::Mutation { name, params, .. } = &ask.what else { continue };
            let outcome = match graph().mutations().iter().find(|mutation| mutation.name == name.as_str()) {
                None => Err(ApiError::not_found("mutation", name)),
                Some(mutation) => {
                    let mut call = call.clone();
                    if let Some(session) = params.get_keyword("session-id").and_then(Value::as_str) {
                        call.session = session.into();
                    }
                    let (sender, receiver) = channel();
                    let reply = Reply::new(move |result| {
                        let _ = sender.send(result);
                    });
                    mutation.call(api, call, params, reply);
                    receiver.recv().unwrap_or_else(|_| Err(ApiError::failed("The change was not answered.")))
                }
            };
            outcomes.push((place, outcome));
        }
        outcomes
    }

    /// Answers from one snapshot of the process. The second value holds the answer's memory until it was sent.
    ///
    /// # Errors
    /// `runtime/query-failed` if a bound was reached, or if a strict query could not be resolved completely.
    pub fn run(&self, world: &dyn World, outcomes: Outcomes) -> Result<(QueryAnswer, Meter), ApiError> {
        let begun = Instant::now();
        let answered = run::run(graph(), world, &self.level, self.entity.clone(), outcomes);
        kept::count(begun);
        let answered = answered.map_err(|why| ApiError::new(ErrorCode::QueryFailed, too_much(why)))?;
        let errors = Some(answered.errors).filter(|errors| !errors.is_empty());
        if self.strict && (!answered.missing.is_empty() || errors.is_some()) {
            let message = "The query is strict, and a part of it could not be resolved.";
            let mut error = ApiError::new(ErrorCode::QueryFailed, message)
                .with("missing", Value::vector(answered.missing));
            if let Some(errors) = errors {
                error = error.with("errors", Value::from(errors));
            }
            return Err(error);
        }
        Ok((QueryAnswer { result: answered.result, missing: answered.missing, errors }, answered.meter))
    }
}
