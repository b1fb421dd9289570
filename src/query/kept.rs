//! Prepared queries by their text, and counts of answered ones. Knows neither attributes nor answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::Instant;

use crate::limits::{QUERY_CACHE, QUERY_CACHE_BYTES};
use crate::query::compile::Level;

/// The queries, with their plans.
static PREPARED: LazyLock<RwLock<HashMap<Box<str>, Arc<Level>>>> = LazyLock::new(RwLock::default);

/// The number of prepared queries.
pub fn len() -> usize {
    PREPARED.read().unwrap_or_else(PoisonError::into_inner).len()
}

/// The prepared query of a text.
pub(super) fn get(text: &str) -> Option<Arc<Level>> {
    PREPARED.read().unwrap_or_else(PoisonError::into_inner).get(text).cloned()
}

/// Keeps a prepared query.
pub(super) fn keep(text: &str, level: &Arc<Level>) {
    if text.len() > QUERY_CACHE_BYTES {
        return;
    }
    let mut kept = PREPARED.write().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= QUERY_CACHE {
        kept.clear();
    }
    kept.insert(text.into(), level.clone());
}

/// Counts of answered queries since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryCounters {
    /// Answered queries.
    pub answered: u64,
    /// Their total time, in microseconds.
    pub micros: u64,
    /// The time of the slowest one, in microseconds.
    pub slowest: u64,
}

static ANSWERED: AtomicU64 = AtomicU64::new(0);
static NANOS: AtomicU64 = AtomicU64::new(0);
static SLOWEST_NANOS: AtomicU64 = AtomicU64::new(0);

/// The counters of this process.
pub fn counters() -> QueryCounters {
    let micros = |nanos: &AtomicU64| nanos.load(Ordering::Relaxed) / 1_000;
    QueryCounters {
        answered: ANSWERED.load(Ordering::Relaxed),
        micros: micros(&NANOS),
        slowest: micros(&SLOWEST_NANOS),
    }
}

/// Counts an answered query.
pub(super) fn count(begun: Instant) {
    let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    ANSWERED.fetch_add(1, Ordering::Relaxed);
    NANOS.fetch_add(nanos, Ordering::Relaxed);
    SLOWEST_NANOS.fetch_max(nanos, Ordering::Relaxed);
}
