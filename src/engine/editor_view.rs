//! What the editor shows, and what of it the model knows. Pure.

use std::sync::Arc;

use crate::facts::editor::Editor;
use crate::value::Value;

/// The editor's context in a session.
#[derive(Default)]
pub struct EditorView {
    now: Editor,
    /// What the model was sent last, on this branch.
    sent: Option<Value<'static>>,
}

impl EditorView {
    /// The editor shows something else. Returns it, unless it is nothing.
    pub fn show(&mut self, editor: Editor) -> Option<Arc<Editor>> {
        self.now = editor;
        (!self.now.is_empty()).then(|| Arc::new(self.now.clone()))
    }

    /// What the editor shows, if the model was sent something else last.
    pub fn to_send(&self) -> Option<Editor> {
        let now = self.now.shows_file().then(|| self.now.to_value());
        (now != self.sent).then(|| self.now.clone())
    }

    /// The model is sent this from now on.
    pub fn set_sent(&mut self, editor: Value<'static>) {
        // As in `to_send`, or an editor without a file would be told again with every message.
        let shows_file = |sent: &Value<'_>| sent.get("active-file").or(sent.get("selection")).is_some();
        self.sent = Some(editor).filter(shows_file);
    }

    /// What the model was sent is not among its messages any more, or may not be.
    pub fn forget_sent(&mut self) {
        self.sent = None;
    }
}
