//! The index of all sessions: a cache that makes lists fast and searches possible.
//!
//! All its content comes from the sessions' files. You may delete it at any time; it is rebuilt if it is
//! damaged, missing or of another version. Files only grow, so the index reads only their additions. Knows
//! the files' entries and SQLite; does not know who asks.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, Row, params};

use crate::limits::JOURNAL_BYTES;
use crate::message::{EntryId, SessionId};
use crate::private;
use crate::store::entry::{Entry, EntryBody, Header, Parent};
use crate::store::listing::{self, Hit, SessionFile, StoredSession};

/// The layout of the tables. An index with another layout is discarded.
const VERSION: i64 = 2;

/// How long to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(2);

/// Rows of the search table per session: its range of row numbers.
const ROWS: i64 = 1 << 32;

/// Files per commit while reading. Another process waits for at most that many.
const BATCH: usize = 64;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS sessions (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE,
        inode INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        session TEXT NOT NULL,
        created TEXT NOT NULL,
        cwd TEXT NOT NULL,
        parent TEXT, parent_path TEXT, parent_entry TEXT,
        name TEXT, first TEXT, last TEXT, messages INTEGER,
        -- How much of the file the search table knows, in bytes and in its rows.
        read INTEGER NOT NULL DEFAULT 0,
        read_messages INTEGER NOT NULL DEFAULT 0,
        rows INTEGER NOT NULL DEFAULT 0);
    CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (body, tokenize = 'unicode61 remove_diacritics 2');
";

/// The index, opened on first use.
#[derive(Debug)]
pub(super) struct Index {
    path: PathBuf,
    connection: Mutex<Option<Connection>>,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The index failed; the files give the same answer.
    #[error(transparent)]
    Index(#[from] rusqlite::Error),
    /// No descriptor or memory is left to read the files. The index keeps its content.
    #[error(transparent)]
    Files(#[from] io::Error),
}

/// What the index knows about a file.
struct IndexedFile {
    id: i64,
    inode: i64,
    info: StoredSession,
    read: i64,
    /// Messages in the indexed part.
    messages: i64,
    rows: i64,
}

impl Index {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, connection: Mutex::new(None) }
    }

    /// The sessions below `root` or in one of its folders, newest first; `None` if no index is possible.
    pub(super) fn list(&self, root: &Path, project: Option<&Path>) -> io::Result<Option<Vec<StoredSession>>> {
        let found = listing::find_all(root, project)?;
        if found.is_empty() && !self.path.exists() {
            return Ok(Some(Vec::new()));
        }
        let known = self.with(|connection| refresh(connection, &found, project))?;
        Ok(known.map(|known| {
            let mut infos: Vec<_> = known.into_iter().map(|known| known.info).collect();
            listing::sort(&mut infos);
            infos
        }))
    }

    /// The wanted sessions with all words of `text` in one message or name, best first; `None` if no index is possible.
    pub(super) fn search(
        &self,
        root: &Path,
        project: Option<&Path>,
        text: &str,
        limit: usize,
        is_wanted: &dyn Fn(&Path) -> bool,
    ) -> io::Result<Option<Vec<Hit>>> {
        let found = listing::find_all(root, project)?;
        let Some(query) = query(text).filter(|_| !found.is_empty()) else { return Ok(Some(Vec::new())) };
        self.with(|connection| {
            let mut known: HashMap<i64, IndexedFile> =
                read_on(connection, refresh(connection, &found, project)?)?
                    .into_iter()
                    .filter(|known| is_wanted(&known.info.path))
                    .map(|known| (known.id, known))
                    .collect();
            let mut statement = connection.prepare_cached(
                "SELECT rowid / ?2, snippet(texts, 0, '', '', '…', 16) FROM texts
                 WHERE texts MATCH ?1 ORDER BY rank",
            )?;
            let mut rows = statement.query(params![query, ROWS])?;
            let mut hits = Vec::new();
            while let Some(row) = rows.next()? {
                // Each session once, with its best line.
                if let Some(known) = known.remove(&row.get(0)?) {
                    let excerpt: String = row.get(1)?;
                    let excerpt = excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
                    hits.push(Hit { info: known.info, excerpt, faults: Vec::new() });
                    if hits.len() >= limit {
                        break;
                    }
                }
            }
            Ok(hits)
        })
    }

