//! The files that clients have open: which ones, how a client is asked for its text of a file or changes it, and how it
//! follows what is on disk. A client returns texts and gets messages; this program alone reads and writes the files.
//! Knows neither tools nor wires.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::engine::client_requests::{ClientRequests, RequestFailure};
use crate::engine::hub::Hub;
use crate::event::{Body, ChangedFile, FileAction, FileContent, FileRequest};
use crate::files::{FilePlace, FileRead, FileStamp};
use crate::limits::{CLIENT_FILE_TIME, FOLLOW_BYTES, SLOW_CLIENT, TOOL_FILE_BYTES};
use crate::session::{ApiError, EditorDiagnostic, EditorText, FileAnswer, OpenFile, Pressure};
use crate::sha256;
use crate::tool::{EditorChange, KnownTexts, MadeInEditor, OpenFiles, SeenText, Telling, Writer};

/// The open files of all clients.
pub struct ClientFiles {
    hub: Arc<Hub>,
    requests: ClientRequests<FileAnswer>,
    /// By connection, in the order in which clients told them.
    open: Mutex<Vec<Arc<Editor>>>,
}

/// A client with open files.
struct Editor {
    connection: u64,
    /// The start of the links that it makes beside files with unsaved changes.
    lock: Option<String>,
    /// By resolved path.
    files: HashMap<PathBuf, Arc<Holding>>,
}

/// A file that a client has open.
struct Holding {
    file: OpenFile,
    /// What the client was told of the file last. Without it, nothing but what it has told itself.
    told: Mutex<Option<Told>>,
}

/// The state of a file that a client was told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Changed(FileStamp),
    /// It is no file that can be followed.
    Problem(Problem),
}

/// Why a file cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Problem {
    Missing,
    Other(io::ErrorKind),
}

