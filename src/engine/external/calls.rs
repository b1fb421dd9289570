//! What an agent has told of a turn so far: its text, and its tool calls. Shows and writes nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::terminals::Terminals;
use crate::acp::CallKind;
use crate::agent::{CallNews, CallPart};
use crate::diff;
use crate::engine::native::answer::ModelAnswer;
use crate::engine::native::answer_parts::AnswerParts;
use crate::event::ToolCall;
use crate::limits::{AGENT_ARGUMENTS_BYTES, AGENT_OUTPUT_BYTES, AGENT_TITLE_BYTES, MAX_ANSWER_BYTES};
use crate::message::Block;
use crate::tool::one_line;
use crate::value::{Map, Value};

/// What was told so far.
pub(super) struct Telling {
    pub(super) text: String,
    pub(super) thinking: String,
    /// When the thinking began, and when its last piece came.
    pub(super) thinking_since: Option<Duration>,
    pub(super) thinking_over: Option<Duration>,
    pub(super) images: Vec<Block>,
    /// The message of the text, if the agent tells messages apart.
    pub(super) message: Option<Arc<str>>,
    /// Bytes of all text of the turn.
    pub(super) bytes: usize,
    /// The calls, in the order in which they were first told of.
    pub(super) calls: Vec<AgentCall>,
    pub(super) agent: Arc<str>,
}

/// A tool call of an agent.
pub(super) struct AgentCall {
    /// Its id at the agent.
    pub(super) id: Arc<str>,
    /// The session's folder, from which files are named as for our own tools.
    pub(super) folder: PathBuf,
    /// As it is shown. Its id is one of ours.
    pub(super) call: Arc<ToolCall>,
    pub(super) kind: CallKind,
    pub(super) content: Vec<CallPart>,
    pub(super) places: Vec<PathBuf>,
    pub(super) input: Option<Value<'static>>,
    pub(super) title: String,
    pub(super) written: String,
    pub(super) output: Option<Value<'static>>,
    /// Since when it runs.
    pub(super) since: Option<Instant>,
    pub(super) shown: Option<Instant>,
    pub(super) is_over: bool,
    /// Whether the agent told of it in a way that cannot be read.
    pub(super) is_unread: bool,
}

impl Telling {
    pub(super) fn new(agent: Arc<str>) -> Self {
        Self {
            text: String::new(),
            thinking: String::new(),
            thinking_since: None,
            thinking_over: None,
            images: Vec::new(),
            message: None,
            bytes: 0,
            calls: Vec::new(),
            agent,
        }
    }

    /// Why the turn has said more than one may, if it has.
    pub(super) fn too_much(&self) -> Option<String> {
        (self.bytes > MAX_ANSWER_BYTES)
            .then(|| format!("its answer is longer than {MAX_ANSWER_BYTES} bytes and was cut there"))
    }

