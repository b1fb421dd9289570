//! Finds a form's place in a text that the codec has accepted.
//!
//! Knows just enough EDN to step over a form.

/// The offset of the form at the end of the path, counted from the first form of the text.
pub(super) fn find(text: &str, way: impl Iterator<Item = usize>) -> usize {
    let bytes = text.as_bytes();
    let mut at = start(bytes, 0);
    for place in way {
        let mut inner = open(bytes, at);
        for _ in 0..place {
            inner = start(bytes, skip(bytes, inner));
        }
        at = inner;
    }
    at
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// The start of the first form inside the collection at `at`.
fn open(bytes: &[u8], at: usize) -> usize {
    let opening = bytes.iter().skip(at).position(|byte| matches!(byte, b'[' | b'(' | b'{'));
    start(bytes, at + opening.map_or(0, |far| far + 1))
}

/// The start of the next form, after blanks, comments, discarded forms and metadata.
fn start(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match (byte(bytes, at), byte(bytes, at + 1)) {
            (b' ' | b'\t' | b'\n' | b'\r' | b',' | 0x0b | 0x0c, _) => at += 1,
            (b';', _) => {
                while at < bytes.len() && byte(bytes, at) != b'\n' {
                    at += 1;
                }
            }
            (b'#', b'_' | b'^') => at = skip(bytes, start(bytes, at + 2)),
            (b'^', _) => at = skip(bytes, start(bytes, at + 1)),
            _ => return at,
        }
    }
}

/// The end of the form that starts at `at`.
fn skip(bytes: &[u8], mut at: usize) -> usize {
    let mut open = 0usize;
    loop {
        match byte(bytes, at) {
            b'[' | b'(' | b'{' => {
                open += 1;
                at += 1;
            }
            b']' | b')' | b'}' => {
                open = open.saturating_sub(1);
                at += 1;
            }
            b'"' => {
                at += 1;
                while at < bytes.len() && byte(bytes, at) != b'"' {
                    at += if byte(bytes, at) == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            // A tag belongs to the form after it; so does the `#` of a set or a namespaced map.
            b'#' if byte(bytes, at + 1) == b'{' => {
                at += 1;
                continue;
            }
            b'#' if byte(bytes, at + 1) != b'#' => {
                at = start(bytes, word(bytes, at + 1));
                continue;
            }
            b'\\' => at = word(bytes, at + 2),
            _ => at = word(bytes, at + 1),
        }
        if open == 0 || at >= bytes.len() {
            return at.min(bytes.len());
        }
        at = start(bytes, at);
    }
}

fn word(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len()
        && !matches!(
            byte(bytes, at),
            b' ' | b'\t' | b'\n' | b'\r' | b',' | b'[' | b']' | b'(' | b')' | b'{' | b'}' | b'"' | b';'
        )
    {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn forms_are_found_after_anything_that_is_no_form() {
        for (text, way, rest) in [
            (" [:a :b]", vec![1], ":b]"),
            ("[:a ; no ]\n #_[1 2] ^{:m 1} :b]", vec![1], ":b]"),
            ("[{:a [\"x ] \\\" \" 7]}]", vec![0, 1, 1], "7]}]"),
            ("[#inst \"2020\" \\[ #{1} :z]", vec![3], ":z]"),
            ("[#:n{:a 1} :z]", vec![1], ":z]"),
        ] {
            assert_eq!(&text[find(text, way.into_iter())..], rest, "{text}");
        }
    }
}
