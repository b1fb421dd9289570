//! What an event tells an editor, in plain types: of no version of the protocol. Pure: a session's state and an event in,
//! updates out.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::event::{
    Body, CommandOutcome, Event, NoticeLevel, Sender, ToolCall, ToolOutput, TurnEnded, TurnOutcome, Widget,
};
use crate::facts::{ModelFacts, Phase, SessionFacts};
use crate::limits::ACP_KNOWN_ENTRIES;
use crate::message::{Block, EntryId, Message, StopReason, TurnId, sources_below};
use crate::value::Value;
use crate::wire::acp::codes::Fault;
use crate::wire::acp::options;
use crate::wire::acp::update::{
    CallContent, CallKind, CallState, CompactionState, Foreground, PlanStep, ShownCall, Stop, Update, Voice,
};

/// What an editor can show, as it said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Can {
    /// Forms for answers.
    pub forms: bool,
    /// Pages to open.
    pub pages: bool,
    /// Settings that are on or off.
    pub switches: bool,
    /// Messages beside the conversation.
    pub notices: bool,
    /// Compactions.
    pub compactions: bool,
    /// A terminal for a login.
    pub terminal_login: bool,
    /// What the session does, and its own messages as they stand in the conversation.
    pub states: bool,
}

/// What an editor has been told of a session.
#[derive(Debug, Default)]
pub struct SentState {
    /// The connection's number in the session's engine.
    pub connection: u64,
    /// The session's folder.
    pub cwd: Arc<str>,
    /// The models that can be chosen.
    pub models: Arc<[ModelFacts]>,
    /// The session's state.
    pub facts: Option<Arc<SessionFacts>>,
    /// The answer that is told in pieces.
    stream: Option<Stream>,
    /// The tool calls that were told and have no result.
    calls: HashSet<Arc<str>>,
    /// Those of the answer that is told in pieces.
    proposed: Vec<Arc<str>>,
    /// The newest entries that a replay has told, so that no event tells them again.
    pub replayed: HashSet<EntryId>,
    /// The number of compactions.
    compactions: u64,
    /// What the session does, as it was told.
    shown: Shown,
    /// Whether a turn runs, whose end is an event.
    is_in_turn: bool,
    /// Whether a slash command of the editor runs.
    pub runs_command: bool,
}

/// What a session does, as it was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Shown {
    #[default]
    Idle,
    Running,
    Blocked,
}

/// An answer that is told in pieces.
#[derive(Debug)]
struct Stream {
    turn: TurnId,
    call: u32,
    message: String,
    thought: String,
    /// Characters of its text that were told.
    said: u64,
    /// Characters of its thinking that were told.
    thoughts: u64,
}

/// Tells updates, one after the other.
type Tell<'t> = dyn FnMut(&Update<'_>) + 't;

impl SentState {
    /// Nothing but a session's state, for the client with that number.
    pub fn new(connection: u64, models: Arc<[ModelFacts]>, facts: Arc<SessionFacts>) -> Self {
        Self { connection, cwd: facts.cwd.clone(), models, facts: Some(facts), ..Self::default() }
    }

