//! Compaction: the model itself summarises the older part of a conversation.
//!
//! The journal keeps everything; only later requests to models get shorter. Does not know the wire.

use std::sync::Arc;

use futures_util::StreamExt as _;

use crate::context::delimiters::marked;
use crate::engine::agent::CompactionError;
use crate::engine::change::Change;
use crate::engine::compacted;
use crate::engine::conversation;
use crate::engine::handle::Handle;
use crate::engine::native::hooks::{Boundaries, Denied, text_of};
use crate::engine::native::request::Composer;
use crate::engine::native::turn::Turn;
use crate::engine::retry;
use crate::engine::snapshot::SessionSnapshot;
use crate::engine::stage::Stage;
use crate::event::{CompactionEnded, TurnOutcome};
use crate::limits::{COMPACT_RESULT_BYTES, COMPACT_SHORT_RESULT_BYTES};
use crate::message::{Block, EntryId, Message, Role, ThinkingLevel};
use crate::provider::{AnswerEnd, Chunk, ErrorKind, ModelRequest, Provider, ProviderError};
use crate::store::EntryBody;
use crate::telemetry::Work;
use crate::value::Value;

/// The instructions for the model.
const INSTRUCTIONS: &str = include_str!("../prompt/compaction.md");

/// The reason for a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why<'a> {
    /// The window is nearly full.
    NoRoom,
    /// The server found the conversation too long, after this many compactions that were not enough.
    TooLong(u32),
    /// The user asked for it, with instructions for the summary.
    Asked(Option<&'a str>),
}

/// Why a model call has no summary.
enum NoSummary {
    /// It ended at the output limit: its end is missing, and that is what is to be done next.
    Limit,
    /// The call failed.
    Call(ProviderError),
    /// Anything else, which another try does not mend.
    Other(CompactionError),
}

impl From<CompactionError> for NoSummary {
    fn from(error: CompactionError) -> Self {
        Self::Other(error)
    }
}

/// Summarises the older part of a session's conversation, and returns the summary.
///
/// # Errors
/// See [`CompactionError`]; nothing has changed then.
pub async fn compact(turn: &Turn, why: Why<'_>) -> Result<String, CompactionError> {
    let session = &turn.session;
    let snapshot = session.snapshot();
    let facts = &snapshot.facts;
    let messages = conversation::messages(&snapshot.branch);
    let window = facts.context_window;
    let cut = match why {
        Why::NoRoom => conversation::cut(&messages, conversation::kept(window, 0)).map(|at| (at, 0)),
        Why::TooLong(tries) => conversation::cut_too_long(&messages, window, tries),
        Why::Asked(_) => conversation::cut_as_asked(&messages, window).map(|at| (at, 0)),
    };
    let (at, tries) = cut.ok_or(CompactionError::Nothing)?;
    first_kept(&messages, at).ok_or(CompactionError::Nothing)?;
    let (phase, tokens_before) = (facts.phase, facts.context_tokens);
    let asked = matches!(why, Why::Asked(_));
    let _ = session.ask(|ack| Change::CompactionStarted { asked, ack }).await;
    let summary = tokio::select! {
        biased;
        () = turn.stop.cancelled() => Err(CompactionError::Aborted),
        summary = summarised(turn, why, &snapshot, &messages, at) => summary,
    };
    let written = match summary {
        Ok((summary, first_kept)) => {
            let user_bytes = compacted::user_bytes(window, tries);
            let compaction = compacted::compaction(
                &snapshot.branch,
                summary.clone(),
                first_kept,
                tokens_before,
                user_bytes,
            );
            let body = EntryBody::Compaction(Box::new(compaction));
            write(session, body).await.map(|()| summary)
        }
        Err(error) => Err(error),
    };
    let (outcome, error) = match &written {
        Ok(_) => (TurnOutcome::Completed, None),
        Err(error @ CompactionError::Aborted) => (TurnOutcome::Aborted, Some(error.to_string().into())),
        Err(error) => (TurnOutcome::Failed, Some(error.to_string().into())),
    };
    let ended = CompactionEnded { outcome, error, tokens_before, tokens: tokens_before };
    let _ = session.ask(|ack| Change::CompactionEnded { phase, ended, ack }).await;
    written
}

/// The first entry of the part that stays. An invented result for a call without one has no entry, and neither has a summary.
fn first_kept(messages: &[Arc<Message>], at: usize) -> Option<EntryId> {
    let kept = messages.get(at..)?;
    kept.iter().map(|message| &message.id).find(|id| !id.as_str().is_empty()).cloned()
}

