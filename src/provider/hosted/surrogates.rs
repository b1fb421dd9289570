//! Surrogate pairs that a server splits between two deltas: each half is an escape of its own, which no JSON reader takes.
//!
//! [`escape_lone`] makes such JSON readable, and a [`SurrogateJoiner`] for each text puts the halves together. Knows no
//! protocol.

use std::borrow::Cow;

use crate::json::replace_lone_surrogates;

/// Precedes the stand-in for a lone surrogate in text that [`escape_lone`] has rewritten. Unicode assigns this code no
/// character.
const MARK: char = '\u{fdd0}';

/// The stand-in for surrogate 0xd800; 2048 of them follow.
const STAND_INS: u32 = 0x0010_f000;

/// Replaces each lone surrogate escape by two characters that stand for it, because JSON readers refuse it. The rest of
/// the text stays as it is.
pub fn escape_lone(json: &str) -> Cow<'_, str> {
    replace_lone_surrogates(json, |half, written| {
        written.push(MARK);
        written.extend(char::from_u32(STAND_INS.saturating_add(half.saturating_sub(0xd800))));
    })
}

/// Joins surrogate halves at the borders of a text's deltas.
#[derive(Debug, Default)]
pub struct SurrogateJoiner {
    /// The high surrogate at the end of the last delta, less 0xd800.
    high: Option<u32>,
}

impl SurrogateJoiner {
    /// The next delta, without a half at its end. A half whose rest does not come is U+FFFD.
    pub fn join(&mut self, piece: String) -> String {
        if self.high.is_none() && !piece.contains(MARK) {
            return piece;
        }
        let mut joined = String::with_capacity(piece.len());
        let mut characters = piece.chars().peekable();
        while let Some(character) = characters.next() {
            let name = |code: &char| u32::from(*code).checked_sub(STAND_INS).filter(|half| *half < 0x800);
            let half = (character == MARK).then(|| characters.peek().and_then(name)).flatten();
            if half.is_some() {
                characters.next();
            }
            match (self.high.take(), half) {
                (None, None) => joined.push(character),
                (Some(high), Some(low @ 0x400..)) => {
                    let code = 0x1_0000 + (high << 10) + low.saturating_sub(0x400);
                    joined.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                (high, half) => {
                    joined.extend(high.map(|_| char::REPLACEMENT_CHARACTER));
                    match half {
                        Some(high @ ..0x400) => self.high = Some(high),
                        Some(_) => joined.push(char::REPLACEMENT_CHARACTER),
                        None => joined.push(character),
                    }
                }
            }
        }
        joined
    }

    /// The end of the text: U+FFFD for a pending half.
    pub fn end(&mut self) -> Option<char> {
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogate_halves_are_joined_across_deltas() {
        let text = |json: &str| serde_json::from_str::<String>(&escape_lone(json)).unwrap();
        for (pieces, expected) in [
            (&[r#""x \ud83d""#, r#""\ude00 y""#][..], "x 😀 y"),
            (&[r#""\uD83D\uDE00""#], "😀"),
            (&[r#""\ud83d""#, r#""""#, r#""\ude00""#], "😀"),
            (&[r#""a\ud83d""#, r#""b""#], "a\u{fffd}b"),
            (&[r#""\ude00\ud83d\ud83d""#, r#""\ude00""#], "\u{fffd}\u{fffd}😀"),
            (&[r#""\\ud83d \\\ud83d""#], "\\ud83d \\\u{fffd}"),
            (&[r#""end\ud83d""#], "end\u{fffd}"),
            (&[r#""\u{fdd0}é\u00e9\ud83d""#], "\u{fdd0}éé\u{fffd}"),
        ] {
            let mut joiner = SurrogateJoiner::default();
            let pieces = pieces.iter().map(|piece| piece.replace("\\u{fdd0}", "\u{fdd0}"));
            let mut joined: String = pieces.map(|piece| joiner.join(text(&piece))).collect();
            joined.extend(joiner.end());
            assert_eq!(joined, expected);
        }
        assert!(matches!(escape_lone(r#"{"a":"\u00e9"}"#), Cow::Borrowed(_)));
    }
}