    /// Tells what is new by an event. `joined` is the whole text of a delta with which later ones were merged.
    pub fn event(&mut self, can: Can, event: &Event, joined: Option<&str>, tell: &mut Tell<'_>) {
        match &event.body {
            Body::AssistantDelta(text) => self.piece(event, Voice::Agent, joined.unwrap_or(text), tell),
            Body::ThinkingDelta(text) => self.piece(event, Voice::Thought, joined.unwrap_or(text), tell),
            Body::SessionUpdated(facts) => {
                self.session(can, facts, tell);
                self.phase(can, facts.phase, tell);
            }
            Body::ToolUpdate(output) => {
                let text = CallContent::Text(output.text.to_string());
                let content = Some(vec![text]);
                self.call(
                    &output.call,
                    CallState::Running,
                    ShownCall { content, ..ShownCall::default() },
                    tell,
                );
            }
            Body::ToolStart(call) => {
                if self.proposed.len() < ACP_KNOWN_ENTRIES {
                    self.proposed.push(call.id.clone());
                }
                self.call(call, CallState::Pending, self.about(call), tell);
            }
            Body::ToolExecuting(call) => self.call(call, CallState::Running, self.about(call), tell),
            Body::CompactionStarted { .. } if can.compactions => {
                self.compactions = self.compactions.saturating_add(1);
                tell(&self.compaction(CompactionState::Running, None));
            }
            Body::CompactionEnded(ended) if can.compactions => {
                let state = match ended.outcome {
                    TurnOutcome::Completed => CompactionState::Completed,
                    TurnOutcome::Aborted | TurnOutcome::Interrupted => CompactionState::Cancelled,
                    TurnOutcome::Failed => CompactionState::Failed,
                };
                tell(&self.compaction(state, ended.error.as_deref().map(str::to_owned)));
            }
            Body::Notification(said) if can.notices => {
                tell(&Update::Notice {
                    warns: said.level == NoticeLevel::Warning,
                    text: said.message.clone(),
                });
            }
            Body::Diagnostic(said) if can.notices => {
                tell(&Update::Notice { warns: true, text: said.message() });
            }
            // Every editor is shown when its history or rules are not as they were.
            Body::Diagnostic(said) if said.is_of_session() => tell(&Update::Text {
                voice: Voice::Agent,
                message: said.code().into(),
                text: format!("{}\n\n", said.message()).into(),
            }),
            Body::Error { message, .. } if can.notices => {
                tell(&Update::Notice { warns: true, text: message.to_string() });
            }
            Body::WidgetsUpdated(widgets) => plan(widgets).iter().for_each(tell),
            Body::UserMessage(_) if can.states && !self.is_in_turn => {
                self.is_in_turn = true;
                self.works(can, tell);
                self.event(can, event, joined, tell);
            }
            Body::UserMessage(_) | Body::AssistantMessage(_) | Body::ToolResult(_)
                if event.entry.as_ref().is_some_and(|entry| self.replayed.contains(entry)) => {}
            Body::UserMessage(sent) => {
                let is_own = |connection| connection == self.connection;
                if can.states || !matches!(sent.from, Sender::Client { connection, .. } if is_own(connection))
                {
                    said(&sent.message, Voice::User, tell);
                }
            }
            Body::AssistantMessage(message) => {
                self.proposed.clear();
                self.answer(event, message, tell);
            }
            Body::RetryAwaited(retry) if retry.discarded => self.discard(tell),
            Body::ToolResult(output) => self.result(output, tell),
            Body::CommandResult(outcome) => command(event, outcome, tell),
            // The client did not ask for these.
            Body::CompactionStarted { .. }
            | Body::CompactionEnded(_)
            | Body::Notification(_)
            | Body::Diagnostic(_)
            | Body::Error { .. } => {}
            // The answer to the client's prompt tells the end of a turn, and questions are requests of their own.
            Body::TurnEnded(_)
            | Body::QuestionAsked(_)
            | Body::QuestionEnded(_)
            | Body::ChoiceRequested(_)
            | Body::DialogRequested(_)
            | Body::ToolRequested(_)
            | Body::FileRequested(_)
            | Body::FileChanged(_)
            | Body::RequestCancelled { .. } => {}
            // The protocol has no words for these.
            Body::ToolDelta { .. }
            | Body::EntryWritten(_)
            | Body::StagePassed(_)
            | Body::QueueUpdated(_)
            | Body::MessagesReplaced(_)
            | Body::FilesUndone(_)
            | Body::RetryAwaited(_)
            | Body::FooterUpdated(_)
            | Body::SessionResumed { .. }
            | Body::SessionRehydrated(_)
            | Body::ContextUpdated { .. }
            | Body::Synced
            | Body::Stale { .. }
            | Body::JobUpdated(_)
            | Body::McpUpdated(_)
            | Body::ControlHandled(_)
            | Body::WidgetSpecsUpdated(_)
            | Body::StatusUpdated(_) => {}
        }
    }

