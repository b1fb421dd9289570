//! How much of a running answer was told. Pieces may come twice, or be left out for a client that falls behind in a
//! session that others watch too; the whole message comes at the end in any case.

use edn_bridge::client::frame;
use edn_bridge::value::{Owned, Value};

/// What was told of the running answer: always the beginning of it.
#[derive(Debug, Default)]
pub(super) struct PrintedText {
    /// The model call in its turn, if the bridge numbers them.
    call: Option<i64>,
    text: String,
    chars: usize,
}

impl PrintedText {
    /// What a piece adds. Nothing after a gap: the rest comes with the whole message.
    pub(super) fn added<'p>(&mut self, piece: &'p Owned) -> &'p str {
        let number = |key| piece.get(key).and_then(Value::as_i64);
        let call = number("call");
        if call != self.call {
            *self = Self { call, ..Self::default() };
        }
        let text = frame::text(piece, "text");
        let at = number("at").and_then(|at| usize::try_from(at).ok()).unwrap_or(self.chars);
        let Some(known) = self.chars.checked_sub(at) else { return "" };
        let from = text.char_indices().nth(known).map_or(text.len(), |(from, _)| from);
        let added = text.get(from..).unwrap_or_default();
        self.text.push_str(added);
        self.chars = self.chars.saturating_add(added.chars().count());
        added
    }

    /// What is left to tell of the whole answer, which ends here.
    pub(super) fn rest<'w>(&mut self, whole: &'w str) -> &'w str {
        let said = std::mem::take(&mut self.text);
        self.chars = 0;
        whole.strip_prefix(&*said).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use edn_bridge::value::Map;

    use super::*;

    fn piece(call: i64, at: i64, text: &str) -> Owned {
        Value::from(Map::new().with("call", call).with("at", at).with("text", text.to_owned()))
    }

    #[test]
    fn pieces_add_what_was_not_told_and_gaps_come_at_the_end() {
        for (pieces, whole, added, rest) in [
            (&[(1, 0, "on"), (1, 2, "e two")][..], "one two", &["on", "e two"][..], ""),
            // Told again to who begins to watch.
            (&[(1, 0, "öne"), (1, 0, "öne two"), (1, 5, "w")], "öne two", &["öne", " two", ""], ""),
            // A hole, in the middle and at the end.
            (&[(1, 0, "one"), (1, 8, "three")], "one two three", &["one", ""], " two three"),
            (&[(1, 4, "two")], "one two", &[""], "one two"),
            // A call that failed and was made again.
            (&[(1, 0, "o"), (2, 0, "one")], "one", &["o", "one"], ""),
        ] {
            let mut said = PrintedText::default();
            let pieces: Vec<_> = pieces.iter().map(|(call, at, text)| piece(*call, *at, text)).collect();
            let told: Vec<&str> = pieces.iter().map(|piece| said.added(piece)).collect();
            assert_eq!((told.as_slice(), said.rest(whole)), (added, rest), "{pieces:?}");
        }
    }

    #[test]
    fn pieces_without_numbers_go_on() {
        let piece = |text: &str| Value::from(Map::new().with("text", text.to_owned()));
        let mut said = PrintedText::default();
        assert_eq!(["a", "b"].map(|text| said.added(&piece(text)).to_owned()), ["a", "b"]);
        assert_eq!(said.rest("abc"), "c");
    }
}
