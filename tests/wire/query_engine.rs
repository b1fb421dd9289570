//! The engine on a graph of its own: multi-step ways, alternatives, batches, failures, cycles, bounds.
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use edn_bridge::edn;
use edn_bridge::facts::{Phase, SessionFacts};
use edn_bridge::message::{Block, Message, Role};
use edn_bridge::meter::{Exhausted, Meter};
use edn_bridge::query::compile::Level;
use edn_bridge::query::graph::{Graph, GraphError, Input, Inputs, Output, Resolver};
use edn_bridge::query::parse::parse;
use edn_bridge::query::run::{QueryResult, run, run_within};
use edn_bridge::query::world::ResolverFailure;
use edn_bridge::value::{Map, Value};
use query_support::Process;

use crate::query_support;

const fn out(name: &'static str) -> Output {
    Output { name, doc: ".", sub: &[] }
}

use Resolver as R;

fn number(inputs: &Inputs<'_>, name: &str) -> i64 {
    inputs.value(name).and_then(Value::as_i64).unwrap_or(0)
}

// Of each test's own thread, so that tests side by side do not count each other's.
thread_local! {
    static SEEN: Cell<usize> = const { Cell::new(0) };
    static BATCHES: Cell<usize> = const { Cell::new(0) };
}

const PART: &[Resolver] = &[
    R::one("a", &[], &[out("a")], |_, _| Ok(vec![("a", 1.into())])),
    R::one("b", &[Input::Required("a")], &[out("b")], |_, inputs| {
        Ok(vec![("b", (number(inputs, "a") + 1).into())])
    }),
    R::one(
        "c",
        &[Input::Required("b"), Input::Optional("beside"), Input::Optional("nothing")],
        &[out("c")],
        |_, inputs| Ok(vec![("c", (number(inputs, "b") * 10 + number(inputs, "beside")).into())]),
    ),
    R::one("seen", &[Input::Required("a")], &[out("once"), out("twice")], |_, _| {
        SEEN.set(SEEN.get() + 1);
        Ok(vec![("once", 1.into()), ("twice", 2.into())])
    }),
    R::one("sum", &[Input::Required("once"), Input::Required("twice")], &[out("sum")], |_, inputs| {
        Ok(vec![("sum", (number(inputs, "once") + number(inputs, "twice")).into())])
    }),
    R::one("breaks", &[], &[out("broken"), out("mended")], |_, _| Err(ResolverFailure::new("It broke."))),
    R::one("mends", &[Input::Required("a")], &[out("mended")], |_, _| Ok(vec![("mended", "so".into())])),
    R::one("beside", &[], &[out("beside")], |_, _| Ok(vec![("beside", 7.into())])),
    R::one("after-broken", &[Input::Required("broken")], &[out("after-broken")], |_, _| Ok(Vec::new())),
    R::one("ring-one", &[Input::Required("ring/two")], &[out("ring/one")], |_, inputs| {
        Ok(vec![("ring/one", number(inputs, "ring/two").into())])
    }),
    R::one("ring-two", &[Input::Required("ring/one")], &[out("ring/two")], |_, inputs| {
        Ok(vec![("ring/two", number(inputs, "ring/one").into())])
    }),
    R::one("items", &[], &[Output { name: "items", doc: ".", sub: &[out("item")] }], |_, _| {
        let item = |n: i64| Value::from(Map::new().with("item", n));
        Ok(vec![("items", Value::vector((0..1000).map(item)).into())])
    }),
    R::batch("square", &[Input::Required("item")], &[out("square")], |_, all| {
        BATCHES.set(BATCHES.get() + 1);
        let square = |inputs: &Inputs<'_>| Ok(vec![("square", (number(inputs, "item").pow(2)).into())]);
        all.iter().map(square).collect()
    }),
    R::one("total", &[Input::Nested("items", "[:square]")], &[out("total")], |_, inputs| {
        let items = inputs.value("items").and_then(Value::as_slice).unwrap_or_default();
        Ok(vec![("total", items.iter().filter_map(|item| item.get("square")?.as_i64()).sum::<i64>().into())])
    }),
    R::one(
        "tree",
        &[Input::Required("n")],
        &[Output { name: "tree", doc: ".", sub: &[out("n")] }],
        |_, inputs| {
            let below = number(inputs, "n") - 1;
            let node = Value::from(Map::new().with("n", below));
            Ok(if below == 0 { Vec::new() } else { vec![("tree", Value::vector([node]).into())] })
        },
    ),
    R::one("echo", &[], &[out("echo")], |env, _| Ok(vec![("echo", Value::from(env.params.clone()).into())])),
];

