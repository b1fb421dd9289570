//! `edn-bridge prompt`: a session API without a wire.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use edn_bridge::catalogue::Topic;
use edn_bridge::event::{Body, Event};
use edn_bridge::message::{Message, SessionId, StopReason};
use edn_bridge::session::{ApiError, Call, Client, Pressure, Prompt, Reply, SessionApi};
use edn_bridge::value::Value;

use super::serve::Process;
use super::{FAILED, Options};

const CONNECTION: u64 = 1;

pub(super) fn prompt(options: &Options, text: String) -> Result<ExitCode, String> {
    let process = Process::new(options)?;
    let client = Arc::new(Console::new());
    let session = process.runtime.attach(CONNECTION, client.clone());
    client.focus(session.clone());
    let (ended, end) = channel();
    *client.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    let prompt = Prompt { message: text, ..Prompt::default() };
    wait(|reply| process.runtime.prompt(call(&session), prompt, reply))?;
    let ended = end.recv().map_err(|_| "the turn did not end".to_owned())?;
    wait(|reply| process.runtime.detach(CONNECTION, reply))?;
    process.end();
    let mut out = std::io::stdout().lock();
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

/// A client that prints what the model says.
struct Console {
    focus: Mutex<SessionId>,
    ended: Mutex<Option<Sender<Ended>>>,
}

impl Console {
    fn new() -> Self {
        Self { focus: Mutex::new(SessionId::from("")), ended: Mutex::new(None) }
    }

    /// Says what the prompt came to; the first time counts.
    fn end(&self, what: Ended) {
        if let Some(ended) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = ended.send(what);
        }
    }
}

impl Client for Console {
    fn wants(&self, topic: Topic, _: Option<&SessionId>) -> bool {
        matches!(
            topic,
            Topic::AssistantDelta
                | Topic::AssistantMessage
                | Topic::CommandResult
                | Topic::FrontendActionRequested
        )
    }

    fn deliver(&self, event: &Event) -> Pressure {
        match &event.body {
            Body::AssistantDelta(text) => {
                let mut out = std::io::stdout().lock();
                // A closed output ends the printing, not the turn: its result is kept.
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            }
            Body::AssistantMessage(message) if message.stop_reason != Some(StopReason::ToolUse) => {
                self.end(Ended::Answer(message.clone()));
            }
            Body::Payload(Topic::CommandResult, result) => {
                let text = |key| result.get_keyword(key).and_then(Value::as_str).unwrap_or_default();
                self.end(Ended::Command {
                    failed: text("type") == "error",
                    message: text("message").to_owned(),
                });
            }
            Body::Payload(Topic::FrontendActionRequested, _) => self.end(Ended::Choice),
            _ => {}
        }
        Pressure::Fine
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
