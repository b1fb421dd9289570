//! Notes of a project: `/remember`, and what of them the model is told.

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::rfc3339;
use crate::limits::{PROMPT_NOTES_BYTES, PROMPT_NOTES_SHARE};
use crate::memory::{MemoryError, Note};
use crate::projection::SessionFacts;
use crate::runtime::mailbox::Handle;
use crate::runtime::{Runtime, Shared, prompt};
use crate::session::Call;

impl Shared {
    /// The system prompt of a session, with the project's notes where they fit.
    pub(super) fn system_prompt(&self, facts: &SessionFacts) -> String {
        let mut text = prompt::system(facts);
        // A small window is mostly the conversation's.
        let share = usize::try_from(facts.context_window / PROMPT_NOTES_SHARE).unwrap_or(usize::MAX);
        let room = share.min(PROMPT_NOTES_BYTES);
        if let Some(notes) = self.memory.for_prompt(facts.cwd.as_ref().as_ref(), room) {
            text.push_str("\n\n");
            text.push_str(&notes);
        }
        text
    }
}

impl Runtime {
    /// `/remember text` keeps a note, `/remember --forget id` removes it, `/remember` lists them.
    pub(super) fn remember(&self, call: &Call, handle: &Handle, text: Option<&str>) {
        let runtime = self.clone();
        let call = call.clone();
        let session = handle.id.clone();
        let cwd = PathBuf::from(handle.snapshot().facts.cwd.as_ref());
        let text: Arc<str> = text.unwrap_or_default().trim().into();
        self.shared.tasks.spawn_blocking_on(
            move || {
                let shared = &runtime.shared;
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
                        let note =
                            Note { id: shared.clock.id("m-").into(), ts, text, session: Some(session) };
                        shared.memory.remember(&cwd, &note).map(|()| "Remembered.".to_owned())
                    }
                };
                match done {
                    Ok(message) => runtime.tell(&call, "text", message),
                    Err(error @ (MemoryError::Io { .. } | MemoryError::TooMany)) => {
                        runtime.tell(&call, "error", error.to_string());
                    }
                    Err(error) => runtime.tell(&call, "text", error.to_string()),
                }
            },
            &self.shared.executor,
        );
    }
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
