//! Sentences of what this codec and clojure-reader both know: one takes what the other takes.
#![no_main]

use edn_bridge::edn;
use libfuzzer_sys::fuzz_target;

/// Words on which the two agree. Left out is where clojure-reader differs from clojure.edn: numbers with `N`,
/// and lists, which it takes for other keys than vectors.
const WORDS: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    "#{",
    "nil",
    "true",
    "false",
    "0",
    "1",
    "-7",
    "2.5",
    "-10.25",
    "\"\"",
    "\"a b\"",
    "\"\\n\\t\\\"\"",
    "\\a",
    "\\newline",
    ":k",
    ":ns/k",
    "sym",
    "ns/sym",
    "; comment\n",
    ",",
    "\n",
];

fuzz_target!(|input: &[u8]| {
    let words: Vec<&str> =
        input.iter().take(200).map(|byte| WORDS[usize::from(*byte) % WORDS.len()]).collect();
    let text = words.join(" ");
    let ours = edn::Reader::new(text.as_bytes()).next();
    let theirs = clojure_reader::edn::read(&text);
    match (ours, theirs) {
        (Some(Ok(_)), Ok(_)) | (None | Some(Err(_)), Err(_)) => {}
        (None, Ok(_)) => {}
        (ours, theirs) => panic!("{text:?}\nours: {ours:?}\ntheirs: {theirs:?}"),
    }
});