    /// Reads all files into the index, as a search would.
    pub(super) fn complete(&self, root: &Path) -> io::Result<()> {
        let found = listing::find_all(root, None)?;
        if found.is_empty() {
            return Ok(());
        }
        self.with(|connection| read_on(connection, refresh(connection, &found, None)?)).map(drop)
    }

    /// Removes all rows of a session. A row whose file is gone is shown to nobody, but still has its words.
    pub(super) fn remove(&self, session: &SessionId) -> io::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let remove_rows = |connection: &Connection| {
            let transaction = connection.unchecked_transaction()?;
            let rows: Vec<i64> = transaction
                .prepare_cached("SELECT id FROM sessions WHERE session = ?1")?
                .query_map([session.as_str()], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            for id in rows {
                forget(&transaction, id)?;
            }
            transaction.commit()?;
            Ok(())
        };
        self.with(remove_rows).map(drop)
    }

    /// Uses the index; if it is damaged, once more with a new one. `None` if no index is possible.
    fn with<T>(&self, work: impl Fn(&Connection) -> Result<T, Failure>) -> io::Result<Option<T>> {
        let mut place = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        for attempt in 0..2 {
            let opened = match place.take() {
                Some(connection) => Ok(connection),
                None => open(&self.path),
            };
            let worked = opened.map_err(Failure::from).and_then(|connection| {
                let worked = work(&connection);
                if !matches!(worked, Err(Failure::Index(_))) {
                    *place = Some(connection);
                }
                worked
            });
            match worked {
                Ok(result) => return Ok(Some(result)),
                Err(Failure::Files(error)) => return Err(error),
                Err(Failure::Index(error)) => {
                    tracing::warn!(%error, path = %self.path.display(), "the index of sessions failed");
                    if attempt == 0 && is_damage(&error) {
                        remove(&self.path);
                    }
                }
            }
        }
        Ok(None)
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path)?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == VERSION {
        return Ok(connection);
    }
    drop(connection);
    if version != 0 {
        remove(path);
    }
    let connection = connect(path)?;
    connection.execute_batch(TABLES)?;
    connection.pragma_update(None, "user_version", VERSION)?;
    Ok(connection)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // The index contains messages, so the file is created for this user alone. SQLite would wait at a pipe for ever.
    // Any other error it reports itself.
    if let Err(error) = private::open(path)
        && error.kind() == io::ErrorKind::InvalidInput
    {
        let cannot_open = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        return Err(rusqlite::Error::SqliteFailure(cannot_open, Some(error.to_string())));
    }
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    // A power failure may lose rows; they are read from the files again.
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;")?;
    Ok(connection)
}

/// Whether the file itself is damaged, as opposed to a busy process or a disk error.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SystemIoFailure, Unknown};
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, DatabaseCorrupt | NotADatabase | SystemIoFailure | Unknown)
        }
        // The tables or columns have an unknown shape.
        _ => true,
    }
}

fn remove(path: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        let _ = std::fs::remove_file(PathBuf::from(name));
    }
}

