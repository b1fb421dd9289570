//! The room that the results of one round share, so that many long ones together do not fill the model's window.
//!
//! Results are taken in the order of the calls. Each may have an even share of what those before have left, so a short one
//! leaves its rest to those after it. What a result has beyond that is in a file.

use super::output::Outputs;
use super::{Outcome, PART};
use crate::limits::{ROUND_RESULT_BYTES, ROUND_RESULT_SHARE_BYTES};
use crate::value::Value;

/// The room that is left.
#[derive(Debug)]
pub struct RoundBudget {
    bytes: usize,
    results: usize,
}

impl RoundBudget {
    /// The room for so many results in a window of so many tokens; 0 if that is not known.
    pub fn new(window: u64, results: usize) -> Self {
        // A token is about four bytes, so as many bytes as the window has tokens are a quarter of it.
        let bytes = usize::try_from(window).unwrap_or(usize::MAX).min(ROUND_RESULT_BYTES);
        Self { bytes: if window == 0 { ROUND_RESULT_BYTES } else { bytes }, results: results.max(1) }
    }

    /// Takes the room of the next result. Returns the bytes that its text is to be cut to; `None` if it fits.
    pub fn limit_for(&mut self, outcome: &Outcome) -> Option<usize> {
        let share = self.bytes.checked_div(self.results).unwrap_or(self.bytes).max(ROUND_RESULT_SHARE_BYTES);
        let size = outcome.text.len();
        self.bytes = self.bytes.saturating_sub(size.min(share));
        self.results = self.results.saturating_sub(1).max(1);
        (size > share).then_some(share)
    }
}

/// The outcome with the start and the end of its text. All of it is kept under the handle, unless it is an excerpt that names
/// a file already.
pub fn shorten(mut outcome: Outcome, share: usize, outputs: &Outputs, handle: String) -> Outcome {
    let text = std::mem::take(&mut outcome.text);
    let known = outcome.details.get_keyword("handle").and_then(Value::as_str).map(str::to_owned);
    let kept = known.clone().or_else(|| outputs.keep_whole(handle, &text));
    let path = kept.as_deref().and_then(|kept| outputs.path(kept));
    let place = path.map_or_else(
        || "it could not be kept; call again for it alone".to_owned(),
        |path| format!("all of it: {}", path.display()),
    );
    if let (None, Some(kept)) = (known, kept) {
        outcome.details.put("handle", kept);
        outcome.details.put("size", Value::from(text.len()));
    }
    // The mark is not counted: a path is short beside a share.
    let half = share / 2;
    let head = text.get(..text.floor_char_boundary(half)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len().saturating_sub(half))..).unwrap_or_default();
    let missing = text.len().saturating_sub(head.len()).saturating_sub(tail.len());
    outcome.text = format!(
        "{head}\n[… {missing} of {} bytes left out, because the results of this round are long together; {place} …]\n{tail}",
        text.len()
    );
    // The model has not seen all of a text that it may replace.
    outcome.details.put(PART, true);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_results_leave_their_room_to_later_ones() {
        let result = |bytes: usize| Outcome::ok("x".repeat(bytes));
        let mut budget = RoundBudget::new(40_000, 4);
        assert_eq!(budget.limit_for(&result(1_000)), None);
        assert_eq!(budget.limit_for(&result(48_000)), Some(13_000));
        assert_eq!(budget.limit_for(&result(13_000)), None);
        assert_eq!(budget.limit_for(&result(48_000)), Some(13_000));
        let mut unknown = RoundBudget::new(0, 1);
        assert_eq!(unknown.limit_for(&result(ROUND_RESULT_BYTES)), None);
        // However many there are, each says something.
        let mut many = RoundBudget::new(4_000, 100);
        let shares: Vec<_> = (0..100).map(|_| many.limit_for(&result(9_000))).collect();
        assert!(shares.iter().all(|share| *share == Some(ROUND_RESULT_SHARE_BYTES)), "{shares:?}");
    }

    #[test]
    fn left_out_text_is_in_named_file() {
        let dir = tempfile::tempdir().unwrap();
        let outputs = Outputs::new(dir.path(), "s");
        let text = format!("first{}last", "é".repeat(5_000));
        let short = shorten(Outcome::ok(text.clone()), 1_001, &outputs, "o-1".to_owned());
        assert!(short.text.starts_with("firsté") && short.text.ends_with("élast"), "{}", short.text);
        assert!(short.text.len() < 1_001 + 300, "{}", short.text.len());
        let path = outputs.path("o-1").unwrap();
        assert!(short.text.contains(&format!("all of it: {} …]", path.display())), "{}", short.text);
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        assert!(short.details.get_keyword(PART).is_some());
        // An excerpt of an output names that output's file.
        let mut excerpt = Outcome::ok(text);
        excerpt.details.put("handle", "o-9");
        let short = shorten(excerpt, 1_000, &outputs, "o-2".to_owned());
        assert!(
            short.text.contains("/o-9.txt …]") && !outputs.path("o-2").unwrap().exists(),
            "{}",
            short.text
        );
    }
}
