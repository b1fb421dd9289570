//! A model that answers from a file, for tests, demonstrations and load.
//!
//! Knows the script's format and plays it. Reads EDN through the codec. Uses the clock of the async runtime,
//! so that a test can stop it.
//!
//! A script is `{:turns [turn …] :then :repeat-last}`. One turn answers one model call, whichever
//! session asks: `{:steps [step …] :usage {:input n :output n} :stop-reason "end-turn"}`. The steps:
//!
//! | step | plays |
//! |---|---|
//! | `{:delta "text"}` | a piece of text |
//! | `{:deltas n :of "text"}` | the same piece n times |
//! | `{:echo :last-user}` | the user's last message, word by word |
//! | `{:thinking "text"}` | a piece of thinking |
//! | `{:tool-call {:id "…" :name "bash" :arguments {…}}}` | a tool call; the id may be left out |
//! | `{:sleep-ms n}` | a pause |
//! | `{:error {:kind :overloaded :message "…" :retry-after-ms n}}` | a failure, which ends the turn |
//!
//! After the last turn: `:repeat-last` (the default), `:cycle` from the first turn, or `:fail`.

use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::time::Sleep;

use super::{AnswerEnd, Chunk, ChunkStream, ErrorKind, ModelRequest, Provider, ProviderError};
use crate::limits;
use crate::message::Role;

mod script;

pub use script::ScriptError;
use script::{Script, ScriptedAnswer, ScriptedStep, Then};

/// The name of the provider.
pub const NAME: &str = "scripted";

/// A script as a provider.
pub struct Scripted {
    script: Script,
    /// Model calls so far, in all sessions.
    calls: AtomicUsize,
    /// Tool calls without an id of their own so far.
    unnamed: Arc<AtomicU64>,
}

impl Scripted {
    /// Reads a script from a file.
    ///
    /// # Errors
    /// See [`ScriptError`]. `-` is refused: standard input is the wire.
    pub fn from_file(path: &Path) -> Result<Self, ScriptError> {
        Script::from_file(path).map(Self::playing)
    }

    /// Reads a script from memory. `name` replaces the file's name in error messages.
    ///
    /// # Errors
    /// See [`ScriptError`].
    pub fn from_bytes(name: &Path, bytes: &[u8]) -> Result<Self, ScriptError> {
        Script::from_bytes(name, bytes).map(Self::playing)
    }

    fn playing(script: Script) -> Self {
        Self { script, calls: AtomicUsize::new(0), unnamed: Arc::new(AtomicU64::new(0)) }
    }
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        NAME
    }

    fn stream(&self, request: ModelRequest) -> ChunkStream {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let last = self.script.turns.len().saturating_sub(1);
        let place = match self.script.then {
            Then::RepeatLast => call.min(last),
            Then::Cycle => call.checked_rem(self.script.turns.len()).unwrap_or(0),
            Then::Fail => call,
        };
        let Some(turn) = self.script.turns.get(place) else {
            let message =
                format!("the script {} has no turn for model call {}", self.script.name.display(), call + 1);
            let error = ProviderError::new(ErrorKind::Fatal, message);
            return Box::pin(futures_util::stream::iter([Err(error)]));
        };
        let last_user = request.messages.iter().rev().find(|message| message.role == Role::User);
        Box::pin(Playing {
            turn: turn.clone(),
            unnamed: self.unnamed.clone(),
            last_user: last_user.map(|message| message.text()).unwrap_or_default(),
            next_step: 0,
            tool_calls: 0,
            pending: Pending::Nothing,
            burst: 0,
            end: End::Ahead,
        })
    }
}

/// A turn that is playing.
struct Playing {
    turn: Arc<ScriptedAnswer>,
    unnamed: Arc<AtomicU64>,
    last_user: String,
    next_step: usize,
    tool_calls: usize,
    /// The rest of the step before `next_step`.
    pending: Pending,
    /// Chunks since other tasks last had a chance to run.
    burst: u32,
    end: End,
}

/// The rest of a step with more than one chunk.
enum Pending {
    Nothing,
    Deltas { left: u64 },
    Chunks(VecDeque<Chunk>),
    Pause(Pin<Box<Sleep>>),
}

/// The part of a turn's end that comes next.
#[derive(Clone, Copy)]
enum End {
    Ahead,
    Usage,
    Over,
}

