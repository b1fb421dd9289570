//! The query language against its corpus.

use std::fmt::Write as _;

use edn_bridge::edn;
use edn_bridge::query::ast::Query;
use edn_bridge::query::parse::parse;
use proptest::prelude::*;
use support::{Random, grammar};

#[path = "../../src/edn/tests/support/mod.rs"]
mod support;

const EQL: &str = include_str!("../../grammar/eql.ebnf");

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with(';'))
}

#[test]
fn every_query_of_the_corpus_prints_unchanged() {
    let mut count = 0;
    for line in lines(include_str!("../../grammar/corpus/eql/accept.txt")) {
        let query = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(query.to_string(), line);
        assert_eq!(parse(&query.to_string()).unwrap(), query);
        count += 1;
    }
    assert!(count > 30);
}

#[test]
fn every_refusal_of_the_corpus_has_place_and_expectation() {
    let mut wrong = String::new();
    let mut count = 0;
    for line in lines(include_str!("../../grammar/corpus/eql/reject.txt")) {
        let [offset, expected, text] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        match parse(text) {
            Ok(query) => writeln!(wrong, "{text} is taken as {query}").unwrap(),
            Err(error) if error.offset.to_string() != offset || error.expected != expected => {
                writeln!(
                    wrong,
                    "{text}\n  says    {} {}\n  expected {offset} {expected}",
                    error.offset, error.expected
                )
                .unwrap();
            }
            Err(_) => {}
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 20);
}

#[test]
fn sentences_of_the_grammar_are_queries() {
    let grammar = grammar::parse(&format!("{}{EQL}", include_str!("../../grammar/edn.ebnf")));
    let mut random = Random::new(5);
    let (mut read, mut duplicates) = (0, 0);
    for _ in 0..4_000 {
        let sentence = grammar.sentence("query", &mut random);
        match parse(&sentence) {
            Ok(query) => {
                read += 1;
                let printed = query.to_string();
                assert_eq!(parse(&printed).unwrap().to_string(), printed, "{sentence}");
            }
            // The grammar does not say that keys differ.
            Err(error) if error.found.starts_with("duplicate-") => duplicates += 1,
            Err(error) => panic!("{sentence:?}\n{error}"),
        }
    }
    assert!(read > 4 * duplicates, "{read} read, {duplicates} with duplicates");
    for name in grammar::parse(EQL).names {
        let used = |part| format!("{part:?}").contains(&format!("Name({name:?})"));
        assert!(name == "query" || grammar.productions.values().any(used), "{name} is not used");
    }
}

#[test]
fn invalid_edn_is_refused_at_its_place() {
    for (text, offset) in [("", 0), ("[:a", 3), ("[:a}", 3), ("[:a] :b", 5), ("[{:a}]", 4)] {
        assert_eq!(parse(text).unwrap_err().offset, offset, "{text}");
    }
}

#[test]
fn metadata_comments_and_discards_are_not_in_query() {
    let plain = parse("[:a {:b [:c]}]").unwrap();
    for text in ["^{:doc \"x\"} [:a {:b [:c]}]", "[:a #_:z {:b ^:m [:c]}] ; end", "[:a,\n{:b [:c]}]"] {
        assert_eq!(parse(text).unwrap(), plain, "{text}");
    }
}

#[test]
fn nesting_and_length_are_bounded() {
    let deep = |levels: usize| format!("{}[:a]{}", "[{:a ".repeat(levels), "}]".repeat(levels));
    assert!(parse(&deep(63)).is_ok());
    assert_eq!(parse(&deep(64)).unwrap_err().expected, "less nesting");
    assert!(parse(&format!("[{}]", ":a ".repeat(100_000))).is_err());
}

proptest! {
    #[test]
    fn any_query_text_is_answered_without_panic(text in "[\\[\\](){}:a-c/ 0-9\"*_.#^]{0,60}") {
        if let Err(error) = parse(&text) {
            prop_assert!(error.offset <= text.len());
        }
    }

    #[test]
    fn query_round_trips_through_text(query in query(4)) {
        let text = query.clone();
        let parsed: Query = parse(&text).unwrap();
        prop_assert_eq!(parsed.to_value(), edn::read_one(text.as_bytes()).unwrap().into_owned());
        prop_assert_eq!(parse(&parsed.to_string()).unwrap(), parsed);
    }
}

fn query(depth: u32) -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[a-c]{1,3}/[a-c]".prop_map(|name| format!(":{name}")),
        "[a-c]{1,3}".prop_map(|name| format!("(:{name} {{:limit 1}})")),
        "[a-c]{1,3}".prop_map(|name| format!("[:{name} _]")),
        ("[a-c]{1,3}", any::<i32>()).prop_map(|(name, n)| format!("[:{name} {n}]")),
        "[a-c]{1,3}".prop_map(|name| format!("({name} {{}})")),
        Just("*".to_owned()),
    ];
    let asks = leaf.prop_recursive(depth, 32, 4, |inner| {
        let many = prop::collection::vec(inner, 0..4).prop_map(|asks| format!("[{}]", asks.join(" ")));
        prop_oneof![
            ("[a-c]", many.clone()).prop_map(|(key, sub)| format!("{{:{key} {sub}}}")),
            ("[a-c]", many.clone()).prop_map(|(key, sub)| format!("({{:{key} {sub}}} {{:x 1}})")),
            ("[a-c]", many.clone()).prop_map(|(key, sub)| format!("{{(:{key} {{:x 1}}) {sub}}}")),
            ("[a-c]", many).prop_map(|(key, sub)| format!("{{:{key} {{:k {sub}}}}}")),
            "[a-c]".prop_map(|key| format!("{{:{key} ...}}")),
        ]
    });
    prop::collection::vec(asks, 0..5).prop_map(|asks| format!("[{}]", asks.join(" ")))
}
