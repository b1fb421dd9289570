//! What `edn-bridge prompt` prints: the answer on standard output, and on standard error, for a person, what goes on.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use edn_bridge::client::frame;
use edn_bridge::edn;
use edn_bridge::json;
use edn_bridge::message::{Block, sources_below};
use edn_bridge::value::{Map, Owned, Value};

use super::printed_text::PrintedText;
use super::verdict::{PromptError, RefusedCall, Verdict};
use crate::cli::out;
use crate::cli::style::{Meaning, Painter};

/// What is printed on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in crate::cli) enum Output {
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

/// How often the spinner moves.
const TICK: Duration = Duration::from_millis(100);

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Columns of a tool call's line, beside its mark.
const CALL_COLUMNS: usize = 96;

/// Tells of a prompt.
pub(in crate::cli) struct Teller {
    output: Output,
    /// The answer is asked for by a schema: texts beside it are not printed.
    is_structured: bool,
    /// The structured answer.
    pub(in crate::cli) answer: Option<Value<'static>>,
    painter: Painter,
    spinner: Option<Spinner>,
    /// The text of the last answer.
    text: String,
    /// Whether standard output stands in the middle of a line.
    is_mid_line: bool,
    has_said: bool,
    said: PrintedText,
    session: Option<String>,
    usage: Option<Owned>,
    stop: Option<String>,
    calls: Vec<Value<'static>>,
    /// The sources of the answers.
    sources: Vec<Value<'static>>,
    /// The status of the workflow that was shown last.
    stage: String,
    has_ended: bool,
    markdown: Option<Rendering>,
    /// Why standard output did not take something, unless its reader has left.
    lost: Option<io::Error>,
}

/// Makes what a terminal shows of a text that streams; of `None`, what is left at its end.
pub(in crate::cli) type Rendering = Box<dyn FnMut(Option<&str>) -> String>;

/// A line on a terminal that shows that something goes on.
struct Spinner {
    began: Instant,
    frame: usize,
    doing: String,
    is_shown: bool,
}

impl Teller {
    pub(in crate::cli) fn new(output: Output, is_structured: bool) -> Self {
        let painter = Painter::stderr();
        let began = Instant::now();
        let spinner = Spinner { began, frame: 0, doing: "waiting for the model".to_owned(), is_shown: false };
        Self {
            output,
            is_structured,
            answer: None,
            painter,
            spinner: painter.is_live().then_some(spinner),
            text: String::new(),
            is_mid_line: false,
            has_said: false,
            said: PrintedText::default(),
            session: None,
            usage: None,
            stop: None,
            calls: Vec::new(),
            sources: Vec::new(),
            stage: String::new(),
            has_ended: false,
            markdown: None,
            lost: None,
        }
    }

    /// Why a part of the answer is not where it was to be printed.
    pub(in crate::cli) fn take_lost(&mut self) -> Option<io::Error> {
        self.lost.take()
    }

