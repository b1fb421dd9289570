//! The graph on a live session: every attribute, by the example that the graph itself gives.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests"
)]

mod support;

use edn_bridge::edn;
use edn_bridge::query::parse::parse;
use edn_bridge::value::{Owned, Value};
use support::{Bridge, Setup};

const SCRIPT: &str = "{:turns [{:steps [{:thinking \"hm\"} {:delta \"Hello.\"}] :usage {:input 10 :output 5}}] :then :repeat-last}";

fn live() -> (Setup, Bridge) {
    let setup = Setup::new().script(SCRIPT);
    let git = setup.project().join(".git");
    std::fs::create_dir_all(git.join("refs/heads")).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(git.join("refs/heads/main"), "0123456789012345678901234567890123456789\n").unwrap();
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"hello\"}");
    bridge.event("assistant/message");
    bridge.ask("n", "set_session_name", "{:name \"first\"}");
    (setup, bridge)
}

/// The `:data` of the answer.
fn query(bridge: &mut Bridge, text: &str) -> Owned {
    let answer = bridge.ask("q", "query_eql", &format!("{{:query {}}}", edn::to_string(&Value::from(text))));
    answer.get("data").cloned().unwrap_or_else(|| panic!("{text}: {answer}"))
}

fn result(bridge: &mut Bridge, text: &str) -> Owned {
    let data = query(bridge, text);
    assert!(data.get("errors").is_none(), "{text}: {data}");
    data.get("result").cloned().unwrap()
}

