//! How each question ended, in a file that only grows.
//!
//! A line is one EDN map. Each carries the digest of the line before it, so that a line that was changed
//! or taken out shows. A head beside the file says how many lines there are and what the last one is, so
//! that lines taken from the end show too. Answers are not written down, only outcomes: no secret can stand
//! here.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};

use crate::edn;
use crate::limits::{AUDIT_READ_BYTES, MAX_LINE_BYTES};
use crate::private;
use crate::value::{Map, Value};

/// What stands before the first line.
const BEGINNING: &str = "0";

/// Bytes at the end of the file that are looked through for its last line. A record is some hundred bytes.
const LAST_LINE_BYTES: u64 = 64 * 1024;

/// The audit file of a state folder.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    /// Threads of this process, which share one lock on the file.
    one_at_a_time: Mutex<()>,
}

/// Why a file does not hold together.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The head says that there was more, or is not there.
    #[error("{0}")]
    Head(String),
    /// A line is not what the next one says it was, or is no record.
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

    /// Appends a record. Several processes may share the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&self, mut record: Map<'static>) -> io::Result<()> {
        let _guard = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = self.path.parent() {
            private::make_folder(folder)?;
        }
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let last = last_line(&mut file)?;
        let before = last.as_deref().and_then(|line| {
            let record = edn::read_one(line).ok()?;
            record.get("hash")?.as_str().map(str::to_owned)
        });
        record.put("prev", before.unwrap_or_else(|| BEGINNING.to_owned()));
        let hash = digest(&record);
        record.put("hash", hash.clone());
        let mut line = Vec::new();
        // A line that a crash cut off is ended, so that it stays the only one that is broken.
        if last.is_some_and(|line| !line.ends_with(b"\n")) {
            line.push(b'\n');
        }
        edn::write_canonical(&Value::from(record), &mut line);
        line.push(b'\n');
        let length = file.metadata()?.len();
        file.write_all(&line).and_then(|()| file.sync_data()).inspect_err(|_| {
            // Half a record on a full disk is none, and must not look like one that was tampered with.
            let _ = file.set_len(length);
        })?;
        // A crash in between leaves a head that is one behind, and that one can be found in the file.
        let size = file.metadata()?.len();
        let mut head = Map::new();
        head.put("bytes", crate::message::count(size));
        head.put("hash", hash);
        let mut text = Vec::new();
        edn::write_canonical(&Value::from(head), &mut text);
        text.push(b'\n');
        let path = head_path(&self.path);
        let new = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        std::fs::rename(&new, &path)
    }
}

/// Where an audit file's head is.
fn head_path(path: &Path) -> PathBuf {
    path.with_extension("head")
}

/// Whether there is an audit, or was one: its head tells of a file that was taken away.
pub fn is_there(path: &Path) -> bool {
    path.exists() || head_path(path).exists()
}

/// Where a state folder's audit file is.
pub fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("audit.edn")
}

/// The newest records of an audit file, oldest first, as far as [`AUDIT_READ_BYTES`] reach. Lines that are no
/// records are left out, and what is not there has none.
pub fn newest(path: &Path, limit: usize) -> Vec<Map<'static>> {
    let mut end = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        let from = file.metadata()?.len().saturating_sub(AUDIT_READ_BYTES);
        file.seek(SeekFrom::Start(from))?;
        file.take(AUDIT_READ_BYTES).read_to_end(&mut end)
    });
    if read.is_err() {
        return Vec::new();
    }
    let record = |line: &[u8]| edn::read_one(line).ok()?.as_map().map(|map| map.clone().into_owned());
    let mut records: Vec<_> = end.rsplit(|byte| *byte == b'\n').filter_map(record).take(limit).collect();
    records.reverse();
    records
}

/// Reads an audit file through and says how many records hold together.
///
/// # Errors
/// See [`AuditError`].
pub fn verify(path: &Path) -> Result<usize, AuditError> {
    let failed = |source| AuditError::Io { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut before = BEGINNING.to_owned();
    let mut line = Vec::new();
    let mut number = 0usize;
    let head = std::fs::read(head_path(path)).ok();
    let head = head.and_then(|bytes| {
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
                None => {
                    Err(AuditError::Head("there is no head beside it that says where it ends".to_owned()))
                }
                Some(_) if head_seen => Ok(number),
                Some(_) => Err(AuditError::Head(format!("lines after line {number} were removed"))),
            };
        }
        number = number.saturating_add(1);
        let broken = |reason| AuditError::Broken { line: number, reason };
        let value = edn::read_one(&line).map_err(|_| broken("it is not EDN"))?;
        let mut record = value.as_map().ok_or_else(|| broken("it is no record"))?.clone().into_owned();
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
    Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn last_line(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let size = file.metadata()?.len();
    if size == 0 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(size.saturating_sub(LAST_LINE_BYTES)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let within = end.strip_suffix(b"\n").unwrap_or(&end);
    let from = memchr::memrchr(b'\n', within).map_or(0, |at| at.saturating_add(1));
    Ok(end.get(from..).map(<[u8]>::to_vec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_or_removed_line_shows() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path());
        for n in 0..4 {
            // Each time anew, as another process would.
            Audit::new(dir.path()).append(Map::new().with("kind", "approve").with("n", n)).unwrap();
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
        // Lines that are taken from the end, and a head that is taken away.
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
