//! Counts the wires' answers: by the request's name, which the wire gives, and by error code.
//!
//! The wires count and the graph reads; both get the table from the session API. A wire registers its names once, so
//! that counting neither allocates nor waits. Knows no request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::catalogue::{ERROR_CODES, ErrorCode, ErrorSpec};

/// The counters of a process.
#[derive(Debug)]
pub struct Tally {
    /// One for each wire.
    wires: Mutex<Vec<Arc<Requests>>>,
    /// In the order of the error codes.
    errors: [AtomicU64; ERROR_CODES.len()],
}

/// The counters of one wire's requests. All connections of the wire share them.
#[derive(Debug)]
pub struct Requests {
    names: &'static [&'static str],
    counts: Box<[RequestCount]>,
}

#[derive(Debug, Default)]
struct RequestCount {
    responses: AtomicU64,
    errors: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { wires: Mutex::default(), errors: [const { AtomicU64::new(0) }; ERROR_CODES.len()] }
    }
}

impl Requests {
    /// Counts a response to the request at that place in the wire's names.
    pub fn responded(&self, place: usize) {
        if let Some(count) = self.counts.get(place) {
            count.responses.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an error for it.
    pub fn refused(&self, place: usize) {
        if let Some(count) = self.counts.get(place) {
            count.errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Tally {
    /// The counters of the wire whose requests have these names.
    pub fn wire(&self, names: &'static [&'static str]) -> Arc<Requests> {
        let mut wires = self.wires.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = wires.iter().find(|wire| wire.names == names) {
            return known.clone();
        }
        let counts = names.iter().map(|_| RequestCount::default()).collect();
        let wire = Arc::new(Requests { names, counts });
        wires.push(wire.clone());
        wire
    }

    /// Counts an error by its code, for a request or a line.
    pub fn refused(&self, code: ErrorCode) {
        if let Some(count) = self.errors.get(code as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The current counts.
    pub fn read(&self) -> Counts {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let wires = self.wires.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = wires.iter().flat_map(|wire| wire.names.iter().zip(&wire.counts));
        let ops = requests.map(|(name, request)| {
            let failed = count(&request.errors);
            OpCounts { name, answered: count(&request.responses).saturating_add(failed), failed }
        });
        let errors = ERROR_CODES.iter().zip(&self.errors).map(|(spec, errors)| (spec, count(errors)));
        Counts { ops: ops.collect(), errors: errors.collect() }
    }
}

/// A snapshot of the counters.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// The counts of each request, wire by wire, in the order of the wire's names.
    pub ops: Vec<OpCounts>,
    /// The count of each error code, in the order of the catalogue.
    pub errors: Vec<(&'static ErrorSpec, u64)>,
}

/// The counts of one request's name.
#[derive(Debug, Clone, Copy)]
pub struct OpCounts {
    /// The name, in its wire's words.
    pub name: &'static str,
    /// Requests that got a response or an error.
    pub answered: u64,
    /// Requests that got an error.
    pub failed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_counts_each_wire_name_and_code_separately() {
        let tally = Tally::default();
        let (one, other) = (tally.wire(&["a", "b"]), tally.wire(&["b"]));
        tally.wire(&["a", "b"]).responded(0);
        one.responded(1);
        one.refused(1);
        other.refused(0);
        for (times, spec) in (1u64..).zip(ERROR_CODES) {
            (0..times).for_each(|_| tally.refused(spec.code));
        }
        let counts = tally.read();
        let ops: Vec<_> = counts.ops.iter().map(|op| (op.name, op.answered, op.failed)).collect();
        assert_eq!(ops, [("a", 1, 0), ("b", 2, 1), ("b", 1, 1)]);
        for (times, (spec, count)) in (1u64..).zip(&counts.errors) {
            assert_eq!(*count, times, "{}", spec.name);
        }
        assert_eq!(counts.errors.len(), ERROR_CODES.len());
    }
}
