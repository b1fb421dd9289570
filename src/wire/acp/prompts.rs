//! The answers to prompts, in either version: at the end of the turn, or once the message is in the conversation. Then
//! the session's state says when the turn has ended. Decides nothing of a turn.

use crate::message::SessionId;
use crate::wire::acp::codes::{Code, Fault};
use crate::wire::acp::connection_state::{AcpStateInner, Prompting};
use crate::wire::acp::request::AcpResponse;
use crate::wire::acp::update::{Stop, Update, Voice};
use crate::wire::acp::version::Version;

/// Answers the prompts whose message an event has told, in version 2.
pub fn inserted(
    state: &mut AcpStateInner,
    out: &mut Vec<u8>,
    home: &SessionId,
    message: &str,
    is_its: impl Fn(&Prompting) -> bool,
) {
    let version = state.version();
    let Some(open) = state.sessions.get_mut(home).filter(|_| version.tells_states()) else { return };
    for prompt in open.prompts.iter_mut().filter(|prompt| !prompt.is_inserted && is_its(prompt)) {
        prompt.is_inserted = true;
        version.answer(out, &prompt.request, &AcpResponse::Inserted(message.to_owned()));
    }
}

/// Tells and answers the prompts that the conversation has no message of, such as slash commands, in version 2.
pub fn inserted_apart(
    state: &mut AcpStateInner,
    out: &mut Vec<u8>,
    home: &SessionId,
    is_its: impl Fn(&Prompting) -> bool,
) {
    let (version, can) = (state.version(), state.can);
    let Some(open) = state.sessions.get_mut(home).filter(|_| version.tells_states()) else { return };
    for prompt in open.prompts.iter_mut().filter(|prompt| !prompt.is_inserted && is_its(prompt)) {
        prompt.is_inserted = true;
        let message = format!("prompt-{}", prompt.request.trim_matches('"'));
        open.told.works(can, &mut |update| version.update(out, home, update));
        if let Some(text) = prompt.said.as_deref() {
            let update =
                Update::Text { voice: Voice::User, message: message.as_str().into(), text: text.into() };
            version.update(out, home, &update);
        }
        version.answer(out, &prompt.request, &AcpResponse::Inserted(message));
    }
}

/// Ends the prompts of a turn, or of a command beside it. `end` is how it ended for one that the editor has cancelled,
/// or not.
pub fn ended(
    state: &mut AcpStateInner,
    out: &mut Vec<u8>,
    home: &SessionId,
    ends_turn: bool,
    end: impl Fn(bool) -> Result<Stop, Fault>,
    is_its: impl Fn(&Prompting) -> bool,
) {
    let version = state.version();
    if version.tells_states() {
        let is_over = |prompt: &Prompting| is_its(prompt) && end(prompt.is_cancelled) != Ok(Stop::Cancelled);
        if end(false).is_ok() {
            inserted_apart(state, out, home, is_over);
        }
    }
    let prompts = state.take_prompts(home, is_its);
    for prompt in &prompts {
        match (version, end(prompt.is_cancelled)) {
            (Version::One, Ok(stop)) => version.answer(out, &prompt.request, &AcpResponse::Stopped(stop)),
            (Version::Two, _) if prompt.is_inserted => {}
            (Version::Two, Ok(_)) => cancelled(version, out, prompt),
            (_, Err(fault)) => version.error(out, &prompt.request, &fault),
        }
    }
    if version.tells_states() {
        let is_cancelled = prompts.iter().any(|prompt| prompt.is_cancelled);
        let can = state.can;
        // A command ends beside a turn without ending it, and one that has started a workflow goes on.
        if let Some(open) = state.sessions.get_mut(home)
            && (ends_turn || !prompts.is_empty() && !open.told.is_in_turn())
        {
            open.told.ended(can, end(is_cancelled), &mut |update| version.update(out, home, update));
        }
    }
}

/// Answers a prompt whose message the conversation will not have.
pub fn cancelled(version: Version, out: &mut Vec<u8>, prompt: &Prompting) {
    match version {
        Version::One => version.answer(out, &prompt.request, &AcpResponse::Stopped(Stop::Cancelled)),
        Version::Two if prompt.is_inserted => {}
        Version::Two => {
            version.error(out, &prompt.request, &Fault::new(Code::Cancelled, "The prompt was cancelled."));
        }
    }
}
