//! `edn-bridge prompt`: a client of the EDN wire. Knows events and answers, and nothing of the engine behind them.

pub(super) mod console;
mod printed_text;
pub(super) mod printer;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use edn_bridge::client::frame;
use edn_bridge::client::turn::{Accepted, Outcome};
use edn_bridge::clock::{Clock, SystemClock};
use edn_bridge::config::Settings;
use edn_bridge::context::delimiters;
use edn_bridge::engine::Providers;
use edn_bridge::files;
use edn_bridge::json;
use edn_bridge::limits::CLIENT_TOOL_SCHEMA_BYTES;
use edn_bridge::message::SessionId;
use edn_bridge::provider::{embedded, scripted};
use edn_bridge::store::Journals as _;
use edn_bridge::value::{Map, Owned, Value};

use super::failure::{Exit, FAILED, Failure, INTERRUPTED, LIMIT, NO_ANSWER, NOT_SET_UP, UNREACHABLE};
use super::options::Options;
use super::{input, schema, sessions};
use console::{Console, ConsoleEvent, SignalKind};
use printer::{Output, Teller};

/// The tool with which the model gives a structured answer.
const ANSWER: &str = "answer";

/// Answers that do not fit the schema, before the turn is ended: a model that cannot do it would be asked, and paid, on.
const MISFITS: u32 = 10;

/// A call that has not begun after so long may wait for an answer, in a session that another client has open too.
const ANSWERS_ELSEWHERE: Duration = Duration::from_secs(1);

/// What the model gets about it.
const ASKED: &str = "Give your answer by calling the tool `answer` once, with arguments that fit its schema.";

#[derive(Args)]
pub(super) struct PromptArguments {
    /// The message; - reads it from standard input, and what is piped beside a message is attached to it.
    text: Option<String>,
    /// Continue with the newest session of this folder.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    goes_on: bool,
    /// Continue with this session: its id, the beginning of its id, or its name.
    #[arg(long, short, value_name = "SESSION")]
    session: Option<String>,
    /// What is printed: the answer's text as it comes, one map at the end, or every event on a line of its own.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
    /// End the turn after so many calls of the model.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// Ask for an answer that fits this JSON schema of an object, a file or the text itself, and print it as JSON.
    #[arg(long, value_name = "FILE|JSON")]
    schema: Option<String>,
}

/// Sends one prompt and prints its answer.
pub(super) fn prompt(options: &Options, arguments: PromptArguments) -> Exit {
    let message = message(arguments.text.as_deref())?;
    let shape = arguments.schema.as_deref().map(read_schema).transpose()?;
    let settings = options.settings().map_err(|failure| not_set_up(failure.to_string()))?;
    let wanted = Goal { goes_on: arguments.goes_on, session: arguments.session.as_deref() };
    let resumed = resumed(options, &settings, &wanted)?;
    if resumed.is_none() {
        check_provider(&settings)?;
    }
    let console = Console::open("edn-bridge prompt", options, settings, resumed.as_ref(), false);
    let console = console.map_err(unusable)?;
    let asked = PromptRequest { message, shape, resumed };
    let code = asked.see_through(&console, &arguments);
    console.end();
    code
}

/// The message with what was piped.
fn message(text: Option<&str>) -> Result<String, Failure> {
    let message = match text {
        Some("-") => guarded(input::read()?),
        None if input::is_piped() => guarded(input::read()?),
        None => return Err(usage("there is no message: give one, or pipe one in")),
        Some(text) if input::is_piped() => match input::read()? {
            attached if attached.trim().is_empty() => text.to_owned(),
            attached => format!("{text}\n\n{}", delimiters::marked("standard-input", &[], &attached)),
        },
        Some(text) => text.to_owned(),
    };
    if message.trim().is_empty() {
        return Err(usage("the message is empty"));
    }
    Ok(message)
}

/// What is piped in is data: its first line runs no slash command.
fn guarded(text: String) -> String {
    if text.trim_start().starts_with('/') { delimiters::marked("standard-input", &[], &text) } else { text }
}

fn usage(what: &str) -> Failure {
    Failure::Status { code: super::failure::USAGE, message: what.to_owned() }
}

pub(super) fn not_set_up(message: String) -> Failure {
    Failure::Status { code: NOT_SET_UP, message }
}

/// The same failure, with the status of what is not set up where a file of the configuration or the script is unusable.
pub(super) fn unusable(failure: Failure) -> Failure {
    match failure {
        Failure::Config(_) | Failure::Script(_) => not_set_up(failure.to_string()),
        other => other,
    }
}

