//! A conversation with a running server: lines out, frames in, a deadline on every wait.
//!
//! Knows envelopes and the streams, but not what a check expects. The wire's own client reads the lines. It is no
//! client that asks, because the rules must see every line, also those that are no frames, and checks send what no
//! client would. A thread writes, so that a server that does not read cannot block the runner.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Write;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use edn_bridge_client::frame::{data, topic};
use edn_bridge_client::{Lines, TimedOut};
use edn_codec::Value;

use crate::catalogue::Catalogue;
use crate::launch::{Link, Server};
use crate::rules::{Frame, Ledger};
use crate::shapes::excerpt;
use crate::stop::Stop;
use crate::wire::{Watcher, Wire};

/// The transcript of a check, for reports.
#[derive(Debug, Default)]
pub struct Transcript {
    lines: VecDeque<String>,
    left_out: usize,
}

/// Lines of the transcript in a report.
const SHOWN_LINES: usize = 24;

impl Transcript {
    fn add(&mut self, mark: &str, line: &[u8]) {
        if self.lines.len() >= SHOWN_LINES {
            self.lines.pop_front();
            self.left_out = self.left_out.saturating_add(1);
        }
        self.lines.push_back(format!("{mark} {}", excerpt(line)));
    }

    /// The last lines: `>` before sent ones, `<` before received ones.
    pub fn show(&self) -> Vec<String> {
        let head = (self.left_out > 0).then(|| format!("… {} lines before", self.left_out));
        head.into_iter().chain(self.lines.iter().cloned()).collect()
    }
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// `:data` of a response.
    Ok(Value<'static>),
    /// An error frame.
    Error(ErrorAnswer),
}

impl Answer {
    /// `{:ok DATA}`, or `{:error CODE :frame FRAME}`.
    pub fn into_value(self) -> Value<'static> {
        Value::map(match self {
            Self::Ok(data) => vec![(Value::keyword("ok"), data)],
            Self::Error(ErrorAnswer { code, frame }) => {
                vec![(Value::keyword("error"), Value::from(code)), (Value::keyword("frame"), frame)]
            }
        })
    }
}

/// An error frame.
#[derive(Debug, Clone)]
pub struct ErrorAnswer {
    /// `:error-code`
    pub code: String,
    /// The whole frame.
    pub frame: Value<'static>,
}

/// One server and the connection to it.
pub struct Peer {
    lines: Lines,
    /// `None` once the input was closed.
    writer: Option<Sender<Vec<u8>>>,
    server: Box<dyn Server>,
    wire: Wire,
    witness: Watcher,
    ledger: Rc<RefCell<Ledger>>,
    transcript: Rc<RefCell<Transcript>>,
    /// Events that arrived during other waits.
    events: VecDeque<Value<'static>>,
    /// Answers that arrived during other waits.
    answers: VecDeque<Frame>,
    patience: Duration,
    next_id: u32,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Peer")
    }
}

impl Peer {
    /// Takes over a running server.
    pub fn new(
        link: Link,
        patience: Duration,
        wire: Wire,
        catalogue: Rc<Catalogue>,
        ledger: Rc<RefCell<Ledger>>,
        transcript: Rc<RefCell<Transcript>>,
    ) -> Self {
        let Link { input, output, server } = link;
        let (writer, to_write) = channel();
        std::thread::spawn(move || write_all(input, &to_write));
        Self {
            lines: Lines::new(output),
            writer: Some(writer),
            server,
            wire,
            witness: wire.watcher(catalogue),
            ledger,
            transcript,
            events: VecDeque::new(),
            answers: VecDeque::new(),
            patience,
            next_id: 0,
        }
    }