impl Stream for Playing {
    type Item = Result<Chunk, ProviderError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let playing = self.get_mut();
        // A stream that is always ready would keep its task from ever yielding.
        if playing.burst >= limits::SCRIPT_BURST {
            playing.burst = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = playing.poll_chunk(context);
        playing.burst = if next.is_ready() { playing.burst + 1 } else { 0 };
        next
    }
}

impl Playing {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, ProviderError>>> {
        loop {
            match &mut self.pending {
                Pending::Nothing => {}
                Pending::Deltas { left } => {
                    let step = self.next_step.checked_sub(1).and_then(|place| self.turn.steps.get(place));
                    if let (Some(ScriptedStep::Deltas { of, .. }), 1..) = (step, *left) {
                        *left -= 1;
                        return Poll::Ready(Some(Ok(Chunk::Text(of.clone()))));
                    }
                }
                Pending::Chunks(chunks) => {
                    if let Some(chunk) = chunks.pop_front() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
                Pending::Pause(sleep) => {
                    if sleep.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
            self.pending = Pending::Nothing;
            if let Some(next) = self.begin_step() {
                return Poll::Ready(next);
            }
        }
    }

    /// Starts the next step, or the next part of the turn's end. `None` if that left something pending, or
    /// nothing at all.
    fn begin_step(&mut self) -> Option<Option<Result<Chunk, ProviderError>>> {
        let Some(step) = self.turn.steps.get(self.next_step) else { return self.begin_end() };
        self.next_step += 1;
        match step {
            ScriptedStep::Thinking(text) => return ready(Chunk::Thinking(text.clone())),
            ScriptedStep::Deltas { count, .. } => self.pending = Pending::Deltas { left: *count },
            ScriptedStep::EchoLastUser => {
                let words = self.last_user.split_inclusive(char::is_whitespace);
                self.pending = Pending::Chunks(words.map(|word| Chunk::Text(word.to_owned())).collect());
            }
            ScriptedStep::ToolCall { id, name, arguments, written } => {
                let id = id.clone().unwrap_or_else(|| {
                    let number = self.unnamed.fetch_add(1, Ordering::Relaxed) + 1;
                    format!("call-{number}").into()
                });
                let pieces = Chunk::ToolArguments {
                    index: self.tool_calls,
                    id: id.clone(),
                    name: name.clone(),
                    delta: written.clone(),
                };
                let call = Chunk::ToolCall { id, name: name.clone(), arguments: arguments.clone().into() };
                self.tool_calls += 1;
                self.pending = Pending::Chunks([pieces, call].into());
            }
            ScriptedStep::Sleep(pause) => self.pending = Pending::Pause(Box::pin(tokio::time::sleep(*pause))),
            ScriptedStep::Fail(error) => {
                self.next_step = self.turn.steps.len();
                self.end = End::Over;
                return Some(Some(Err(error.clone())));
            }
        }
        None
    }

    fn begin_end(&mut self) -> Option<Option<Result<Chunk, ProviderError>>> {
        match self.end {
            End::Ahead => {
                self.end = End::Usage;
                self.turn.usage.and_then(|usage| ready(Chunk::Usage(usage)))
            }
            End::Usage => {
                self.end = End::Over;
                let asks_for_tools = self.tool_calls > 0;
                let usual = if asks_for_tools { AnswerEnd::Calls } else { AnswerEnd::Complete };
                ready(Chunk::End(self.turn.stop.map_or(usual, AnswerEnd::scripted)))
            }
            End::Over => Some(None),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the callers' own return type: an item is at hand")]
fn ready(chunk: Chunk) -> Option<Option<Result<Chunk, ProviderError>>> {
    Some(Some(Ok(chunk)))
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::*;
    use crate::message::{Block, Message, Usage};
    use crate::value::Value;

    fn scripted(script: &str) -> Scripted {
        Scripted::from_bytes(Path::new("play.edn"), script.as_bytes()).unwrap()
    }

    async fn answer(provider: &Scripted, request: ModelRequest) -> Vec<Result<Chunk, ProviderError>> {
        provider.stream(request).collect().await
    }

    fn text(text: &str) -> Result<Chunk, ProviderError> {
        Ok(Chunk::Text(text.into()))
    }

    /// The text of one model call after the other.
    async fn texts(provider: &Scripted, calls: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..calls {
            let chunks = answer(provider, ModelRequest::default()).await;
            let of = |chunk: Result<Chunk, ProviderError>| match chunk {
                Ok(Chunk::Text(text)) => text,
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            texts.push(chunks.into_iter().map(of).collect());
        }
        texts
    }

    #[tokio::test]
    async fn script_plays_every_step_in_order() {
        let provider = scripted(
            r#"{:turns [{:steps [{:thinking "hm"} {:delta "a"} {:deltas 2 :of "b"} {:deltas 3 :of ""}
                                 {:tool-call {:name "bash" :arguments {:command "ls"}}}
                                 {:tool-call {:id "mine" :name "find"}}]
                         :usage {:input 7 :output 3 :cache-read 2}}]}"#,
        );
        let arguments = Value::map([(Value::keyword("command"), "ls")]);
        let call = |index, id: &str, name: &str, written: &str, arguments: &Value<'static>| {
            let (id, name): (Arc<str>, Arc<str>) = (id.into(), name.into());
            let pieces =
                Chunk::ToolArguments { index, id: id.clone(), name: name.clone(), delta: written.into() };
            [Ok(pieces), Ok(Chunk::ToolCall { id, name, arguments: arguments.clone().into() })]
        };
        let mut expected = vec![Ok(Chunk::Thinking("hm".into())), text("a"), text("b"), text("b")];
        expected.extend(call(0, "call-1", "bash", r#"{:command "ls"}"#, &arguments));
        expected.extend(call(1, "mine", "find", "{}", &Value::Map(crate::value::Map::new())));
        expected.push(Ok(Chunk::Usage(Usage { input: 7, output: 3, cache_read: 2, ..Usage::default() })));
        expected.push(Ok(Chunk::End(AnswerEnd::Calls)));
        assert_eq!(answer(&provider, ModelRequest::default()).await, expected);
    }

    #[tokio::test]
    async fn script_sets_end_of_turn_or_default_applies() {
        for (turn, expected) in [
            (r#"{:steps [{:delta "x"}]}"#, AnswerEnd::Complete),
            (r#"{:steps [] :stop-reason "max-tokens"}"#, AnswerEnd::Limit),
            (
                r#"{:steps [{:tool-call {:name "bash"}}] :stop-reason "refusal"}"#,
                AnswerEnd::Refused(String::new()),
            ),
        ] {
            let chunks = answer(&scripted(&format!("{{:turns [{turn}]}}")), ModelRequest::default()).await;
            assert_eq!(chunks.last(), Some(&Ok(Chunk::End(expected))), "{turn}");
        }
    }

    #[tokio::test]
    async fn script_continues_after_last_turn_as_configured() {
        let turns = r#":turns [{:steps [{:delta "1"}]} {:steps [{:delta "2"}]}]"#;
        let over = "the script play.edn has no turn for model call 3";
        for (then, expected) in [
            ("", ["1", "2", "2", "2"]),
            (":then :repeat-last", ["1", "2", "2", "2"]),
            (":then :cycle", ["1", "2", "1", "2"]),
            (":then :fail", ["1", "2", over, "the script play.edn has no turn for model call 4"]),
        ] {
            assert_eq!(texts(&scripted(&format!("{{{turns} {then}}}")), 4).await, expected, "{then}");
        }
    }

    #[tokio::test]
    async fn echo_step_repeats_last_user_message_by_word() {
        let say = |role, text: &str| {
            Arc::new(Message::new(
                "m".into(),
                role,
                vec![Block::Text(text.into())],
                "2026-01-01T00:00:00Z".into(),
            ))
        };
        let messages =
            vec![say(Role::User, "first"), say(Role::User, "good day, you"), say(Role::Assistant, "no")];
        let provider = scripted("{:turns [{:steps [{:echo :last-user}]}]}");
        let chunks = answer(&provider, ModelRequest { messages, ..ModelRequest::default() }).await;
        let stop = Ok(Chunk::End(AnswerEnd::Complete));
        assert_eq!(chunks, [text("good "), text("day, "), text("you"), stop]);
    }

    #[tokio::test]
    async fn error_step_ends_the_turn() {
        let provider = scripted(
            r#"{:turns [{:steps [{:delta "x"} {:error {:kind :rate-limited :message "slow down" :retry-after-ms 250}}
                                 {:delta "never"}]
                         :usage {:input 1}}]}"#,
        );
        let retry_after = Some(std::time::Duration::from_millis(250));
        let error = ProviderError::new(ErrorKind::RateLimited { retry_after }, "slow down");
        assert_eq!(answer(&provider, ModelRequest::default()).await, [text("x"), Err(error)]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_sleep_step_takes_time() {
        let provider =
            scripted(r#"{:turns [{:steps [{:deltas 1000 :of "x"} {:sleep-ms 60000} {:delta "y"}]}]}"#);
        let begun = tokio::time::Instant::now();
        assert_eq!(answer(&provider, ModelRequest::default()).await.len(), 1002);
        assert_eq!(begun.elapsed(), std::time::Duration::from_millis(60_000));
    }

    #[tokio::test]
    async fn long_answer_yields_to_other_tasks() {
        let provider = scripted(r#"{:turns [{:steps [{:deltas 100000 :of "x"}]}]}"#);
        let mut answer = provider.stream(ModelRequest::default());
        let ready_at_once = std::iter::from_fn(|| answer.next().now_or_never()).count();
        assert_eq!(ready_at_once, usize::try_from(limits::SCRIPT_BURST).unwrap());
    }

    #[test]
    fn script_error_names_its_place() {
        for (script, expected) in [
            ("", "1:1: empty"),
            ("{:turns [}", "1:10: unmatched-delimiter"),
            ("[]", "1:1: a script must be a map with :turns :then, not a vector"),
            ("{}", "1:1: a script needs :turns"),
            ("{:turns []}", "1:2: :turns must hold at least one turn"),
            ("{:turns 3}", "1:2: :turns must be a vector, not a integer"),
            ("{:turns [{:steps []}]\n :then :stop}", "2:2: :then must be one of :repeat-last :cycle :fail"),
            ("{:turns [{:steps []}] :more 1}", "1:23: a script has no :more; it may have :turns :then"),
            ("{:turns [{:usage {}}]}", "1:11: a turn needs :steps"),
            ("{:turns\n [{:steps\n  [{:delta 1}]}]}", "3:5: :delta must be a string, not a integer"),
            ("{:turns [{:steps [{:dleta \"x\"}]}]}", "1:20: a step has no :dleta"),
            ("{:turns [{:steps [\"x\"]}]}", "1:19: a step must be a map"),
            ("{:turns [{:steps [7]}]}", "1:11: a step must be a map"),
            ("{:turns [{:steps [{:delta \"a\" :thinking \"b\"}]}]}", "1:20: a step has one key"),
            ("{:turns [{:steps [{}]}]}", "1:11: a step has one key"),
            ("{:turns [{:steps [{:of \"a\"}]}]}", "1:20: :of stands beside :deltas"),
            ("{:turns [{:steps [{:deltas 3}]}]}", "1:20: {:deltas n :of \"text\"} has these two keys"),
            (
                "{:turns [{:steps [{:deltas -3 :of \"a\"}]}]}",
                "1:20: :deltas must be an integer from 0 to 100000000",
            ),
            (
                "{:turns [{:steps [{:sleep-ms 9999999999}]}]}",
                "1:20: :sleep-ms must be an integer from 0 to 3600000",
            ),
            ("{:turns [{:steps [{:echo :first-user}]}]}", "1:20: :echo must be one of :last-user"),
            ("{:turns [{:steps [{:tool-call {:arguments {}}}]}]}", "1:32: :tool-call needs :name"),
            (
                "{:turns [{:steps [{:tool-call {:name \"x\" :arguments []}}]}]}",
                "1:42: :arguments must be a map, not a vector",
            ),
            ("{:turns [{:steps [{:error {:message \"x\"}}]}]}", "1:28: :error needs :kind"),
            ("{:turns [{:steps [{:error {:kind :bad}}]}]}", "1:28: :kind must be one of :overloaded"),
            ("{:turns [{:steps [] :stop-reason \"why\"}]}", "1:21: :stop-reason knows no \"why\""),
            ("{:turns [{:steps [] :usage {:input -1}}]}", "1:29: :input must be an integer from 0"),
            ("{:turns [{:steps [] :usage {:in 1}}]}", "1:29: :usage has no :in; it may have :input"),
        ] {
            let error = Scripted::from_bytes(Path::new("play.edn"), script.as_bytes())
                .err()
                .map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(
                error.starts_with(&format!("play.edn:{expected}")),
                "{script:?}\n  gave     {error}\n  expected {expected}"
            );
        }
    }

    #[test]
    fn script_file_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large.edn");
        std::fs::File::create(&large).unwrap().set_len(limits::SCRIPT_BYTES + 1).unwrap();
        for (file, expected) in [
            (Path::new("-"), "the script cannot be read from standard input"),
            (&folder.path().join("none.edn"), "cannot be read: No such file"),
            (&large, "is larger than 16 MiB"),
        ] {
            let error = Scripted::from_file(file).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "{error}");
        }
    }
}
