//! What a query costs: twenty attributes of a session, a join over its messages at two sizes, parsing,
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

use edn_bridge::message::{Block, Message, Role, SessionId};
use edn_bridge::query::compile::Level;
use edn_bridge::query::parse::parse;
use edn_bridge::query::resolvers::session::SessionFact;
use edn_bridge::query::world::{
    ConnectionFacts, EntryView, ProcessFacts, QuestionFacts, QueuedView, SessionInfo, SessionView, Setting,
    StoreFacts, World,
};
use edn_bridge::query::{graph, prepare};
use edn_bridge::session::Query;
use edn_bridge::value::{Map, Owned, Value};

const TWENTY: &str = "[:psi.agent-session/session-id :psi.agent-session/session-name \
    :psi.agent-session/session-display-name :psi.agent-session/session-file :psi.agent-session/worktree-path \
    :psi.agent-session/git-branch :psi.agent-session/phase :psi.agent-session/is-streaming \
    :psi.agent-session/is-compacting :psi.agent-session/model-provider :psi.agent-session/model-id \
    :psi.agent-session/model-reasoning :psi.agent-session/thinking-level :psi.agent-session/usage-input \
    :psi.agent-session/usage-output :psi.agent-session/usage-cost-total :psi.agent-session/context-fraction \
    :psi.agent-session/context-window :psi.agent-session/message-count :psi.agent-session/created-at]";
const JOIN: &str = "[{:psi.agent-session/messages [:psi.message/id :psi.message/role :psi.message/text :psi.message/timestamp]}]";

struct Fake {
    focus: SessionId,
    session: Arc<Session>,
}

struct Session {
    id: SessionId,
    messages: Vec<Arc<Message>>,
}

impl SessionView for Session {
    fn prompt_parts(&self) -> Vec<Value<'static>> {
        Vec::new()
    }
    fn skills(&self) -> Vec<Value<'static>> {
        Vec::new()
    }
    fn context_problems(&self) -> Vec<Value<'static>> {
        Vec::new()
    }
    fn id(&self) -> &SessionId {
        &self.id
    }
    fn fact(&self, fact: SessionFact) -> Owned {
        match fact {
            SessionFact::SessionId => self.id.to_value(),
            SessionFact::IsStreaming | SessionFact::IsCompacting | SessionFact::ModelReasoning => true.into(),
            SessionFact::UsageInput | SessionFact::UsageOutput => 12_345.into(),
            SessionFact::ContextFraction | SessionFact::UsageCostTotal => 0.25.into(),
            _ => Value::from("a text of usual length".to_owned()),
        }
    }
    fn messages(&self) -> Vec<Arc<Message>> {
        self.messages.clone()
    }
    fn entries(&self) -> Vec<EntryView> {
        Vec::new()
    }
    fn queue(&self) -> Vec<QueuedView> {
        Vec::new()
    }
    fn stage(&self) -> Option<Arc<Map<'static>>> {
        None
    }
    fn stats(&self) -> Map<'static> {
        Map::new()
    }
}

impl World for Fake {
    fn focus(&self) -> &SessionId {
        &self.focus
    }
    fn session(&self, id: &str) -> Option<Arc<dyn SessionView>> {
        (self.focus.as_str() == id).then(|| self.session.clone() as Arc<dyn SessionView>)
    }
    fn live(&self) -> Vec<Arc<dyn SessionView>> {
        vec![self.session.clone()]
    }
    fn list(&self, _: bool, _: usize) -> Vec<SessionInfo> {
        Vec::new()
    }
    fn models(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn providers(&self) -> Vec<String> {
        Vec::new()
    }
    fn connections(&self) -> Vec<ConnectionFacts> {
        Vec::new()
    }
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }
    fn process(&self) -> ProcessFacts {
        ProcessFacts::default()
    }
    fn jobs(&self, _: &SessionId) -> Vec<Owned> {
        Vec::new()
    }
    fn tools(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn questions(&self) -> Vec<QuestionFacts> {
        Vec::new()
    }
    fn stages(&self) -> Vec<&'static str> {
        Vec::new()
    }
    fn hooks(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn store(&self) -> StoreFacts {
        StoreFacts::default()
    }
    fn notes(&self) -> Option<Vec<Owned>> {
        None
    }
    fn search_notes(&self, _: &str) -> Vec<Value<'static>> {
        Vec::new()
    }
}

fn world(messages: usize) -> Fake {
    let message = |n: usize| {
        let text = Block::Text(format!("message {n}: {}", "some words of text ".repeat(10)).into());
        Arc::new(Message::new(
            format!("e-{n}").into(),
            Role::User,
            vec![text],
            "2026-01-01T00:00:00.000Z".into(),
        ))
    };
    let id = SessionId::from("s-1");
    Fake {
        focus: id.clone(),
        session: Arc::new(Session { id, messages: (0..messages).map(message).collect() }),
    }
}

/// Median and least of many runs.
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
    let query = |text: &str| Query { text: text.to_owned(), entity: None, strict: true };
    let ask = |query: &Query, world: &Fake| {
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
    let join = query(JOIN);
    for (count, goal) in [(1_000, "1,000"), (10_000, "10,000"), (100_000, "100,000")] {
        let world = world(count);
        show(&format!("join over {count} messages, 4 attributes"), goal, measure(20, || ask(&join, &world)));
    }
}
