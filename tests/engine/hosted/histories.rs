//! Random conversations, written for each target and judged by the published rules of its server.
//!
//! A conversation has parts of all kinds, of the target itself and of others, images, aborts, and calls without a result or
//! with several. The usual suite tries some hundred for each protocol; `EDN_BRIDGE_HISTORIES=10000` sets another number.

use std::sync::{Arc, LazyLock};

use edn_bridge::edn;
use edn_bridge::message::{Block, Message, Replay, Role, StopReason, ThinkingLevel};
use edn_bridge::provider::hosted::Hosted;
use edn_bridge::provider::{ModelRequest, Provider as _, ThinkingBy, ToolSpec};
use edn_bridge::value::{Map, Value};
use futures_util::StreamExt as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use regex_automata::meta::Regex;
use serde_json::{Value as Json, json};

use super::{named, words};
use crate::support;
use crate::support::request_rules::{self, png};
use crate::support::server::{Answer, Server};

/// Who gave an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Origin {
    /// The target.
    Own,
    /// The target, with another account.
    OtherAccount,
    OtherModel,
    OtherProvider,
}

/// A part of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    /// Thinking that its server wants back.
    Thinking,
    /// Thinking that it does not.
    Shown,
    Redacted,
    Text,
    Cited,
    Blank,
    /// A call, with the numbers of its name and of its id, and what became of it.
    Call(usize, usize, Fate),
    /// A search of the server, with its result or cut off.
    Search(bool),
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Answered,
    WithImage,
    Lost,
    Twice,
    /// After what the user said next.
    Late,
}

#[derive(Debug, Clone)]
enum Step {
    User(Vec<Option<usize>>),
    System,
    Answer(Origin, Vec<Part>),
    /// A result that belongs to no call.
    Stray,
}

const NAMES: [&str; 5] = ["read", "functions.bash", "", "7 zip é", "mcp__server__tool"];
const IDS: [&str; 6] = ["", "call_1", "functions.read:0", "abcdefghi", "toolu_01", "call_1"];

fn part() -> impl Strategy<Value = Part> {
    let fate = prop_oneof![
        6 => Just(Fate::Answered),
        1 => Just(Fate::WithImage),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Late),
    ];
    prop_oneof![
        3 => Just(Part::Thinking),
        1 => Just(Part::Shown),
        1 => Just(Part::Redacted),
        3 => Just(Part::Text),
        1 => Just(Part::Cited),
        1 => Just(Part::Blank),
        4 => (0..NAMES.len(), 0..IDS.len(), fate).prop_map(|(name, id, fate)| Part::Call(name, id, fate)),
        1 => any::<bool>().prop_map(Part::Search),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let origin = prop_oneof![
        4 => Just(Origin::Own),
        1 => Just(Origin::OtherAccount),
        1 => Just(Origin::OtherModel),
        1 => Just(Origin::OtherProvider),
    ];
    let image = prop_oneof![
        4 => Just(None),
        2 => Just(Some(8)),
        1 => Just(Some(2001)),
        1 => Just(Some(8001)),
    ];
    prop_oneof![
        4 => proptest::collection::vec(image, 1..4).prop_map(Step::User),
        1 => Just(Step::User(vec![Some(8); 9])),
        1 => Just(Step::User([vec![Some(8); 22], vec![Some(2001)]].concat())),
        1 => Just(Step::System),
        8 => (origin, proptest::collection::vec(part(), 0..6)).prop_map(|(origin, parts)| Step::Answer(origin, parts)),
        1 => Just(Step::Stray),
    ]
}

/// A target: its protocol, the provider's name and the model.
type Target = (String, String, String);

