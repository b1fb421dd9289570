//! Inputs that are made to cost more than their length.

/// What hostile inputs look like, of about `size` bytes each.
pub fn inputs(size: usize) -> Vec<(&'static str, String)> {
    let repeat = |text: &str| text.repeat(size / text.len());
    let numbered = |each: &dyn Fn(usize) -> String| {
        let mut out = String::new();
        let mut at = 0;
        while out.len() < size {
            out += &each(at);
            at += 1;
        }
        out
    };
    let nest = |open: &str, inner: &str, close: &str| {
        // Short enough that twice the size is twice as many.
        let one = format!("{}{inner}{} ", open.repeat(40), close.repeat(40));
        one.repeat(size / one.len())
    };
    vec![
        ("vectors", nest("[", "", "]")),
        ("sets of sets", nest("#{", "1", "}")),
        ("maps as keys", nest("{", ":a", " 1}")),
        ("brackets that stay open", repeat("[")),
        ("discards", nest("#_ ", "a ", "")),
        ("discards without an end", repeat("#_")),
        ("tags", nest("#a ", "1", "")),
        ("metadata", nest("^:a ", "b", "")),
        ("one long string", format!("\"{}\"", repeat("a"))),
        ("one string of escapes", format!("\"{}\"", repeat("\\n"))),
        ("one string of unicode escapes", format!("\"{}\"", repeat("\\u00e9"))),
        ("a string that stays open", format!("\"{}", repeat("a"))),
        ("short strings that stay open", repeat("\"a\\\\")),
        ("one long symbol", repeat("a")),
        ("one long wide symbol", repeat("é")),
        ("a symbol of strokes", format!("a{}", repeat("/"))),
        ("a keyword of colons", repeat(":")),
        ("long numbers", repeat(&format!("{} ", "7".repeat(1000)))),
        ("one number too long", "7".repeat(edn_codec::limits::MAX_DIGITS + size)),
        ("floats", repeat("0.1e-300 ")),
        ("comments", repeat(";\n")),
        ("blanks", repeat(" ")),
        ("wide blanks", repeat("\u{2003}")),
        ("keys of one length", format!("{{{}}}", numbered(&|at| format!(":k{at:07} 1 ")))),
        ("integer keys", format!("{{{}}}", numbered(&|at| format!("{} 1 ", (at as u64) << 32)))),
        ("sets of vectors", format!("#{{{}}}", numbered(&|at| format!("[{at} {at}] ")))),
        (
            "sets whose elements are equal but for the last",
            format!("#{{{}}}", numbered(&|at| format!("[1 2 3 4 5 6 7 {at}] "))),
        ),
        (
            "small maps of like keys",
            numbered(&|at| format!("{{:aaaaaaaaaa{at} 1 :aaaaaaaaab{at} 2 :aaaaaaaaac{at} 3}} ")),
        ),
        ("namespaced maps", numbered(&|at| format!("#:n{{:a{at} 1}} "))),
    ]
}
