//! `edn-bridge prompt`: a client of the EDN wire. Knows events and answers, and nothing of the engine behind them.

mod arguments;
pub(super) mod console;
mod printed_text;
pub(super) mod printer;
mod run;
pub(super) mod verdict;

use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

pub(super) use arguments::PromptArguments;
use arguments::{message, missing_files, must_be_whole, read_schema, read_system, usage};
use edn_bridge::client::frame;
use edn_bridge::client::turn::{Accepted, Outcome};
use edn_bridge::clock::{Clock, SystemClock};
use edn_bridge::config::Settings;
use edn_bridge::engine::Providers;
use edn_bridge::json;
use edn_bridge::message::SessionId;
use edn_bridge::private;
use edn_bridge::provider::{embedded, scripted};
use edn_bridge::store::Journals as _;
use edn_bridge::value::{Map, Owned, Value};

use super::failure::{Exit, Failure, NOT_SET_UP};
use super::options::Options;
use super::{schema, sessions};
use console::{Console, ConsoleEvent, SignalKind};
use printer::{Output, Teller};
use run::Run;
use verdict::{PromptError, Verdict};

/// The tool with which the model gives a structured answer.
const ANSWER: &str = "answer";

/// What the model gets about it.
const ASKED: &str = "Give your answer by calling the tool `answer` once, with arguments that fit its schema.";

/// Further requests for an answer that fits the schema, after a turn that ended without one.
const INSISTS: u32 = 3;

/// Bytes of a token, as the engine estimates it.
const TOKEN_BYTES: usize = 4;

/// Sends one prompt and prints its answer.
pub(super) fn prompt(options: &Options, arguments: &PromptArguments) -> Exit {
    let mut teller = Teller::new(arguments.output, arguments.schema.is_some());
    let ended = begin(options, arguments, &mut teller);
    if let Err(failure) = &ended
        && !teller.has_ended()
    {
        let status = failure.status();
        teller.end(&Verdict::failed(status, PromptError::of_status(status, failure.to_string())));
    }
    ended
}