/// The schema in a file, or the text itself.
fn read_schema(given: &str) -> Result<Value<'static>, Failure> {
    let text = match given.trim_start().starts_with('{') {
        true => given.as_bytes().to_vec(),
        false => {
            let most = u64::try_from(CLIENT_TOOL_SCHEMA_BYTES).unwrap_or(u64::MAX).saturating_add(1);
            let path = Path::new(given).canonicalize();
            path.and_then(|path| files::read(&path, most))
                .map_err(|error| usage(&format!("--schema {given}: {error}")))?
        }
    };
    let wrong = |why: String| usage(&format!("--schema: {why}"));
    let value = json::read(&text).map_err(|error| wrong(error.to_string()))?.into_owned();
    let is_object = value.as_map().and_then(|map| map.get(&Value::from("type"))).and_then(Value::as_str);
    if is_object != Some("object") {
        return Err(wrong("it must be the schema of an object: {\"type\": \"object\", …}".to_owned()));
    }
    Ok(value)
}

/// Which session is meant.
pub(super) struct Goal<'a> {
    /// The newest one of the folder.
    pub(super) goes_on: bool,
    /// The one of that id or name.
    pub(super) session: Option<&'a str>,
}

/// The session to continue with, if one is asked for.
pub(super) fn resumed(
    options: &Options,
    settings: &Settings,
    wanted: &Goal<'_>,
) -> Result<Option<SessionId>, Failure> {
    if !wanted.goes_on && wanted.session.is_none() {
        return Ok(None);
    }
    let store = options.store(settings)?;
    if let Some(session) = wanted.session {
        return sessions::resolve(&store, &settings.cwd, session).map(Some);
    }
    let newest = store.list(Some(&settings.cwd))?.into_iter().find(|info| !info.archived);
    let none = || Failure::NoSession("There is no session of this folder to continue with.".to_owned());
    Ok(Some(newest.ok_or_else(none)?.header.session))
}

