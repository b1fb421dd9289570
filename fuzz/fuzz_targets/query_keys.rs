//! Queries with many equal keys: the answer is that of the asks one by one, the last of equal keys standing. And queries
//! that join on and on: they end within their budget.
#![no_main]

#[path = "../../tests/query_support/mod.rs"]
mod query_support;

use edn_bridge::query::compile::Level;
use edn_bridge::query::graph;
use edn_bridge::query::parse::parse;
use edn_bridge::limits::{MAX_QUERY_VALUES, QUERY_BYTES};
use edn_bridge::meter::Meter;
use edn_bridge::query::run::{run, run_within};
use edn_bridge::value::{Map, Owned, Value};
use libfuzzer_sys::fuzz_target;
use query_support::Process;

const ASKS: &[&str] = &[
    ":psi.agent-session/session-id",
    "(:psi.agent-session/session-id {:n 1})",
    "{:psi.agent-session/messages [*]}",
    "{(:psi.agent-session/messages {:n 1}) [:psi.message/role]}",
    "{(:psi.agent-session/messages {:pathom/as :psi.agent-session/session-id}) [*]}",
    "{:psi.agent-session/messages [:psi.message/role :psi.message/role]}",
    ":psi.graph/unknown",
    "{:>/here [:psi.agent-session/session-id :psi.agent-session/session-id]}",
    "{[:psi.agent-session/session-id \"s-1\"] [:psi.agent-session/messages]}",
    "[:psi.agent-session/session-id _]",
    "{:psi.agent-session/session-id [:a]}",
    "{:psi.agent-session/messages ...}",
];

fn answer(process: &Process, query: &str) -> Owned {
    let level = Level::new(&parse(query).expect("a query"), &|name| graph().attr(name));
    run(graph(), process, &level, Map::new(), Vec::new()).expect("an answer").result
}

/// What a join that leads on may hold.
const BELOW: &[&str] = &["*", ":psi.attribute/name", "{:>/a [*]}", "[:big _]", "{:psi.graph/attributes 2}", ":unknown/x"];

/// Joins that lead to all attributes, resolvers or ops, each below the last.
fn grows(input: &[u8]) {
    let mut query = "[*]".to_owned();
    for byte in input.iter().take(6) {
        let list = ["psi.graph/attributes", "psi.graph/nodes", "psi.catalog/ops"][usize::from(*byte) % 3];
        query = format!("[{} {{:{list} {query}}}]", BELOW[usize::from(*byte / 3) % BELOW.len()]);
    }
    let level = Level::new(&parse(&query).expect("a query"), &|name| graph().attr(name));
    let meter = Meter::new(MAX_QUERY_VALUES, QUERY_BYTES / 8);
    match run_within(meter, graph(), &Process::empty(), &level, Map::new(), Vec::new()) {
        Ok(answered) => assert!(answered.meter.peak() <= QUERY_BYTES / 8, "{query}"),
        Err(why) => assert!(input.len() > 1, "{query}: {why}"),
    }
}

fuzz_target!(|input: &[u8]| {
    grows(input);
    let asks: Vec<&str> = input.iter().take(16).map(|byte| ASKS[usize::from(*byte) % ASKS.len()]).collect();
    let process = Process::empty();
    let mut expected = Map::new();
    for ask in &asks {
        let Value::Map(one) = answer(&process, &format!("[{ask}]")) else { unreachable!("a map") };
        for (key, value) in one {
            expected.insert(key, value);
        }
    }
    assert_eq!(answer(&process, &format!("[{}]", asks.join(" "))), Value::from(expected), "{asks:?}");
});
