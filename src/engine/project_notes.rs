//! Notes of a project: `/remember`, and the notes in the system prompt. Does not know files.

use std::path::PathBuf;
use std::sync::Arc;

use crate::catalogue::ErrorCode;
use crate::clock::rfc3339;
use crate::engine::handle::Handle;
use crate::engine::services::Services;
use crate::memory::{MemoryError, Note};
use crate::session::{ApiError, Call, Reply};

/// Keeps a note for the session's project, off the session's task.
pub(super) fn keep(services: &Arc<Services>, handle: &Handle, text: String, reply: Reply<Note>) {
    let (shared, session) = (services.clone(), handle.clone());
    let keep = move || {
        let (id, ts) = (shared.clock.id("m-").into(), rfc3339(shared.clock.now()));
        let note = Note { id, ts, text: text.trim().into(), session: Some(session.id.clone()) };
        let kept = shared.memory.remember(session.snapshot().facts.cwd.as_ref().as_ref(), &note);
        reply.send(kept.map(|()| note).map_err(refused));
    };
    services.tasks.spawn_blocking_on(keep, &services.executor);
}

/// Removes a note of the session's project, off the session's task.
pub(super) fn forget(services: &Arc<Services>, handle: &Handle, note: String, reply: Reply<bool>) {
    let (shared, session) = (services.clone(), handle.clone());
    let forget = move || {
        let ts = rfc3339(shared.clock.now());
        let facts = session.snapshot().facts.clone();
        reply.send(shared.memory.forget(facts.cwd.as_ref().as_ref(), &note, &ts).map_err(refused));
    };
    services.tasks.spawn_blocking_on(forget, &services.executor);
}

fn refused(error: MemoryError) -> ApiError {
    let code = match error {
        MemoryError::Empty | MemoryError::TooLong(_) => ErrorCode::InvalidParams,
        MemoryError::TooMany | MemoryError::Io { .. } => ErrorCode::Failed,
    };
    ApiError::new(code, error.to_string())
}

/// `/remember text` keeps a note, `/remember --forget id` removes it, `/remember` lists them.
pub fn command(services: &Arc<Services>, call: &Call, handle: &Handle, text: Option<&str>) {
    let shared = services.clone();
    let call = call.clone();
    let session = handle.id.clone();
    let cwd = PathBuf::from(handle.snapshot().facts.cwd.as_ref());
    let text: Arc<str> = text.unwrap_or_default().trim().into();
    services.tasks.spawn_blocking_on(
        move || {
            let ts = rfc3339(shared.clock.now());
            let done = match (text.strip_prefix("--forget "), text.is_empty()) {
                (_, true) => shared.memory.notes(&cwd).map(|notes| list(&notes)),
                (Some(id), _) => shared.memory.forget(&cwd, id.trim(), &ts).map(|was_there| {
                    if was_there {
                        "Forgotten.".to_owned()
                    } else {
                        format!("There is no note {:?}.", id.trim())
                    }
                }),
                (None, _) => {
                    let note = Note { id: shared.clock.id("m-").into(), ts, text, session: Some(session) };
                    shared.memory.remember(&cwd, &note).map(|()| "Remembered.".to_owned())
                }
            };
            match done {
                Ok(message) => shared.tell(&call, "text", message),
                Err(error @ (MemoryError::Io { .. } | MemoryError::TooMany)) => {
                    shared.tell(&call, "error", error.to_string());
                }
                Err(error) => shared.tell(&call, "text", error.to_string()),
            }
        },
        &services.executor,
    );
}

fn list(notes: &[Note]) -> String {
    if notes.is_empty() {
        return "Nothing is remembered for this project. /remember text keeps a note.".to_owned();
    }
    let mut text = "Remembered for this project (/remember --forget id removes one):".to_owned();
    for note in notes {
        text.push_str(&format!("\n{}  {}", note.id, note.text.replace('\n', "\n    ")));
    }
    text
}