/// Whether the provider that is named for new sessions is known: a try that cannot succeed leaves no session.
pub(super) fn check_provider(settings: &Settings) -> Result<(), Failure> {
    let Some(name) = settings.provider.as_deref() else { return Ok(()) };
    if settings.script.is_some() || name == scripted::NAME || name == embedded::NAME {
        return Ok(());
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let providers = Providers::new(settings, &clock);
    match providers.get(name) {
        Some(_) => Ok(()),
        None => Err(not_set_up(providers.why_none(name))),
    }
}

/// A prompt with what belongs to it.
struct PromptRequest {
    message: String,
    shape: Option<Value<'static>>,
    resumed: Option<SessionId>,
}

/// The topics of a turn that a person is told of.
pub(super) const TOPICS: &[&str] = &[
    "assistant/delta",
    "assistant/thinking-delta",
    "assistant/message",
    "tool/start",
    "tool/executing",
    "tool/result",
    "turn/retry",
    "compaction/started",
    "turn/ended",
    "command-result",
    "ui/frontend-action-requested",
];

impl PromptRequest {
    /// Sends it and prints what happens, to the end.
    fn see_through(self, console: &Console, arguments: &PromptArguments) -> Exit {
        console.catch([SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()])?;
        let mut message = self.message.clone();
        if let Some(shape) = &self.shape {
            let mut tool = Map::new();
            tool.put("name", ANSWER);
            tool.put("description", "Gives the answer. Call it once, when the answer is known.");
            tool.put("parameters", shape.clone());
            tool.put("read-only", true);
            console.ask("register_tools", Map::new().with("tools", Value::vector([Value::from(tool)])))?;
            message = format!("{message}\n\n{ASKED}");
        }
        let mut teller = Teller::new(arguments.output, self.shape.is_some());
        let topics = [TOPICS, &["ui/notification"]].concat();
        console.subscribe(if arguments.output == Output::Events { &[] } else { &topics })?;
        let accepted = console.ask("prompt", Map::new().with("message", message))?;
        let accepted = Accepted::of(&accepted);
        let mut run = Run {
            console,
            calls: 0,
            misfits: 0,
            is_over_limit: false,
            interrupted: None,
            open: None,
            proposed: None,
        };
        let ended = loop {
            let within = [teller.tick(), run.until_asked()].into_iter().flatten().min();
            let event = match console.next(within) {
                None => {
                    if let Some(question) = run.asked_elsewhere() {
                        teller.waits_for_others(&question);
                    }
                    continue;
                }
                Some(ConsoleEvent::Gone) => return Err(gone(self.resumed.as_ref())),
                Some(ConsoleEvent::Interrupt(signal)) => {
                    run.interrupt(signal);
                    continue;
                }
                Some(ConsoleEvent::Event(event)) => event,
            };
            if !accepted.has(&event) {
                console.printed(&event);
                continue;
            }
            if arguments.output == Output::Events || !run.is_late(&event) {
                teller.tell(&event);
            }
            console.printed(&event);
            let data = frame::data(&event);
            match frame::topic(&event) {
                "assistant/message" => {
                    run.count(data, arguments.max_turns);
                }
                "tool/requested" => run.answered(self.take_answer(console, data, &mut teller)),
                "tool/start" => run.proposed = Some(Instant::now()),
                "tool/executing" => run.proposed = None,
                "tool/result" => {
                    run.proposed = None;
                    run.has_result();
                }
                _ => {}
            }
            if let Some(outcome) = accepted.ended(&event) {
                break outcome;
            }
        };
        let is_lost = matches!(&ended, Outcome::Turn(data) if frame::text(data, "outcome") == "failed");
        if is_lost && self.resumed.is_none() && !teller.has_said() {
            // Nothing was said in it: it would only stand in the way of those where something was.
            let session = frame::text(console.server_info(), "session-id").to_owned();
            let left = console.ask("new_session", Map::new());
            let deleted =
                left.and_then(|_| console.ask("delete_session", Map::new().with("session-id", session)));
            if let Err(error) = deleted {
                tracing::debug!(%error, "the session stays");
            }
        }
        run.status(&mut teller, ended, self.shape.is_some())
    }

    /// Checks an answer that the model gives with the tool. The turn ends with one that fits. Returns whether it does.
    fn take_answer(&self, console: &Console, request: &Owned, teller: &mut Teller) -> bool {
        let Some(shape) = &self.shape else { return true };
        let given = request.get("arguments").unwrap_or(&Value::Nil);
        let checked = schema::check(shape, given);
        let text = match &checked {
            Ok(()) => "The answer is taken.".to_owned(),
            Err(why) => format!("{why} Call the tool again with arguments that fit its schema."),
        };
        if checked.is_ok() {
            teller.answer = Some(given.clone());
            // It ends once this call has its result.
            console.tell("interrupt", Map::new());
        }
        let mut answer = Map::new().with("request-id", frame::text(request, "request-id").to_owned());
        answer.put("text", text);
        answer.put("is-error", checked.is_err());
        console.tell("tool_result", answer);
        checked.is_ok()
    }
}

/// What is said when the bridge goes before the turn has ended.
fn gone(session: Option<&SessionId>) -> Failure {
    Failure::Failed(match session {
        Some(session) => format!(
            "the daemon that has the session open has ended or was replaced; what runs goes on, and `edn-bridge prompt \
             --session {session}` with it"
        ),
        None => "the turn did not end".to_owned(),
    })
}

/// The running turn.
struct Run<'c> {
    console: &'c Console,
    calls: u32,
    /// Answers that did not fit the schema.
    misfits: u32,
    is_over_limit: bool,
    /// The status of an end by a signal, by the convention of shells.
    interrupted: Option<u8>,
    /// The calls of the last answer that may be, which have no result yet.
    open: Option<usize>,
    /// When a call was proposed that does not run yet.
    proposed: Option<Instant>,
}

