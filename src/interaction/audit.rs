//! The audit file: how each question ended, and what control asked for, in a file that only grows.
//!
//! A line is one EDN map. Each contains the digest of the line before it, so that changed and removed lines
//! show. A head file next to it holds the number of lines and the last digest, so that lines missing from the
//! end show too. The file records outcomes, and what was permitted to whom: the start of the command, or the path,
//! masked like a summary. It records neither answers nor texts. Does not know who asks.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::edn;
use crate::limits::{AUDIT_READ_BYTES, MAX_LINE_BYTES};
use crate::private;
use crate::sha256;
use crate::value::{Map, Value};

/// The digest before the first line.
const BEGINNING: &str = "0";

/// How many bytes at the end of the file are searched for the last line at first. A record has some hundred bytes.
const LAST_LINE_BYTES: u64 = 64 * 1024;

/// How many bytes are searched at most: as many as a line may have to be read (16 MiB).
const LONGEST_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// The audit file of a state folder.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    /// Excludes other threads of this process, which share one lock on the file.
    one_at_a_time: Mutex<()>,
}

/// Why a file is inconsistent.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The head is missing, or lists more lines.
    #[error("{0}")]
    Head(String),
    /// A line does not match the digest in the next one, or is not a record.
    #[error("line {line}: {reason}")]
    Broken {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Audit {
    /// The audit file of a state folder. Touches nothing on disk.
    pub fn new(state_dir: &Path) -> Self {
        Self { path: path(state_dir), one_at_a_time: Mutex::new(()) }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record. Several processes may share the file.
    ///
    /// # Errors
    /// If it cannot be written. The question's outcome counts nevertheless; the log has the error.
    pub fn append(&self, record: Map<'static>) -> io::Result<()> {
        self.append_all([record])
    }

    /// Appends records in one write with one sync: all of them, or none.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn append_all(&self, records: impl IntoIterator<Item = Map<'static>>) -> io::Result<()> {
        let mut records = records.into_iter().peekable();
        if records.peek().is_none() {
            return Ok(());
        }
        let _guard = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = self.path.parent() {
            private::make_folder(folder)?;
        }
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true).mode(0o600);
        let mut file = private::open_regular(&self.path, options, OFlags::empty())?;
        flock(&file, FlockOperation::LockExclusive)?;
        let last = last_line(&mut file)?;
        let before = last.as_deref().and_then(|line| {
            let record = edn::read_one(line).ok()?;
            record.get("hash")?.as_str().map(str::to_owned)
        });
        let mut hash = before.unwrap_or_else(|| BEGINNING.to_owned());
        let mut lines = Vec::new();
        // Ends a line that a crash cut off, so that only that line is broken.
        if last.is_some_and(|line| !line.ends_with(b"\n")) {
            lines.push(b'\n');
        }
        for mut record in records {
            record.put("prev", hash);
            hash = digest(&record);
            record.put("hash", hash.clone());
            edn::write_canonical(&Value::from(record), &mut lines);
            lines.push(b'\n');
        }
        let length = file.metadata()?.len();
        file.write_all(&lines).and_then(|()| file.sync_data()).inspect_err(|_| {
            // Removes half a record on a full disk, because it would look like tampering.
            let _ = file.set_len(length);
        })?;
        // A crash here leaves a head that is some records behind, which can be found in the file.
        let size = file.metadata()?.len();
        let mut head = Map::new();
        head.put("bytes", crate::message::count(size));
        head.put("hash", hash);
        let mut text = Vec::new();
        edn::write_canonical(&Value::from(head), &mut text);
        text.push(b'\n');
        private::replace_soon(&head_path(&self.path), &text)
    }
}

/// The path of an audit file's head.
fn head_path(path: &Path) -> PathBuf {
    path.with_extension("head")
}

/// Whether there is an audit file, or was one: a head without a file shows that.
pub fn is_there(path: &Path) -> bool {
    path.exists() || head_path(path).exists()
}

/// The path of a state folder's audit file.
pub fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("audit.edn")
}

/// The newest records of an audit file that are about questions, oldest first, within the last [`AUDIT_READ_BYTES`].
/// Skips other records and lines that are none. A missing file has none.
pub fn newest(path: &Path, limit: usize) -> Vec<Map<'static>> {
    let mut end = Vec::new();
    let read = private::open_to_read(path).and_then(|mut file| {
        let from = file.metadata()?.len().saturating_sub(AUDIT_READ_BYTES);
        file.seek(SeekFrom::Start(from))?;
        file.take(AUDIT_READ_BYTES).read_to_end(&mut end)
    });
    if read.is_err() {
        return Vec::new();
    }
    let record = |line: &[u8]| edn::read_one(line).ok()?.as_map().map(|map| map.clone().into_owned());
    let is_question = |record: &Map<'_>| record.get_keyword("interaction-id").is_some();
    let records = end.rsplit(|byte| *byte == b'\n').filter_map(record).filter(is_question);
    let mut records: Vec<_> = records.take(limit).collect();
    records.reverse();
    records
}

