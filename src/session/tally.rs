//! Counts the wire's answers by op and by error code.
//!
//! The wire counts and the graph reads; both get the table from the session API. It has exactly one entry per
//! row of the catalogue, so that counting neither allocates nor waits. Knows no request.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalogue::{ERROR_CODES, ErrorCode, ErrorSpec, OPS, Op, OpSpec};

/// The counters of a process.
#[derive(Debug)]
pub struct Tally {
    /// In the order of the ops.
    ops: [OpCount; OPS.len()],
    /// In the order of the error codes.
    errors: [AtomicU64; ERROR_CODES.len()],
}

#[derive(Debug)]
struct OpCount {
    responses: AtomicU64,
    errors: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            ops: [const { OpCount { responses: AtomicU64::new(0), errors: AtomicU64::new(0) } }; OPS.len()],
            errors: [const { AtomicU64::new(0) }; ERROR_CODES.len()],
        }
    }
}

impl Tally {
    /// Counts a response to a request.
    pub fn responded(&self, op: Op) {
        if let Some(count) = self.ops.get(op as usize) {
            count.responses.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an error for a request or a line. `op` is `None` if the op is unknown or missing.
    pub fn refused(&self, op: Option<Op>, code: ErrorCode) {
        if let Some(count) = op.and_then(|op| self.ops.get(op as usize)) {
            count.errors.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(count) = self.errors.get(code as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The current counts.
    pub fn read(&self) -> Counts {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let ops = OPS.iter().zip(&self.ops).map(|(spec, op)| {
            let failed = count(&op.errors);
            OpCounts { spec, answered: count(&op.responses).saturating_add(failed), failed }
        });
        let errors = ERROR_CODES.iter().zip(&self.errors).map(|(spec, errors)| (spec, count(errors)));
        Counts { ops: ops.collect(), errors: errors.collect() }
    }
}

/// A snapshot of the counters.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// The counts of each op, in the order of the catalogue.
    pub ops: Vec<OpCounts>,
    /// The count of each error code, in the order of the catalogue.
    pub errors: Vec<(&'static ErrorSpec, u64)>,
}

/// The counts of one op.
#[derive(Debug, Clone, Copy)]
pub struct OpCounts {
    /// The op.
    pub spec: &'static OpSpec,
    /// Requests that got a response or an error.
    pub answered: u64,
    /// Requests that got an error.
    pub failed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_counts_each_op_and_code_separately() {
        let tally = Tally::default();
        for (times, spec) in (1u64..).zip(OPS) {
            (0..times).for_each(|_| tally.responded(spec.op));
        }
        for (times, spec) in (1u64..).zip(ERROR_CODES) {
            (0..times).for_each(|_| tally.refused(None, spec.code));
        }
        tally.refused(Some(Op::Ack), ErrorCode::Failed);
        let counts = tally.read();
        for (times, op) in (1u64..).zip(&counts.ops) {
            let failed = u64::from(op.spec.op == Op::Ack);
            assert_eq!((op.answered, op.failed), (times + failed, failed), "{}", op.spec.name);
        }
        for (times, (spec, count)) in (1u64..).zip(&counts.errors) {
            assert_eq!(*count, times + u64::from(spec.code == ErrorCode::Failed), "{}", spec.name);
        }
        assert_eq!([counts.ops.len(), counts.errors.len()], [OPS.len(), ERROR_CODES.len()]);
    }
}