/// Whether a result has the last attribute of its query, below every join and in every list.
fn holds(query: &Owned, result: &Owned) -> Result<(), &'static str> {
    match &query.as_slice().unwrap()[0] {
        Value::Keyword(name) => result.get(name).map(|_| ()).ok_or("missing"),
        Value::Map(join) => {
            let (key, below) = join.iter().next().unwrap();
            match result.get(key.as_keyword().unwrap()) {
                None => Err("missing above"),
                Some(Value::Vector(items)) if items.is_empty() => Err("empty"),
                Some(Value::Vector(items)) => items
                    .iter()
                    .map(|item| holds(below, item))
                    .find(Result::is_ok)
                    .unwrap_or(Err("missing in list")),
                Some(one) => holds(below, one),
            }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_attribute_of_the_graph_resolves_on_a_live_session() {
    let (_setup, mut bridge) = live();
    let all = result(&mut bridge, "[{:psi.graph/attributes [*]}]");
    let all = all.get("psi.graph/attributes").unwrap().as_slice().unwrap().to_vec();
    let (mut resolved, mut empty, mut wrong) = (0, Vec::new(), Vec::new());
    for attribute in &all {
        let name = attribute.get("psi.attribute/name").unwrap().to_string();
        assert!(!attribute.get("psi.attribute/doc").unwrap().as_str().unwrap().is_empty());
        let Some(example) = attribute.get("psi.attribute/example").and_then(Value::as_str) else {
            wrong.push(format!("{name} has no example"));
            continue;
        };
        let found = query(&mut bridge, example);
        match holds(&parse(example).unwrap().to_value(), found.get("result").unwrap()) {
            Ok(()) => resolved += 1,
            Err("empty") => empty.push(name),
            Err(why) => wrong.push(format!("{name}: {why}: {example} answers {found}")),
        }
    }
    println!("{resolved} of {} attributes resolve; below empty lists: {empty:?}", all.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // No tool was called in this session; tests/query_engine.rs asks for these on one where it was.
    assert!(empty.iter().all(|name| name.starts_with(":psi.tool-lifecycle.summary/")), "{empty:?}");
    assert!(all.len() > 150 && resolved + empty.len() == all.len());
}

#[test]
fn every_attribute_that_the_spec_names_is_in_the_graph() {
    let spec = include_str!("../spec/query.allium");
    let mut named = Vec::new();
    for word in spec.split('`').filter(|word| word.starts_with("psi.") && word.contains('/')) {
        named.push(word.to_owned());
    }
    let graph = edn_bridge::query::graph();
    let lacking: Vec<_> = named.iter().filter(|name| graph.attr(name).is_none()).collect();
    assert!(named.len() > 60 && lacking.is_empty(), "{lacking:?}");
}

#[test]
fn joins_idents_params_and_links_are_answered() {
    let (_setup, mut bridge) = live();
    let found = result(&mut bridge, "[{:psi.agent-session/messages [:psi.message/role :psi.message/text]}]");
    assert_eq!(
        found.to_string(),
        "{:psi.agent-session/messages [{:psi.message/role \"user\" :psi.message/text \"hello\"} \
         {:psi.message/role \"assistant\" :psi.message/text \"Hello.\"}]}"
    );
    let found = result(&mut bridge, "[{(:psi.agent-session/messages {:limit 1}) [:psi.message/text]}]");
    assert_eq!(found.to_string(), "{:psi.agent-session/messages [{:psi.message/text \"Hello.\"}]}");
    let found = result(&mut bridge, "[{[:psi.op/name \"ping\"] [:psi.op/doc]}]");
    assert_eq!(found.to_string(), "{[:psi.op/name \"ping\"] {:psi.op/doc \"Answers at once.\"}}");
    let found = result(&mut bridge, "[{:psi.catalog/ops [:psi.op/name [:psi.agent-session/phase _]]}]");
    let first = &found.get("psi.catalog/ops").unwrap().as_slice().unwrap()[0];
    assert_eq!(first.to_string(), "{:psi.op/name \"handshake\" :psi.agent-session/phase :idle}");
    let found = result(
        &mut bridge,
        "[{:psi.agent-session/entries {:psi.message/id [:psi.message/role] :psi.entry/id [:psi.entry/type]}}]",
    );
    assert_eq!(
        found.to_string(),
        "{:psi.agent-session/entries [{:psi.message/role \"user\"} {:psi.message/role \"assistant\"} {:psi.entry/type :name}]}"
    );
    let counts = result(&mut bridge, "[:psi.agent-session/message-counts]");
    assert_eq!(
        counts.to_string(),
        "{:psi.agent-session/message-counts {:user 1 :assistant 1 :tool 0 :system 0}}"
    );
    // A session of the list leads to the live one.
    let found =
        result(&mut bridge, "[{:psi.session/list [:psi.session-info/name :psi.agent-session/phase]}]");
    assert_eq!(
        found.to_string(),
        "{:psi.session/list [{:psi.session-info/name \"first\" :psi.agent-session/phase :idle}]}"
    );
    let found = query(&mut bridge, "[{[:psi.agent-session/session-id \"none\"] [:psi.agent-session/phase]}]");
    assert!(
        found
            .to_string()
            .contains(":missing [[[:psi.agent-session/session-id \"none\"] :psi.agent-session/phase]]"),
        "{found}"
    );
}

#[test]
fn mutations_pass_the_checks_of_their_ops() {
    let (_setup, mut bridge) = live();
    let found = query(
        &mut bridge,
        "[{(psi.session/rename {:name \"second\"}) [:psi.agent-session/session-name]} :psi.agent-session/session-name]",
    );
    assert_eq!(
        found.to_string(),
        "{:result {psi.session/rename {:psi.agent-session/session-name \"second\"} :psi.agent-session/session-name \"second\"}}"
    );
    for (text, code) in [
        ("[(psi.session/rename {:name \"\"})]", "request/invalid-params"),
        ("[(psi.session/rename {})]", "request/invalid-params"),
        ("[(psi.session/set-model {:provider \"none\" :id \"x\"})]", "request/unknown-model"),
        ("[(psi.job/cancel {:id \"none\"})]", "request/not-found"),
        ("[(psi.interaction/grant {:id \"none\"})]", "request/not-found"),
        ("[(psi.nothing/here {})]", "request/not-found"),
    ] {
        let found = query(&mut bridge, text);
        let errors = found.get("errors").unwrap_or_else(|| panic!("{text}: {found}"));
        assert!(errors.to_string().contains(&format!(":code {code:?}")), "{text}: {errors}");
    }
}

#[test]
fn a_wrong_query_is_refused_with_its_place_and_a_strict_one_with_what_is_missing() {
    let (_setup, mut bridge) = live();
    let answer = bridge.ask("q", "query_eql", "{:query \"[:a {:b}]\"}");
    assert_eq!(answer.get("error-code").and_then(Value::as_str), Some("request/invalid-query"));
    let answer = bridge.ask("q", "query_eql", "{:query \"[:a {:b 0}]\"}");
    assert_eq!(answer.get("data").unwrap().get("offset"), Some(&Value::int(8)));
    let answer =
        bridge.ask("q", "query_eql", "{:query \"[:psi.nothing/here :x]\" :entity \"{:x 1}\" :strict true}");
    assert_eq!(answer.get("error-code").and_then(Value::as_str), Some("runtime/query-failed"));
    assert_eq!(answer.get("data").unwrap().get("missing").unwrap().to_string(), "[:psi.nothing/here]");
    let answer = bridge.ask("q", "query_eql", "{:query \"[:x]\" :entity \"[]\"}");
    assert_eq!(answer.get("error-code").and_then(Value::as_str), Some("request/invalid-query"));
}

#[test]
fn a_plan_names_the_steps_and_a_query_shows_no_secret_handles() {
    let (_setup, mut bridge) = live();
    let found = result(
        &mut bridge,
        "[(:psi.query/plan {:query \"[{:psi.session/list [:psi.agent-session/phase]} :psi.agent-session/phse]\"})]",
    );
    let plan = found.get("psi.query/plan").unwrap().to_string();
    assert!(
        plan.contains("[psi.session-info/session psi.agent-session/by-id psi.agent-session/facts]"),
        "{plan}"
    );
    assert!(plan.contains(":nearest [:psi.agent-session/phase"), "{plan}");
    let found = query(&mut bridge, "[:handle/session]");
    assert_eq!(found.to_string(), "{:result {} :missing [:handle/session]}");
}