/// Records about questions before a place in the file, newest first: at most `limit`, within [`AUDIT_READ_BYTES`], and
/// the place where the next page begins. A missing file has none.
///
/// # Errors
/// If the file cannot be read.
pub fn page(
    path: &Path,
    before: Option<u64>,
    limit: usize,
    is_wanted: impl Fn(&Map<'_>) -> bool,
) -> io::Result<(Vec<Map<'static>>, Option<u64>)> {
    let mut file = match private::open_to_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), None)),
        opened => opened?,
    };
    let size = file.metadata()?.len();
    let end = before.unwrap_or(size).min(size);
    let from = end.saturating_sub(AUDIT_READ_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(end.saturating_sub(from)).read_to_end(&mut bytes)?;
    // The first line may have begun before; it belongs to the next page, unless nothing else is here.
    let cut = if from == 0 { None } else { memchr::memchr(b'\n', &bytes) };
    let whole = cut.map_or(0, |at| at.saturating_add(1));
    let whole = if whole == bytes.len() { 0 } else { whole };
    let mut place = bytes.len();
    let mut records = Vec::new();
    let lines = bytes.get(whole..).unwrap_or_default();
    for line in lines.split_inclusive(|byte| *byte == b'\n').rev() {
        if records.len() >= limit {
            break;
        }
        place = place.saturating_sub(line.len());
        let record =
            edn::read_one(line).ok().and_then(|value| value.as_map().map(|map| map.clone().into_owned()));
        let Some(mut record) = record.filter(|record| record.get_keyword("interaction-id").is_some()) else {
            continue;
        };
        if is_wanted(&record) {
            // What chains the records says nothing to a person.
            for chain in ["prev", "hash"] {
                record.remove(&Value::keyword(chain));
            }
            records.push(record);
        }
    }
    let next = from.saturating_add(u64::try_from(place).unwrap_or(u64::MAX));
    Ok((records, (next > 0).then_some(next)))
}

/// Checks a whole audit file and returns the number of consistent records.
///
/// # Errors
/// See [`AuditError`].
pub fn verify(path: &Path) -> Result<usize, AuditError> {
    let failed = |source| AuditError::Io { path: path.to_owned(), source };
    let mut reader = BufReader::new(private::open_to_read(path).map_err(failed)?);
    let mut before = BEGINNING.to_owned();
    let mut line = Vec::new();
    let mut number = 0usize;
    let head = private::open_to_read(&head_path(path)).and_then(|file| {
        let mut bytes = Vec::new();
        file.take(AUDIT_READ_BYTES).read_to_end(&mut bytes).map(|_| bytes)
    });
    let head = head.ok().and_then(|bytes| {
        let value = edn::read_one(&bytes).ok()?;
        value.get("hash")?.as_str().map(str::to_owned)
    });
    let mut head_seen = false;
    loop {
        line.clear();
        let most = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
        if reader.by_ref().take(most).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return match head {
                _ if number == 0 && head.is_none() => Ok(0),
                None => Err(AuditError::Head("there is no head file that says where it ends".to_owned())),
                Some(_) if head_seen => Ok(number),
                Some(_) => Err(AuditError::Head(format!("lines after line {number} were removed"))),
            };
        }
        number = number.saturating_add(1);
        let broken = |reason| AuditError::Broken { line: number, reason };
        let value = edn::read_one(&line).map_err(|_| broken("it is not EDN"))?;
        let mut record = value.as_map().ok_or_else(|| broken("it is not a record"))?.clone().into_owned();
        let hash = record.remove(&Value::keyword("hash"));
        let hash = hash.as_ref().and_then(Value::as_str).ok_or_else(|| broken("it has no :hash"))?;
        if record.get_keyword("prev").and_then(Value::as_str) != Some(before.as_str()) {
            return Err(broken("what came before it was changed or removed"));
        }
        if digest(&record) != hash {
            return Err(broken("it was changed"));
        }
        before = hash.to_owned();
        head_seen |= head.as_deref() == Some(hash);
    }
}

/// The digest of a record without its own.
fn digest(record: &Map<'static>) -> String {
    let mut bytes = Vec::new();
    edn::write_canonical(&Value::from(record.clone()), &mut bytes);
    sha256::hex(&bytes)
}

