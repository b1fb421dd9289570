//! The files that clients have open: which ones, and how a client is asked for a text or given one. A client's text is
//! what the user sees, so it goes before that on disk. Knows neither tools nor wires.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::engine::client_requests::{ClientRequests, RequestFailure};
use crate::engine::hub::Hub;
use crate::event::{Body, FileAction, FileRequest};
use crate::limits::{CLIENT_FILE_TIME, TOOL_FILE_BYTES};
use crate::session::{ApiError, FileAnswer, OpenFile};
use crate::tool::{OpenFileWrite, OpenFiles, Telling};

/// The open files of all clients.
pub struct ClientFiles {
    requests: ClientRequests<FileAnswer>,
    /// In the order in which clients told them.
    open: Mutex<Vec<Arc<Holder>>>,
}

/// A client that has a file open.
struct Holder {
    connection: u64,
    file: OpenFile,
}

impl Holder {
    /// Whether it has this file open. Asks the file system each time, since a link may lead elsewhere by now. The file may
    /// not be there yet.
    fn has(&self, path: &Path) -> bool {
        let told = Path::new(&self.file.path);
        let resolved = told.canonicalize().or_else(|error| match (told.parent(), told.file_name()) {
            (Some(folder), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
                folder.canonicalize().map(|folder| folder.join(name))
            }
            _ => Err(error),
        });
        resolved.is_ok_and(|resolved| resolved == path)
    }
}

impl ClientFiles {
    pub fn new(hub: Arc<Hub>, clock: Arc<dyn Clock>) -> Self {
        Self { requests: ClientRequests::new(hub, clock), open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Holder>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the files that a connection has open, in place of its earlier ones.
    pub fn set(&self, connection: u64, files: Vec<OpenFile>) {
        let mut open = self.open();
        open.retain(|holder| holder.connection != connection);
        let holder = |file| Arc::new(Holder { connection, file });
        open.extend(files.into_iter().map(holder));
    }

    /// A connection is gone.
    pub fn left(&self, connection: u64) {
        self.set(connection, Vec::new());
        self.requests.left(connection);
    }

    /// Answers a request of a connection.
    ///
    /// # Errors
    /// `request/not-found` if that connection has no such request any more.
    pub fn answer(&self, connection: u64, request: &str, answer: FileAnswer) -> Result<(), ApiError> {
        self.requests.answer(connection, request, answer)
    }

    /// The clients that have a file open: those with unsaved changes first, and then those that said so last.
    fn holders(&self, path: &Path) -> Vec<Arc<Holder>> {
        // The lock is not held while the file system is asked.
        let mut open = self.open().clone();
        open.retain(|holder| holder.has(path));
        open.reverse();
        open.sort_by_key(|holder| !holder.file.modified);
        open
    }
}

/// The open files as the calls of one turn see them.
pub struct Seen {
    pub files: Arc<ClientFiles>,
    /// Passes on the events of the call.
    pub event: Arc<Telling>,
    pub stop: CancellationToken,
    pub runtime: tokio::runtime::Handle,
}

impl Seen {
    /// Asks a client, on a thread that may block.
    fn ask(&self, holder: &Holder, action: FileAction) -> Result<FileAnswer, RequestFailure> {
        let path = holder.file.path.clone();
        let request = |request| {
            Body::FileRequested(Arc::new(FileRequest { request, path, action, timeout: CLIENT_FILE_TIME }))
        };
        self.runtime.block_on(self.files.requests.ask(
            holder.connection,
            request,
            self.event.as_ref(),
            Arc::new(|_| {}),
            &self.stop,
            CLIENT_FILE_TIME,
        ))
    }
}

impl OpenFiles for Seen {
    fn read(&self, path: &Path) -> Result<Option<Arc<str>>, String> {
        for holder in self.files.holders(path) {
            return match self.ask(&holder, FileAction::Read) {
                Ok(FileAnswer::Text(text)) if text.len() as u64 > TOOL_FILE_BYTES => {
                    Err(format!("its text in the user's editor is longer than {TOOL_FILE_BYTES} bytes"))
                }
                Ok(FileAnswer::Text(text)) => Ok(Some(text)),
                Ok(FileAnswer::Failed(why)) => {
                    Err(format!("the user's editor, which has it open, says: {why}"))
                }
                // The next one may have it open.
                Ok(FileAnswer::Closed | FileAnswer::Changed | FileAnswer::Written { .. })
                | Err(RequestFailure::Left) => continue,
                Err(RequestFailure::Ended) => Err("the call was ended".to_owned()),
                // What is on disk is not what the user sees.
                Err(RequestFailure::TimedOut) if holder.file.modified => {
                    Err("the user's editor, which has unsaved changes in it, does not answer".to_owned())
                }
                Err(RequestFailure::TimedOut) => Ok(None),
            };
        }
        Ok(None)
    }

    fn write(&self, path: &Path, text: &Arc<str>, expected: &str) -> OpenFileWrite {
        for holder in self.files.holders(path) {
            let action = FileAction::Write { text: text.clone(), expected: expected.into() };
            return match self.ask(&holder, action) {
                Ok(FileAnswer::Written { saved: true }) => OpenFileWrite::Saved,
                Ok(FileAnswer::Written { saved: false }) => OpenFileWrite::Unsaved,
                Ok(FileAnswer::Changed) => OpenFileWrite::Changed,
                Ok(FileAnswer::Closed) => continue,
                Ok(FileAnswer::Failed(why)) => {
                    OpenFileWrite::Failed(format!("the user's editor says: {why}"))
                }
                Ok(FileAnswer::Text(_)) | Err(_) => OpenFileWrite::Unknown,
            };
        }
        OpenFileWrite::Closed
    }
}
