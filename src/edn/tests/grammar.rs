//! The grammar and the reader say the same: names agree, sentences of the grammar are read, and the diagram
//! in `grammar/` is that of the grammar (`EDN_BLESS=1` draws it anew).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "tests"
)]

use std::fs;
use std::path::Path;

use edn_codec::{self as edn, ErrorKind};

mod support;
use support::{Random, grammar};

const EDN: &str = include_str!("../../../grammar/edn.ebnf");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn each_production_is_a_parser_of_that_name() {
    let mut source = fs::read_to_string(root().join("read.rs")).unwrap();
    for entry in fs::read_dir(root().join("read")).unwrap() {
        source += &fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    for name in &grammar::parse(EDN).names {
        let ways = [
            format!("fn {name}("),
            format!("fn {name}<"),
            format!("let {name} ="),
            format!("let mut {name} ="),
        ];
        assert!(ways.iter().any(|way| source.contains(way)), "no parser of the name {name}");
    }
}

#[test]
fn sentences_of_the_grammar_are_read() {
    let grammar = grammar::parse(EDN);
    let mut random = Random::new(3);
    let (mut read, mut duplicates) = (0, 0);
    for _ in 0..8_000 {
        let sentence = match random.below(10) {
            0 => format!("#inst \"{}\"", grammar.sentence("inst", &mut random)),
            _ => grammar.sentence("form", &mut random),
        };
        match edn::read_one(sentence.as_bytes()) {
            Ok(value) => {
                read += 1;
                let written = value.to_string();
                assert_eq!(edn::read_one(written.as_bytes()).as_ref(), Ok(&value), "{written}");
            }
            // The grammar does not say that keys differ.
            Err(error) if matches!(error.kind(), ErrorKind::DuplicateKey | ErrorKind::DuplicateElement) => {
                duplicates += 1
            }
            Err(error) => panic!("{sentence:?}\n{error}"),
        }
    }
    assert!(read > 4 * duplicates, "{read} read, {duplicates} with duplicates");
}

#[test]
fn every_production_is_reached() {
    // What stands in the strings of tagged elements is a grammar of its own.
    assert_eq!(grammar::parse(EDN).unused(), ["inst", "uuid"]);
}

#[test]
fn the_diagram_is_that_of_the_grammar() {
    grammar::assert_drawn(EDN, &root().join("../../grammar/edn.svg"));
}