    /// A piece of an answer: what of it was not told before.
    fn piece(&mut self, event: &Event, voice: Voice, text: &str, tell: &mut Tell<'_>) {
        let (Some(turn), Some(piece)) = (&event.turn, event.piece) else { return };
        let is_same = |stream: &Stream| stream.call == piece.call && stream.turn == *turn;
        if !self.stream.as_ref().is_some_and(is_same) {
            self.stream = Some(Stream::new(turn, piece.call));
        }
        let Some(stream) = &mut self.stream else { return };
        let (message, told) = match voice {
            Voice::Thought => (&stream.thought, &mut stream.thoughts),
            _ => (&stream.message, &mut stream.said),
        };
        // What is missing between is told with the whole message.
        let Some(before) = told.checked_sub(piece.at) else { return };
        let text = if before == 0 { text } else { after(text, before) };
        if !text.is_empty() {
            *told = told.saturating_add(u64::try_from(text.chars().count()).unwrap_or(u64::MAX));
            tell(&Update::Text { voice, message: message.as_str().into(), text: text.into() });
        }
    }

    /// A whole message of the model: what of it was not told in pieces.
    fn answer(&mut self, event: &Event, message: &Message, tell: &mut Tell<'_>) {
        let stream = self.stream.take().filter(|stream| Some(&stream.turn) == event.turn.as_ref());
        let (said, thoughts) = stream.as_ref().map_or((0, 0), |stream| (stream.said, stream.thoughts));
        let (id, thought_id) = match &stream {
            Some(stream) => (stream.message.as_str(), stream.thought.as_str().into()),
            None => (message.id.as_str(), Cow::from(thought_of(message.id.as_str()))),
        };
        for (voice, id, before) in [(Voice::Thought, &*thought_id, thoughts), (Voice::Agent, id, said)] {
            let whole = text_of(message, voice);
            let rest = after(&whole, before);
            if !rest.is_empty() {
                tell(&Update::Text { voice, message: id.into(), text: rest.into() });
            }
        }
        images(message, Voice::Agent, id, tell);
    }

    /// The answer that is told in pieces is dropped. The protocol takes nothing back: its message says so, and its calls have
    /// failed.
    fn discard(&mut self, tell: &mut Tell<'_>) {
        if let Some(stream) = self.stream.take().filter(|stream| stream.said > 0) {
            let text = "\n\n*The connection was lost; the answer begins anew.*\n\n";
            tell(&Update::Text {
                voice: Voice::Agent,
                message: stream.message.as_str().into(),
                text: text.into(),
            });
        }
        for id in std::mem::take(&mut self.proposed) {
            if self.calls.remove(&id) {
                let state = Some(CallState::Failed);
                tell(&Update::CallChanged(Box::new(ShownCall { id, state, ..ShownCall::default() })));
            }
        }
    }

    /// What is known of a call.
    fn about(&self, call: &ToolCall) -> ShownCall {
        let is_known = !call.parsed.is_nil();
        ShownCall {
            title: Some(title(&call.summary, &call.name)),
            places: is_known.then(|| places(&self.cwd, &call.parsed)),
            input: is_known.then(|| (*call.parsed).clone()),
            ..ShownCall::default()
        }
    }

    fn call(&mut self, call: &ToolCall, state: CallState, what: ShownCall, tell: &mut Tell<'_>) {
        let is_new = self.calls.len() < ACP_KNOWN_ENTRIES && self.calls.insert(call.id.clone());
        let what = ShownCall { id: call.id.clone(), state: Some(state), ..what };
        tell(&if is_new { begun(call, &self.cwd, what) } else { Update::CallChanged(Box::new(what)) });
    }

