//! `edn-bridge prompt`: a client of the session API, without a wire. Knows events and answers, and nothing of the
//! engine behind them.

pub(super) mod console;
pub(super) mod told;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};

use clap::{Args, ValueEnum};
use edn_bridge::clock::{Clock, SystemClock};
use edn_bridge::config::Settings;
use edn_bridge::context::mark;
use edn_bridge::engine::{Engine, Providers};
use edn_bridge::event::{Body, ToolRequest, TurnOutcome};
use edn_bridge::files;
use edn_bridge::json;
use edn_bridge::limits::CLIENT_TOOL_SCHEMA_BYTES;
use edn_bridge::message::{SessionId, StopReason};
use edn_bridge::provider::{embedded, scripted};
use edn_bridge::session::{
    ApiError, Call, Client as _, ClientTools as _, Clients as _, OfferedTool, Prompt, Reply, Sessions as _,
    SwitchTarget, ToolAnswer, Turns as _,
};
use edn_bridge::store::Journals as _;
use edn_bridge::value::Value;

use super::served::Process;
use super::{Exit, FAILED, Failure, INTERRUPTED, LIMIT, NO_ANSWER, NOT_SET_UP, Options, UNREACHABLE};
use super::{input, schema, sessions};
use console::{Console, ConsoleEvent};
use told::Teller;

/// The number of the one connection.
pub(super) const CONNECTION: u64 = 1;

/// The tool with which the model gives a structured answer.
const ANSWER: &str = "answer";

/// Answers that do not fit the schema, before the turn is ended: a model that cannot do it would be asked, and paid, on.
const MISFITS: u32 = 10;

/// What the model is told of it.
const ASKED: &str = "Give your answer by calling the tool `answer` once, with arguments that fit its schema.";

#[derive(Args)]
pub(super) struct PromptArguments {
    /// The message; - reads it from standard input, and what is piped beside a message is attached to it.
    text: Option<String>,
    /// Go on with the newest session of this folder.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    goes_on: bool,
    /// Go on with this session: its id, the beginning of its id, or its name.
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

/// What is printed on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Output {
    /// The answer's text, as it comes.
    #[default]
    Text,
    /// One map of EDN at the end.
    Edn,
    /// One object of JSON at the end.
    Json,
    /// Each event as a map of EDN, as the EDN wire has it.
    Events,
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
    let process = Process::new(settings, options.durability())?;
    let asked = Asked { message, shape, resumed };
    let code = asked.see_through(&process.engine, &arguments, |told| process.on_interrupt(told));
    process.end();
    code
}

