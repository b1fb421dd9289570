//! The memory of answers: of one query, and of all queries of the process together.
//!
//! Counts the gathered values until the answer was sent. Knows values, but not their meaning.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::bounds::Stop;
use crate::limits::{QUERIES_BYTES, QUERY_BYTES};
use crate::value::Value;

/// The memory of all answers of the process.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Bytes per reservation from the shared total, so that most values cost only an addition.
const PART: usize = 256 * 1024;

/// The memory of one answer, until this is dropped.
#[derive(Debug, Default)]
pub struct AnswerMemory {
    used: usize,
    taken: usize,
}

impl AnswerMemory {
    /// Counts a gathered value with its key.
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

impl Drop for AnswerMemory {
    fn drop(&mut self) {
        ALL.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

/// The approximate size of a value in bytes. A shared text counts in full, as it does in the answer.
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
        let fill = |memory: &mut AnswerMemory, times: usize| (0..times).try_for_each(|_| memory.take(&text));
        let mut one = AnswerMemory::default();
        assert_eq!(fill(&mut one, QUERY_BYTES / (1024 * 1024) + 1), Err(Stop::TooLarge));
        let mut others: Vec<AnswerMemory> = Vec::new();
        let crowded = std::iter::repeat_with(|| {
            let mut memory = AnswerMemory::default();
            let filled = fill(&mut memory, QUERY_BYTES / (1024 * 1024) - 1);
            others.push(memory);
            filled
        });
        let ends: Vec<_> = crowded.take(QUERIES_BYTES / QUERY_BYTES + 1).collect();
        assert_eq!(ends.last(), Some(&Err(Stop::Crowded)), "{ends:?}");
        drop((one, others));
        assert_eq!(ALL.load(Ordering::Relaxed), 0);
        assert_eq!(AnswerMemory::default().take(&text), Ok(()));
    }
}