/// The targets of each row of the table, and of a provider that has none.
fn targets(api: &str) -> Vec<Target> {
    let text = include_str!("../../../src/provider/takes.edn");
    let table = edn::read_one(text.as_bytes()).unwrap();
    let texts = |row: &Value<'_>, key: &str| -> Vec<String> {
        let listed = row.get(key).and_then(Value::as_slice).unwrap_or_default().iter();
        listed.map(|word| word.as_keyword().or(word.as_str()).unwrap().to_owned()).collect()
    };
    let mut targets: Vec<Target> =
        ["gemini-3-pro", "m"].map(|model| (api.into(), "p".into(), model.into())).into();
    for row in table.as_slice().unwrap() {
        let apis = texts(row, "api");
        if !apis.is_empty() && !apis.iter().any(|known| known == api) {
            continue;
        }
        // The other names of a row are addresses.
        let at = texts(row, "at").into_iter().next().unwrap_or_else(|| "p".to_owned());
        for model in texts(row, "model").into_iter().chain(["m".to_owned()]) {
            targets.push((api.to_owned(), at.clone(), format!("{model}-1")));
        }
    }
    targets.push((api.to_owned(), "openrouter".to_owned(), "mistral-1".to_owned()));
    targets.push((api.to_owned(), "vllm".to_owned(), "mistral-1".to_owned()));
    targets
}

/// The messages of a conversation, and the number of its calls.
struct History {
    messages: Vec<Arc<Message>>,
    late: Vec<Arc<Message>>,
    target: Target,
    answers: usize,
}

impl History {
    fn of(steps: &[Step], target: &Target) -> Vec<Arc<Message>> {
        let mut history = Self { messages: Vec::new(), late: Vec::new(), target: target.clone(), answers: 0 };
        for step in steps {
            history.add(step);
        }
        history.messages
    }

    fn push(&mut self, role: Role, content: Vec<Block>, change: impl FnOnce(&mut Message)) {
        let id = format!("e{}", self.messages.len());
        let mut message = Message::new(id.into(), role, content, "".into());
        change(&mut message);
        self.messages.push(Arc::new(message));
    }

    fn add(&mut self, step: &Step) {
        match step {
            Step::User(parts) => {
                let image = |side: &Option<usize>| match side {
                    None => Block::Text("said".into()),
                    Some(side) => Block::Image { mime_type: "image/png".into(), data: png(*side, 0).into() },
                };
                self.push(Role::User, parts.iter().map(image).collect(), |_| {});
                let late = std::mem::take(&mut self.late);
                self.messages.extend(late);
            }
            Step::System => self.push(Role::System, vec![Block::Text("note".into())], |_| {}),
            Step::Stray => self.result("stray", "read", false),
            Step::Answer(origin, parts) => self.answer(*origin, parts),
        }
    }

    fn result(&mut self, id: &str, name: &str, with_image: bool) {
        let mut content = vec![Block::Text(if with_image { "An image" } else { " " }.into())];
        if with_image {
            content.push(Block::Image { mime_type: "image/png".into(), data: png(8, 0).into() });
        }
        self.push(Role::Tool, content, |message| {
            message.tool_call_id = Some(id.into());
            message.tool_name = Some(name.into());
        });
    }

