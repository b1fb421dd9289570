//! The history of a session as updates. Pure, but for the reading of the pages.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::MAX_PAGE_MESSAGES;
use crate::message::{Block, Message, Role};
use crate::session::{ApiError, Call, Page, Reply, SessionApi};
use crate::value::Value;
use crate::wire::acp::map::{SentState, places};
use crate::wire::acp::update::{CallContent, CallKind, CallState, ShownCall, Update};

/// All messages of a session's branch, oldest first.
///
/// # Errors
/// If the session cannot be read.
pub fn messages(api: &dyn SessionApi, call: &Call) -> Result<Vec<Arc<Message>>, ApiError> {
    let mut pages: Vec<Vec<Arc<Message>>> = Vec::new();
    loop {
        let before = pages.last().and_then(|page| page.first()).map(|message| message.id.clone());
        let found = Arc::new(Mutex::new(None));
        let slot = found.clone();
        let keep = move |page: Result<Page, ApiError>| {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
        };
        // Read from the session's snapshot: the reply comes before the call returns.
        api.messages(call.clone(), before, Some(MAX_PAGE_MESSAGES), Reply::new(keep));
        let page = found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let page = page.unwrap_or_else(|| Err(ApiError::failed("The history could not be read.")))?;
        let more = page.more && !page.messages.is_empty();
        pages.push(page.messages);
        if !more {
            return Ok(pages.into_iter().rev().flatten().collect());
        }
    }
}

/// Tells the messages with their calls. `is_busy` if a turn runs, whose calls have no results yet.
pub fn tell(
    told: &mut SentState,
    messages: &[Arc<Message>],
    is_busy: bool,
    tell: &mut dyn FnMut(&Update<'_>),
) {
    let of_call = |message: &Arc<Message>| {
        let is_result = message.role == Role::Tool;
        is_result.then(|| Some((message.tool_call_id.clone()?, message.clone()))).flatten()
    };
    let results: HashMap<Arc<str>, Arc<Message>> = messages.iter().filter_map(of_call).collect();
    let cwd = told.cwd.clone();
    for message in messages {
        let calls = message.content.iter().filter_map(|block| match block {
            Block::ToolCall { id, name, arguments } => {
                Some(old_call(&cwd, id, name, arguments, results.get(id).map(AsRef::as_ref), is_busy))
            }
            _ => None,
        });
        told.old_message(message, &calls.collect::<Vec<_>>(), tell);
    }
}

fn old_call(
    cwd: &str,
    id: &Arc<str>,
    name: &Arc<str>,
    arguments: &Value<'static>,
    result: Option<&Message>,
    is_busy: bool,
) -> ShownCall {
    let state = match result {
        Some(result) if result.is_error.unwrap_or(false) => CallState::Failed,
        Some(_) => CallState::Completed,
        None if is_busy => CallState::Pending,
        // It was cut off.
        None => CallState::Failed,
    };
    let places: Vec<PathBuf> = places(cwd, arguments);
    ShownCall {
        id: id.clone(),
        tool: Some(name.clone()),
        title: Some(title(name, arguments)),
        kind: Some(CallKind::of(name)),
        state: Some(state),
        content: result.map(content),
        places: Some(places),
        input: Some(arguments.clone()),
        output: result.and_then(|result| result.details.clone()).filter(|details| !details.is_nil()),
    }
}

/// What a result shows. The whole texts of a changed file are not kept: its diff is.
fn content(result: &Message) -> Vec<CallContent> {
    let mut content = Vec::new();
    let details = result.details.as_ref();
    let text_of = |key| details.and_then(|details| details.get(key)).and_then(Value::as_str);
    if let Some(diff) = text_of("diff") {
        // The start of a diff is no diff that could be applied.
        let is_whole = details.is_some_and(|details| details.get("diff-size").is_none());
        content.push(match text_of("path").filter(|path| is_whole && path.starts_with('/')) {
            Some(path) => CallContent::Patch {
                path: PathBuf::from(path),
                is_new: diff.starts_with("--- /dev/null\n"),
                diff: diff.to_owned(),
            },
            None => CallContent::Text(format!("```diff\n{diff}\n```")),
        });
    }
    let text = result.text();
    if !text.is_empty() {
        content.push(CallContent::Text(text));
    }
    content.extend(result.content.iter().filter_map(|block| match block {
        Block::Image { mime_type, data } => {
            Some(CallContent::Image { mime_type: mime_type.clone(), data: data.clone() })
        }
        _ => None,
    }));
    content
}

/// A call on one line: the tool, and the argument that tells most.
fn title(name: &str, arguments: &Value<'_>) -> String {
    let argument = ["command", "path", "pattern", "query", "task", "question"]
        .into_iter()
        .find_map(|key| arguments.get(key).and_then(Value::as_str));
    match argument.and_then(|argument| argument.lines().next()) {
        Some(argument) => format!("{name} {argument}"),
        None => name.to_owned(),
    }
}