/// Updates the table of sessions from the files that were found, and reads both ends of the changed ones.
/// Without a folder, these are all files. Rows of missing files are then deleted, except for files in a
/// folder that cannot be opened.
fn refresh(
    connection: &Connection,
    found: &[SessionFile],
    folder: Option<&Path>,
) -> Result<Vec<IndexedFile>, Failure> {
    // `0` is the character after `/`: the index of paths then finds the rows of one folder.
    let (from, to) = match folder.map(Path::to_string_lossy) {
        Some(folder) => (format!("{folder}/"), format!("{folder}0")),
        None => (String::new(), char::MAX.to_string()),
    };
    let mut rows: HashMap<PathBuf, IndexedFile> = connection
        .prepare_cached(
            "SELECT id, path, inode, bytes, modified, session, created, cwd, parent, parent_path,
                    parent_entry, name, first, messages, read, rows, read_messages, last FROM sessions
             WHERE path >= ?1 AND path < ?2",
        )?
        .query_map([from, to], known)?
        .map(|known| known.map(|known| (known.info.path.clone(), known)))
        .collect::<rusqlite::Result<_>>()?;
    let mut current = Vec::with_capacity(found.len());
    let mut changed = Vec::new();
    let mut before = HashMap::new();
    for found in found {
        match rows.remove(&found.path) {
            Some(known) if same(&known, found) => current.push(known),
            known => {
                changed.push(found.clone());
                before.extend(known.map(|known| (found.path.clone(), known)));
            }
        }
    }
    let gone: Vec<i64> = match folder {
        None => rows.into_values().filter(|known| is_gone(&known.info.path)).map(|known| known.id).collect(),
        Some(_) => Vec::new(),
    };
    if changed.is_empty() && gone.is_empty() {
        return Ok(current);
    }
    // If a file has only grown, its known facts stay true.
    let grew = |found: &SessionFile| {
        let known = before.get(&found.path)?;
        (known.inode == number(found.inode) && known.info.bytes <= found.bytes).then(|| known.info.clone())
    };
    let looked = listing::side_by_side(&changed, |found| {
        let info = match grew(found) {
            Some(info) => Some((true, listing::glance_on(info, found)?)),
            None => listing::glance(found)?.map(|info| (false, info)),
        };
        Ok(info.map(|info| (found.clone(), info)))
    })?;
    let transaction = connection.unchecked_transaction()?;
    for id in gone {
        forget(&transaction, id)?;
    }
    for (found, (grew, info)) in looked {
        let mut row = match before.remove(&found.path) {
            Some(known) if grew => known,
            other => {
                if let Some(other) = other {
                    forget(&transaction, other.id)?;
                }
                IndexedFile {
                    id: 0,
                    inode: number(found.inode),
                    info: info.clone(),
                    read: 0,
                    messages: 0,
                    rows: 0,
                }
            }
        };
        row.info = info;
        save(&transaction, &mut row)?;
        current.push(row);
    }
    transaction.commit()?;
    Ok(current)
}

/// Reads the additions of each file into the search table.
fn read_on(connection: &Connection, mut sessions: Vec<IndexedFile>) -> Result<Vec<IndexedFile>, Failure> {
    let behind = |known: &IndexedFile| known.read < number(known.info.bytes);
    let mut list: Vec<&mut IndexedFile> = sessions.iter_mut().filter(|known| behind(known)).collect();
    for batch in list.chunks_mut(BATCH) {
        let transaction = connection.unchecked_transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO texts (rowid, body) VALUES (?1, ?2)")?;
            for known in batch {
                let Some(bytes) = listing::seen(added(known).map(Some))? else { continue };
                for entry in bytes.split(|byte| *byte == b'\n').filter_map(Entry::read) {
                    known.messages =
                        known.messages.saturating_add(i64::from(matches!(entry.body, EntryBody::Message(_))));
                    known.info.take(&entry);
                    if let Some(text) = listing::searched(&entry)
                        && known.rows < ROWS
                    {
                        insert.execute(params![
                            known.id.saturating_mul(ROWS).saturating_add(known.rows),
                            text
                        ])?;
                        known.rows = known.rows.saturating_add(1);
                    }
                }
                known.info.messages = u64::try_from(known.messages).ok();
                known.read = known.read.saturating_add(length(&bytes));
                save(&transaction, known)?;
            }
        }
        transaction.commit()?;
    }
    Ok(sessions)
}

