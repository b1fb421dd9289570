//! The cost of queries: twenty attributes of a session, joins over its messages at three sizes, parsing,
//! planning. `cargo bench --bench query` prints a table.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use edn_bridge::facts::{Phase, SessionFacts};
use edn_bridge::message::{Block, Message, Role, Usage};
use edn_bridge::query::compile::Level;
use edn_bridge::query::parse::parse;
use edn_bridge::query::{graph, prepare};
use edn_bridge::session::GraphQuery;
use edn_bridge::value::{Map, Value};
use query_support::Process;

#[path = "../tests/query_support/mod.rs"]
mod query_support;

const TWENTY: &str = "[:psi.agent-session/session-id :psi.agent-session/session-name \
    :psi.agent-session/session-display-name :psi.agent-session/session-file :psi.agent-session/worktree-path \
    :psi.agent-session/git-branch :psi.agent-session/phase :psi.agent-session/is-streaming \
    :psi.agent-session/is-compacting :psi.agent-session/model-provider :psi.agent-session/model-id \
    :psi.agent-session/model-reasoning :psi.agent-session/thinking-level :psi.agent-session/usage-input \
    :psi.agent-session/usage-output :psi.agent-session/usage-cost-total :psi.agent-session/context-fraction \
    :psi.agent-session/context-window :psi.agent-session/message-count :psi.agent-session/created-at]";
const UNION: &str = "[{:psi.agent-session/messages {:psi.message/tool-call-id [:psi.message/text] :psi.message/id [:psi.message/role]}}]";
const THROUGH: &str = "[{:psi.agent-session/tool-lifecycle-summaries [:psi.tool-lifecycle.summary/tool-name {:>/turn [:psi.turn/text]}]}]";
const NEWEST: &str = "[:psi.turn/text {(:psi.agent-session/messages {:limit 1}) [:psi.message/text]}]";
const JOIN: &str = "[{:psi.agent-session/messages [:psi.message/id :psi.message/role :psi.message/text :psi.message/timestamp]}]";

fn facts() -> SessionFacts {
    let text: Arc<str> = "a text of usual length".into();
    SessionFacts {
        name: Some(text.clone()),
        location: Some(text.clone()),
        git_branch: Some(text.clone()),
        cwd: text.clone(),
        created_at: text.clone(),
        model_provider: text.clone(),
        model_id: text,
        phase: Phase::Streaming,
        model_reasoning: true,
        usage: Usage { input: 12_345, output: 12_345, cost: 0.25, ..Usage::default() },
        context_tokens: 25,
        context_window: 100,
        ..SessionFacts::empty("s-1".into())
    }
}

fn world(messages: usize) -> Process {
    let message = |n: usize| {
        let text = Block::Text(format!("message {n}: {}", "some words of text ".repeat(10)).into());
        let call = Block::ToolCall {
            id: format!("c-{n}").into(),
            name: "read".into(),
            arguments: Value::from(Map::new().with("path", "file")).into(),
        };
        let (role, content) =
            if n.is_multiple_of(2) { (Role::User, vec![text]) } else { (Role::Assistant, vec![text, call]) };
        let mut message =
            Message::new(format!("e-{n}").into(), role, content, "2026-01-01T00:00:00.000Z".into());
        message.turn_id = Some(format!("t-{}", n / 2).into());
        Arc::new(message)
    };
    Process::new((0..messages).map(message).collect(), facts())
}

/// Median and minimum of many runs.
fn measure(rounds: usize, mut run: impl FnMut()) -> (Duration, Duration) {
    run();
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    (times[times.len() / 2], times[0])
}

fn show(what: &str, goal: &str, (median, least): (Duration, Duration)) {
    println!("{what:44} {:>12.2} {:>12.2}   {goal}", micros(median), micros(least));
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn main() {
    let start = Instant::now();
    black_box(graph());
    let built = start.elapsed();
    println!("{:44} {:>12} {:>12}   goal", "microseconds", "median", "least");
    show("make the graph, once", "", (built, built));
    let query = |text: &str| GraphQuery { text: text.to_owned(), entity: None, strict: true };
    let ask = |query: &GraphQuery, world: &Process| {
        black_box(prepare(query).unwrap().run(world, Vec::new()).unwrap());
    };
    let small = world(10);
    let twenty = query(TWENTY);
    show("20 attributes", "20", measure(20_000, || ask(&twenty, &small)));
    show(
        "20 attributes, parsed and planned anew",
        "",
        measure(5_000, || {
            let level = Level::new(&parse(TWENTY).unwrap(), &|name| graph().attr(name));
            black_box(
                edn_bridge::query::run::run(graph(), &small, &level, Default::default(), Vec::new()).unwrap(),
            );
        }),
    );
    show(
        "parse alone",
        "",
        measure(5_000, || {
            black_box(parse(TWENTY).unwrap());
        }),
    );
    // Costs that grow with the messages, at three sizes: ten times as many may take ten times as long.
    for (text, what) in [
        (JOIN, "a join over all, 4 attributes"),
        (UNION, "a union over all, 2 branches"),
        (THROUGH, "the turn of each tool call"),
        (NEWEST, "the last turn and message alone"),
    ] {
        let query = query(text);
        for (count, goal) in [(1_000, ""), (10_000, if text == JOIN { "10,000" } else { "" }), (100_000, "")]
        {
            let world = world(count);
            show(&format!("{count} messages: {what}"), goal, measure(20, || ask(&query, &world)));
        }
    }
}