    /// Sends bytes verbatim.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.transcript.borrow_mut().add(">", bytes.strip_suffix(b"\n").unwrap_or(bytes));
        if let Some(writer) = &self.writer {
            // If the writer is gone, the server is gone, and the wait for its answer reports that.
            let _ = writer.send(bytes.to_vec());
        }
    }

    /// Sends a line.
    pub fn send_line(&mut self, line: &str) {
        let mut bytes = line.as_bytes().to_vec();
        bytes.push(b'\n');
        self.send_bytes(&bytes);
    }

    /// Sends a request and returns its id. `params` is a map in EDN.
    pub fn send(&mut self, op: &str, params: &str) -> String {
        let id = self.new_id();
        self.send_as(&id, op, params);
        id
    }

    /// Sends a request under a given id.
    pub fn send_as(&mut self, id: &str, op: &str, params: &str) {
        self.witness.sends(id, op);
        self.send_line(&self.wire.request(id, op, params));
    }

    /// A request as a line, which is not sent.
    pub fn line_of(&self, id: &str, op: &str, params: &str) -> String {
        self.wire.request(id, op, params)
    }

    /// Registers a line of the check's own as a request that will be answered under its id.
    pub fn expects(&mut self, id: &str, op: &str) {
        self.witness.sends(id, op);
    }

    /// An id that is unused on this connection.
    pub fn new_id(&mut self) -> String {
        self.next_id = self.next_id.saturating_add(1);
        format!("c{}", self.next_id)
    }

    /// Stops reading the server's output, except for the current line.
    pub fn pause_reading(&self) {
        self.lines.pause();
    }

    /// Reads the server's output again.
    pub fn resume_reading(&self) {
        self.lines.resume();
    }

    /// Closes the server's input.
    pub fn close_input(&mut self) {
        self.writer = None;
    }

    /// Ends the server at once.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Limits the size of the server's files, to simulate a full disk.
    ///
    /// # Errors
    /// If the limit cannot be set, the check does not apply.
    pub fn limit_files(&mut self, bytes: u64) -> Result<(), Stop> {
        if self.server.limit_files(bytes) {
            return Ok(());
        }
        Err(Stop::NotApplicable("the files of the server cannot be limited here".to_owned()))
    }

    /// Waits for the server's end and returns its exit status.
    ///
    /// # Errors
    /// If it does not end in time.
    pub fn wait_exit(&mut self) -> Result<i32, Stop> {
        let deadline = self.deadline();
        // Reads the remaining output, so that the server can end.
        while self.next_frame(deadline)?.is_some() {}
        match self.server.wait(deadline) {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(Stop::failed("the server did not end after its input had ended")),
            Err(error) => Err(Stop::failed(format!("the server cannot be waited for: {error}"))),
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// If no answer arrives in time.
    pub fn ask(&mut self, op: &str, params: &str) -> Result<Answer, Stop> {
        let id = self.send(op, params);
        self.answer(&id)
    }

    /// Sends a request and returns the `:data` of its response.
    ///
    /// # Errors
    /// If an error or nothing arrives.
    pub fn ask_ok(&mut self, op: &str, params: &str) -> Result<Value<'static>, Stop> {
        let id = self.send(op, params);
        self.answer_ok(&id)
    }

    /// Sends a request and returns its error.
    ///
    /// # Errors
    /// If a response, another code or nothing arrives.
    pub fn ask_error(&mut self, op: &str, params: &str, code: &str) -> Result<ErrorAnswer, Stop> {
        let id = self.send(op, params);
        self.answer_error(&id, code)
    }

    /// Waits for the response to a request.
    ///
    /// # Errors
    /// If an error or nothing arrives.
    pub fn answer_ok(&mut self, id: &str) -> Result<Value<'static>, Stop> {
        match self.answer(id)? {
            Answer::Ok(data) => Ok(data),
            Answer::Error(error) => Err(Stop::failed(format!("a response was due and {} came", error.code))),
        }
    }

    /// Waits for the error to a request.
    ///
    /// # Errors
    /// If a response, another code or nothing arrives.
    pub fn answer_error(&mut self, id: &str, code: &str) -> Result<ErrorAnswer, Stop> {
        match self.answer(id)? {
            Answer::Error(error) if error.code == code => Ok(error),
            Answer::Error(error) => Err(Stop::failed(format!("{code} was due and {} came", error.code))),
            Answer::Ok(_) => Err(Stop::failed(format!("{code} was due and a response came"))),
        }
    }

    /// Waits for the answer with an id.
    ///
    /// # Errors
    /// If no answer arrives in time.
    pub fn answer(&mut self, id: &str) -> Result<Answer, Stop> {
        let what = format!("an answer to {id:?}");
        let answers = |frame: &Frame| !matches!(frame, Frame::Other(_)) && frame.text("id") == Some(id);
        match self.wait_frame(&what, answers)? {
            Frame::Error(frame) => Ok(Answer::Error(error_answer(frame))),
            frame => Ok(Answer::Ok(frame.data().clone())),
        }
    }

    /// Waits for an error frame without an id.
    ///
    /// # Errors
    /// If none arrives, or one with another code.
    pub fn stray_error(&mut self, code: &str) -> Result<ErrorAnswer, Stop> {
        let what = format!("{code} without an id");
        let frame =
            self.wait_frame(&what, |frame| matches!(frame, Frame::Error(_)) && frame.text("id").is_none())?;
        let error = error_answer(frame.value().clone());
        if error.code == code {
            return Ok(error);
        }
        Err(Stop::failed(format!("{code} was due and {} came", error.code)))
    }

    /// Waits for the first of two frames: an answer with an id, or an error with a code and no id.
    ///
    /// # Errors
    /// If neither arrives in time.
    pub fn either(&mut self, id: &str, code: &str) -> Result<Answer, Stop> {
        let what = format!("an answer to {id:?}, or {code}");
        let frame = self.wait_frame(&what, |frame| {
            frame.text("id") == Some(id)
                || frame.text("id").is_none() && frame.text("error-code") == Some(code)
        })?;
        match frame {
            Frame::Error(frame) => Ok(Answer::Error(error_answer(frame))),
            frame => Ok(Answer::Ok(frame.data().clone())),
        }
    }

    /// Requests without an answer.
    pub fn pending(&self) -> usize {
        self.witness.pending()
    }

    /// Waits for a matching response or error.
    fn wait_frame(&mut self, what: &str, fits: impl Fn(&Frame) -> bool) -> Result<Frame, Stop> {
        if let Some(place) = self.answers.iter().position(&fits)
            && let Some(frame) = self.answers.remove(place)
        {
            return Ok(frame);
        }
        let deadline = self.deadline();
        loop {
            match self.next_frame(deadline)? {
                None => return Err(self.gone(what)),
                Some(Frame::Event(event)) => self.events.push_back(event),
                Some(frame) if fits(&frame) => return Ok(frame),
                Some(frame) => self.answers.push_back(frame),
            }
        }
    }

    /// Waits for a matching event. Keeps the events before it for later calls.
    ///
    /// # Errors
    /// If none arrives in time.
    pub fn event(
        &mut self,
        what: &str,
        fits: impl Fn(&str, &Value<'static>) -> bool,
    ) -> Result<Value<'static>, Stop> {
        let matches = |event: &Value<'static>| fits(topic(event), data(event));
        if let Some(place) = self.events.iter().position(matches)
            && let Some(event) = self.events.remove(place)
        {
            return Ok(event);
        }
        let deadline = self.deadline();
        loop {
            match self.next_frame(deadline)? {
                None => return Err(self.gone(&format!("the event {what}"))),
                Some(Frame::Event(event)) if matches(&event) => return Ok(event),
                Some(Frame::Event(event)) => self.events.push_back(event),
                Some(frame) => self.answers.push_back(frame),
            }
        }
    }

    /// Takes the kept events that have arrived.
    pub fn take_events(&mut self) -> Vec<Value<'static>> {
        self.events.drain(..).collect()
    }

    /// The kept events that have arrived.
    pub fn kept_events(&self) -> impl Iterator<Item = &Value<'static>> {
        self.events.iter()
    }

    /// Drops the kept events of a topic.
    pub fn forget(&mut self, name: &str) {
        self.events.retain(|event| topic(event) != name);
    }

    /// Sends a `ping`, or what stands for it, and waits for its answer, by which time all earlier frames have arrived.
    ///
    /// # Errors
    /// If no answer arrives in time.
    pub fn barrier(&mut self) -> Result<(), Stop> {
        self.ask(self.wire.barrier(), "{}").map(|_| ())
    }

    /// The next line verbatim, outside the rules: for lines that are not map frames by agreement.
    ///
    /// # Errors
    /// If none arrives in time.
    pub fn raw_line(&mut self) -> Result<Vec<u8>, Stop> {
        let deadline = self.deadline();
        match self.next_line(deadline)? {
            Some(line) => Ok(line),
            None => Err(self.gone("a line")),
        }
    }

    /// The next frame, or `None` at the end of the server's output.
    fn next_frame(&mut self, deadline: Instant) -> Result<Option<Frame>, Stop> {
        let line = self.next_line(deadline)?;
        Ok(line.map(|line| self.witness.receives(&line, &mut self.ledger.borrow_mut())))
    }

    fn next_line(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Stop> {
        match self.lines.next(deadline) {
            Ok(line) => {
                line.iter().for_each(|line| self.transcript.borrow_mut().add("<", line));
                Ok(line)
            }
            Err(TimedOut) => {
                Err(Stop::failed(format!("nothing came within {} ms", self.patience.as_millis())))
            }
        }
    }

    fn gone(&self, what: &str) -> Stop {
        let complaint = self.server.complaint();
        let said =
            if complaint.is_empty() { String::new() } else { format!("; its last words: {complaint}") };
        Stop::failed(format!("the server's output ended where {what} was due{said}"))
    }

    fn deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.patience).unwrap_or(now)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.server.kill();
    }
}

fn error_answer(frame: Value<'static>) -> ErrorAnswer {
    let code = frame.get("error-code").and_then(Value::as_str).unwrap_or_default().to_owned();
    ErrorAnswer { code, frame }
}

fn write_all(mut input: Box<dyn Write + Send>, bytes: &Receiver<Vec<u8>>) {
    while let Ok(bytes) = bytes.recv() {
        // If the server is gone, the wait for its answer reports that.
        if input.write_all(&bytes).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}