/// What no resolver ever finds.
const NOTHING: &[Resolver] = &[
    R::one("nothing", &[], &[out("nothing")], |_, _| Ok(Vec::new())),
    R::one("kind", &[Input::Required("nothing")], &[out("kind/x")], |_, _| Ok(Vec::new())),
];

/// A session in which a tool was called.
fn talk() -> Process {
    let call = |id: &str| Block::ToolCall {
        id: id.into(),
        name: "read".into(),
        arguments: Value::from(Map::new().with("path", "x")).into(),
    };
    let said = Message::new("e-1".into(), Role::Assistant, vec![call("c-1"), call("c-2")], "".into());
    let mut result = Message::new("e-2".into(), Role::Tool, vec![Block::Text("text".into())], "".into());
    result.tool_call_id = Some("c-1".into());
    result.is_error = Some(false);
    Process::new(vec![Arc::new(said), Arc::new(result)], SessionFacts::empty("s-1".into()))
}

fn ask_in(graph: &Graph, text: &str, entity: &str) -> QueryResult {
    let level = Level::new(&parse(text).unwrap(), &|name| graph.attr(name));
    let entity = edn::read_one(entity.as_bytes()).unwrap().into_owned();
    run(graph, &talk(), &level, entity.as_map().unwrap().clone(), Vec::new()).unwrap()
}

fn ask(text: &str, entity: &str) -> QueryResult {
    ask_in(&Graph::new(&[PART, NOTHING], &[]).unwrap(), text, entity)
}

fn check(text: &str, entity: &str, expected: &str) {
    let answered = ask(text, entity);
    assert_eq!(answered.result.to_string(), expected, "{text}: {answered:?}");
}

#[test]
fn attribute_is_resolved_through_several_steps() {
    check("[:c]", "{}", "{:c 27}");
    check("[:c]", "{:a 5}", "{:c 67}");
    check("[:c]", "{:b 1 :beside nil}", "{:c 10}");
    check("[:x :a]", "{:x 9}", "{:x 9 :a 1}");
}

#[test]
fn resolver_runs_once_per_entity() {
    SEEN.set(0);
    check(
        "[:once :twice :sum :once {:>/again [:twice]}]",
        "{}",
        "{:once 1 :twice 2 :sum 3 :>/again {:twice 2}}",
    );
    assert_eq!(SEEN.get(), 1);
}

#[test]
fn list_is_one_batch_and_nested_input_its_join() {
    BATCHES.set(0);
    let answered = ask("[{:items [:item :square]} :total]", "{}");
    assert_eq!(BATCHES.get(), 3, "a first part of the join, the rest of it, and the nested input");
    assert_eq!(answered.result.get("total"), Some(&Value::int((0..1000).map(|n| n * n).sum())));
    let items = answered.result.get("items").unwrap().as_slice().unwrap();
    assert_eq!(items[999].to_string(), "{:item 999 :square 998001}");
}

/// What goes one by one costs a batch resolver its purpose, and a list of thousands its time.
#[test]
fn placeholders_and_unions_in_list_are_batched() {
    let batches = |text: &str| {
        BATCHES.set(0);
        let answered = ask(text, "{}");
        let items = answered.result.get("items").unwrap().as_slice().unwrap().to_vec();
        (BATCHES.get(), items[3].to_string(), items.len())
    };
    assert_eq!(
        batches("[{:items [{:>/below [:square]} :square]}]"),
        (2, "{:>/below {:square 9} :square 9}".to_owned(), 1000)
    );
    assert_eq!(
        batches("[{:items [({:>/below [:square]} {:item 2}) :square]}]"),
        (3, "{:>/below {:square 4} :square 9}".to_owned(), 1000)
    );
    assert_eq!(
        batches("[{:items {:kind/x [:a] :square [:square :item]}}]"),
        (2, "{:square 9 :item 3}".to_owned(), 1000)
    );
    assert_eq!(
        batches("[{:items {:kind/x [:a] :item [:square]}}]"),
        (2, "{:square 9}".to_owned(), 1000),
        "what the branch asks, too"
    );
}

