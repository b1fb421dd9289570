//! Files as the calls of a session find them: an editor may have unsaved changes in one, and a model may not have seen
//! one. Does not know clients: an editor returns texts, and only this program touches the disk.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::files::{FileRead, FileStamp};
use crate::tool::SeenText;

/// The files that editors have open, and the texts that the model knows. For threads that may block, since an editor is
/// asked. Paths are absolute and resolved.
pub trait OpenFiles: Send + Sync {
    /// Whether an editor is asked for the text of a file: it has unsaved changes in it, or decodes it from another
    /// encoding than UTF-8. The text of any other file is that on disk.
    fn is_asked(&self, path: &Path) -> bool;

    /// The text that an editor has made of what was read of a file; `None` for no editor, so that the file on disk counts.
    ///
    /// # Errors
    /// Why there is no text, though an editor has unsaved changes.
    fn text(&self, path: &Path, found: Option<&FileRead>) -> Result<Option<Arc<str>>, String>;

    /// Changes the text of an editor, if it still has the digest `expected` or has no unsaved changes.
    fn change(&self, path: &Path, text: &Arc<str>, expected: &str) -> EditorChange;

    /// Whether a link that an Emacs has made beside a file is that of one of these editors.
    fn is_own_lock(&self, lock: &str) -> bool {
        let _ = lock;
        false
    }

    /// Whether a whole text that is written is that of the file, byte for byte, and not a model's plain text.
    fn writes_raw(&self) -> bool {
        false
    }

    /// Notes that a model was shown a text.
    fn shown(&self, path: &Path, seen: SeenText) {
        let _ = (path, seen);
    }

    /// Notes that a model has changed a text: the digests before and after. Returns whether it knows the new one.
    fn changed(&self, path: &Path, old: &str, new: String) -> bool {
        let _ = (path, old, new);
        false
    }

    /// Whether a text of this digest may be replaced as a whole, because it is the one that was shown last.
    fn may_replace(&self, path: &Path, digest: &str) -> bool {
        let _ = (path, digest);
        true
    }
}

/// The outcome of a change of an editor's text.
pub enum EditorChange {
    /// It is made, and is on disk once [`MadeInEditor::written`] says so.
    Made(Box<dyn MadeInEditor>),
    /// The text was another one meanwhile; nothing was changed.
    Changed,
    /// No editor has the file open, or wants to: the file on disk counts.
    Closed,
    /// It was refused, and nothing was changed.
    Failed(String),
}

/// A change that an editor has made and that is not on disk. If it is dropped, the editor undoes it.
pub trait MadeInEditor {
    /// The text that the editor has now.
    fn text(&self) -> &Arc<str>;

    /// The bytes that this text has in the file, if the editor has said them.
    fn bytes(&self) -> Option<&[u8]>;

    /// Whether the user wants the text as the editor has it, also where it is not the one that was sent.
    fn is_final(&self) -> bool;

    /// These bytes of the text are on disk, in the file with this stamp.
    fn written(self: Box<Self>, stamp: FileStamp, bytes: &[u8]);
}

/// No file is open.
#[cfg(test)]
pub struct NoneOpen;

#[cfg(test)]
impl OpenFiles for NoneOpen {
    fn is_asked(&self, _: &Path) -> bool {
        false
    }

    fn text(&self, _: &Path, _: Option<&FileRead>) -> Result<Option<Arc<str>>, String> {
        Ok(None)
    }

    fn change(&self, _: &Path, _: &Arc<str>, _: &str) -> EditorChange {
        EditorChange::Closed
    }
}

/// Where a call is looked at before it runs.
#[derive(Clone, Copy)]
pub struct Site<'s> {
    /// The session's folder, absolute and without symbolic links.
    pub cwd: &'s Path,
    /// The files that editors have open.
    pub open: &'s dyn OpenFiles,
    /// Ends it early.
    pub stop: &'s CancellationToken,
    /// The file that the call was judged for, if it was: the one that its path named then. It may lead elsewhere by now.
    pub judged: Option<&'s Path>,
}
