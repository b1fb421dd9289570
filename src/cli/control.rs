//! `edn-bridge control`: sends texts and interrupts to live sessions, over the control wire. Knows the messages of
//! the control protocol, and nothing of a session.

mod receiver;
mod spill_file;

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use edn_bridge::clock::{self, Clock, rfc3339};
use edn_bridge::config::Settings;
use edn_bridge::interaction::audit::Audit;
use edn_bridge::json;
use edn_bridge::limits::{AUDIT_NAME_CHARS, CONTROL_ID_BYTES, CONTROL_LINE_BYTES, CONTROL_RETRY_PAUSE};
use edn_bridge::session::control::{ControlKind, ControlResult, VERSION};
use edn_bridge::value::{Map, Value};
use edn_bridge::wire::transport::socket::{self, Purpose};

use super::failure::{Exit, FAILED, Failure};
use super::options::Options;
use super::out;
use receiver::{Offer, ReceiveError, Receiver};
use spill_file::SpillFile;

/// The exit status of a request that no receiver offers to serve. Nothing was sent.
const NOT_OFFERED: u8 = 9;

/// Why there is nobody to ask.
const NONE_RUNS: &str = "no bridge with a control socket runs; name a team in the configuration";

/// How an exit status tells the result.
const EXITS: &str = "Exit status: 0 ok, 1 not sent, 3 not_live, 4 not_found, 5 busy, 6 timeout or no answer, 7 rejected, \
                     8 internal_error, 9 not offered by the receiver.";

#[derive(Subcommand)]
pub(super) enum ControlCommand {
    /// Sends the text on standard input to a session.
    ///
    /// The text is sent byte for byte. A running turn takes it before its next model call; an idle session begins a
    /// turn with it. Prints the acknowledgement as one line of JSON.
    #[command(after_help = EXITS)]
    Stdin {
        #[command(flatten)]
        sending: Sending,
        /// Ends the running turn, so that the text begins the next one.
        #[arg(long)]
        interrupt: bool,
    },
    /// Ends the running turn of a session. Prints the acknowledgement as one line of JSON.
    #[command(after_help = EXITS)]
    Interrupt {
        #[command(flatten)]
        sending: Sending,
    },
    /// Prints what the receiver serves, as one line of JSON.
    Capabilities {
        /// The receiver's socket, instead of those of running bridges.
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
    },
}

/// What is sent to whom, and how long an answer is waited for.
#[derive(Args)]
pub(super) struct Sending {
    /// The team of the sender and the session.
    #[arg(long, value_name = "NAME", value_parser = name)]
    team: String,
    /// The session: its id, or its name if no other has it.
    #[arg(long, value_name = "ID", value_parser = name)]
    agent: String,
    /// The session or one above it, by its id; by default the agent alone names the session.
    #[arg(long, value_name = "ID", default_value = "", value_parser = short)]
    session: String,
    /// Who sends: a member of the team.
    #[arg(long, value_name = "NAME", value_parser = name)]
    sender: String,
    /// The receiver's socket, instead of those of running bridges.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The id of the request, to send one again that had no answer; by default a new one.
    #[arg(long, value_name = "ID", value_parser = name)]
    request_id: Option<String>,
    /// How often it is sent again if it is not acknowledged in time, or the receiver is busy.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=10))]
    retries: u8,
    /// How long each acknowledgement is waited for, in milliseconds.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    timeout_ms: u64,
}

/// How long the answer about capabilities is waited for if no request follows.
const ASKING: Duration = Duration::from_secs(2);

/// A name short enough for a request. The error is clap's to show.
fn short(text: &str) -> Result<String, String> {
    if text.len() > CONTROL_ID_BYTES {
        return Err(format!("it has more than {CONTROL_ID_BYTES} bytes"));
    }
    Ok(text.to_owned())
}

fn name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { short(text) }
}

pub(super) fn run(options: &Options, command: ControlCommand) -> Exit {
    let settings = options.settings()?;
    let (sending, asked) = match command {
        ControlCommand::Capabilities { socket } => return capabilities(&settings, socket),
        ControlCommand::Stdin { sending, interrupt } => {
            (sending, SessionRequest::Stdin { text: text()?, interrupt })
        }
        ControlCommand::Interrupt { sending } => (sending, SessionRequest::Interrupt),
    };
    let clock = clock::of_process();
    spill_file::sweep(&settings.state_dir, &*clock);
    let sender = Sender {
        id: sending.request_id.clone().unwrap_or_else(|| clock.id("req_")),
        sent_at: clock.now(),
        audit: Audit::new(&settings.state_dir),
        settings: &settings,
        sending,
        asked,
        clock,
    };
    sender.run()
}

