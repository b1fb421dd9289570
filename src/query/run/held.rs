//! The memory that answers take: of one query, and of all queries of the process together.
//!
//! Counts what is gathered for an answer until the answer is on its way. Knows values; not what they mean.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Stop;
use crate::limits::{LARGE_LINE_BYTES, QUERIES_BYTES, QUERY_BYTES};
use crate::value::Value;

/// What all answers of the process hold together.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Whether a large answer was let go of since somebody asked.
static LET_GO: AtomicBool = AtomicBool::new(false);

/// Bytes that are taken from what all share at a time, so that a value seldom costs more than an addition.
const PART: usize = 256 * 1024;

/// What one answer holds, until this is dropped.
#[derive(Debug, Default)]
pub struct Held {
    used: usize,
    taken: usize,
}

impl Held {
    /// Counts a value that was gathered, with its key.
    pub(super) fn take(&mut self, value: &Value<'_>) -> Result<(), Stop> {
        self.used = self.used.saturating_add(size(value).saturating_add(size_of::<Value<'_>>()));
        if self.used > QUERY_BYTES {
            return Err(Stop::TooLarge);
        }
        if self.used > self.taken {
            let more = self.used.saturating_sub(self.taken).max(PART);
            self.taken = self.taken.saturating_add(more);
            if ALL.fetch_add(more, Ordering::Relaxed).saturating_add(more) > QUERIES_BYTES {
                return Err(Stop::Crowded);
            }
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        ALL.fetch_sub(self.taken, Ordering::Relaxed);
        if self.used >= LARGE_LINE_BYTES {
            LET_GO.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether a large answer was let go of since the last time that this was asked, so that its pages can be given back.
pub fn let_go_of_much() -> bool {
    LET_GO.swap(false, Ordering::Relaxed)
}

/// About how many bytes a value takes. A text that is shared counts in full: so it does in the answer.
fn size(value: &Value<'_>) -> usize {
    let below = match value {
        Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) => text.len(),
        Value::Map(map) => {
            let entry = |sum: usize, (key, value)| sum.saturating_add(size(key)).saturating_add(size(value));
            map.iter().fold(0, entry)
        }
        Value::Tagged(tagged) => size(&tagged.value),
        Value::Set(set) => set.iter().fold(0usize, |sum, item| sum.saturating_add(size(item))),
        value => value
            .as_slice()
            .unwrap_or_default()
            .iter()
            .fold(0usize, |sum, item| sum.saturating_add(size(item))),
    };
    below.saturating_add(size_of::<Value<'_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_bounded_alone_and_together() {
        let text = Value::from("x".repeat(1024 * 1024));
        let fill = |held: &mut Held, times: usize| (0..times).try_for_each(|_| held.take(&text));
        let mut one = Held::default();
        assert_eq!(fill(&mut one, QUERY_BYTES / (1024 * 1024) + 1), Err(Stop::TooLarge));
        let mut others: Vec<Held> = Vec::new();
        let crowded = std::iter::repeat_with(|| {
            let mut held = Held::default();
            let filled = fill(&mut held, QUERY_BYTES / (1024 * 1024) - 1);
            others.push(held);
            filled
        });
        let ends: Vec<_> = crowded.take(QUERIES_BYTES / QUERY_BYTES + 1).collect();
        assert_eq!(ends.last(), Some(&Err(Stop::Crowded)), "{ends:?}");
        drop((one, others));
        assert_eq!(ALL.load(Ordering::Relaxed), 0);
        assert!(let_go_of_much() && !let_go_of_much());
        assert_eq!(Held::default().take(&text), Ok(()));
    }
}
