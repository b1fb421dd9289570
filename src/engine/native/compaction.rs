//! Compaction: the model itself summarises the older part of a conversation.
//!
//! The journal keeps everything; only later requests to models get shorter. Does not know the wire.

use std::sync::Arc;

use futures_util::StreamExt as _;

use crate::engine::agent::CompactionError;
use crate::engine::change::Change;
use crate::engine::conversation;
use crate::engine::handle::Handle;
use crate::engine::native::hooks::{Boundaries, Denied, text_of};
use crate::engine::native::request::Composer;
use crate::engine::native::turn::Turn;
use crate::engine::stage::Stage;
use crate::event::{CompactionEnded, TurnOutcome};
use crate::message::{Block, EntryId, Message, Role, ThinkingLevel};
use crate::provider::{AnswerEnd, Chunk, ErrorKind, ModelRequest, Provider};
use crate::store::EntryBody;
use crate::store::record::Compaction;
use crate::telemetry::Work;
use crate::value::Value;

/// The instructions for the model.
const INSTRUCTIONS: &str = "Summarise the conversation below so that you can go on working from the summary alone. \
    State the user's goals and decisions, what was done and found (files, commands, results, errors), what is \
    under way, and what is to be done next. Keep names, paths and numbers exact. Write nothing else.";

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

/// Summarises the older part of a session's conversation, and returns the summary.
///
/// # Errors
/// See [`CompactionError`]; nothing has changed then.
pub async fn compact(turn: &Turn, why: Why<'_>) -> Result<String, CompactionError> {
    let session = &turn.session;
    let snapshot = session.snapshot();
    let facts = &snapshot.facts;
    let messages = conversation::messages(&snapshot.branch);
    let cut = match why {
        Why::NoRoom => conversation::cut(&messages, conversation::kept(facts.context_window, 0)),
        Why::TooLong(tries) => conversation::cut_too_long(&messages, facts.context_window, tries),
        Why::Asked(_) => conversation::cut_as_asked(&messages, facts.context_window),
    };
    let at = cut.ok_or(CompactionError::Nothing)?;
    let (old, kept) = messages.split_at(at);
    // An invented result for a call without one has no entry, and neither has a summary.
    let first_kept = kept.iter().map(|message| &message.id).find(|id| !id.as_str().is_empty());
    let first_kept = first_kept.ok_or(CompactionError::Nothing)?.clone();
    let config = session.config();
    let provider = config
        .providers
        .get(&facts.model_provider)
        .ok_or_else(|| CompactionError::Model(format!("there is no provider {:?}", facts.model_provider)))?;
    let (phase, tokens_before) = (facts.phase, facts.context_tokens);
    let asked = matches!(why, Why::Asked(_));
    let _ = session.ask(|ack| Change::CompactionStarted { asked, ack }).await;
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
    let text = conversation::transcript(old, room);
    let model = config.models.describe(&facts.model_provider, &facts.model_id);
    let request = ModelRequest {
        model: facts.model_id.to_string(),
        session: Arc::from(""),
        system,
        messages: vec![Arc::new(Message::new(
            EntryId::from(""),
            Role::User,
            vec![Block::Text(text.into())],
            Arc::from(""),
        ))],
        withheld: Arc::from([]),
        tools: Vec::new(),
        thinking: ThinkingLevel::Off.within(&facts.thinking_levels),
        thinking_by: model.thinking_by,
        thinking_tags: model.thinking_tags,
        takes: model.takes.clone(),
        max_output_tokens: u32::try_from(conversation::reserve(facts.context_window))
            .ok()
            .map(|reserve| model.max_output.map_or(reserve, |most| reserve.min(most))),
        variables: turn.control.variables(),
    };
    let work =
        Work::model_call(session.id.as_str(), provider.name(), &request.model, request.max_output_tokens);
    let summary = tokio::select! {
        biased;
        () = turn.stop.cancelled() => Err(CompactionError::Aborted),
        summary = work.run(call_model(turn, provider.as_ref(), request)) => summary,
    };
    work.end(summary.is_err().then_some("no-summary"));
    let written = match summary {
        Ok(summary) => {
            let compaction = Compaction { summary: summary.clone(), first_kept, tokens_before };
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

/// Calls the model for a summary. The hooks of a model call run as for any other, and are told what it is for.
async fn call_model(
    turn: &Turn,
    provider: &dyn Provider,
    mut request: ModelRequest,
) -> Result<String, CompactionError> {
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

async fn summarise(mut chunks: crate::provider::ChunkStream) -> Result<String, CompactionError> {
    let mut summary = String::new();
    let mut has_ended = false;
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(Chunk::Text(text)) => summary.push_str(&text),
            // The words of a refusal are no summary, and half a summary would replace the conversation.
            Ok(Chunk::End(end @ (AnswerEnd::Refused(_) | AnswerEnd::Paused | AnswerEnd::Broken { .. }))) => {
                return Err(CompactionError::Model(end.to_string()));
            }
            Ok(Chunk::End(_)) => has_ended = true,
            Ok(_) => {}
            Err(error) if error.kind == ErrorKind::ContextOverflow => {
                return Err(CompactionError::TooLong(error.to_string()));
            }
            Err(error) => return Err(CompactionError::Model(error.to_string())),
        }
        if summary.len() > crate::limits::MAX_ANSWER_BYTES {
            return Err(CompactionError::Model("the summary is too long".to_owned()));
        }
    }
    match summary.trim() {
        _ if !has_ended => Err(CompactionError::Model("the summary has no end".to_owned())),
        "" => Err(CompactionError::Model("the model said nothing".to_owned())),
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
            (Some(AnswerEnd::Complete), Ok("half".to_owned())),
            (Some(AnswerEnd::Limit), Ok("half".to_owned())),
            (Some(AnswerEnd::Refused("with \"x\"".to_owned())), Err("The model refused, with \"x\".")),
            (Some(AnswerEnd::Paused), Err("paused")),
            (None, Err("the summary has no end")),
        ] {
            let about = format!("{end:?}");
            let chunks = [text()].into_iter().chain(end.map(|end| Ok(Chunk::End(end))));
            match (summarise(Box::pin(stream::iter(chunks))).await, expected) {
                (Ok(summary), expected) => assert_eq!(Ok(summary), expected, "{about}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{about}: {error}"),
                (Err(error), Ok(_)) => panic!("{about}: {error}"),
            }
        }
    }
}