impl Run<'_> {
    /// How long until it is looked whether a call waits for an answer.
    fn until_asked(&self) -> Option<Duration> {
        Some(ANSWERS_ELSEWHERE.saturating_sub(self.proposed?.elapsed()))
    }

    /// The question that a call waits for, if another client is asked it. Looks once for a call.
    fn asked_elsewhere(&mut self) -> Option<Owned> {
        if self.until_asked()? > Duration::ZERO {
            return None;
        }
        self.proposed = None;
        let query = "[{:psi.agent-session/interactions [:psi.interaction/kind :psi.interaction/payload]}]";
        let answer = self.console.ask("query_eql", Map::new().with("query", query)).ok()?;
        let asked = answer.get("result")?.get("psi.agent-session/interactions")?.as_slice()?;
        asked.first().cloned()
    }

    /// Counts a call of the model. After the last that may be, the turn is to end once its tools have.
    fn count(&mut self, answer: &Owned, most: Option<u32>) {
        // What marks the end is no call.
        if self.is_over_limit {
            return;
        }
        if self.open.is_some() {
            return self.end_over_limit();
        }
        self.calls = self.calls.saturating_add(1);
        let goes_on = frame::text(answer, "stop-reason") == "tool-use";
        if goes_on && most.is_some_and(|most| self.calls >= most) {
            let content = answer.get("content").and_then(Value::as_slice).unwrap_or_default();
            let is_call = |block: &&Owned| block.get("type").and_then(Value::as_keyword) == Some("tool-call");
            self.open = Some(content.iter().filter(is_call).count());
        }
    }

    /// A call has its result. With that of the last one the turn ends, if the model may not be called again: an interrupt
    /// before would keep calls from running that have not begun.
    fn has_result(&mut self) {
        self.open = self.open.map(|open| open.saturating_sub(1));
        if self.open == Some(0) && !self.is_over_limit {
            self.end_over_limit();
        }
    }

    /// Whether it is of a call of the model that began before the limit could end the turn: nobody asked for its answer.
    fn is_late(&self, event: &Owned) -> bool {
        self.is_over_limit
            && match frame::topic(event) {
                "assistant/message" => !frame::message_text(frame::data(event)).is_empty(),
                topic => topic.ends_with("-delta") || topic == "assistant/delta",
            }
    }

    fn end_over_limit(&mut self) {
        self.is_over_limit = true;
        self.console.tell("interrupt", Map::new());
    }

    /// Counts an answer that does not fit the schema, and ends the turn with the last that may be.
    fn answered(&mut self, fits: bool) {
        self.misfits = self.misfits.saturating_add(u32::from(!fits));
        if !fits && self.misfits == MISFITS {
            self.console.tell("interrupt", Map::new());
        }
    }

    fn interrupt(&mut self, signal: SignalKind) {
        self.interrupted = u8::try_from(signal.as_raw_value()).ok().map(|number| number.saturating_add(128));
        self.console.tell("abort", Map::new());
    }

    /// Prints the end, and says how the command ends.
    fn status(&self, teller: &mut Teller, ended: Outcome, wants_answer: bool) -> Exit {
        let failed = |code, message: &str| Err(Failure::Status { code, message: message.to_owned() });
        match ended {
            Outcome::Command { failed: true, message } => {
                teller.end(Some(&message));
                failed(FAILED, &message)
            }
            Outcome::Command { failed: false, message } => {
                teller.command(&message);
                printed(teller)
            }
            Outcome::Choice(_) | Outcome::Repeated => {
                let why = "this command offers a choice; give it its argument, or use an editor";
                teller.end(Some(why));
                failed(FAILED, why)
            }
            Outcome::Turn(data) => {
                let (code, why) = self.verdict(&data, teller.answer.is_some(), wants_answer);
                teller.end(why.as_deref());
                match why {
                    Some(why) => failed(code, &why),
                    None => printed(teller),
                }
            }
        }
    }

    /// The status of an ended turn, and what kept the answer away.
    fn verdict(&self, ended: &Owned, is_answered: bool, wants_answer: bool) -> (u8, Option<String>) {
        let outcome = frame::text(ended, "outcome");
        match outcome {
            _ if wants_answer && is_answered => (0, None),
            _ if let Some(status) = self.interrupted => (status, Some("the turn was interrupted".to_owned())),
            _ if self.is_over_limit => {
                let calls = if self.calls == 1 { "call" } else { "calls" };
                (LIMIT, Some(format!("the turn was ended after {} {calls} of the model", self.calls)))
            }
            "completed" | "interrupted" if wants_answer => {
                (NO_ANSWER, Some("the model gave no answer that fits the schema".to_owned()))
            }
            "completed" if frame::text(ended, "stop-reason") == "max-tokens" => {
                (LIMIT, Some("the answer was cut off: it is as long as the model may write".to_owned()))
            }
            "completed" if frame::text(ended, "stop-reason") == "refusal" => {
                let why = Some(frame::text(ended, "error-message")).filter(|why| !why.is_empty());
                (FAILED, Some(why.unwrap_or("the model refused").to_owned()))
            }
            "completed" => (0, None),
            "aborted" | "interrupted" => (INTERRUPTED, Some("another client has ended the turn".to_owned())),
            _ => {
                let mut why = frame::text(ended, "error-message").to_owned();
                if why.starts_with("permission-required:") {
                    why.push_str(" Here: --mode accept-edits, or --mode yolo; edn-bridge chat asks you.");
                }
                let why = Some(why).filter(|why| !why.is_empty());
                let code = match frame::text(ended, "error-kind") {
                    "overloaded" | "rate-limited" | "dropped" => UNREACHABLE,
                    "not-configured" => NOT_SET_UP,
                    "loop" => LIMIT,
                    _ => FAILED,
                };
                (code, Some(why.unwrap_or_else(|| "the turn failed".to_owned())))
            }
        }
    }
}

/// Success, if standard output has taken all of it.
fn printed(teller: &mut Teller) -> Exit {
    match teller.take_lost() {
        Some(error) => Err(Failure::io("standard output")(error)),
        None => Ok(ExitCode::SUCCESS),
    }
}