/// Looks at all that is given before anything costs, and sends it.
fn begin(options: &Options, arguments: &PromptArguments, teller: &mut Teller) -> Exit {
    must_be_whole(arguments)?;
    let message = message(arguments.text.as_deref())?;
    let shape = arguments.schema.as_deref().map(read_schema).transpose()?;
    let rules = arguments.rules.rules()?;
    let system = arguments.system.as_deref().map(read_system).transpose()?;
    let mut settings = options.settings().map_err(|failure| not_set_up(failure.to_string()))?;
    settings.overrides.rules = rules;
    settings.denies_unasked = !arguments.strict;
    settings.system_prompt = system.map(Into::into);
    settings.is_ephemeral = arguments.ephemeral;
    let file = arguments.save.as_ref().map(|path| {
        let opened = private::open(path);
        opened.map_err(|error| usage(&format!("--save {}: {error}", path.display())))
    });
    let file = file.transpose()?;
    for warning in missing_files(&settings.cwd, arguments.text.as_deref()) {
        teller.warn(&warning);
    }
    let wanted = Goal { goes_on: arguments.goes_on, session: arguments.session.as_deref() };
    let resumed = resumed(options, &settings, &wanted)?;
    if resumed.is_none() {
        check_provider(&settings)?;
    }
    let has_system = settings.system_prompt.is_some();
    let console = Console::open("edn-bridge prompt", options, settings, resumed.as_ref(), false);
    let console = console.map_err(unusable)?;
    arguments.rules.must_hold(console.is_own())?;
    if has_system && !console.is_own() {
        return Err(usage("another process has this session open: --system would do nothing"));
    }
    let asked = PromptRequest { message, shape, resumed };
    let code = asked.see_through(&console, arguments, teller, file);
    console.end();
    code
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

/// A prompt with what belongs to it.
struct PromptRequest {
    message: String,
    shape: Option<Value<'static>>,
    resumed: Option<SessionId>,
}

impl PromptRequest {
    /// Sends it and prints what happens, to the end.
    fn see_through(
        &self,
        console: &Console,
        arguments: &PromptArguments,
        teller: &mut Teller,
        file: Option<File>,
    ) -> Exit {
        console.catch([SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()])?;
        if arguments.fork {
            fork(console)?;
        }
        let state = console.ask("get_state", Map::new())?;
        let state = state.get("state").unwrap_or(&Value::Nil);
        self.fits_window(state)?;
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
        let topics = [TOPICS, &["ui/notification", "ui/status-updated"]].concat();
        console.subscribe(if arguments.output == Output::Events { &[] } else { &topics })?;
        let began = Instant::now();
        let mut run = Run::new(console, arguments.timeout);
        let mut insisted = 0;
        let ended = loop {
            let ended = self.follow(&mut run, message, arguments, teller)?;
            match self.misfit(&ended, &run, teller) {
                Some(why) if insisted < INSISTS => {
                    insisted = insisted.saturating_add(1);
                    message = format!("{why} {ASKED}");
                }
                _ => break ended,
            }
        };
        self.leave_nothing(console, &ended, teller);
        let mut verdict = run.verdict(&ended, self.shape.is_some(), teller.answer.is_some());
        let text = |key| frame::text(state, key).to_owned();
        verdict.model =
            Some((text("model-provider"), text("model-id"))).filter(|(_, model)| !model.is_empty());
        verdict.duration_ms = i64::try_from(began.elapsed().as_millis()).ok();
        if let Outcome::Command { failed: false, message } = &ended {
            teller.command(message);
        }
        let answer = teller.answer_text();
        teller.end(&verdict);
        if let (Some(mut file), Some(answer)) = (file, answer) {
            let written = file.set_len(0).and_then(|()| writeln!(file, "{answer}"));
            written.map_err(Failure::io("--save"))?;
        }
        match verdict.sentence() {
            Some(message) => Err(Failure::Status { code: verdict.status, message }),
            None => printed(teller),
        }
    }

    /// Fails if the message alone is longer than the model's window: its server would refuse it.
    fn fits_window(&self, state: &Owned) -> Result<(), Failure> {
        let window = state.get("context-window").and_then(Value::as_i64).unwrap_or_default();
        let tokens = i64::try_from(self.message.len() / TOKEN_BYTES).unwrap_or(i64::MAX);
        if window <= 0 || tokens <= window {
            return Ok(());
        }
        let model = frame::text(state, "model-id");
        Err(usage(&format!(
            "the message has about {tokens} tokens, and the window of {model} has {window}: send less of it, or name a file \
             that the model can read in parts"
        )))
    }

    /// Sends a message and tells what happens until it has come to something. A command that begins a workflow is followed to
    /// the end of its run.
    fn follow(
        &self,
        run: &mut Run<'_>,
        message: String,
        arguments: &PromptArguments,
        teller: &mut Teller,
    ) -> Result<Outcome, Failure> {
        let console = run.console;
        let accepted = console.ask("prompt", Map::new().with("message", message))?;
        let mut accepted = Accepted::of(&accepted);
        let mut follows_run = false;
        loop {
            if run.gives_up() {
                return Ok(Outcome::Turn(Value::from(Map::new().with("outcome", "aborted"))));
            }
            let within = [teller.tick(), run.until_asked(), run.until_deadline()].into_iter().flatten().min();
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
            // The stages of a run are turns of their own.
            if !follows_run && !accepted.has(&event) {
                console.printed(&event);
                continue;
            }
            if arguments.output == Output::Events || !run.is_late(&event) {
                teller.tell(&event);
            }
            console.printed(&event);
            let data = frame::data(&event);
            match frame::topic(&event) {
                "command-result" if !follows_run && !frame::text(data, "turn-id").is_empty() => {
                    teller.warn(frame::text(data, "message"));
                    accepted = Accepted::of_turn(frame::text(data, "turn-id"));
                    follows_run = true;
                    continue;
                }
                "ui/status-updated" if follows_run => teller.stage(data),
                "assistant/message" => {
                    run.count(data, arguments.max_turns);
                }
                "tool/requested" => run.answered(self.take_answer(console, data, teller)),
                "tool/start" => run.proposed = Some(Instant::now()),
                "tool/executing" => run.proposed = None,
                "tool/result" => {
                    run.proposed = None;
                    run.has_result(data);
                }
                _ => {}
            }
            if let Some(outcome) = accepted.ended(&event) {
                return Ok(outcome);
            }
        }
    }

    /// Takes an answer that the model has written as text, in place of the call. Else returns what the model is to be told.
    fn misfit(&self, ended: &Outcome, run: &Run<'_>, teller: &mut Teller) -> Option<String> {
        let Outcome::Turn(data) = ended else { return None };
        let shape = self.shape.as_ref().filter(|_| teller.answer.is_none() && !run.is_ended())?;
        if frame::text(data, "outcome") != "completed" || frame::text(data, "stop-reason") == "refusal" {
            return None;
        }
        let why = match json::read(unfenced(teller.last_text()).as_bytes()) {
            Ok(value) => match schema::check(shape, &value) {
                Ok(()) => {
                    teller.answer = Some(value.into_owned());
                    return None;
                }
                Err(why) => why,
            },
            Err(_) => "There is no answer yet: you did not call the tool.".to_owned(),
        };
        Some(why)
    }

    /// Deletes a session in which nothing was said: it would only stand in the way of those where something was.
    fn leave_nothing(&self, console: &Console, ended: &Outcome, teller: &Teller) {
        let is_lost = matches!(ended, Outcome::Turn(data) if frame::text(data, "outcome") == "failed");
        if !is_lost || self.resumed.is_some() || teller.has_said() {
            return;
        }
        let session = frame::text(console.server_info(), "session-id").to_owned();
        let left = console.ask("new_session", Map::new());
        let deleted =
            left.and_then(|_| console.ask("delete_session", Map::new().with("session-id", session)));
        if let Err(error) = deleted {
            tracing::debug!(%error, "the session stays");
        }
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

/// Moves the conversation to a copy of its session, up to the last message.
fn fork(console: &Console) -> Result<(), Failure> {
    let newest = console.ask("get_messages", Map::new().with("limit", 1))?;
    let messages = newest.get("messages").and_then(Value::as_slice).unwrap_or_default();
    let entry = messages.last().map(|message| frame::text(message, "id")).filter(|id| !id.is_empty());
    let entry = entry.ok_or_else(|| usage("--fork: nothing was said in this session yet"))?;
    console.ask("fork", Map::new().with("entry-id", entry.to_owned())).map(drop)
}

/// A text without the fence of a block of code around it.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.split_once('\n')).map(|(_, rest)| rest);
    inner.and_then(|rest| rest.trim_end().strip_suffix("```")).unwrap_or(text)
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

/// Success, if standard output has taken all of it.
fn printed(teller: &mut Teller) -> Exit {
    match teller.take_lost() {
        Some(error) => Err(Failure::io("standard output")(error)),
        None => Ok(ExitCode::SUCCESS),
    }
}