    fn answer(&mut self, origin: Origin, parts: &[Part]) {
        self.answers += 1;
        let answer = self.answers;
        let (mut content, mut replays, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for (place, part) in parts.iter().enumerate() {
            // Tells where a part was, wherever it goes.
            let tag = format!("<A{answer}.{place}>");
            let mut data = |at: usize, is_attached: bool, data: Option<Map<'static>>| {
                replays.extend(data.map(|data| Replay {
                    place: at,
                    is_attached,
                    data: self.sourced(origin, data),
                }));
            };
            match part {
                Part::Thinking => {
                    content.push(Block::thinking(tag.clone()));
                    data(content.len(), self.target.0 == "gemini", thought(&self.target.0, &tag, origin));
                }
                Part::Shown => content.push(Block::thinking("only shown")),
                Part::Redacted if self.target.0 == "anthropic" => {
                    data(content.len(), false, Some(Map::new().with("redacted", tag.clone())));
                }
                Part::Redacted => {}
                Part::Text => content.push(Block::Text(tag.clone().into())),
                Part::Cited => {
                    content.push(Block::Text(tag.clone().into()));
                    let citations =
                        json!([{"type": "web_search_result_location", "url": "u", "cited_text": tag}]);
                    let cited = Map::new().with("citations", citations.to_string());
                    data(content.len(), true, (self.target.0 == "anthropic").then_some(cited));
                }
                Part::Blank => content.push(Block::Text("  \n".into())),
                Part::Call(name, id, fate) => {
                    let id = IDS[*id].to_owned();
                    let arguments = Value::from(Map::new().with("tag", tag.clone()));
                    content.push(Block::ToolCall {
                        id: id.as_str().into(),
                        name: NAMES[*name].into(),
                        arguments: arguments.into(),
                    });
                    let signature = (self.target.0 == "gemini" && origin == Origin::Own)
                        .then(|| Map::new().with("signature", tag.clone()));
                    data(content.len(), true, signature);
                    calls.push((id, NAMES[*name], *fate));
                }
                Part::Search(is_answered) => {
                    for raw in search(&self.target.0, &tag, *is_answered) {
                        data(content.len(), false, Some(Map::new().with("raw", raw.to_string())));
                    }
                }
            }
        }
        self.push(Role::Assistant, content, |message| {
            message.replays = replays;
            message.stop_reason =
                calls.iter().any(|call| call.2 == Fate::Lost).then_some(StopReason::Aborted);
        });
        for (id, name, fate) in calls {
            match fate {
                Fate::Answered => self.result(&id, name, false),
                Fate::WithImage => self.result(&id, name, true),
                Fate::Lost => {}
                Fate::Twice => (0..2).for_each(|_| self.result(&id, name, false)),
                Fate::Late => {
                    self.result(&id, name, false);
                    self.late.extend(self.messages.pop());
                }
            }
        }
    }

    /// Data with its origin.
    fn sourced(&self, origin: Origin, data: Map<'static>) -> Value<'static> {
        let (_, provider, model) = &self.target;
        let mut sourced = Map::new();
        sourced.put(
            "provider",
            if origin == Origin::OtherProvider { "other".to_owned() } else { provider.clone() },
        );
        sourced.put("model", if origin == Origin::OtherModel { "other".to_owned() } else { model.clone() });
        sourced.put_some("account", (origin == Origin::OtherAccount).then_some("salt:other"));
        sourced.put("data", Value::from(data));
        Value::from(sourced)
    }
}

/// The data of a piece of thinking, as its protocol wants it back.
fn thought(api: &str, tag: &str, origin: Origin) -> Option<Map<'static>> {
    let is_own = origin == Origin::Own;
    let secret = if is_own { tag.to_owned() } else { format!("FOREIGN {tag}") };
    Some(match api {
        "anthropic" => Map::new().with("thinking", tag.to_owned()).with("signature", secret),
        "openai-responses" => {
            let id = format!("rs_{}", tag.trim_matches(['<', '>']));
            let item = json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": secret});
            Map::new().with("item", item.to_string())
        }
        "openai" => Map::new().with("field", "reasoning_content"),
        // A signature of its own, without text.
        _ => Map::new().with("signature", secret),
    })
}

/// The items of a server's search.
fn search(api: &str, tag: &str, is_answered: bool) -> Vec<Json> {
    let id = format!("srvtoolu_{}", tag.trim_matches(['<', '>']).replace('.', "_"));
    match api {
        "anthropic" => {
            let call =
                json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": tag}});
            let result = json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
            std::iter::once(call).chain(is_answered.then_some(result)).collect()
        }
        "openai-responses" => vec![json!({"type": "web_search_call", "id": id, "status": "completed"})],
        _ => Vec::new(),
    }
}

/// The tags in a request, in their order: the number of the answer, and of the part.
fn tags(body: &Json) -> Vec<(usize, usize)> {
    static TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<A(\d+)\.(\d+)>").unwrap());
    let text = body.to_string();
    let number = |captures: &regex_automata::util::captures::Captures, group| {
        text[captures.get_group(group).unwrap().range()].parse().unwrap()
    };
    TAG.captures_iter(&text).map(|found| (number(&found, 1), number(&found, 2))).collect()
}

