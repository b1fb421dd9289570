//! The state of a running query: its entities' root, what was noted about it, and how much it used. Knows no
//! attribute.

use std::time::Instant;

use super::bounds::{Bounds, Stop};
use super::memory::AnswerMemory;
use crate::limits::QUERY_FAILURES;
use crate::query::compile::{Level, Name};
use crate::query::graph::Graph;
use crate::query::number::Bits;
use crate::query::world::World;
use crate::session::ApiError;
use crate::value::{Map, Text, Value};

/// The results of mutations, by the place of their ask in the query.
pub type Outcomes = Vec<(usize, Result<Map<'static>, ApiError>)>;

/// A running query.
pub(super) struct RunningQuery<'a> {
    pub(super) graph: &'a Graph,
    pub(super) world: &'a dyn World,
    pub(super) root: Map<'static>,
    pub(super) outcomes: Outcomes,
    pub(super) missing: Vec<Value<'static>>,
    pub(super) errors: Map<'static>,
    /// The enclosing joins, outermost first.
    pub(super) way: Vec<Value<'static>>,
    /// The attributes that are being resolved, to cut cycles of resolvers.
    pub(super) demanding: Bits,
    pub(super) values: usize,
    pub(super) ticks: u32,
    pub(super) memory: AnswerMemory,
    pub(super) bounds: Bounds,
}

/// The join that led to a level, for recursive asks.
#[derive(Clone, Copy)]
pub(super) enum Via<'l> {
    Level(&'l Level),
    Union(&'l [(Name, Level)]),
}

/// How far a recursive ask may still descend: its place in the level, and the number of levels.
pub(super) type Left = Option<(usize, u32)>;

/// The answers of one ask, one per entity of the group.
pub(super) type Column = Vec<Option<Value<'static>>>;

/// The answers of a level, one per entity of the group.
pub(super) type Row = Vec<Value<'static>>;

impl RunningQuery<'_> {
    pub(super) fn tick(&mut self, values: usize) -> Result<(), Stop> {
        self.values = self.values.saturating_add(values);
        if self.values > self.bounds.values {
            return Err(Stop::TooLarge);
        }
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(256) { self.in_time() } else { Ok(()) }
    }

    pub(super) fn in_time(&self) -> Result<(), Stop> {
        if self.bounds.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(Stop::TooLong);
        }
        Ok(())
    }

    fn here(&self, last: &Value<'static>) -> Value<'static> {
        if self.way.is_empty() {
            return last.clone();
        }
        Value::vector(self.way.iter().chain([last]).cloned())
    }

    pub(super) fn note_missing(&mut self, name: &Text<'static>) {
        let way = self.here(&Value::Keyword(name.clone()));
        if self.missing.len() < QUERY_FAILURES && !self.missing.contains(&way) {
            self.missing.push(way);
        }
    }

    pub(super) fn note_error(&mut self, key: &Value<'static>, why: Map<'static>) {
        if self.errors.len() < QUERY_FAILURES {
            self.errors.insert(self.here(key), Value::from(why));
        }
    }
}