    fn result(&mut self, output: &ToolOutput, tell: &mut Tell<'_>) {
        let call = &output.call;
        let mut content = Vec::new();
        if let Some(edit) = &output.edit {
            content.push(CallContent::Diff {
                path: edit.path.clone(),
                old: edit.old.clone(),
                new: edit.new.clone(),
            });
        }
        if !output.text.is_empty() {
            content.push(CallContent::Text(output.text.to_string()));
        }
        let what = ShownCall {
            id: call.id.clone(),
            state: Some(if output.is_error { CallState::Failed } else { CallState::Completed }),
            content: Some(content),
            output: Some(output.details.clone()).filter(|details| !details.is_nil()),
            ..ShownCall::default()
        };
        let was_told = self.calls.remove(&call.id);
        tell(&if was_told { Update::CallChanged(Box::new(what)) } else { begun(call, &self.cwd, what) });
    }

    /// What is new in the session's state.
    fn session(&mut self, can: Can, facts: &Arc<SessionFacts>, tell: &mut Tell<'_>) {
        let before = self.facts.replace(facts.clone());
        let Some(before) = before else { return };
        if before.mode != facts.mode {
            tell(&Update::Mode(facts.mode.as_str()));
        }
        let shown = options::shown(facts, &self.models, can.switches);
        if shown != options::shown(&before, &self.models, can.switches) {
            tell(&Update::Options(shown));
        }
        if title_of(&before) != title_of(facts)
            && let Some(title) = title_of(facts)
        {
            tell(&Update::Title(title.to_owned()));
        }
        if (before.context_tokens, before.context_window, before.usage)
            != (facts.context_tokens, facts.context_window, facts.usage)
        {
            tell(&usage(facts));
        }
    }

    /// Whether a turn runs.
    pub fn is_in_turn(&self) -> bool {
        self.is_in_turn
    }

    /// The session has a phase. The end of a turn is an event of its own.
    fn phase(&mut self, can: Can, phase: Phase, tell: &mut Tell<'_>) {
        match phase {
            Phase::Streaming | Phase::Retrying => {
                self.is_in_turn = true;
                self.works(can, tell);
            }
            Phase::Compacting => self.works(can, tell),
            // A command that runs ends with its outcome.
            Phase::Idle if self.is_in_turn || self.runs_command || self.shown != Shown::Running => {}
            Phase::Idle => self.show(can, Foreground::Idle(None), tell),
        }
    }

    /// A turn or a command runs, unless that is known.
    pub fn works(&mut self, can: Can, tell: &mut Tell<'_>) {
        if self.shown == Shown::Idle {
            self.show(can, Foreground::Running, tell);
        }
    }

    /// The person is asked.
    pub fn asks(&mut self, can: Can, tell: &mut Tell<'_>) {
        if self.shown != Shown::Blocked {
            self.show(can, Foreground::Blocked, tell);
        }
    }

    /// No question is open any more. One that belonged to no turn leaves the session as idle as it was.
    pub fn asks_no_more(&mut self, can: Can, tell: &mut Tell<'_>) {
        if self.shown == Shown::Blocked {
            let is_at_work = self.is_in_turn || self.runs_command;
            self.show(can, if is_at_work { Foreground::Running } else { Foreground::Idle(None) }, tell);
        }
    }

    /// A turn has ended, or a command.
    pub fn ended(&mut self, can: Can, end: Result<Stop, Fault>, tell: &mut Tell<'_>) {
        self.is_in_turn = false;
        self.show(can, Foreground::Idle(Some(end)), tell);
    }

    /// Tells what the session does, which the editor has just opened.
    pub fn opened(&mut self, can: Can, phase: Phase, tell: &mut Tell<'_>) {
        self.is_in_turn = matches!(phase, Phase::Streaming | Phase::Retrying);
        let now = if phase == Phase::Idle { Foreground::Idle(None) } else { Foreground::Running };
        self.show(can, now, tell);
    }

    /// Tells that what runs is ended with the session's use.
    pub fn closed(&mut self, can: Can, tell: &mut Tell<'_>) {
        if !can.states || self.shown == Shown::Idle {
            return;
        }
        for call in std::mem::take(&mut self.calls) {
            let what = ShownCall { id: call, state: Some(CallState::Failed), ..ShownCall::default() };
            tell(&Update::CallChanged(Box::new(what)));
        }
        self.ended(can, Ok(Stop::Cancelled), tell);
    }