    /// Notes whether something was printed. A closed output ends the printing, not the turn: its result is kept.
    fn printed(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.lost.get_or_insert(error);
        }
    }

    /// The same with answers that are rendered for a terminal.
    #[must_use]
    pub(in crate::cli) fn with_markdown(mut self, markdown: Rendering) -> Self {
        self.markdown = Some(markdown);
        self
    }

    /// Leaves the terminal to somebody else.
    pub(in crate::cli) fn pause(&mut self) {
        self.clear();
        self.end_line();
    }

    /// Whether all is printed.
    pub(in crate::cli) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The text of the last answer.
    pub(in crate::cli) fn last_text(&self) -> &str {
        &self.text
    }

    /// The answer as it is printed; `None` without one.
    pub(in crate::cli) fn answer_text(&self) -> Option<String> {
        let text = Some(self.text.clone()).filter(|text| !text.is_empty() && !self.is_structured);
        self.answer.as_ref().map(as_json).or(text)
    }

    /// Tells of something about the prompt as a whole.
    pub(in crate::cli) fn warn(&mut self, text: &str) {
        self.note(Meaning::Note, &format!("edn-bridge: {text}"));
    }

    /// Tells of the statuses of a workflow's run, if they have changed.
    pub(in crate::cli) fn stage(&mut self, data: &Owned) {
        let statuses = data.get("statuses").and_then(Value::as_slice).unwrap_or_default();
        let texts: Vec<&str> = statuses.iter().map(|status| frame::text(status, "text")).collect();
        let stage = texts.join(", ");
        if stage != self.stage && !stage.is_empty() {
            self.warn(&stage);
        }
        self.stage = stage;
    }

    /// Whether the model said or did anything.
    pub(in crate::cli) fn has_said(&self) -> bool {
        self.has_said
    }

    /// Moves the spinner on; returns how long to wait for the next event, if there is one.
    pub(in crate::cli) fn tick(&mut self) -> Option<Duration> {
        let spinner = self.spinner.as_mut()?;
        // A line that the answer is being written on is left alone.
        if !self.is_mid_line {
            let frame = FRAMES.get(spinner.frame % FRAMES.len()).copied().unwrap_or_default();
            spinner.frame = spinner.frame.wrapping_add(1);
            let told = format!("{} s  {}", spinner.began.elapsed().as_secs(), spinner.doing);
            let line = self.painter.paint(Meaning::Faint, &told);
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K{frame} {line}");
            spinner.is_shown = true;
        }
        Some(TICK)
    }

    fn clear(&mut self) {
        if let Some(spinner) = &mut self.spinner
            && std::mem::take(&mut spinner.is_shown)
        {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }

    fn doing(&mut self, what: &str) {
        if let Some(spinner) = &mut self.spinner {
            spinner.doing = what.to_owned();
        }
    }

    /// A line for a person on standard error.
    fn note(&mut self, meaning: Meaning, text: &str) {
        self.clear();
        self.end_line();
        let line = self.painter.paint(meaning, text);
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// Ends the line of the answer, if it is in the middle of one.
    fn end_line(&mut self) {
        if let Some(markdown) = &mut self.markdown {
            let rest = markdown(None);
            self.is_mid_line |= !rest.is_empty();
            let printed = io::stdout().lock().write_all(rest.as_bytes());
            self.printed(printed);
        }
        if std::mem::take(&mut self.is_mid_line) {
            let printed = writeln!(out::stdout());
            self.printed(printed);
        }
    }

    /// Tells of an event's frame.
    pub(in crate::cli) fn tell(&mut self, event: &Owned) {
        let data = frame::data(event);
        let text = |key| frame::text(data, key);
        if !text("session-id").is_empty() {
            self.session = Some(text("session-id").to_owned());
        }
        match frame::topic(event) {
            "assistant/delta" => {
                self.has_said = true;
                let added = self.said.added(data);
                if !added.is_empty() {
                    self.say(added);
                }
            }
            "assistant/thinking-delta" => {
                self.has_said = true;
                self.doing("thinking");
            }
            "assistant/message" => {
                let whole = frame::message_text(data);
                self.stop = Some(text("stop-reason").to_owned()).filter(|stop| !stop.is_empty());
                let rest = self.said.rest(&whole);
                if !rest.is_empty() {
                    self.say(rest);
                }
                let content = data.get("content").and_then(Value::as_slice).unwrap_or_default();
                let content: Vec<Block> = content.iter().filter_map(Block::from_value).collect();
                let links = sources_below(&content);
                if !links.is_empty() {
                    self.say(&(links + "\n"));
                }
                self.sources.extend(content.iter().filter_map(|block| match block {
                    Block::Sources(_) => Some(block.to_value()),
                    _ => None,
                }));
                // A turn that is ended between two calls has an empty message at its end, which answers nothing.
                if !whole.is_empty() || self.stop.as_deref() == Some("end-turn") {
                    self.text = whole;
                }
            }
            "tool/start" => self.has_said = true,
            "tool/executing" => self.begin(text("tool-name"), text("call-summary")),
            "tool/result" => self.finish(data),
            "turn/retry" => {
                let count = |key| data.get(key).and_then(Value::as_i64).unwrap_or_default();
                let pause = count("pause-ms").saturating_add(999) / 1000;
                let why = text("error-message").trim_end_matches('.');
                // The text on standard output stays there; the next try begins on a line of its own.
                let is_dropped = data.get("discarded").and_then(Value::as_bool) == Some(true);
                let dropped = if is_dropped { "; the answer begins anew" } else { "" };
                self.note(
                    Meaning::Note,
                    &format!("edn-bridge: {why}; retry {} in {pause} s{dropped}", count("attempt")),
                );
                self.doing("waiting to try again");
            }
            "ui/notification" => self.note(Meaning::Note, &format!("edn-bridge: {}", text("message"))),
            "compaction/started" => self.doing("summarising the older part of the conversation"),
            "turn/ended" => self.add_usage(data.get("usage")),
            _ => {}
        }
        if self.output == Output::Events {
            self.clear();
            let line = Map::new().with("event", frame::topic(event).to_owned()).with("data", data.clone());
            let printed = writeln!(out::stdout(), "{}", edn::to_string(&Value::from(line)));
            self.printed(printed);
        }
    }

    /// Adds the usage of a turn: a workflow has several, and an answer that does not fit is asked for again.
    fn add_usage(&mut self, usage: Option<&Owned>) {
        let Some(usage) = usage else { return };
        let Some(before) = &self.usage else {
            self.usage = Some(usage.clone());
            return;
        };
        let mut sum = Map::new();
        for (key, count) in usage.as_map().into_iter().flat_map(Map::iter) {
            let earlier = before.as_map().and_then(|map| map.get(key));
            let count = match (count.as_i64(), earlier.and_then(Value::as_i64)) {
                (Some(count), Some(earlier)) => Value::int(count.saturating_add(earlier)),
                _ => count.clone(),
            };
            sum.insert(key.clone(), count);
        }
        self.usage = Some(Value::from(sum));
    }

    /// Tells that another client, which has the session open too, is asked something.
    pub(in crate::cli) fn waits_for_others(&mut self, asked: &Owned) {
        let payload = asked.get("psi.interaction/payload").unwrap_or(&Value::Nil);
        let about = ["call-summary", "prompt", "prompt-summary", "args-summary"];
        let about = about.map(|key| frame::text(payload, key)).into_iter().find(|text| !text.is_empty());
        let about = about.map(|about| format!(": {about}")).unwrap_or_default();
        let kind = asked.get("psi.interaction/kind").and_then(Value::as_keyword).unwrap_or_default();
        self.note(
            Meaning::Note,
            &format!("edn-bridge: waits for an answer in another client ({kind}{about})"),
        );
        self.doing("waiting for an answer in another client");
    }

    fn say(&mut self, text: &str) {
        self.doing("the model writes");
        if self.output != Output::Text || self.is_structured {
            return;
        }
        self.clear();
        if let Some(markdown) = &mut self.markdown {
            let shown = markdown(Some(text));
            if let Some(last) = shown.chars().last() {
                self.is_mid_line = last != '\n';
            }
            let mut out = io::stdout().lock();
            let printed = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
            return self.printed(printed);
        }
        let mut out = out::stdout();
        let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.printed(printed);
        self.is_mid_line = !text.ends_with('\n');
    }

    fn begin(&mut self, name: &str, summary: &str) {
        self.has_said = true;
        let summary = self.painter.plain(summary).into_owned();
        self.doing(&format!("{name} runs"));
        // Only a person at a terminal wants it: a log of a script has what the script prints.
        if self.spinner.is_some() {
            let cut: String = summary.chars().take(CALL_COLUMNS).collect();
            self.note(Meaning::Name, &format!("● {name}  {cut}"));
        }
    }

    fn finish(&mut self, output: &Owned) {
        self.doing("waiting for the model");
        let is_error = output.get("is-error").and_then(Value::as_bool).unwrap_or(false);
        let took = output.get("duration-ms").and_then(Value::as_i64);
        let mut call = Map::new();
        call.put("tool", frame::text(output, "tool-name").to_owned());
        call.put("summary", frame::text(output, "call-summary").to_owned());
        call.put("error", is_error);
        call.put_some("duration-ms", took);
        self.calls.push(Value::from(call));
        if self.spinner.is_none() {
            return;
        }
        let mut line = String::new();
        if is_error {
            let first = frame::text(output, "result-text").lines().next().unwrap_or_default();
            let cut: String = first.chars().take(CALL_COLUMNS).collect();
            let _ = write!(line, "  ✗ {cut}");
        } else if let Some(took) = took.filter(|took| *took >= 1000) {
            let _ = write!(line, "  ✓ {} s", took / 1000);
        }
        if !line.is_empty() {
            self.note(if is_error { Meaning::Bad } else { Meaning::Faint }, &line);
        }
    }

    /// Prints the outcome of a slash command.
    pub(in crate::cli) fn command(&mut self, message: &str) {
        self.text = message.to_owned();
        if self.output == Output::Text {
            self.clear();
            self.end_line();
            let printed = writeln!(out::stdout(), "{message}");
            self.printed(printed);
        }
    }

    /// Prints what is printed at the end. Nothing more is told afterwards.
    pub(in crate::cli) fn end(&mut self, verdict: &Verdict) {
        self.has_ended = true;
        self.clear();
        self.end_line();
        let answer = self.answer.take();
        if answer.is_some() {
            // The turn was interrupted, because it had its answer.
            self.stop = Some("end-turn".to_owned());
        }
        match (self.output, answer) {
            (Output::Text, Some(answer)) => {
                let printed = writeln!(out::stdout(), "{}", as_json(&answer));
                self.printed(printed);
            }
            (Output::Edn | Output::Json, answer) => {
                let mut map = Map::new();
                map.put_some("session-id", self.session.clone());
                map.put("text", std::mem::take(&mut self.text));
                map.put_some("answer", answer);
                map.put_some("stop-reason", self.stop.take());
                map.put_some("usage", self.usage.take());
                map.put("tool-calls", Value::vector(std::mem::take(&mut self.calls)));
                let sources = std::mem::take(&mut self.sources);
                map.put_some("sources", (!sources.is_empty()).then(|| Value::vector(sources)));
                let (provider, model) = verdict.model.clone().unzip();
                map.put_some("provider", provider);
                map.put_some("model", model);
                map.put_some("duration-ms", verdict.duration_ms);
                map.put("calls", Value::int(i64::from(verdict.calls)));
                map.put("status", Value::int(i64::from(verdict.status)));
                map.put("refused", Value::vector(verdict.refused.iter().map(RefusedCall::to_value)));
                map.put_some("error", verdict.error.as_ref().map(PromptError::to_value));
                let map = Value::from(map);
                let text = if self.output == Output::Json { as_json(&map) } else { edn::to_string(&map) };
                let printed = writeln!(out::stdout(), "{text}");
                self.printed(printed);
            }
            _ => {}
        }
        self.spinner = None;
    }
}

fn as_json(value: &Value<'_>) -> String {
    let mut text = Vec::new();
    json::write(value, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