/// The text on standard input.
fn text() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let most = u64::try_from(CONTROL_LINE_BYTES).unwrap_or(u64::MAX);
    let read = std::io::stdin().lock().take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(Failure::io("standard input"))?;
    if bytes.len() > CONTROL_LINE_BYTES {
        return Err(Failure::Failed(format!("standard input has more than {CONTROL_LINE_BYTES} bytes")));
    }
    let text =
        String::from_utf8(bytes).map_err(|_| Failure::Failed("standard input is not UTF-8".to_owned()))?;
    if text.trim().is_empty() {
        return Err(Failure::Failed("there is no text on standard input".to_owned()));
    }
    Ok(text)
}

/// The receivers to try, the likeliest first: the one that is named, or those of the project, then all others.
fn receivers(settings: &Settings, named: Option<&PathBuf>) -> impl Iterator<Item = Receiver> {
    let state_dir = settings.state_dir.clone();
    let (named, of_project) = match named {
        Some(path) => (Some(Receiver::at(path.clone())), None),
        None => (None, Some(settings.cwd.clone())),
    };
    let mut known = HashSet::new();
    // Found when they are needed: most often the project's own bridge has the session.
    let folders = of_project.map(|cwd| [Some(cwd), None]).into_iter().flatten();
    let running = folders.flat_map(move |cwd| socket::connect(Purpose::Control, &state_dir, cwd.as_deref()));
    let running = running.filter(move |found| known.insert(found.path.clone()));
    named.into_iter().chain(running.map(Receiver::found))
}

fn capabilities(settings: &Settings, socket: Option<PathBuf>) -> Exit {
    let mut reason = NONE_RUNS.to_owned();
    for mut receiver in receivers(settings, socket.as_ref()) {
        match receiver.offer(ASKING) {
            Ok(offer) => return print(&offer.message),
            Err(lost) => reason = lost.to_string(),
        }
    }
    Err(Failure::Failed(reason))
}

/// Prints a message as one line of JSON.
fn print(message: &Map<'_>) -> Exit {
    let mut line = Vec::new();
    json::object(message, &mut line);
    line.push(b'\n');
    out::print(&String::from_utf8_lossy(&line))
}

/// Says something to the person, apart from the acknowledgement.
fn say(text: &str) {
    let _ = writeln!(out::stderr(), "edn-bridge: {text}");
}

/// What is asked of a session.
enum SessionRequest {
    Stdin { text: String, interrupt: bool },
    Interrupt,
}

impl SessionRequest {
    const fn kind(&self) -> ControlKind {
        match self {
            Self::Stdin { .. } => ControlKind::Stdin,
            Self::Interrupt => ControlKind::Interrupt,
        }
    }
}

/// How a request ended.
enum Outcome {
    /// It was acknowledged.
    Acknowledged(Map<'static>, ControlResult),
    /// It may have been done: no acknowledgement came.
    Unanswered(ReceiveError),
    /// It was not sent, and that is the exit status.
    NotSent(u8, String),
}

/// One request of a sender.
struct Sender<'s> {
    settings: &'s Settings,
    sending: Sending,
    asked: SessionRequest,
    id: String,
    sent_at: jiff::Timestamp,
    audit: Audit,
    clock: Arc<dyn Clock>,
}

