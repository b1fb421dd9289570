//! Joins a model's tokens into text.
//!
//! A token is a run of bytes that may end within a character. The output has whole characters only; bytes
//! that no further token can complete are replaced, as by a lossy decoder. Knows no model.

/// The bytes of an incomplete character: at most three.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pending: Vec<u8>,
    /// Whether there was text. Blanks before it belong to the tokenizer, not to the answer.
    begun: bool,
}

impl Pieces {
    /// Takes a token's bytes and returns the text that can be shown now; empty while a character is
    /// incomplete or only blanks have arrived.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.pending.len());
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (whole, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(whole));
                    let Some(broken) = error.error_len() else {
                        rest = after;
                        break;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = after.get(broken..).unwrap_or_default();
                }
            }
        }
        self.pending = rest.to_vec();
        self.shown(text)
    }

    /// The rest once no token follows.
    pub(super) fn finish(mut self) -> String {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned();
        self.shown(rest)
    }

    fn shown(&mut self, text: String) -> String {
        if self.begun {
            return text;
        }
        let text = text.trim_start().to_owned();
        self.begun = !text.is_empty();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_yield_only_whole_characters() {
        let check = |tokens: &[&[u8]], shown: &[&str], end: &str| {
            let mut pieces = Pieces::default();
            let found: Vec<_> = tokens.iter().map(|token| pieces.push(token)).collect();
            assert_eq!(found, shown, "{tokens:?}");
            assert_eq!(pieces.finish(), end, "{tokens:?}");
        };
        check(&[b"plain"], &["plain"], "");
        check(&[b"\xc3", b"\xa4b"], &["", "äb"], "");
        check(&[b"a\xf0\x9f", b"\x98", b"\x80!"], &["a", "", "😀!"], "");
        check(&[b"a\xff", b"b"], &["a\u{fffd}", "b"], "");
        check(&[b"a\xe2\x82"], &["a"], "\u{fffd}");
        check(&[b" ", b"\n Hello", b" you"], &["", "Hello", " you"], "");
    }
}
