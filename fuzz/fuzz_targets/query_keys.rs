//! Queries with many equal keys: the answer is that of the asks one by one, the last of equal keys standing.
#![no_main]

#[path = "../../tests/query_support/mod.rs"]
mod query_support;

use edn_bridge::query::compile::Level;
use edn_bridge::query::graph;
use edn_bridge::query::parse::parse;
use edn_bridge::query::run::run;
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

fuzz_target!(|input: &[u8]| {
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
