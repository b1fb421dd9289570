//! What an agent tells of a turn, as events and entries. A message of the journal ends where the agent begins another one or
//! calls a tool; a tool call is written with its result. Asks nobody.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::calls::{AgentCall, Telling, tool_name};
use super::turn_context::ExternalTurn;
use crate::acp::{CallKind, CallState};
use crate::agent::{AgentUpdate, AgentVoice, CallNews, CallPart};
use crate::diff;
use crate::engine::native::answer::ModelAnswer;
use crate::engine::native::answer_parts::AnswerParts;
use crate::engine::native::call::settle;
use crate::engine::native::rounds::Rounds;
use crate::event::{Body, FileEdit, NoticeLevel, ToolCall, ToolOutput};
use crate::limits::{AGENT_CALL_PAUSE, AGENT_PIECE_BYTES, AGENT_TURN_CALLS, TOOL_EXCERPT_BYTES};
use crate::message::{Block, StopReason};
use crate::tool::Outcome;
use crate::tool::output::{KeptOutput, Outputs};
use crate::value::Value;

impl ExternalTurn<'_> {
    /// Takes in what the agent tells.
    pub(super) async fn update(&self, update: AgentUpdate) {
        match update {
            AgentUpdate::Text { voice, message, text } => self.said(voice, message, text).await,
            AgentUpdate::Image { mime_type, data } => {
                let mut telling = self.telling.lock().await;
                telling.bytes = telling.bytes.saturating_add(data.len());
                if telling.too_much().is_none() {
                    telling.images.push(Block::Image { mime_type: mime_type.into(), data: data.into() });
                }
            }
            AgentUpdate::Call(news) => {
                self.call_told(&news, false).await;
            }
            AgentUpdate::Notice { warns, text } => {
                let level = if warns { NoticeLevel::Warning } else { NoticeLevel::Info };
                let name = &self.attached.setup.name;
                self.agents.notice(&self.turn.session, level, &format!("{name}: {text}"));
            }
            AgentUpdate::Compaction { runs } => {
                let text =
                    if runs { "It summarises its conversation." } else { "Its conversation is summarised." };
                let name = &self.attached.setup.name;
                self.agents.notice(&self.turn.session, NoticeLevel::Info, &format!("{name}: {text}"));
            }
        }
    }

    async fn said(&self, voice: AgentVoice, message: Option<Arc<str>>, text: String) {
        let mut telling = self.telling.lock().await;
        let is_other = message.is_some() && telling.message.is_some() && telling.message != message;
        if is_other {
            self.flush(&mut telling).await;
        }
        telling.message = message.or(telling.message.take());
        let mut rest = text.as_str();
        while !rest.is_empty() && telling.too_much().is_none() {
            let most = rest.len().min(AGENT_PIECE_BYTES);
            let end = (1..=most).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
            let (piece, after) = rest.split_at(end);
            rest = after;
            telling.bytes = telling.bytes.saturating_add(piece.len());
            let body = match voice {
                AgentVoice::Agent => {
                    telling.text.push_str(piece);
                    Body::AssistantDelta(piece.into())
                }
                AgentVoice::Thought => {
                    let now = self.turn.shared.clock.passed();
                    telling.thinking_since.get_or_insert(now);
                    telling.thinking_over = Some(now);
                    telling.thinking.push_str(piece);
                    Body::ThinkingDelta(piece.into())
                }
            };
            self.turn.publish(body).await;
        }
    }

    /// Writes and shows what was said as a message of its own.
    async fn flush(&self, telling: &mut Telling) {
        if telling.is_empty() {
            return;
        }
        telling.message = None;
        let answer = ModelAnswer { stop: Some(StopReason::ToolUse), ..telling.take_rest() };
        if let Err(error) = Rounds(self.turn).say(answer).await {
            tracing::warn!(%error, "the journal does not have a message of an agent");
        }
    }

    /// Takes in what is new of a call. Returns its id here; `None` if the turn has too many. What is asked about is still to be
    /// done: under the id of a call that is over, it is another call.
    pub(super) async fn call_told(&self, news: &CallNews, is_asked: bool) -> Option<Arc<str>> {
        let mut telling = self.telling.lock().await;
        let is_it = |call: &AgentCall| call.id == news.id && !(is_asked && call.is_over);
        let place = match telling.calls.iter().rposition(is_it) {
            Some(place) => place,
            None if telling.calls.len() >= AGENT_TURN_CALLS => return None,
            None => {
                self.flush(&mut telling).await;
                let call = self.begun(&telling.agent, news);
                self.turn.publish(Body::ToolStart(call.call.clone())).await;
                telling.calls.push(call);
                telling.calls.len().saturating_sub(1)
            }
        };
        let agent = telling.agent.clone();
        let call = telling.calls.get_mut(place)?;
        let id = call.call.id.clone();
        if call.is_over {
            return Some(id);
        }
        call.take(&agent, news);
        match news.state {
            Some(CallState::Completed) => self.end_call(call, false, None).await,
            Some(CallState::Failed) => self.end_call(call, true, None).await,
            Some(CallState::Running) => self.run_call(call).await,
            Some(CallState::Pending) | None => {}
        }
        if call.since.is_some() && !call.is_over && (news.content.is_some() || news.written.is_some()) {
            self.show_output(call);
        }
        Some(id)
    }

    /// Shows a call as running.
    async fn run_call(&self, call: &mut AgentCall) {
        if call.since.is_none() {
            call.since = Some(Instant::now());
            self.running.fetch_add(1, Ordering::AcqRel);
            self.turn.publish(Body::ToolExecuting(call.call.clone())).await;
        }
    }

    /// Shows the newest output of a running call, not too often.
    fn show_output(&self, call: &mut AgentCall) {
        if call.shown.is_some_and(|shown| shown.elapsed() < AGENT_CALL_PAUSE) {
            return;
        }
        call.shown = Some(Instant::now());
        let text = call.text(&self.terminals);
        let from = text.len().saturating_sub(TOOL_EXCERPT_BYTES);
        let from = (from..=text.len()).find(|from| text.is_char_boundary(*from)).unwrap_or(0);
        let output = ToolOutput {
            call: call.call.clone(),
            text: text.get(from..).unwrap_or_default().into(),
            is_error: false,
            details: Value::Nil,
            duration_ms: None,
            edit: None,
        };
        let event = self.turn.event(Body::ToolUpdate(Arc::new(output)));
        // The newest replaces what a slow client has not been sent, so nobody waits for it.
        let _ = self.turn.session.show(&self.turn.shared.hub, event);
    }

    /// Writes and shows a call with its result.
    async fn end_call(&self, call: &mut AgentCall, is_error: bool, instead: Option<&str>) {
        call.is_over = true;
        if call.since.is_some() {
            self.running.fetch_sub(1, Ordering::AcqRel);
        }
        self.permits().forget(&call.call.id);
        let text = match instead {
            Some(text) => text.to_owned(),
            None => call.text(&self.terminals),
        };
        let mut outcome = self.outcome(call, text).await;
        outcome.is_error = is_error;
        outcome.took = call.since.map(|since| since.elapsed());
        let mut parts = AnswerParts::default();
        parts.call(ToolCall::clone(&call.call));
        let answer = ModelAnswer { parts, stop: Some(StopReason::ToolUse), ..ModelAnswer::default() };
        let written = match Rounds(self.turn).say(answer).await {
            Ok(()) => settle(self.turn, call.call.clone(), outcome).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!(%error, "the journal does not have a tool call of an agent");
        }
        let event = self.turn.event(Body::ToolExecuting(call.call.clone()));
        self.turn.session.followed_by_editors(&self.turn.shared.client_files, None, event).await;
    }

    /// Ends the calls that the agent has not ended.
    pub(super) async fn end_calls(&self) {
        let mut telling = self.telling.lock().await;
        let mut calls = std::mem::take(&mut telling.calls);
        for call in calls.iter_mut().filter(|call| !call.is_over) {
            let text = call.text(&self.terminals);
            let why = "The turn ended before the call did.";
            let text = if text.is_empty() { why.to_owned() } else { format!("{text}\n\n{why}") };
            self.end_call(call, true, Some(&text)).await;
        }
        telling.calls = calls;
    }

    async fn outcome(&self, call: &AgentCall, text: String) -> Outcome {
        let outputs = Outputs::new(&self.turn.shared.settings.state_dir, self.turn.session.id.as_str());
        let handle = self.turn.shared.clock.id("o-");
        let kept = tokio::task::spawn_blocking(move || outputs.keep(handle, &text)).await;
        let kept =
            kept.unwrap_or_else(|_| KeptOutput { text: String::new(), cut: false, handle: None, size: 0 });
        let mut outcome = Outcome::kept(kept);
        if let Some(diff) = call.diff() {
            let (shown, rest) = diff::cut(&diff);
            let shown = if rest.is_empty() { shown.to_owned() } else { format!("{shown}{}", diff::GOES_ON) };
            outcome.details.put("diff", shown);
        }
        for part in &call.content {
            match part {
                CallPart::Image { mime_type, data } => {
                    let (mime_type, data) = (mime_type.as_str().into(), data.as_str().into());
                    outcome.images.push(Block::Image { mime_type, data });
                }
                CallPart::Diff { path, old, new } => {
                    outcome.edit = Some(Arc::new(FileEdit {
                        path: path.clone(),
                        old: old.as_deref().map(Arc::from),
                        new: new.as_str().into(),
                        bytes: None,
                    }));
                }
                CallPart::Text(_) | CallPart::Terminal(_) => {}
            }
        }
        outcome
    }

    fn begun(&self, agent: &str, news: &CallNews) -> AgentCall {
        let kind = news.kind.unwrap_or(CallKind::Other);
        let call = ToolCall {
            id: self.turn.shared.clock.id("tc-").into(),
            name: tool_name(agent, kind, news.tool.as_deref()),
            summary: "".into(),
            arguments: "".into(),
            parsed: Value::Nil.into(),
        };
        let mut begun = AgentCall {
            id: news.id.clone(),
            folder: PathBuf::from(&*self.turn.session.snapshot().facts.cwd),
            call: Arc::new(call),
            kind,
            content: Vec::new(),
            places: Vec::new(),
            input: None,
            title: String::new(),
            written: String::new(),
            output: None,
            since: None,
            shown: None,
            is_over: false,
            is_unread: false,
        };
        begun.take(agent, news);
        begun
    }
}
