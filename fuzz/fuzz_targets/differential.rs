//! Sentences of what this codec and clojure-reader both know: one takes what the other takes.
#![no_main]

use edn_bridge::edn;
use libfuzzer_sys::fuzz_target;

/// Words on which the two agree. Left out: where clojure-reader differs from clojure.edn.
const WORDS: &[&str] = &[
    "(",
    ")",
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
    "42N",
    "2.5",
    "-1e3",
    "1.5M",
    "1/2",
    "0x1F",
    "\"\"",
    "\"a b\"",
    "\"\\n\\t\\\"\"",
    "\\a",
    "\\newline",
    ":k",
    ":ns/k",
    "sym",
    "ns/sym",
    "+",
    "-x",
    "#_",
    "; comment\n",
    ",",
    "\n",
    "#tag",
    "#ns/tag",
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