impl Sender<'_> {
    /// Sends the request to the receivers, until one has the session.
    fn run(self) -> Exit {
        let mut outcome = None;
        for mut receiver in receivers(self.settings, self.sending.socket.as_ref()) {
            let tried = self.try_receiver(&mut receiver);
            // Another process may have the session. To ask the next one uses no id up.
            let is_settled = match &tried {
                Outcome::Acknowledged(_, result) => {
                    !matches!(result, ControlResult::NotFound | ControlResult::NotLive)
                }
                Outcome::Unanswered(_) => true,
                Outcome::NotSent(..) => false,
            };
            // Of those that settle nothing, the one that says most is kept.
            if is_settled || outcome.as_ref().is_none_or(|kept| tried.weight() > Outcome::weight(kept)) {
                outcome = Some(tried);
            }
            if is_settled {
                break;
            }
        }
        match outcome.unwrap_or_else(|| self.fail(FAILED, NONE_RUNS.to_owned())) {
            Outcome::Acknowledged(ack, result) => {
                print(&ack)?;
                if result != ControlResult::Ok {
                    let detail = ack.get(&Value::str("detail")).and_then(Value::as_str).unwrap_or_default();
                    say(&format!("{}: {detail}", result.as_str()));
                }
                Ok(ExitCode::from(exit(result)))
            }
            Outcome::Unanswered(lost) => {
                let again = format!("send it again with --request-id {}", self.id);
                say(&format!("{lost}. The request may still be done; {again}."));
                Ok(ExitCode::from(exit(ControlResult::Timeout)))
            }
            Outcome::NotSent(status, reason) => {
                say(&format!("not done: {reason}"));
                Ok(ExitCode::from(status))
            }
        }
    }

    /// Sends the request to a receiver that offers to serve it, again if it must be.
    fn try_receiver(&self, receiver: &mut Receiver) -> Outcome {
        let patience = Duration::from_millis(self.sending.timeout_ms);
        let mut retries = 0..self.sending.retries;
        let offer = loop {
            match receiver.offer(patience) {
                Err(ReceiveError::Timeout) if retries.next().is_some() => {}
                answer => break answer,
            }
        };
        let offer = match offer {
            Ok(offer) => offer,
            Err(lost) => {
                let reason = format!("{}: {lost}", receiver.path().display());
                // The session may be there, whatever another receiver says.
                say(&reason);
                return self.fail(FAILED, reason);
            }
        };
        let kind = format!("control.{}.request", self.asked.kind().as_str());
        if !offer.types.contains(&kind) {
            return self.fail(NOT_OFFERED, format!("the receiver does not serve {kind}"));
        }
        let mut parked = match self.park(&offer) {
            Ok(parked) => parked,
            Err(reason) => return self.fail(FAILED, reason),
        };
        let outcome = self.send(receiver, parked.as_ref(), patience);
        if let (Outcome::Unanswered(_), Some(parked)) = (&outcome, &mut parked) {
            // The receiver may still read it.
            parked.keep();
        }
        outcome
    }

    /// Writes down that the request was not sent.
    fn fail(&self, status: u8, reason: String) -> Outcome {
        self.record("control/failed", 0, |record| {
            record.put("reason", cut(&reason));
        });
        Outcome::NotSent(status, reason)
    }

    /// Puts a text that is too long for a line into a file. The error is why the request is not sent, for a person.
    fn park(&self, offer: &Offer) -> Result<Option<SpillFile>, String> {
        let SessionRequest::Stdin { text, .. } = &self.asked else { return Ok(None) };
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if bytes > offer.soft_limit_bytes {
            say(&format!(
                "the text has {bytes} bytes; receivers recommend {} at most",
                offer.soft_limit_bytes
            ));
        }
        if bytes <= offer.hard_limit_bytes && self.line(None, 0).len() <= CONTROL_LINE_BYTES {
            return Ok(None);
        }
        if bytes > offer.file_limit_bytes {
            let most = offer.file_limit_bytes;
            return Err(format!("the text has {bytes} bytes; the receiver takes at most {most}"));
        }
        let expires = self.sent_at.checked_add(Duration::from_millis(offer.max_age_ms));
        let expires = expires.unwrap_or(jiff::Timestamp::MAX);
        SpillFile::new(&self.settings.state_dir, &offer.content_folders, &self.id, text, &rfc3339(expires))
            .map(Some)
    }

    fn send(&self, receiver: &mut Receiver, parked: Option<&SpillFile>, patience: Duration) -> Outcome {
        let mut attempt = 0;
        loop {
            self.record(if attempt == 0 { "control/sent" } else { "control/retried" }, attempt, |_| {});
            let line = self.line(parked, attempt);
            let answer = receiver.acknowledgement(&line, self.asked.kind(), &self.id, patience);
            match &answer {
                Ok((ack, result)) => self.record("control/acked", attempt, |record| {
                    let duplicate = ack.get(&Value::str("duplicate")).and_then(Value::as_bool);
                    record.put("result", result.as_str()).put("duplicate", duplicate.unwrap_or(false));
                }),
                Err(lost) => {
                    let is_late = matches!(lost, ReceiveError::Timeout);
                    let name = if is_late { "control/timed-out" } else { "control/failed" };
                    self.record(name, attempt, |record| {
                        record.put("reason", cut(&lost.to_string()));
                    });
                }
            }
            let is_final = attempt >= self.sending.retries
                || !matches!(
                    answer,
                    Err(ReceiveError::Timeout | ReceiveError::Closed(_))
                        | Ok((_, ControlResult::Timeout | ControlResult::Busy))
                );
            if is_final {
                return match answer {
                    Ok((ack, result)) => Outcome::Acknowledged(ack, result),
                    Err(lost @ ReceiveError::Refused(_)) if attempt == 0 => {
                        Outcome::NotSent(FAILED, lost.to_string())
                    }
                    Err(lost) => Outcome::Unanswered(lost),
                };
            }
            attempt = attempt.saturating_add(1);
            std::thread::sleep(CONTROL_RETRY_PAUSE);
        }
    }

    /// The line of the request.
    fn line(&self, parked: Option<&SpillFile>, attempt: u8) -> Vec<u8> {
        let mut map = Map::new();
        let mut put = |name: &'static str, value: Value<'static>| map.insert(Value::str(name), value);
        put("type", format!("control.{}.request", self.asked.kind().as_str()).into());
        put("v", VERSION.into());
        put("request_id", self.id.clone().into());
        put("team", self.sending.team.clone().into());
        put("session_id", self.sending.session.clone().into());
        put("agent_id", self.sending.agent.clone().into());
        put("sender", self.sending.sender.clone().into());
        put("sent_at", rfc3339(self.sent_at).to_string().into());
        let mut meta = Map::new();
        meta.insert(Value::str("ui_source"), "edn-bridge");
        meta.insert(Value::str("retry_count"), i64::from(attempt));
        match &self.asked {
            SessionRequest::Interrupt => drop(put("signal", "interrupt".into())),
            SessionRequest::Stdin { text, interrupt } => {
                put("content_encoding", "utf-8".into());
                put("interrupt", (*interrupt).into());
                match parked {
                    None => drop(put("content", text.clone().into())),
                    Some(parked) => {
                        meta.insert(Value::str("oversize_strategy"), "content_ref");
                        put("content_ref", parked.reference());
                    }
                }
            }
        }
        put("meta", meta.into());
        let mut line = Vec::new();
        json::object(&map, &mut line);
        line.push(b'\n');
        line
    }

    /// Writes a record into the audit. It never has the text.
    fn record(&self, name: &'static str, attempt: u8, more: impl FnOnce(&mut Map<'static>)) {
        let mut record = Map::new();
        record.put("kind", name);
        record.put("at", rfc3339(self.clock.now()).to_string());
        record.put("type", self.asked.kind().as_str());
        record.put("request-id", self.id.clone());
        record.put("team", self.sending.team.clone());
        record.put("session-id", self.sending.session.clone());
        record.put("agent-id", self.sending.agent.clone());
        record.put("sender", self.sending.sender.clone());
        record.put("retry-count", i64::from(attempt));
        more(&mut record);
        if let Err(error) = self.audit.append(record) {
            say(&format!("the audit record could not be written: {error}"));
        }
    }
}

impl Outcome {
    /// How much an outcome says, among those that leave a further receiver to try.
    const fn weight(&self) -> u8 {
        match self {
            Self::NotSent(FAILED, _) => 0,
            Self::NotSent(..) => 1,
            Self::Acknowledged(_, ControlResult::NotFound) => 2,
            Self::Acknowledged(..) | Self::Unanswered(_) => 3,
        }
    }
}

/// The beginning of a reason, which a receiver may have given.
fn cut(reason: &str) -> String {
    reason.chars().take(AUDIT_NAME_CHARS).collect()
}

/// The exit status of a result.
const fn exit(result: ControlResult) -> u8 {
    match result {
        ControlResult::Ok => 0,
        ControlResult::NotLive => 3,
        ControlResult::NotFound => 4,
        ControlResult::Busy => 5,
        ControlResult::Timeout => 6,
        ControlResult::Rejected => 7,
        ControlResult::InternalError => 8,
    }
}