/// The summary of the messages before a place, and the first entry that stays. One that is cut off by the output limit is asked
/// for again: with less of the results, then for half of the messages.
async fn summarised(
    turn: &Turn,
    why: Why<'_>,
    snapshot: &SessionSnapshot,
    messages: &[Arc<Message>],
    at: usize,
) -> Result<(String, EntryId), CompactionError> {
    let half = conversation::cut_before(messages, at / 2);
    let tries = [
        (Some(at), COMPACT_RESULT_BYTES),
        (Some(at), COMPACT_SHORT_RESULT_BYTES),
        (half, COMPACT_SHORT_RESULT_BYTES),
    ];
    for (at, most) in tries {
        let Some((at, first_kept)) = at.and_then(|at| Some((at, first_kept(messages, at)?))) else { break };
        match asked_with_retries(turn, why, snapshot, messages.get(..at).unwrap_or_default(), most).await {
            Ok(summary) => return Ok((summary, first_kept)),
            Err(NoSummary::Limit) => {}
            Err(NoSummary::Call(error)) if error.kind == ErrorKind::ContextOverflow => {
                return Err(CompactionError::TooLong(error.to_string()));
            }
            Err(NoSummary::Call(error)) => return Err(CompactionError::Model(error.to_string())),
            Err(NoSummary::Other(error)) => return Err(error),
        }
    }
    Err(CompactionError::Model("the summary is longer than the model may write".to_owned()))
}