    /// What is left for the turn's last message.
    pub(super) fn take_rest(&mut self) -> ModelAnswer {
        let mut parts = AnswerParts::default();
        if !self.thinking.is_empty() {
            parts
                .thinking(std::mem::take(&mut self.thinking), self.thinking_since.take().unwrap_or_default());
            if let Some(over) = self.thinking_over.take() {
                parts.end_thinking(over);
            }
        }
        if !self.text.is_empty() {
            parts.text(std::mem::take(&mut self.text));
        }
        self.images.drain(..).for_each(|image| parts.image(image));
        ModelAnswer { parts, ..ModelAnswer::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty() && self.images.is_empty()
    }
}

/// The name under which calls of a kind are shown and judged: of our tool of that kind, whose rules hold for them, else one of
/// the agent's own.
pub(super) fn tool_name(agent: &str, kind: CallKind, own: Option<&str>) -> Arc<str> {
    if let Some(tool) = kind.tool() {
        return tool.into();
    }
    let own = own.unwrap_or("tool");
    let plain: String =
        own.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(40).collect();
    format!("{agent}__{plain}").into()
}

impl AgentCall {
    /// Takes in what is new.
    pub(super) fn take(&mut self, agent: &str, news: &CallNews) {
        self.is_unread |= news.is_unread;
        if let Some(kind) = news.kind {
            self.kind = kind;
        }
        if let Some(content) = &news.content {
            self.content.clone_from(content);
        }
        if let Some(places) = &news.places {
            self.places.clone_from(places);
        }
        if let Some(title) = news.title.as_deref().filter(|title| !title.trim().is_empty()) {
            self.title = one_line(title, AGENT_TITLE_BYTES);
        }
        if let Some(input) = &news.input {
            self.input = Some(input.clone());
        }
        if let Some(output) = &news.output {
            self.output = Some(output.clone());
        }
        if let Some(written) = &news.written {
            self.written.push_str(written);
            let over = self.written.len().saturating_sub(AGENT_OUTPUT_BYTES);
            let over = (over..=self.written.len()).find(|over| self.written.is_char_boundary(*over));
            self.written.drain(..over.unwrap_or(0));
        }
        let parsed = self.input.clone().unwrap_or_else(|| Value::from(Map::new()));
        let text = crate::edn::to_string(&parsed);
        let (arguments, parsed) = match text.len() <= AGENT_ARGUMENTS_BYTES {
            true => (text, parsed),
            // A journal's line has a bound too.
            false => {
                let cut = Value::from(Map::new().with("cut", true).with("size", Value::from(text.len())));
                (crate::edn::to_string(&cut), cut)
            }
        };
        let name = tool_name(agent, self.kind, news.tool.as_deref());
        let name =
            if news.kind.is_some() || self.call.name.is_empty() { name } else { self.call.name.clone() };
        let summary = if self.title.is_empty() { name.to_string() } else { self.title.clone() };
        self.call = Arc::new(ToolCall {
            id: self.call.id.clone(),
            name,
            summary: summary.into(),
            arguments: arguments.into(),
            parsed: parsed.into(),
        });
    }

    /// The call with all of its arguments, also those that are too long for a journal's line.
    pub(super) fn whole(&self) -> Arc<ToolCall> {
        let whole = self.input.as_ref().map(|input| (crate::edn::to_string(input), input));
        match whole.filter(|(text, _)| text.len() > AGENT_ARGUMENTS_BYTES) {
            Some((text, input)) => Arc::new(ToolCall {
                arguments: text.into(),
                parsed: input.clone().into(),
                ..ToolCall::clone(&self.call)
            }),
            None => self.call.clone(),
        }
    }

    /// Its changes of files as one diff.
    pub(super) fn diff(&self) -> Option<String> {
        let diffs = self.content.iter().filter_map(|part| match part {
            CallPart::Diff { path, old, new } => {
                let name = path.strip_prefix(&self.folder).unwrap_or(path).to_string_lossy();
                Some(diff::unified(old.as_deref().unwrap_or_default(), new, name.trim_start_matches('/')))
            }
            _ => None,
        });
        let all: String = diffs.collect();
        (!all.is_empty()).then_some(all)
    }

    /// Its output for a person.
    pub(super) fn text(&self, terminals: &Terminals) -> String {
        let mut text = String::new();
        let mut add = |more: &str| {
            // A part may be named many times. What is beyond the bound is not copied.
            let room = AGENT_OUTPUT_BYTES.saturating_sub(text.len());
            let end = (0..=room.min(more.len())).rev().find(|end| more.is_char_boundary(*end)).unwrap_or(0);
            if !text.is_empty() && end > 0 {
                text.push('\n');
            }
            text.push_str(more.get(..end).unwrap_or_default());
            text.len() < AGENT_OUTPUT_BYTES
        };
        let has_room = self.content.iter().all(|part| match part {
            CallPart::Text(text) => add(text),
            CallPart::Terminal(id) => terminals.text(id).is_none_or(|text| add(&text)),
            CallPart::Diff { .. } | CallPart::Image { .. } => true,
        });
        if has_room {
            add(&self.written);
        }
        if text.is_empty()
            && let Some(diff) = self.diff()
        {
            text = diff;
        }
        if text.is_empty()
            && let Some(output) = &self.output
        {
            text = match output.as_str() {
                Some(text) => text.to_owned(),
                None => crate::edn::to_string(output),
            };
        }
        if text.len() > AGENT_OUTPUT_BYTES {
            let end = (0..=AGENT_OUTPUT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
        }
        text
    }
}