    fn show(&mut self, can: Can, now: Foreground, tell: &mut Tell<'_>) {
        self.shown = match now {
            Foreground::Running => Shown::Running,
            Foreground::Blocked => Shown::Blocked,
            Foreground::Idle(_) => Shown::Idle,
        };
        if can.states {
            tell(&Update::State(now));
        }
    }

    /// Whether the session has no model, or one whose provider needs a login.
    pub fn lacks_login(&self) -> bool {
        let Some(facts) = &self.facts else { return false };
        if !facts.has_model() {
            return true;
        }
        let is_current = |of: &&ModelFacts| of.provider == facts.model_provider && of.id == facts.model_id;
        self.models.iter().find(is_current).is_some_and(|of| !of.usable)
    }

    fn compaction(&self, state: CompactionState, error: Option<String>) -> Update<'static> {
        Update::Compaction { id: format!("compaction-{}", self.compactions), state, error }
    }

    /// Tells a message of the history; the calls of the model's with what `result` knows of them.
    pub fn old_message(&mut self, message: &Message, calls: &[ShownCall], tell: &mut Tell<'_>) {
        match message.role {
            crate::message::Role::User => said(message, Voice::User, tell),
            crate::message::Role::Assistant => {
                let thought = thought_of(message.id.as_str());
                for (voice, id) in [(Voice::Thought, thought.as_str()), (Voice::Agent, message.id.as_str())] {
                    let whole = text_of(message, voice);
                    if !whole.is_empty() {
                        tell(&Update::Text { voice, message: id.into(), text: whole });
                    }
                }
                images(message, Voice::Agent, message.id.as_str(), tell);
                for call in calls {
                    if call.state == Some(CallState::Pending) {
                        self.calls.insert(call.id.clone());
                    }
                    tell(&Update::Call(Box::new(call.clone())));
                }
            }
            _ => {}
        }
        if self.replayed.len() < ACP_KNOWN_ENTRIES {
            self.replayed.insert(message.id.clone());
        }
    }
}

impl Stream {
    fn new(turn: &TurnId, call: u32) -> Self {
        let message = format!("{turn}-{call}");
        Self { turn: turn.clone(), call, thought: thought_of(&message), message, said: 0, thoughts: 0 }
    }
}

/// The id of the thinking of a message.
fn thought_of(message: &str) -> String {
    format!("{message}-thought")
}

/// The text after so many characters.
fn after(text: &str, chars: u64) -> &str {
    let Ok(chars) = usize::try_from(chars) else { return "" };
    text.char_indices()
        .nth(chars)
        .map_or(if chars == 0 { text } else { "" }, |(at, _)| text.get(at..).unwrap_or_default())
}

/// The text, with its sources below, or the thinking of a message.
fn text_of(message: &Message, voice: Voice) -> Cow<'_, str> {
    let mut parts = message.content.iter().filter_map(|block| match (block, voice) {
        (Block::Thinking { text, .. }, Voice::Thought) | (Block::Text(text), Voice::Agent | Voice::User) => {
            Some(text.as_ref())
        }
        _ => None,
    });
    let first = parts.next().unwrap_or_default();
    let text = match parts.next() {
        None => Cow::Borrowed(first),
        Some(second) => Cow::Owned([first, second].into_iter().chain(parts).collect()),
    };
    match sources_below(&message.content) {
        links if links.is_empty() || voice != Voice::Agent => text,
        links => Cow::Owned(text.into_owned() + &links),
    }
}

/// A whole message.
fn said(message: &Message, voice: Voice, tell: &mut Tell<'_>) {
    let text = text_of(message, voice);
    let id = message.id.as_str();
    if !text.is_empty() {
        tell(&Update::Text { voice, message: id.into(), text });
    }
    images(message, voice, id, tell);
}

