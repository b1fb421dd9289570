//! Why the store refused, and what a person can do about it. Knows no wire: a caller gives it a code.

use std::io;
use std::path::{Path, PathBuf};

use crate::descriptors;
use crate::limits::JOURNAL_BYTES;
use crate::message::SessionId;
use crate::store::entry::FORMAT;

/// Why reading or writing a session's file failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused an operation.
    #[error("{action} {}: {source}.{}", path.display(), what_to_do(source))]
    Io {
        /// The operation, such as `Cannot write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is no such file.
    #[error("There is no session file {}.", path.display())]
    Missing {
        /// The missing file.
        path: PathBuf,
    },
    /// There is no journal of that session.
    #[error("There is no session {session}.")]
    NoSession {
        /// The session.
        session: SessionId,
    },
    /// The session's file is none of the state folder's.
    #[error("{} is not in the state folder, and is not deleted.", path.display())]
    Elsewhere {
        /// The file.
        path: PathBuf,
    },
    /// The file is not its session's, but a copy.
    #[error(
        "{} is a copy of the session {session}. Switch to that one, or fork it; `edn-bridge sessions verify --repair` \
         gives the copy an id of its own.",
        path.display()
    )]
    Copy {
        /// The file.
        path: PathBuf,
        /// The session.
        session: SessionId,
    },
    /// The file's first line is not a header.
    #[error("{} is not a session file: {reason}.", path.display())]
    NoHeader {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer program wrote the file.
    #[error("{} has format {format}; this program reads up to {}. A newer edn-bridge can open it.", path.display(), FORMAT)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: i64,
    },
    /// Another process has the session open.
    #[error("{} is open already, in {holder}. End that one, or fork the session.", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The holder, as far as it is known.
        holder: String,
    },
    /// The session's file or its lock is not as the last append left it.
    #[error("{difference} ({}). Nothing was written; /fork keeps the conversation in a new file.", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What is different.
        difference: Difference,
    },
    /// An entry is longer than what can be read back.
    #[error("It takes {bytes} bytes in the journal, which is more than {most}. Send less at once.")]
    TooLong {
        /// The length of its line.
        bytes: usize,
        /// The longest line.
        most: usize,
    },
    /// The journal would be larger than what can be read back.
    #[error(
        "The session has reached {JOURNAL_BYTES} bytes, which is as large as one may be. Compact does not shorten it: go on in a new session."
    )]
    Full,
    /// Another host of the realm owns the session.
    #[error("The host {host} owns the session. What changes it is asked for there.")]
    Owned {
        /// The owner.
        host: String,
    },
    /// The host that owns the session is lost.
    #[error(
        "The host {host}, which owns the session, is not there. Take the session (/take) to go on without it; until \
         then it can be read."
    )]
    OwnerLost {
        /// The owner.
        host: String,
    },
    /// The realm cannot be reached, and nothing was done; contains the reason.
    #[error("{0}")]
    RealmUnreachable(String),
    /// The realm did not say whether it was done; contains what is known.
    #[error("{0}")]
    RealmInDoubt(String),
    /// The realm refused; contains the reason.
    #[error("{0}")]
    Realm(String),
    /// The store is shutting down.
    #[error("The program is ending.")]
    Closed,
}

/// How a session's file or its lock differs from what the last append left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The file has no name any more, or another one.
    Removed,
    /// Another file has its name.
    Replaced,
    /// It has another length.
    Length,
    /// It was written over, and has the length that it had.
    Content,
    /// The lock beside it was removed, or another process has written to it.
    Lock,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Removed => "The session's file was removed",
            Self::Replaced => "The session's file was replaced",
            Self::Length | Self::Content => "The session's file was changed by another process",
            Self::Lock => "The lock of the session's file was removed, or taken by another process",
        })
    }
}

impl StoreError {
    /// Whether the process or the system had no free descriptor. The caller can try again after others were
    /// closed.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Self::Io { source, .. } if descriptors::are_out(source))
    }

    /// Whether the caller can try again after others free descriptors or memory.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_want(source))
    }

    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound && action == "Cannot open" {
            return Self::Missing { path: path.to_owned() };
        }
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// Whether the error is a lack of resources, independent of the file.
pub(super) fn is_want(error: &io::Error) -> bool {
    descriptors::are_out(error) || error.kind() == io::ErrorKind::OutOfMemory
}

/// Advice to a person about the system's refusal.
fn what_to_do(error: &io::Error) -> &'static str {
    if descriptors::are_out(error) {
        return " Close connections or sessions that are at work, or raise the limit (`ulimit -n`), and try again.";
    }
    match error.kind() {
        io::ErrorKind::OutOfMemory => " End what else takes memory, and try again.",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " Nothing that was saved is lost. Make room and try again."
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            " It must be possible to write there, or name another folder with --state-dir. What is there \
             can be read with `edn-bridge sessions show`."
        }
        _ => "",
    }
}