impl Holding {
    fn told(&self) -> MutexGuard<'_, Option<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that has a file open.
struct Holder {
    connection: u64,
    holding: Arc<Holding>,
}

impl ClientFiles {
    pub fn new(hub: Arc<Hub>, clock: Arc<dyn Clock>) -> Self {
        Self { requests: ClientRequests::new(hub.clone(), clock), hub, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Editor>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the files that a connection has open, in place of its earlier ones.
    pub fn set(&self, connection: u64, files: Vec<OpenFile>, lock: Option<String>) {
        let mut open = self.open();
        let place = open.iter().position(|editor| editor.connection == connection);
        let before = place.map(|place| open.remove(place));
        if files.is_empty() {
            return;
        }
        let holding = |file: OpenFile| {
            let path = PathBuf::from(file.real_path.as_ref().unwrap_or(&file.path));
            let known = before.as_ref().and_then(|before| before.files.get(&path));
            // What it was told holds until it says that its buffer is of another state.
            let told =
                known.filter(|known| known.file.visited == file.visited).and_then(|known| *known.told());
            (path, Arc::new(Holding { file, told: Mutex::new(told) }))
        };
        let files = files.into_iter().map(holding).collect();
        open.push(Arc::new(Editor { connection, lock, files }));
    }

    /// A connection is gone.
    pub fn left(&self, connection: u64) {
        self.set(connection, Vec::new(), None);
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
    fn holders(&self, path: &Path) -> Vec<Holder> {
        let open = self.open();
        let holder = |editor: &Arc<Editor>| {
            let holding = editor.files.get(path)?.clone();
            Some(Holder { connection: editor.connection, holding })
        };
        let mut holders: Vec<Holder> = open.iter().rev().filter_map(holder).collect();
        holders.sort_by_key(|holder| !holder.holding.file.modified);
        holders
    }

    /// The diagnostics of a client's checkers for a file that are new since the turn's first change of it, within a time. Nothing
    /// if no client that has the file open checks it, or none answers.
    pub async fn diagnostics(
        &self,
        path: &Path,
        event: &Telling,
        stop: &CancellationToken,
        patience: Duration,
    ) -> Vec<EditorDiagnostic> {
        let end = Instant::now() + patience;
        for holder in self.holders(path).into_iter().filter(|holder| holder.holding.file.is_checked) {
            let timeout = end.saturating_duration_since(Instant::now());
            if timeout.is_zero() {
                break;
            }
            let path = holder.holding.file.path.clone();
            let request = |request| {
                let action = FileAction::Diagnostics;
                Body::FileRequested(Arc::new(FileRequest { request, path, action, timeout }))
            };
            let asked = self.requests.ask(holder.connection, request, event, Arc::new(|_| {}), stop, timeout);
            if let Ok(FileAnswer::Diagnostics(found)) = asked.await {
                return found;
            }
        }
        Vec::new()
    }

    /// Whether a link beside a file is that of a client.
    fn is_lock_of_client(&self, lock: &str) -> bool {
        let is_of = |editor: &Arc<Editor>| {
            let rest = editor.lock.as_ref().and_then(|own| lock.strip_prefix(own.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        self.open().iter().any(is_of)
    }

    /// Whether no client has a file open.
    fn is_empty(&self) -> bool {
        self.open().is_empty()
    }

    /// The same as [`Self::follow`], away from the session's threads; at once where no client has a file open.
    pub async fn follow_away(
        self: Arc<Self>,
        folders: Vec<PathBuf>,
        only: Option<PathBuf>,
        event: Arc<Telling>,
    ) {
        if !self.is_empty() {
            let follow = move || self.follow(&folders, only.as_deref(), event.as_ref());
            let _ = tokio::task::spawn_blocking(follow).await;
        }
    }

    /// Looks at the files below some folders that clients have open, or at one of them alone, and sends each client what
    /// has changed since it was told. For a thread that may block.
    fn follow(&self, folders: &[PathBuf], only: Option<&Path>, event: &Telling) {
        let editors = self.open().clone();
        let mut read: HashMap<PathBuf, Option<Arc<ChangedFile>>> = HashMap::new();
        let mut left = FOLLOW_BYTES;
        for editor in editors {
            let Some(client) = self.hub.client(editor.connection) else { continue };
            for (path, holding) in &editor.files {
                let is_below = || folders.iter().any(|folder| path.starts_with(folder));
                if only.is_some_and(|only| only != path) || !is_below() {
                    continue;
                }
                let Some(visited) = holding.file.visited else { continue };
                let now = look(path);
                let before = holding.told().unwrap_or(Told::Changed(visited));
                if now == before {
                    continue;
                }
                let found = read.entry(path.clone()).or_insert_with(|| changed(path, now, &mut left));
                // What there is no room for is told after the next call.
                let Some(found) = found else { continue };
                let mut full = None;
                let file =
                    Arc::new(ChangedFile { path: holding.file.path.clone(), ..ChangedFile::clone(found) });
                event(Body::FileChanged(file), &mut |event| {
                    if let Pressure::Full(room) = client.deliver(event) {
                        full = Some(room);
                    }
                });
                *holding.told() = Some(found.stamp.map_or(now, Told::Changed));
                if let Some(mut room) = full {
                    let waited =
                        async { tokio::time::timeout(SLOW_CLIENT, room.wait_for(|full| !full)).await };
                    match tokio::runtime::Handle::try_current().map(|runtime| runtime.block_on(waited)) {
                        Ok(Ok(_)) => {}
                        // The rest is told after another call.
                        _ => break,
                    }
                }
            }
        }
    }
}

/// What stands at a path. No link is followed, and nothing is opened but folders.
fn look(path: &Path) -> Told {
    match FilePlace::open(path).and_then(|place| place.map_or(Ok(None), |place| place.stamp())) {
        Ok(Some(stamp)) => Told::Changed(stamp),
        Ok(None) => Told::Problem(Problem::Missing),
        Err(error) => Told::Problem(Problem::Other(error.kind())),
    }
}

/// What clients are told of a file that has changed; `None` if there is no room for its bytes.
fn changed(path: &Path, now: Told, left: &mut usize) -> Option<Arc<ChangedFile>> {
    let problem = |why: String| Arc::new(ChangedFile { problem: Some(why), ..ChangedFile::default() });
    if now == Told::Problem(Problem::Missing) {
        return Some(problem("it is not there any more".to_owned()));
    }
    let read =
        FilePlace::open(path).and_then(|place| place.map_or(Ok(None), |place| place.read(TOOL_FILE_BYTES)));
    match read {
        Ok(Some(found)) => {
            *left = left.checked_sub(found.bytes.len())?;
            Some(Arc::new(ChangedFile {
                stamp: Some(found.stamp()),
                digest: Some(sha256::hex(&found.bytes)),
                content: Some(FileContent::of(found.bytes)),
                ..ChangedFile::default()
            }))
        }
        Ok(None) => Some(problem("it is not there any more".to_owned())),
        Err(error) => Some(problem(error.to_string())),
    }
}

/// The editors that do not have a file open any more, for one call: what one has said holds for the rest of it.
#[derive(Default)]
pub struct Closed(Mutex<HashSet<(u64, PathBuf)>>);

impl Closed {
    fn files(&self) -> MutexGuard<'_, HashSet<(u64, PathBuf)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open files as one call sees them.
#[derive(Clone)]
pub struct Seen {
    pub files: Arc<ClientFiles>,
    /// What the model knows.
    pub known: Arc<KnownTexts>,
    /// Who wants to replace texts.
    pub writer: Writer,
    pub closed: Arc<Closed>,
    /// Passes on the events of the call.
    pub event: Arc<Telling>,
    pub stop: CancellationToken,
    pub runtime: tokio::runtime::Handle,
}

impl Seen {
    /// The clients that have a file open and have not said otherwise in this call.
    fn holders(&self, path: &Path) -> Vec<Holder> {
        let mut holders = self.files.holders(path);
        let closed = self.closed.files();
        holders.retain(|holder| !closed.contains(&(holder.connection, path.to_owned())));
        holders
    }

    fn close(&self, holder: &Holder, path: &Path) {
        self.closed.files().insert((holder.connection, path.to_owned()));
    }

    /// Asks a client, on a thread that may block. Returns the id of the request too.
    fn ask(&self, holder: &Holder, action: FileAction) -> (Arc<str>, Result<FileAnswer, RequestFailure>) {
        let path = holder.holding.file.path.clone();
        let mut id = Arc::from("");
        let request = |request: Arc<str>| {
            id = request.clone();
            Body::FileRequested(Arc::new(FileRequest { request, path, action, timeout: CLIENT_FILE_TIME }))
        };
        let answer = self.runtime.block_on(self.files.requests.ask(
            holder.connection,
            request,
            self.event.as_ref(),
            Arc::new(|_| {}),
            &self.stop,
            CLIENT_FILE_TIME,
        ));
        (id, answer)
    }

    /// Tells a client.
    fn tell(&self, connection: u64, body: Body) {
        if let Some(client) = self.files.hub.client(connection) {
            (self.event)(body, &mut |event| {
                let _ = client.deliver(event);
            });
        }
    }
}

/// What is said of an editor that does not answer.
const SILENT: &str = "the user's editor, which has unsaved changes in it, does not answer";

/// What is said of an answer after the call has ended.
const ENDED: &str = "the call was ended";

/// Whether an editor's text was made of what was found.
fn is_of(text: &EditorText, found: Option<&FileRead>) -> bool {
    match (found, &text.base, text.visited) {
        (None, None, _) => true,
        (Some(found), Some(base), _) => *base == sha256::hex(&found.bytes),
        // It was modified before the client could know what was on disk.
        (Some(found), None, Some(visited)) => visited == found.stamp(),
        _ => false,
    }
}

impl OpenFiles for Seen {
    fn is_asked(&self, path: &Path) -> bool {
        let asks = |holder: &Holder| holder.holding.file.modified || holder.holding.file.encoding.is_some();
        self.holders(path).iter().any(asks)
    }

    fn text(&self, path: &Path, found: Option<&FileRead>) -> Result<Option<Arc<str>>, String> {
        for holder in self.holders(path) {
            let file = &holder.holding.file;
            // The others have what is on disk.
            if !file.modified && file.encoding.is_none() {
                continue;
            }
            match self.ask(&holder, FileAction::Read).1 {
                Ok(FileAnswer::Text(text)) if text.text.len() as u64 > TOOL_FILE_BYTES => {
                    return Err(format!(
                        "its text in the user's editor is longer than {TOOL_FILE_BYTES} bytes"
                    ));
                }
                Ok(FileAnswer::Text(text)) if is_of(&text, found) => return Ok(Some(text.text)),
                Ok(FileAnswer::Text(text)) if text.modified => {
                    return Err("it was changed on disk, and its buffer has unsaved changes".to_owned());
                }
                Ok(FileAnswer::Failed(why)) => {
                    return Err(format!("the user's editor, which has it open, says: {why}"));
                }
                Err(RequestFailure::Ended) => return Err(ENDED.to_owned()),
                // What is on disk is not what the user sees.
                Err(RequestFailure::TimedOut) if file.modified => return Err(SILENT.to_owned()),
                // The next one may have it open.
                Ok(
                    FileAnswer::Text(_)
                    | FileAnswer::Closed
                    | FileAnswer::Changed
                    | FileAnswer::Diagnostics(_),
                )
                | Err(RequestFailure::Left | RequestFailure::TimedOut) => self.close(&holder, path),
            }
        }
        Ok(None)
    }

    fn change(&self, path: &Path, text: &Arc<str>, expected: &str) -> EditorChange {
        for holder in self.holders(path) {
            let action = FileAction::Write { text: text.clone(), expected: expected.into() };
            let (request, answer) = self.ask(&holder, action);
            match answer {
                Ok(FileAnswer::Text(made)) => {
                    let connection = holder.connection;
                    let made = Made {
                        seen: self.clone(),
                        connection,
                        holding: holder.holding,
                        request,
                        made,
                        is_told: false,
                    };
                    return EditorChange::Made(Box::new(made));
                }
                Ok(FileAnswer::Changed) => return EditorChange::Changed,
                Ok(FileAnswer::Failed(why)) => {
                    return EditorChange::Failed(format!("the user's editor says: {why}"));
                }
                Err(RequestFailure::Ended) => return EditorChange::Failed(ENDED.to_owned()),
                Err(RequestFailure::TimedOut) if holder.holding.file.modified => {
                    return EditorChange::Failed(SILENT.to_owned());
                }
                Ok(FileAnswer::Closed | FileAnswer::Diagnostics(_))
                | Err(RequestFailure::Left | RequestFailure::TimedOut) => {
                    self.close(&holder, path);
                }
            }
        }
        EditorChange::Closed
    }

    fn is_own_lock(&self, lock: &str) -> bool {
        self.files.is_lock_of_client(lock)
    }

    /// An external agent reads files as they are.
    fn writes_raw(&self) -> bool {
        self.writer != Writer::Model
    }

    fn shown(&self, path: &Path, seen: SeenText) {
        self.known.shown(path, seen);
    }

    fn changed(&self, path: &Path, old: &str, new: String) -> bool {
        self.known.changed(path, old, new)
    }

    fn may_replace(&self, path: &Path, digest: &str) -> bool {
        self.known.may_replace(path, digest, self.writer)
    }
}

/// A change that a client has made and that is not on disk.
struct Made {
    seen: Seen,
    connection: u64,
    holding: Arc<Holding>,
    request: Arc<str>,
    made: EditorText,
    is_told: bool,
}

impl MadeInEditor for Made {
    fn text(&self) -> &Arc<str> {
        &self.made.text
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.made.bytes.as_deref()
    }

    fn is_final(&self) -> bool {
        self.made.is_final
    }

    fn written(mut self: Box<Self>, stamp: FileStamp, bytes: &[u8]) {
        self.is_told = true;
        *self.holding.told() = Some(Told::Changed(stamp));
        let file = ChangedFile {
            path: self.holding.file.path.clone(),
            request: Some(self.request.clone()),
            stamp: Some(stamp),
            digest: Some(sha256::hex(bytes)),
            ..ChangedFile::default()
        };
        self.seen.tell(self.connection, Body::FileChanged(Arc::new(file)));
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.is_told {
            let body = Body::RequestCancelled { request: self.request.clone(), reason: "not-written" };
            self.seen.tell(self.connection, body);
        }
    }
}