fn images(message: &Message, voice: Voice, id: &str, tell: &mut Tell<'_>) {
    for block in &message.content {
        if let Block::Image { mime_type, data } = block {
            tell(&Update::Image { voice, message: id.into(), mime_type, data });
        }
    }
}

/// A call that is told for the first time, whatever is known of it.
fn begun(call: &ToolCall, cwd: &str, what: ShownCall) -> Update<'static> {
    let is_known = !call.parsed.is_nil();
    Update::Call(Box::new(ShownCall {
        tool: Some(call.name.clone()),
        title: what.title.or_else(|| Some(title(&call.summary, &call.name))),
        kind: Some(CallKind::of(&call.name)),
        places: what.places.or_else(|| is_known.then(|| places(cwd, &call.parsed))),
        input: what.input.or_else(|| is_known.then(|| (*call.parsed).clone())),
        ..what
    }))
}

/// A call on one line.
fn title(summary: &str, name: &str) -> String {
    if summary.is_empty() { name.to_owned() } else { summary.to_owned() }
}

/// The files that a call touches, as its arguments say.
pub fn places(cwd: &str, arguments: &Value<'_>) -> Vec<PathBuf> {
    let path = arguments.get("path").and_then(Value::as_str).filter(|path| !path.is_empty());
    path.map(|path| Path::new(cwd).join(path)).into_iter().collect()
}

/// The name of the session, once somebody has said something in it.
pub fn title_of(facts: &SessionFacts) -> Option<&str> {
    facts.name.as_deref().or(facts.first_message.as_deref())
}

/// The use of the window, and the cost so far.
pub fn usage(facts: &SessionFacts) -> Update<'static> {
    let cost = Some(facts.usage.cost).filter(|cost| *cost > 0.0);
    Update::Usage { used: facts.context_tokens, size: facts.context_window, cost }
}

/// The steps of a workflow or of an agent's plan, if a widget shows them.
fn plan(widgets: &[Widget]) -> Option<Update<'static>> {
    let widget = widgets.iter().find(|widget| matches!(widget.spec.id, "workflow" | "plan"))?;
    let steps = widget.lines.iter().skip(1).filter_map(|line| {
        let (mark, text) = line.trim_start().split_once(' ')?;
        let state = match mark {
            "○" => CallState::Pending,
            "●" => CallState::Running,
            "✗" => CallState::Failed,
            _ => CallState::Completed,
        };
        Some(PlanStep { text: text.trim().to_owned(), state })
    });
    Some(Update::Plan(steps.collect()))
}

/// The outcome of a slash command, as words of the agent.
fn command(event: &Event, outcome: &CommandOutcome, tell: &mut Tell<'_>) {
    if outcome.message.is_empty() {
        return;
    }
    let request = event.cause.as_ref().map_or("", |cause| cause.request.trim_matches('"'));
    let message = Cow::from(format!("command-{request}"));
    tell(&Update::Text { voice: Voice::Agent, message, text: outcome.message.as_str().into() });
}

/// How a prompt ends with its turn. `cancelled` if the editor asked for that.
///
/// # Errors
/// The failure, for a person.
pub fn stop(ended: &TurnEnded, cancelled: bool) -> Result<Stop, String> {
    let failed = || ended.error.as_deref().unwrap_or("The turn failed.").to_owned();
    match (ended.outcome, ended.stop) {
        _ if cancelled => Ok(Stop::Cancelled),
        (TurnOutcome::Aborted | TurnOutcome::Interrupted, _) => Ok(Stop::Cancelled),
        (TurnOutcome::Failed, _) if ended.is_out_of_rounds() => Ok(Stop::MaxRounds),
        (TurnOutcome::Failed, Some(StopReason::Refusal)) => Ok(Stop::Refusal),
        (TurnOutcome::Failed, _) => Err(failed()),
        (TurnOutcome::Completed, Some(StopReason::MaxTokens)) => Ok(Stop::MaxTokens),
        (TurnOutcome::Completed, Some(StopReason::Refusal)) => Ok(Stop::Refusal),
        (TurnOutcome::Completed, _) => Ok(Stop::EndTurn),
    }
}