/// The last line, with its end if it has one.
fn last_line(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let size = file.metadata()?.len();
    if size == 0 {
        return Ok(None);
    }
    let mut looked = LAST_LINE_BYTES;
    loop {
        let from = size.saturating_sub(looked);
        file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        let within = end.strip_suffix(b"\n").unwrap_or(&end);
        match memchr::memrchr(b'\n', within) {
            Some(at) => return Ok(end.get(at.saturating_add(1)..).map(<[u8]>::to_vec)),
            None if from == 0 || looked >= LONGEST_LINE_BYTES => return Ok(Some(end)),
            // A record may have a text, if the user wants that.
            None => looked = looked.saturating_mul(16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_after_a_long_one_continues_the_chain() {
        let dir = tempfile::tempdir().unwrap();
        for length in [0, 70_000, 3_000_000, 0] {
            let record = Map::new().with("kind", "control/request").with("text", "x".repeat(length));
            Audit::new(dir.path()).append(record).unwrap();
        }
        assert_eq!(verify(&path(dir.path())).unwrap(), 4);
    }

    #[test]
    fn records_of_one_write_continue_the_chain() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::new(dir.path());
        for count in [0, 3, 0, 1, 2] {
            audit
                .append_all((0..count).map(|n| Map::new().with("kind", "control/request").with("n", n)))
                .unwrap();
        }
        assert_eq!(verify(&path(dir.path())).unwrap(), 6);
    }

    #[test]
    fn records_of_control_are_no_questions() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..4 {
            let record = Map::new().with("record", "Interaction").with("interaction-id", "i").with("n", n);
            Audit::new(dir.path()).append(record).unwrap();
            Audit::new(dir.path()).append(Map::new().with("kind", "control/sent")).unwrap();
        }
        let found = newest(&path(dir.path()), 2);
        let numbers: Vec<_> = found.iter().map(|record| record.get_keyword("n").unwrap().clone()).collect();
        assert_eq!(numbers, [Value::int(2), Value::int(3)]);
        assert_eq!(verify(&path(dir.path())).unwrap(), 8);
    }

    #[test]
    fn pages_reach_every_record_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path());
        assert_eq!(page(&file, None, 3, |_| true).unwrap(), (Vec::new(), None));
        for n in 0..8 {
            // A long line in between is longer than what is read at once.
            let long = if n == 4 { 2 * usize::try_from(AUDIT_READ_BYTES).unwrap() } else { 0 };
            let other = Map::new().with("kind", "control/request").with("text", "x".repeat(long));
            Audit::new(dir.path()).append(other).unwrap();
            let record = Map::new().with("interaction-id", "i").with("n", n);
            Audit::new(dir.path()).append(record).unwrap();
        }
        let (mut before, mut found) = (None, Vec::new());
        for _ in 0..20 {
            let (records, next) = page(&file, before, 3, |_| true).unwrap();
            assert!(records.len() <= 3);
            assert!(records.iter().all(|record| record.get_keyword("hash").is_none()));
            found.extend(records.iter().map(|record| record.get_keyword("n").unwrap().as_i64().unwrap()));
            before = next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(before, None);
        assert_eq!(found, [7, 6, 5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn changed_or_removed_audit_line_shows() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path());
        for n in 0..4 {
            // A new one each time, like another process.
            let record = Map::new().with("kind", "approve").with("n", n).with("interaction-id", "i");
            Audit::new(dir.path()).append(record).unwrap();
        }
        assert_eq!(verify(&file).unwrap(), 4);
        let numbers = |limit| {
            newest(&file, limit)
                .iter()
                .map(|record| record.get_keyword("n").unwrap().clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(2), [Value::int(2), Value::int(3)]);
        assert_eq!(numbers(9).len(), 4);
        assert!(newest(&dir.path().join("none"), 9).is_empty());
        let whole = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        let check = |lines: Vec<String>| {
            std::fs::write(&file, lines.join("\n") + "\n").unwrap();
            verify(&file).unwrap_err().to_string()
        };
        // Removes lines from the end, then the head.
        std::fs::write(&file, lines[..2].join("\n") + "\n").unwrap();
        assert_eq!(verify(&file).unwrap_err().to_string(), "lines after line 2 were removed");
        std::fs::write(&file, "").unwrap();
        assert_eq!(verify(&file).unwrap_err().to_string(), "lines after line 0 were removed");
        std::fs::write(&file, &whole).unwrap();
        let head = std::fs::read(head_path(&file)).unwrap();
        std::fs::remove_file(head_path(&file)).unwrap();
        assert!(verify(&file).unwrap_err().to_string().starts_with("there is no head"));
        std::fs::write(head_path(&file), head).unwrap();
        assert_eq!(verify(&file).unwrap(), 4);
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        assert!(check(owned(&[lines[0], lines[2], lines[3]])).starts_with("line 2: what came before"));
        assert!(check(owned(&lines[1..])).starts_with("line 1: what came before"));
        let mut changed = owned(&lines);
        changed[1] = changed[1].replace("approve", "approved");
        assert!(check(changed).starts_with("line 2: it was changed"));
    }
}
