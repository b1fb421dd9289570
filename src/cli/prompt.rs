//! `edn-bridge prompt`: a client of the session API, without a wire. Knows events and answers, and nothing of the
//! engine behind them.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use edn_bridge::event::{Body, Event};
use edn_bridge::limits::OUTBOX_TEXT_BYTES;
use edn_bridge::message::{Message, SessionId, StopReason};
use edn_bridge::session::{ApiError, Call, Client, Clients as _, Pressure, Prompt, Reply, Turns as _};

use tokio::sync::watch;

use super::served::Process;
use super::{FAILED, Options, out};

const CONNECTION: u64 = 1;

/// Sends one prompt and prints its answer. An error is what the command prints before it fails.
pub(super) fn prompt(options: &Options, text: String) -> Result<ExitCode, String> {
    let process = options.settings().and_then(|settings| Process::new(settings, options.durability()));
    let process = process.map_err(|failure| failure.to_string())?;
    let (events, listen) = channel();
    let client = Arc::new(Console::new(events));
    let session = process.engine.attach(CONNECTION, client.clone());
    client.focus(session.clone());
    let prompt = Prompt { message: text, ..Prompt::default() };
    wait(|reply| process.engine.prompt(call(&session), prompt, reply))?;
    let mut out = out::stdout();
    let ended = loop {
        match listen.recv().map_err(|_| "the turn did not end".to_owned())? {
            ConsoleEvent::Text(text) => {
                // A closed output ends the printing, not the turn: its result is kept.
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                client.printed(text.len());
            }
            ConsoleEvent::Ended(ended) => break ended,
        }
    };
    wait(|reply| process.engine.detach(CONNECTION, reply))?;
    process.end();
    match ended {
        Ended::Command { failed: true, message } => Err(message),
        Ended::Command { failed: false, message } => {
            let _ = writeln!(out, "{message}");
            Ok(ExitCode::SUCCESS)
        }
        Ended::Choice => {
            Err("this command offers a choice; give it its argument, or use an editor".to_owned())
        }
        Ended::Answer(message) => {
            let _ = writeln!(out);
            match (message.stop_reason, &message.error_message) {
                (_, Some(error)) => Err(error.to_string()),
                (Some(StopReason::Error | StopReason::Aborted), None) => Ok(ExitCode::from(FAILED)),
                _ => Ok(ExitCode::SUCCESS),
            }
        }
    }
}

/// What a prompt came to.
enum Ended {
    /// A turn, with its last message.
    Answer(Arc<Message>),
    /// A slash command.
    Command { failed: bool, message: String },
    /// A slash command that needs somebody to choose.
    Choice,
}

fn call(session: &SessionId) -> Call {
    Call { connection: CONNECTION, request: "cli".into(), session: session.clone() }
}

/// Calls the API and waits for the answer.
fn wait<T: Send + 'static>(ask: impl FnOnce(Reply<T>)) -> Result<T, String> {
    let (sender, receiver) = channel();
    ask(Reply::new(move |result: Result<T, ApiError>| {
        let _ = sender.send(result);
    }));
    receiver.recv().map_err(|_| "no answer".to_owned())?.map_err(|error| error.message)
}

/// What the main thread, which prints, is told.
enum ConsoleEvent {
    /// A text of the model.
    Text(Arc<str>),
    /// What the prompt came to; the first time counts.
    Ended(Ended),
}

/// A client that hands on what the model says. It never prints itself: who hands it events must not wait
/// for a terminal.
struct Console {
    focus: Mutex<SessionId>,
    events: Sender<ConsoleEvent>,
    /// Bytes of text that are not printed yet.
    unprinted: AtomicUsize,
    /// Whether the model has to wait for them.
    full: watch::Sender<bool>,
}

impl Console {
    fn new(events: Sender<ConsoleEvent>) -> Self {
        let focus = Mutex::new(SessionId::from(""));
        Self { focus, events, unprinted: AtomicUsize::new(0), full: watch::Sender::new(false) }
    }

    fn end(&self, what: Ended) {
        let _ = self.events.send(ConsoleEvent::Ended(what));
    }

    fn say(&self, text: &Arc<str>) -> Pressure {
        let unprinted = self.unprinted.fetch_add(text.len(), Ordering::AcqRel).saturating_add(text.len());
        let _ = self.events.send(ConsoleEvent::Text(text.clone()));
        if unprinted < OUTBOX_TEXT_BYTES {
            return Pressure::Fine;
        }
        self.full.send_replace(true);
        // It may all have been printed in between, and nobody would say so again.
        self.printed(0);
        Pressure::Full(self.full.subscribe())
    }

    fn printed(&self, bytes: usize) {
        let unprinted = self.unprinted.fetch_sub(bytes, Ordering::AcqRel).saturating_sub(bytes);
        if unprinted < OUTBOX_TEXT_BYTES && *self.full.borrow() {
            self.full.send_replace(false);
        }
    }
}

impl Client for Console {
    fn watches(&self, _: Option<&SessionId>) -> bool {
        true
    }

    fn lists_sessions(&self) -> bool {
        false
    }

    fn deliver(&self, event: &Event) -> Pressure {
        match &event.body {
            Body::AssistantDelta(text) => return self.say(text),
            Body::AssistantMessage(message) if message.stop_reason != Some(StopReason::ToolUse) => {
                self.end(Ended::Answer(message.clone()));
            }
            Body::CommandResult(outcome) => {
                self.end(Ended::Command { failed: outcome.is_error(), message: outcome.message.clone() });
            }
            Body::ChoiceRequested(_) => self.end(Ended::Choice),
            _ => {}
        }
        Pressure::Fine
    }

    /// A turn waits for it as long as it takes: nobody else is there.
    fn fall_behind(&self) {}

    fn is_behind(&self) -> bool {
        false
    }

    fn focus(&self, session: SessionId) {
        *self.focus.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    fn focused(&self) -> SessionId {
        self.focus.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_interactor(&self) -> bool {
        false
    }

    fn close(&self) {}
}
