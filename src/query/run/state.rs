//! The state of a running query: its entities' root, what was noted about it, and how much it used. Knows no
//! attribute.

use std::collections::HashMap;

use super::entity::pay;
use super::size;
use crate::limits::QUERY_FAILURES;
use crate::meter::{Exhausted, Meter};
use crate::query::compile::{Level, Name};
use crate::query::datum::Datum;
use crate::query::graph::Graph;
use crate::query::number::{Bits, ResolverId};
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
    pub(super) meter: Meter,
    /// The bytes of one answer of each batch resolver that has run.
    pub(super) answer_bytes: HashMap<ResolverId, usize>,
}

/// The join that led to a level, for recursive asks.
#[derive(Clone, Copy)]
pub(super) enum Via<'l> {
    Level(&'l Level),
    Union(&'l [(Name, Level)]),
}

/// How far a recursive ask may still descend: its place in the level, and the number of levels.
pub(super) type DepthLeft = Option<(usize, u32)>;

/// The answers of one ask, one per entity of the group.
pub(super) type Column = Vec<Option<Value<'static>>>;

/// The answers of a level, one per entity of the group.
pub(super) type Row = Vec<Value<'static>>;

impl RunningQuery<'_> {
    /// Pays for a value beyond its place.
    pub(super) fn pay_value(&mut self, value: &Value<'_>) -> Result<(), Exhausted> {
        pay(&mut self.meter, size::of_value(value))
    }

    /// A copy that was paid for before it is made.
    pub(super) fn copy(
        &mut self,
        datum: Option<&Datum>,
        paid: &mut usize,
    ) -> Result<Option<Datum>, Exhausted> {
        let Some(datum) = datum else { return Ok(None) };
        let bytes = size::of_datum(datum);
        pay(&mut self.meter, bytes)?;
        *paid = paid.saturating_add(bytes);
        Ok(Some(datum.clone()))
    }

    fn here(&self, last: &Value<'static>) -> Value<'static> {
        if self.way.is_empty() {
            return last.clone();
        }
        Value::vector(self.way.iter().chain([last]).cloned())
    }

    pub(super) fn note_missing(&mut self, name: &Text<'static>) -> Result<(), Exhausted> {
        self.meter.spend(self.missing.len(), 0)?;
        let way = self.here(&Value::Keyword(name.clone()));
        if self.missing.len() < QUERY_FAILURES && !self.missing.contains(&way) {
            self.pay_value(&way)?;
            self.missing.push(way);
        }
        Ok(())
    }

    pub(super) fn note_error(&mut self, key: &Value<'static>, why: Map<'static>) -> Result<(), Exhausted> {
        if self.errors.len() < QUERY_FAILURES {
            let (way, why) = (self.here(key), Value::from(why));
            self.pay_value(&way)?;
            self.pay_value(&why)?;
            self.errors.insert(way, why);
        }
        Ok(())
    }
}
