//! Events as lines of the ACP wire, with the answers to prompts and the requests to the editor: the encoder of a
//! connection.

use std::sync::Arc;

use crate::event::{Body, Event, QuestionAsked, TurnEnded};
use crate::message::SessionId;
use crate::wire::acp::ask;
use crate::wire::acp::codes::{Code, Fault};
use crate::wire::acp::desk::{AskedEditor, Desk, DeskOfEditor, Prompting};
use crate::wire::acp::map;
use crate::wire::acp::request::AcpResponse;
use crate::wire::acp::update::{Form, Stop};
use crate::wire::acp::v1;
use crate::wire::encoder::Encoder;

/// The encoder of one connection.
pub struct AcpEncoder {
    desk: Arc<Desk>,
}

impl AcpEncoder {
    /// The encoder of the connection with that desk.
    pub fn new(desk: Arc<Desk>) -> Self {
        Self { desk }
    }
}

impl Encoder for AcpEncoder {
    type Style = ();

    fn event(&mut self, out: &mut Vec<u8>, (): (), seq: u64, event: &Event, joined: Option<&str>) -> u64 {
        let mut state = self.desk.lock();
        if let Some(home) = event.session.as_ref().and_then(|session| state.home(session)) {
            tell(&mut state, out, &home, event, joined);
        }
        seq.saturating_add(1)
    }

    /// Pieces of an answer, because the whole answer tells what is missing; the newest state and the newest output, because
    /// newer ones follow.
    fn is_shown_anew(&self, event: &Event) -> bool {
        matches!(
            event.body,
            Body::AssistantDelta(_) | Body::ThinkingDelta(_) | Body::SessionUpdated(_) | Body::ToolUpdate(_)
        )
    }

    /// The ends of prompts, and what the editor is asked.
    fn is_awaited(&self, event: &Event) -> bool {
        matches!(
            event.body,
            Body::TurnEnded(_)
                | Body::CommandResult(_)
                | Body::ChoiceRequested(_)
                | Body::QuestionAsked(_)
                | Body::QuestionEnded(_)
        )
    }

    fn lose(&mut self, event: &Event) {
        let mut state = self.desk.lock();
        if let Some(home) = event.session.as_ref().and_then(|session| state.home(session))
            && let Some(open) = state.sessions.get_mut(&home)
        {
            open.lost.0 = open.lost.0.saturating_add(1);
        }
    }
}

/// Tells an event of an open session, or of a subagent that works for it.
fn tell(state: &mut DeskOfEditor, out: &mut Vec<u8>, home: &SessionId, event: &Event, joined: Option<&str>) {
    match &event.body {
        Body::QuestionAsked(asked) => return question(state, out, home, asked),
        Body::QuestionEnded(ended) => {
            return match state.asked.remove(&ended.id) {
                Some(AskedEditor::Question { is_page: true, .. }) => v1::page_over(out, &ended.id),
                Some(_) => v1::withdraw(out, &ended.id),
                None => {}
            };
        }
        Body::ChoiceRequested(choice) => {
            let Some(cause) = &event.cause else { return };
            let request = ask::choice(choice, state.can);
            let asked = AskedEditor::Choice {
                kind: choice.kind,
                picks: choice.items.iter().map(|item| item.pick.clone()).collect(),
                request: cause.request.clone(),
                home: home.clone(),
                as_form: matches!(request, ask::EditorRequest::Form(..)),
            };
            state.asked.insert(choice.request.clone(), asked);
            return v1::request(out, &choice.request, home, &request);
        }
        _ => {}
    }
    let can = state.can;
    let Some(open) = state.sessions.get_mut(home) else { return };
    open.told.event(can, event, joined, &mut |update| v1::update(out, home, update));
    let request = event.cause.as_ref().map(|cause| cause.request.clone());
    match &event.body {
        Body::TurnEnded(ended) => {
            let is_its = |prompt: &Prompting| match &prompt.turn {
                Some(turn) => Some(turn) == event.turn.as_ref(),
                None => Some(&prompt.request) == request.as_ref(),
            };
            let lacks_login = open.told.lacks_login();
            for prompt in state.take_prompts(home, is_its) {
                stop(out, &prompt, ended, lacks_login);
            }
        }
        Body::CommandResult(outcome) => {
            let goes_on = |prompt: &Prompting| prompt.starts_workflow && !outcome.is_error();
            let is_its = |prompt: &Prompting| Some(&prompt.request) == request.as_ref() && !goes_on(prompt);
            for prompt in state.take_prompts(home, is_its) {
                let stop = if prompt.is_cancelled { Stop::Cancelled } else { Stop::EndTurn };
                v1::answer(out, &prompt.request, &AcpResponse::Stopped(stop));
            }
        }
        _ => {}
    }
}

fn question(state: &mut DeskOfEditor, out: &mut Vec<u8>, home: &SessionId, asked: &QuestionAsked) {
    let Some(request) = ask::request(asked, state.can) else { return };
    let (as_form, is_page) = match &request {
        ask::EditorRequest::Permission(_) => (false, false),
        ask::EditorRequest::Form(_, form) => (true, matches!(form, Form::Page(_))),
    };
    let kind = asked.content.kind();
    let about = AskedEditor::Question { kind, home: home.clone(), as_form, is_page };
    state.asked.insert(asked.id.clone(), about);
    v1::request(out, &asked.id, home, &request);
}

/// Answers a prompt whose turn has ended.
fn stop(out: &mut Vec<u8>, prompt: &Prompting, ended: &TurnEnded, lacks_login: bool) {
    match map::stop(ended, prompt.is_cancelled) {
        Ok(stop) => v1::answer(out, &prompt.request, &AcpResponse::Stopped(stop)),
        Err(message) => {
            let code = if lacks_login { Code::LoginNeeded } else { Code::Internal };
            v1::error(out, &prompt.request, &Fault::new(code, message));
        }
    }
}
