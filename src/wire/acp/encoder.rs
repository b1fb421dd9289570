//! Events as lines of the ACP wire, with the answers to prompts and the requests to the editor: the encoder of a
//! connection.

use std::sync::Arc;

use crate::event::{Body, Event, QuestionAsked, Sender, TurnEnded};
use crate::message::SessionId;
use crate::wire::acp::codes::{Code, Fault};
use crate::wire::acp::connection_state::{
    AcpState, AcpStateInner, OpenSession, PendingEditorRequest, Prompting,
};
use crate::wire::acp::map;
use crate::wire::acp::prompts;
use crate::wire::acp::questions;
use crate::wire::acp::update::{Form, Stop};
use crate::wire::encoder::Encoder;

/// The encoder of one connection.
pub struct AcpEncoder {
    desk: Arc<AcpState>,
}

impl AcpEncoder {
    /// The encoder of the connection with that desk.
    pub fn new(desk: Arc<AcpState>) -> Self {
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
            open.left_out = open.left_out.saturating_add(1);
        }
    }
}

/// Tells an event of an open session, or of a subagent that works for it.
fn tell(state: &mut AcpStateInner, out: &mut Vec<u8>, home: &SessionId, event: &Event, joined: Option<&str>) {
    let (version, can) = (state.version(), state.can);
    match &event.body {
        Body::QuestionAsked(asked) => return question(state, out, home, asked),
        Body::QuestionEnded(ended) => {
            match state.asked.remove(&ended.id) {
                Some(PendingEditorRequest::Question { is_page: true, .. }) => {
                    version.page_over(out, &ended.id)
                }
                Some(_) => version.withdraw(out, &ended.id),
                None => {}
            }
            return answered(state, out, home);
        }
        Body::ChoiceRequested(choice) => {
            let Some(cause) = &event.cause else { return };
            let request = questions::choice(choice, state.can);
            let asked = PendingEditorRequest::Choice {
                kind: choice.kind,
                picks: choice.items.iter().map(|item| item.pick.clone()).collect(),
                request: cause.request.clone(),
                home: home.clone(),
                as_form: matches!(request, questions::EditorRequest::Form(..)),
            };
            state.asked.insert(choice.request.clone(), asked);
            if let Some(open) = state.sessions.get_mut(home) {
                open.told.asks(can, &mut |update| version.update(out, home, update));
            }
            return version.request(out, &choice.request, home, &request);
        }
        _ => {}
    }
    let request = event.cause.as_ref().map(|cause| cause.request.clone());
    let is_of_turn = |prompt: &Prompting| match &prompt.turn {
        Some(turn) => Some(turn) == event.turn.as_ref(),
        None => Some(&prompt.request) == request.as_ref(),
    };
    let is_command = |prompt: &Prompting| Some(&prompt.request) == request.as_ref();
    // A command that takes its time has begun.
    if let Body::CommandResult(_) | Body::CompactionStarted { .. } = &event.body {
        prompts::inserted_apart(state, out, home, |prompt| is_command(prompt) && !prompt.is_cancelled);
    }
    let Some(open) = state.sessions.get_mut(home) else { return };
    open.told.runs_command = runs_command(open);
    open.told.event(can, event, joined, &mut |update| version.update(out, home, update));
    let (lacks_login, own) = (open.told.lacks_login(), open.told.connection);
    match &event.body {
        Body::UserMessage(sent) if matches!(sent.from, Sender::Client { connection, .. } if connection == own) =>
        {
            prompts::inserted(state, out, home, sent.message.id.as_str(), is_of_turn);
        }
        Body::TurnEnded(ended) => {
            let end = |is_cancelled| stop(ended, is_cancelled, lacks_login);
            prompts::ended(state, out, home, true, end, is_of_turn);
        }
        Body::CommandResult(outcome) => {
            let goes_on = |prompt: &Prompting| prompt.starts_workflow && !outcome.is_error();
            let end = |is_cancelled| Ok(if is_cancelled { Stop::Cancelled } else { Stop::EndTurn });
            let is_over = |prompt: &Prompting| is_command(prompt) && !goes_on(prompt);
            prompts::ended(state, out, home, false, end, is_over);
            // What a command let choose ends with it.
            answered(state, out, home);
        }
        _ => {}
    }
}

/// Tells that nothing is asked any more, if that is so.
fn answered(state: &mut AcpStateInner, out: &mut Vec<u8>, home: &SessionId) {
    let (version, can) = (state.version(), state.can);
    if !state.is_asking(home)
        && let Some(open) = state.sessions.get_mut(home)
    {
        open.told.runs_command = runs_command(open);
        open.told.asks_no_more(can, &mut |update| version.update(out, home, update));
    }
}

/// Whether a slash command of the editor runs.
fn runs_command(open: &OpenSession) -> bool {
    open.prompts.iter().any(|prompt| prompt.said.is_some())
}

fn question(state: &mut AcpStateInner, out: &mut Vec<u8>, home: &SessionId, asked: &QuestionAsked) {
    let Some(request) = questions::request(asked, state.can) else { return };
    let (as_form, is_page) = match &request {
        questions::EditorRequest::Permission(_) => (false, false),
        questions::EditorRequest::Form(_, form) => (true, matches!(form, Form::Page(_))),
    };
    let kind = asked.content.kind();
    let about = PendingEditorRequest::Question { kind, home: home.clone(), as_form, is_page };
    state.asked.insert(asked.id.clone(), about);
    let (version, can) = (state.version(), state.can);
    if let Some(open) = state.sessions.get_mut(home) {
        open.told.asks(can, &mut |update| version.update(out, home, update));
    }
    version.request(out, &asked.id, home, &request);
}

/// How a prompt ends with its turn.
fn stop(ended: &TurnEnded, is_cancelled: bool, lacks_login: bool) -> Result<Stop, Fault> {
    map::stop(ended, is_cancelled).map_err(|message| {
        let code = if lacks_login { Code::LoginNeeded } else { Code::Internal };
        Fault::new(code, message)
    })
}