#[test]
fn turns_of_many_calls_are_looked_up_once() {
    let message = |n: usize| {
        let call =
            Block::ToolCall { id: format!("c-{n}").into(), name: "x".into(), arguments: Value::Nil.into() };
        let content = vec![Block::Text(format!("said {n}").into()), call];
        let mut message = Message::new(format!("e-{n}").into(), Role::Assistant, content, "".into());
        message.turn_id = Some(format!("t-{n}").into());
        Arc::new(message)
    };
    let facts = SessionFacts { phase: Phase::Streaming, ..SessionFacts::empty("s-1".into()) };
    let walks = |calls: usize, text: &str| {
        let process = Process::new((0..calls).map(message).collect(), facts.clone());
        let graph = edn_bridge::query::graph();
        let level = Level::new(&parse(text).unwrap(), &|name| graph.attr(name));
        let answered = run(graph, &process, &level, Map::new(), Vec::new()).unwrap();
        assert!(answered.result.to_string().contains(&format!("said {}", calls - 1)), "{answered:?}");
        process.session.walks.load(Ordering::SeqCst)
    };
    for text in [
        "[{:psi.agent-session/tool-lifecycle-summaries [{:>/turn [:psi.turn/text]}]}]",
        "[{:psi.agent-session/turns [:psi.turn/text :psi.turn/tool-calls]}]",
    ] {
        // Of many, a first part tells how large an answer is.
        assert_eq!(walks(2_000, text), walks(200, text), "{text}");
        assert!(walks(200, text) <= walks(2, text) + 2, "{text}");
    }
}

#[test]
fn failed_resolver_loses_only_its_attributes() {
    let answered = ask("[:a :broken :after-broken :mended :nothing :unknown]", "{}");
    assert_eq!(answered.result.to_string(), "{:a 1 :mended \"so\"}");
    assert_eq!(Value::vector(answered.missing).to_string(), "[:nothing :unknown]");
    assert_eq!(
        answered.errors.iter().map(|(key, why)| format!("{key} {why}")).collect::<Vec<_>>(),
        [
            ":broken {:resolver breaks :message \"It broke.\"}",
            ":after-broken {:resolver breaks :message \"It broke.\"}"
        ]
    );
}

#[test]
fn cycle_of_resolvers_is_cut_and_entered_at_known_attribute() {
    let answered = ask("[:ring/one]", "{}");
    assert_eq!(Value::vector(answered.missing).to_string(), "[:ring/one]");
    check("[:ring/one]", "{:ring/two 4}", "{:ring/one 4}");
    check("[:ring/two]", "{:ring/one 4}", "{:ring/two 4}");
}

#[test]
fn recursion_stops_at_its_bound_or_end_of_data() {
    check("[:n {:tree 1}]", "{:n 9}", "{:n 9 :tree [{:n 8}]}");
    check("[:n {:tree 2}]", "{:n 9}", "{:n 9 :tree [{:n 8 :tree [{:n 7}]}]}");
    check("[:n {:tree ...}]", "{:n 3}", "{:n 3 :tree [{:n 2 :tree [{:n 1}]}]}");
    let deep = ask("[{:tree ...}]", "{:n 100000}");
    assert!(deep.errors.iter().next().unwrap().1.to_string().contains("below 64 levels"), "{deep:?}");
}

#[test]
fn unions_placeholders_aliases_params_and_wildcards() {
    check(
        "[{:l {:kind/x [:y] :n [:n]}}]",
        "{:l [{:kind/x 1 :y 2} {:n 3} {:z 4}]}",
        "{:l [{:y 2} {:n 3} {}]}",
    );
    check("[({:>/p [:c]} {:a 3}) :c]", "{}", "{:>/p {:c 47} :c 27}");
    check("[(:echo {:x 1}) (:echo {:x 2 :pathom/as :two})]", "{}", "{:echo {:x 1} :two {:x 2}}");
    check("[*]", "{:a 1 :own {:b 2}}", "{:a 1 :own {:b 2}}");
    check("[([:echo _] {:x 1})]", "{}", "{:echo {:x 1}}");
    check("[{[:a 4] [:b]} {[:q _] [:r]} [:q _]]", "{:q {:r 1}}", "{[:a 4] {:b 5} :q {:r 1}}");
    check("[{:s [:t]} {:e [:t]}]", "{:s \"plain\" :e []}", "{:s \"plain\" :e []}");
}