fn count() -> u32 {
    std::env::var("EDN_BRIDGE_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

/// A target's provider, and a server that stands for the real one.
struct Peer {
    target: Target,
    server: Server,
    provider: Hosted,
}

impl Peer {
    fn new(target: Target) -> Self {
        let server = Server::new([Answer::events(words(&target.0, "ok"))]);
        let provider = named(&server, &target.1, &target.0, "");
        Self { target, server, provider }
    }
}

fn tries(api: &str) {
    let peers: Vec<Peer> = targets(api).into_iter().map(Peer::new).collect();
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases: count(), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let settings = (
        0..peers.len(),
        prop_oneof![Just(None), Just(Some(ThinkingBy::Budget)), Just(Some(ThinkingBy::Effort))],
        prop_oneof![Just(ThinkingLevel::Off), Just(ThinkingLevel::Low), Just(ThinkingLevel::Xhigh)],
        prop_oneof![Just(None), Just(Some(1000)), Just(Some(64_000))],
        proptest::collection::vec(step(), 0..10),
    );
    let tried = runner.run(&settings, |(peer, thinking_by, thinking, max_output_tokens, steps)| {
        let Peer { target, server, provider } = &peers[peer];
        let messages = History::of(&steps, target);
        let schema = Value::from(Map::new().with("type", "object"));
        let tool = ToolSpec { name: "read".into(), description: "Reads".into(), parameters: schema };
        let request = ModelRequest {
            model: target.2.clone(),
            system: "Be brief.".into(),
            messages: messages.clone(),
            tools: vec![tool],
            thinking,
            thinking_by,
            max_output_tokens,
            ..ModelRequest::default()
        };
        // Those of a case that failed.
        drop((server.all_asked(), server.refusals()));
        let chunks: Vec<_> = executor.block_on(async {
            tokio::time::timeout(support::PATIENCE, provider.stream(request).collect()).await.unwrap()
        });
        let body = server.asked().json();
        let refusals = server.refusals();
        prop_assert!(refusals.is_empty(), "{target:?}: {refusals:?}\n{body:#}");
        prop_assert!(chunks.iter().all(Result::is_ok), "{target:?}: {chunks:?}\n{body:#}");
        prop_assert!(server.all_asked().is_empty(), "one request is enough");
        // Nothing of another goes to the target, no call is lost, and all keeps its order.
        prop_assert!(!body.to_string().contains("FOREIGN"), "{target:?}\n{body:#}");
        let calls = |message: &Arc<Message>| {
            message.content.iter().filter(|block| matches!(block, Block::ToolCall { .. })).count()
        };
        let expected: usize = messages.iter().map(calls).sum();
        prop_assert_eq!(
            request_rules::count_of_calls(api, &body),
            (expected, expected),
            "{:?}\n{:#}",
            target,
            body
        );
        // Chat Completions has a field for each kind.
        let tags = tags(&body);
        let is_ordered = api == "openai" || tags.is_sorted();
        prop_assert!(is_ordered, "{target:?}: {tags:?}\n{body:#}");
        Ok(())
    });
    if let Err(failure) = tried {
        panic!("{api}: {failure}");
    }
}

#[test]
fn random_history_is_taken_by_openai() {
    tries("openai");
}

#[test]
fn random_history_is_taken_by_responses() {
    tries("openai-responses");
}

#[test]
fn random_history_is_taken_by_anthropic() {
    tries("anthropic");
}

#[test]
fn random_history_is_taken_by_gemini() {
    tries("gemini");
}

#[test]
fn every_published_rule_refuses_its_example() {
    for (check, judged) in request_rules::examples() {
        assert_eq!(judged.map_err(|refusal| refusal.check), Err(check.clone()), "{check}");
    }
}