/// The message with what was piped.
fn message(text: Option<&str>) -> Result<String, Failure> {
    let piped = || input::read().map_err(Failure::Failed);
    let message = match text {
        Some("-") => guarded(piped()?),
        None if input::is_piped() => guarded(piped()?),
        None => return Err(usage("there is no message: give one, or pipe one in")),
        Some(text) if input::is_piped() => match piped()? {
            attached if attached.trim().is_empty() => text.to_owned(),
            attached => format!("{text}\n\n{}", mark::marked("standard-input", &[], &attached)),
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
    if text.trim_start().starts_with('/') { mark::marked("standard-input", &[], &text) } else { text }
}

fn usage(what: &str) -> Failure {
    Failure::Status { code: super::USAGE, message: what.to_owned() }
}

pub(super) fn not_set_up(message: String) -> Failure {
    Failure::Status { code: NOT_SET_UP, message }
}

/// The schema in a file, or the text itself.
fn read_schema(given: &str) -> Result<Value<'static>, Failure> {
    let text = match given.trim_start().starts_with('{') {
        true => given.as_bytes().to_vec(),
        false => {
            let most = u64::try_from(CLIENT_TOOL_SCHEMA_BYTES).unwrap_or(u64::MAX).saturating_add(1);
            let path = Path::new(given).canonicalize();
            path.and_then(|path| files::read(&path, most)).map_err(Failure::io(given))?
        }
    };
    let wrong = |why: String| Failure::Failed(format!("--schema: {why}"));
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

/// The session to go on with, if one is asked for.
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
    let none = || Failure::NoSession("There is no session of this folder to go on with.".to_owned());
    Ok(Some(newest.ok_or_else(none)?.header.session))
}

/// Whether a new session would have somebody to ask: a try that cannot succeed leaves no session.
pub(super) fn check_provider(settings: &Settings) -> Result<(), Failure> {
    let name = &*settings.provider;
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
struct Asked {
    message: String,
    shape: Option<Value<'static>>,
    resumed: Option<SessionId>,
}

/// What a prompt came to.
enum Ended {
    /// A turn.
    Turn { outcome: TurnOutcome, stop: Option<StopReason>, error: Option<Arc<str>> },
    /// A slash command.
    Command { failed: bool, message: String },
    /// A slash command that needs somebody to choose.
    Choice,
}

impl Asked {
    /// Sends it and prints what happens, to the end.
    fn see_through(
        self,
        engine: &Engine,
        arguments: &PromptArguments,
        on_interrupt: impl FnOnce(Box<dyn Fn() + Send>),
    ) -> Exit {
        let (events, listen) = channel();
        let client = Arc::new(Console::new(events.clone(), false));
        let first = engine.attach(CONNECTION, client.clone());
        client.focus(first.clone());
        let session = match &self.resumed {
            Some(session) => {
                let target = SwitchTarget::Id(session.clone());
                let opened = wait(|reply| engine.switch_session(call(&first), target, reply))?;
                client.focus(opened.session.clone());
                opened.session
            }
            None => first,
        };
        on_interrupt(Box::new(move || drop(events.send(ConsoleEvent::Interrupt))));
        let mut message = self.message.clone();
        if let Some(shape) = &self.shape {
            let tool = OfferedTool {
                name: ANSWER.to_owned(),
                description: "Gives the answer. Call it once, when the answer is known.".to_owned(),
                parameters: shape.clone(),
                read_only: true,
                path: None,
                timeout: None,
            };
            wait(|reply| engine.register_tools(call(&session), vec![tool], reply))?;
            message = format!("{message}\n\n{ASKED}");
        }
        let prompt = Prompt { message, ..Prompt::default() };
        let mut teller = Teller::new(arguments.output, self.shape.is_some());
        let accepted = wait(|reply| engine.prompt(call(&session), prompt, reply))?;
        let mut run = Run {
            engine,
            session: session.clone(),
            calls: 0,
            misfits: 0,
            is_over_limit: false,
            is_interrupted: false,
        };
        let ended = loop {
            let next = match teller.tick() {
                Some(tick) => match listen.recv_timeout(tick) {
                    Err(RecvTimeoutError::Timeout) => continue,
                    other => other.ok(),
                },
                None => listen.recv().ok(),
            };
            let event = match next {
                None => return Err(Failure::Failed("the turn did not end".to_owned())),
                Some(ConsoleEvent::Interrupt) => {
                    run.interrupt();
                    continue;
                }
                Some(ConsoleEvent::Event(event)) => event,
            };
            let weight = event.body.weight();
            teller.tell(&event);
            client.printed(weight);
            let is_ours = accepted.turn.is_none() || event.turn == accepted.turn;
            match &event.body {
                Body::AssistantMessage(message) if is_ours => {
                    run.count(message.stop_reason == Some(StopReason::ToolUse), arguments.max_turns);
                }
                Body::ToolRequested(request) => {
                    run.answered(self.take_answer(engine, &session, request, &mut teller));
                }
                Body::TurnEnded(ended) if is_ours => {
                    let (outcome, stop, error) = (ended.outcome, ended.stop, ended.error.clone());
                    break Ended::Turn { outcome, stop, error };
                }
                Body::CommandResult(outcome) => {
                    break Ended::Command { failed: outcome.is_error(), message: outcome.message.clone() };
                }
                Body::ChoiceRequested(_) => break Ended::Choice,
                _ => {}
            }
        };
        let is_lost = matches!(&ended, Ended::Turn { outcome: TurnOutcome::Failed, .. });
        client.focus(SessionId::from(""));
        // With the reply, the turn has ended altogether.
        wait(|reply| engine.detach(CONNECTION, reply))?;
        if is_lost && self.resumed.is_none() && !teller.has_said() {
            // Nothing was said in it: it would only stand in the way of those where something was.
            if let Err(error) = wait(|reply| engine.delete_session(call(&session), session.clone(), reply)) {
                tracing::debug!(%error, "the session stays");
            }
        }
        run.status(&mut teller, ended, self.shape.is_some())
    }

    /// Checks an answer that the model gives with the tool. The turn ends with one that fits. Returns whether it does.
    fn take_answer(
        &self,
        engine: &Engine,
        session: &SessionId,
        request: &ToolRequest,
        teller: &mut Teller,
    ) -> bool {
        let Some(shape) = &self.shape else { return true };
        let checked = schema::check(shape, &request.call.parsed);
        let (text, is_error) = match &checked {
            Ok(()) => ("The answer is taken.".to_owned(), false),
            Err(why) => (format!("{why} Call the tool again with arguments that fit its schema."), true),
        };
        let answer = ToolAnswer { text, is_error, ..ToolAnswer::default() };
        let id = request.request.to_string();
        if checked.is_ok() {
            teller.answer = Some(request.call.parsed.clone());
            // It ends once this call has its result.
            engine.interrupt(call(session), None, Reply::new(|_| {}));
        }
        engine.tool_result(call(session), id, answer, Reply::new(|_| {}));
        checked.is_ok()
    }
}

/// The running turn.
struct Run<'e> {
    engine: &'e Engine,
    session: SessionId,
    calls: u32,
    /// Answers that did not fit the schema.
    misfits: u32,
    is_over_limit: bool,
    is_interrupted: bool,
}

impl Run<'_> {
    /// Counts a call of the model, and ends the turn after its tools if there may be no further one.
    fn count(&mut self, goes_on: bool, most: Option<u32>) {
        // What marks the end is no call.
        if self.is_over_limit {
            return;
        }
        self.calls = self.calls.saturating_add(1);
        if goes_on && most.is_some_and(|most| self.calls >= most) {
            self.is_over_limit = true;
            self.engine.interrupt(call(&self.session), None, Reply::new(|_| {}));
        }
    }

    /// Counts an answer that does not fit the schema, and ends the turn with the last that may be.
    fn answered(&mut self, fits: bool) {
        self.misfits = self.misfits.saturating_add(u32::from(!fits));
        if !fits && self.misfits == MISFITS {
            self.engine.interrupt(call(&self.session), None, Reply::new(|_| {}));
        }
    }

    fn interrupt(&mut self) {
        self.is_interrupted = true;
        self.engine.abort(call(&self.session), None, Reply::new(|_| {}));
    }

    /// Prints the end, and says how the command ends.
    fn status(&self, teller: &mut Teller, ended: Ended, wants_answer: bool) -> Exit {
        let failed = |code, message: &str| Err(Failure::Status { code, message: message.to_owned() });
        match ended {
            Ended::Command { failed: true, message } => {
                teller.end(Some(&message));
                failed(FAILED, &message)
            }
            Ended::Command { failed: false, message } => {
                teller.command(&message);
                printed(teller)
            }
            Ended::Choice => {
                let why = "this command offers a choice; give it its argument, or use an editor";
                teller.end(Some(why));
                failed(FAILED, why)
            }
            Ended::Turn { outcome, stop, error } => {
                let is_answered = teller.answer.is_some();
                let (code, why) = match outcome {
                    _ if wants_answer && is_answered => (0, None),
                    _ if self.is_interrupted => (INTERRUPTED, Some("the turn was interrupted".to_owned())),
                    _ if self.is_over_limit => {
                        (LIMIT, Some(format!("the turn was ended after {} calls of the model", self.calls)))
                    }
                    TurnOutcome::Completed | TurnOutcome::Interrupted if wants_answer => {
                        (NO_ANSWER, Some("the model gave no answer that fits the schema".to_owned()))
                    }
                    TurnOutcome::Completed if stop == Some(StopReason::MaxTokens) => (
                        LIMIT,
                        Some("the answer was cut off: it is as long as the model may write".to_owned()),
                    ),
                    TurnOutcome::Completed => (0, None),
                    _ => {
                        let why =
                            error.map_or_else(|| "the turn failed".to_owned(), |error| error.to_string());
                        (if teller.is_unreachable() { UNREACHABLE } else { FAILED }, Some(why))
                    }
                };
                teller.end(why.as_deref());
                match why {
                    Some(why) => failed(code, &why),
                    None => printed(teller),
                }
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

pub(super) fn call(session: &SessionId) -> Call {
    Call { connection: CONNECTION, request: "cli".into(), session: session.clone() }
}

/// Calls the API and waits for the answer.
pub(super) fn wait<T: Send + 'static>(ask: impl FnOnce(Reply<T>)) -> Result<T, Failure> {
    let (sender, receiver) = channel();
    ask(Reply::new(move |result: Result<T, ApiError>| {
        let _ = sender.send(result);
    }));
    let answer = receiver.recv().map_err(|_| Failure::Failed("no answer".to_owned()))?;
    answer.map_err(|error| Failure::Failed(error.message))
}