/// Ways lead in rings, from a message to its id and back: whatever is asked of whatever is known comes to an end.
#[test]
fn any_attribute_of_any_entity_can_select_a_branch() {
    let graph = edn_bridge::query::graph();
    let process = talk();
    let mut entities = BTreeSet::from(["[]".to_owned()]);
    for (_, node) in graph.resolvers() {
        for output in node.spec.output.iter().filter(|output| !output.sub.is_empty()) {
            let known = output.sub.iter().map(|known| known.name).filter(|name| graph.attr(name).is_some());
            entities.insert(Value::vector(known.map(Value::keyword)).to_string());
        }
    }
    assert!(entities.len() > 25, "{}", entities.len());
    for (_, name, _) in graph.attributes() {
        let ask = |join: &str, entity: Map<'static>| {
            let text =
                format!("[{{{join} {{:{name} [:{name} {{:>/again [:{name}]}}]}}}} {{{join} [:{name}]}}]");
            let level = Level::new(&parse(&text).unwrap(), &|name| graph.attr(name));
            run(graph, &process, &level, entity, Vec::new()).unwrap();
        };
        ask(":psi.agent-session/messages", Map::new());
        ask(":psi.session/live", Map::new());
        for keys in &entities {
            let keys = edn::read_one(keys.as_bytes()).unwrap().into_owned();
            let one: Map<'static> =
                keys.as_slice().unwrap().iter().map(|key| (key.clone(), Value::from("x"))).collect();
            ask(":one", Map::new().with("one", Value::from(one)));
        }
    }
}

#[test]
fn missing_attribute_in_list_is_named_once_with_path() {
    let answered = ask("[{:items [:unknown]}]", "{}");
    assert_eq!(Value::vector(answered.missing).to_string(), "[[:items :unknown]]");
}

#[test]
fn answer_is_bounded_in_size_and_time() {
    let graph = Graph::new(&[PART, NOTHING], &[]).unwrap();
    let level = Level::new(&parse("[{:items [:item :square]}]").unwrap(), &|name| graph.attr(name));
    let ask =
        |meter| run_within(meter, &graph, &Process::empty(), &level, Map::new(), Vec::new()).map(|_| ());
    let meter = |steps, bytes| Meter::new(steps, bytes);
    assert_eq!(ask(meter(20_000, 2_000_000)), Ok(()));
    assert_eq!(ask(meter(2_000, 2_000_000)), Err(Exhausted::Steps), "a thousand items, two attributes each");
    assert_eq!(ask(meter(20_000, 200_000)), Err(Exhausted::Bytes), "a thousand entities");
    assert_eq!(ask(meter(20_000, 2_000_000).until(Some(Instant::now()))), Err(Exhausted::Time));
}

#[test]
fn wrong_declarations_are_refused() {
    const CYCLE: &[Resolver] = &[R::one("x", &[Input::Required("x")], &[out("x")], |_, _| Ok(Vec::new()))];
    const OTHERWISE: Output = Output { name: "a", doc: "Otherwise.", sub: &[] };
    const TWICE: &[Resolver] = &[R::one("again", &[], &[OTHERWISE], |_, _| Ok(Vec::new()))];
    assert!(matches!(Graph::new(&[PART, NOTHING, TWICE], &[]), Err(GraphError::Twice("a"))));
    assert!(matches!(Graph::new(&[CYCLE], &[]), Err(GraphError::Cycle { .. })));
    assert!(matches!(Graph::new(&[PART], &[]), Err(GraphError::Undeclared { .. })));
    assert!(matches!(Graph::new(&[PART, NOTHING, NOTHING], &[]), Err(GraphError::Twice(_))));
}

#[test]
fn tool_calls_are_derived_from_messages() {
    let answered = ask_in(
        edn_bridge::query::graph(),
        "[{:psi.agent-session/tool-lifecycle-summaries [*]} :psi.turn/tool-call-count]",
        "{}",
    );
    let calls =
        answered.result.get("psi.agent-session/tool-lifecycle-summaries").unwrap().as_slice().unwrap();
    assert_eq!(
        calls[0].to_string(),
        "{:psi.tool-lifecycle.summary/tool-id \"c-1\" :psi.tool-lifecycle.summary/tool-name \"read\" \
         :psi.tool-lifecycle.summary/arguments \"{:path \\\"x\\\"}\" :psi.tool-lifecycle.summary/parsed-args {:path \"x\"} \
         :psi.tool-lifecycle.summary/result-text \"text\" :psi.tool-lifecycle.summary/is-error false \
         :psi.tool-lifecycle.summary/completed? true \
         :psi.tool-lifecycle.summary/status :completed :psi.tool-lifecycle.summary/proposed-at \"\" \
         :psi.tool-lifecycle.summary/duration-ms nil :psi.turn/id nil}"
    );
    assert_eq!(calls[1].get("psi.tool-lifecycle.summary/completed?"), Some(&Value::bool(false)));
    // Its turn does not run, and there is no result: there never will be.
    assert_eq!(calls[1].get("psi.tool-lifecycle.summary/status"), Some(&Value::keyword("lost")));
}