/// One summary. A call that fails for a while is made again, as any call of the turn.
async fn asked_with_retries(
    turn: &Turn,
    why: Why<'_>,
    snapshot: &SessionSnapshot,
    old: &[Arc<Message>],
    most: usize,
) -> Result<String, NoSummary> {
    let mut attempt = 0u32;
    loop {
        let (provider, request) = request(turn, why, snapshot, old, most)?;
        let (session, limit) = (turn.session.id.as_str(), request.max_output_tokens);
        let work = Work::model_call(session, provider.name(), &request.model, limit);
        let summary = work.run(call_model(turn, provider.as_ref(), request)).await;
        work.end(summary.is_err().then_some("no-summary"));
        let Err(NoSummary::Call(error)) = summary else { return summary };
        attempt = attempt.saturating_add(1);
        let pause = retry::pause(&error, attempt, &turn.id).filter(|_| snapshot.facts.auto_retry);
        let Some(pause) = pause else { return Err(NoSummary::Call(error)) };
        tokio::select! {
            biased;
            () = turn.control.interrupt.cancelled() => return Err(NoSummary::Call(error)),
            () = turn.control.give_up.cancelled() => return Err(NoSummary::Call(error)),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The request for a summary of the older messages.
fn request(
    turn: &Turn,
    why: Why<'_>,
    snapshot: &SessionSnapshot,
    old: &[Arc<Message>],
    most: usize,
) -> Result<(Arc<dyn Provider>, ModelRequest), CompactionError> {
    let (facts, config) = (&snapshot.facts, turn.session.config());
    let provider = config
        .providers
        .get(&facts.model_provider)
        .ok_or_else(|| CompactionError::Model(format!("there is no provider {:?}", facts.model_provider)))?;
    // Half of the window for the conversation, at about four bytes per token; less where the server takes less.
    let tries = if let Why::TooLong(tries) = why { tries } else { 0 };
    let room = usize::try_from(facts.context_window.saturating_mul(2) >> tries).unwrap_or(usize::MAX);
    let mut system = INSTRUCTIONS.to_owned();
    if let Why::Asked(Some(wishes)) = why
        && !wishes.is_empty()
    {
        system.push_str("\nThe user adds: ");
        system.push_str(wishes);
    }
    let previous = conversation::compaction(&snapshot.branch).map(|compaction| compaction.summary.as_str());
    let text = match previous {
        Some(previous) => {
            // The first message is that compaction's: its summary, and messages of the user that stay anyway.
            let previous = marked("previous-summary", &[], previous) + "\n\n";
            let room = room.saturating_sub(previous.len());
            previous + &conversation::transcript(old.get(1..).unwrap_or_default(), room, most)
        }
        None => conversation::transcript(old, room, most),
    };
    let model = config.models.describe(&facts.model_provider, &facts.model_id);
    let content = vec![Block::Text(text.into())];
    let request = ModelRequest {
        model: facts.model_id.to_string(),
        session: Arc::from(""),
        system,
        messages: vec![Arc::new(Message::new(EntryId::from(""), Role::User, content, Arc::from("")))],
        withheld: Arc::from([]),
        tools: Vec::new(),
        web_search: false,
        thinking: ThinkingLevel::Off.within(&facts.thinking_levels),
        thinking_by: model.thinking_by,
        thinking_tags: model.thinking_tags,
        takes: model.takes.clone(),
        max_output_tokens: u32::try_from(conversation::reserve(facts.context_window))
            .ok()
            .map(|reserve| model.max_output.map_or(reserve, |most| reserve.min(most))),
        variables: turn.control.variables(),
    };
    Ok((provider, request))
}

/// Calls the model for a summary. The hooks of a model call run as for any other, and are told what it is for.
async fn call_model(
    turn: &Turn,
    provider: &dyn Provider,
    mut request: ModelRequest,
) -> Result<String, NoSummary> {
    let hooks = Boundaries(turn);
    let about = || Composer(turn).about_model().with("for", "compaction");
    let denied = |denied: Denied| CompactionError::Denied(denied.to_string());
    let sending = || about().with("max-output-tokens", request.max_output_tokens.map(i64::from));
    if let Some(payload) = hooks.before(Stage::SendRequest, sending).await.map_err(denied)?
        && let Some(tokens) = payload.get_keyword("max-output-tokens").and_then(Value::as_i64)
    {
        request.max_output_tokens = u32::try_from(tokens).ok();
    }
    let chunks = provider.stream(request);
    hooks.after(Stage::SendRequest, about).await;
    hooks.before(Stage::StreamResponse, about).await.map_err(denied)?;
    let summary = summarise(chunks).await?;
    let payload = hooks.after(Stage::StreamResponse, || about().with("text", summary.clone())).await;
    Ok(payload.as_ref().and_then(|payload| text_of(payload, "text")).map_or(summary, str::to_owned))
}

async fn summarise(mut chunks: crate::provider::ChunkStream) -> Result<String, NoSummary> {
    let failed = |why: String| NoSummary::Other(CompactionError::Model(why));
    let mut summary = String::new();
    let mut has_ended = false;
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(Chunk::Text(text)) => summary.push_str(&text),
            Ok(Chunk::End(AnswerEnd::Limit)) => return Err(NoSummary::Limit),
            // The words of a refusal are no summary, and half a summary would replace the conversation.
            Ok(Chunk::End(end @ (AnswerEnd::Refused(_) | AnswerEnd::Paused | AnswerEnd::Broken { .. }))) => {
                return Err(failed(end.to_string()));
            }
            Ok(Chunk::End(_)) => has_ended = true,
            Ok(_) => {}
            Err(error) => return Err(NoSummary::Call(error)),
        }
        if summary.len() > crate::limits::MAX_ANSWER_BYTES {
            return Err(failed("the summary is too long".to_owned()));
        }
    }
    match summary.trim() {
        _ if !has_ended => {
            Err(NoSummary::Call(ProviderError::new(ErrorKind::Dropped, "the summary has no end")))
        }
        "" => Err(failed("the model said nothing".to_owned())),
        summary => Ok(summary.to_owned()),
    }
}

async fn write(session: &Handle, body: EntryBody) -> Result<(), CompactionError> {
    let entries = vec![body];
    let written = session.request(|ack| Change::Append { entries, ack }).await;
    written.map(drop).map_err(|error| CompactionError::Store(error.message))
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn summary_without_good_end_is_none() {
        let text = || Ok(Chunk::Text("half".to_owned()));
        for (end, expected) in [
            (Some(AnswerEnd::Complete), "half"),
            (Some(AnswerEnd::Limit), "(limit)"),
            (Some(AnswerEnd::Refused("with \"x\"".to_owned())), "The model refused, with \"x\"."),
            (Some(AnswerEnd::Paused), "paused"),
            (None, "the summary has no end"),
        ] {
            let about = format!("{end:?}");
            let chunks = [text()].into_iter().chain(end.map(|end| Ok(Chunk::End(end))));
            let found = match summarise(Box::pin(stream::iter(chunks))).await {
                Ok(summary) => summary,
                Err(NoSummary::Limit) => "(limit)".to_owned(),
                Err(NoSummary::Call(error)) => error.to_string(),
                Err(NoSummary::Other(error)) => error.to_string(),
            };
            assert!(found.contains(expected), "{about}: {found}");
        }
    }
}