/// The complete lines of a file after the indexed part.
fn added(known: &IndexedFile) -> io::Result<Vec<u8>> {
    let mut file = private::open_to_read(&known.info.path)?;
    file.seek(SeekFrom::Start(u64::try_from(known.read).unwrap_or(0)))?;
    let mut bytes = Vec::new();
    file.take(JOURNAL_BYTES).read_to_end(&mut bytes)?;
    let end = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end.saturating_add(1));
    bytes.truncate(end);
    Ok(bytes)
}

/// Whether no file has that name any more.
fn is_gone(path: &Path) -> bool {
    let looked = path.symlink_metadata().map_err(|error| error.kind());
    matches!(looked, Err(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

fn forget(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    let first = id.saturating_mul(ROWS);
    connection
        .prepare_cached("DELETE FROM texts WHERE rowid BETWEEN ?1 AND ?2")?
        .execute(params![first, first.saturating_add(ROWS).saturating_sub(1)])?;
    connection.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([id])?;
    Ok(())
}

fn save(connection: &Connection, known: &mut IndexedFile) -> rusqlite::Result<()> {
    let info = &known.info;
    let parent = info.header.parent.as_ref();
    let id = (known.id != 0).then_some(known.id);
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO sessions (id, path, inode, bytes, modified, session, created, cwd, parent,
                 parent_path, parent_entry, name, first, messages, read, rows, read_messages, last)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?
        .execute(params![
            id,
            info.path.to_string_lossy(),
            known.inode,
            number(info.bytes),
            nanos(info.modified),
            info.header.session.as_str(),
            &*info.header.created_at,
            &*info.header.cwd,
            parent.map(|parent| parent.session.as_str()),
            parent.and_then(|parent| parent.path.as_deref()),
            parent.and_then(|parent| parent.entry.as_ref()).map(EntryId::as_str),
            info.name,
            info.first_message,
            info.messages.map(number),
            known.read,
            known.rows,
            known.messages,
            info.last_message,
        ])?;
    known.id = id.unwrap_or_else(|| connection.last_insert_rowid());
    Ok(())
}

fn known(row: &Row<'_>) -> rusqlite::Result<IndexedFile> {
    let text = |column: usize| row.get::<_, Arc<str>>(column);
    let parent = match row.get::<_, Option<Arc<str>>>(8)? {
        Some(session) => Some(Parent {
            session: session.into(),
            path: row.get(9)?,
            entry: row.get::<_, Option<Arc<str>>>(10)?.map(EntryId::from),
        }),
        None => None,
    };
    let info = StoredSession {
        path: PathBuf::from(row.get::<_, String>(1)?),
        bytes: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
        modified: time(row.get(4)?),
        header: Header {
            session: text(5)?.into(),
            created_at: text(6)?,
            cwd: text(7)?,
            parent,
            request: None,
            replica_of: None,
        },
        name: row.get(11)?,
        first_message: row.get(12)?,
        last_message: row.get(17)?,
        messages: row.get::<_, Option<i64>>(13)?.and_then(|messages| u64::try_from(messages).ok()),
        archived: false,
    };
    Ok(IndexedFile {
        id: row.get(0)?,
        inode: row.get(2)?,
        info,
        read: row.get(14)?,
        messages: row.get(16)?,
        rows: row.get(15)?,
    })
}

fn same(known: &IndexedFile, found: &SessionFile) -> bool {
    known.inode == number(found.inode)
        && known.info.bytes == found.bytes
        && nanos(known.info.modified) == nanos(found.modified)
}

/// The words as a search query: each word verbatim, the last one as a prefix. `None` without words.
fn query(text: &str) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    let words: Vec<String> = text
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric) && seen.insert(*word))
        .map(|word| format!("\"{}\"", word.replace('"', "\"\"")))
        .collect();
    (!words.is_empty()).then(|| format!("{}*", words.join(" ")))
}

fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn time(nanos: i64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))).unwrap_or(UNIX_EPOCH)
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn length(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}
