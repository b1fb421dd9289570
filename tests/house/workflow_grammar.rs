//! The grammars of stage files and of hooks say what their readers take: sentences of them are read, and the
//! keys are the same. The grammar of frames is whole, and its diagram is drawn from it.

use std::collections::BTreeSet;
use std::path::Path;

use edn_bridge::hook::{Hooks, Source};
use edn_bridge::{edn, workflow};

#[path = "../../src/edn/tests/support/mod.rs"]
mod support;
use support::{Random, grammar};

const WORKFLOW: &str = include_str!("../../grammar/workflow.ebnf");
const FRAME: &str = include_str!("../../grammar/frame.ebnf");
const HOOK: &str = include_str!("../../grammar/hook.ebnf");

/// How many sentences were read and how many were not, for a reason that the grammar leaves open.
fn read(
    text: &str,
    start: &str,
    seed: u64,
    count: usize,
    left_open: &[&str],
    reader: impl Fn(&str) -> Result<(), String>,
) {
    let grammar = grammar::parse(text);
    let mut random = Random::new(seed);
    let mut well = 0;
    for _ in 0..count {
        let sentence = grammar.sentence(start, &mut random);
        match reader(&sentence) {
            Ok(()) => well += 1,
            Err(error) => {
                assert!(left_open.iter().any(|open| error.contains(open)), "{sentence}\n{error}");
            }
        }
    }
    assert!(well * 10 > count, "only {well} of {count} sentences were read");
}

#[test]
fn sentences_of_the_grammar_are_stage_files() {
    let left_open =
        ["there are two stages", "and there is no such stage", "none of the stage's", "duplicate-key"];
    read(WORKFLOW, "workflow", 5, 6_000, &left_open, |sentence| {
        workflow::read("w", sentence.as_bytes()).map(drop).map_err(|error| error.to_string())
    });
}

#[test]
fn sentences_of_the_grammar_are_hooks() {
    read(HOOK, "hooks", 7, 6_000, &["there are two hooks"], |sentence| {
        let value = edn::read_one(sentence.as_bytes()).map_err(|error| error.to_string())?;
        let hooks = Hooks::read(value.as_slice().unwrap().iter().map(Source::users));
        hooks.map(drop).map_err(|error| error.to_string())
    });
}

/// The keys that a reader says that a map may have, when it is given another.
fn known(error: &str) -> BTreeSet<String> {
    let (_, known) = error.split_once("it may have ").unwrap_or_else(|| panic!("{error}"));
    known.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn grammar_keys_match_readers() {
    let stages = grammar::parse(WORKFLOW);
    let keys = |names: &[&str]| names.iter().flat_map(|name| stages.keys(name)).collect::<BTreeSet<_>>();
    let next = BTreeSet::from([":next".to_owned()]);
    let stage = &keys(&["parts"]) | &next;
    let checks = |more: &[&str]| &keys(&["command"]) | &keys(more);
    for (file, expected) in [
        ("{:x 1}", keys(&["workflow"])),
        ("{:stages [{:x 1}]}", stage),
        (
            "{:stages [{:id :a :parallel [] :x 1}]}",
            keys(&["group"]).into_iter().chain(next.clone()).collect(),
        ),
        ("{:stages [{:id :a :parallel [{:x 1} {}]}]}", keys(&["parts"])),
        ("{:stages [{:id :a :body \"x\" :retry {:x 1}}]}", keys(&["retry"])),
        ("{:stages [{:id :a :body \"x\" :gate [{:x 1}]}]}", checks(&["confirm"])),
        ("{:stages [{:id :a :body \"x\" :assert [{:x 1}]}]}", checks(&["result", "reached"])),
    ] {
        let error = workflow::read("w", file.as_bytes()).unwrap_err().to_string();
        assert_eq!(known(&error), expected, "{file}");
    }
    let hooks = grammar::parse(HOOK);
    let keyword = |key: &String| {
        let values = ["guard", "transform", "observer", "pre", "post", "tool-call"];
        !values.contains(&key.trim_start_matches(':'))
            && !hooks.keys("before").contains(key)
            && !hooks.keys("after").contains(key)
    };
    let places = ["hook", "guard", "transform", "observer", "at_call"];
    let expected: BTreeSet<String> =
        places.iter().flat_map(|name| hooks.keys(name)).filter(keyword).collect();
    let error = Hooks::read(edn::read_all(b"{:x 1}").unwrap().iter().map(Source::users)).unwrap_err();
    assert_eq!(known(&error.to_string()), expected);
}

#[test]
fn every_production_of_a_frame_is_reached() {
    assert_eq!(grammar::parse(FRAME).unused(), ["line"]);
}

#[test]
fn the_diagram_of_a_frame_is_that_of_the_grammar() {
    grammar::assert_drawn(FRAME, &Path::new(env!("CARGO_MANIFEST_DIR")).join("grammar/frame.svg"));
}
