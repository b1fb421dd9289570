//! Stores output that is too long to show: the whole on disk under a handle, a bounded excerpt in the result.
//!
//! Knows the folder of outputs. Does not know the tools.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::terminal_text::TerminalText;
use crate::facts::OutputPart;
use crate::limits::{KEPT_OUTPUT_BYTES, TOOL_EXCERPT_BYTES, TOOL_RESULT_BYTES};
use crate::private;
use crate::sha256;

/// The folder of one session's outputs.
#[derive(Debug, Clone)]
pub struct Outputs {
    folder: PathBuf,
}

impl Outputs {
    /// The outputs of a session below a state folder. Touches nothing on disk.
    pub fn new(state_dir: &Path, session: &str) -> Self {
        // A session id that is not a plain file name must not name a folder elsewhere, nor that of another session.
        let name = match session.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            true => session.to_owned(),
            false => format!("_{}", sha256::hex(session)),
        };
        Self { folder: state_dir.join("outputs").join(name) }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of an output; `None` for a handle that is none.
    pub fn path(&self, handle: &str) -> Option<PathBuf> {
        let plain = !handle.is_empty() && handle.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        plain.then(|| self.folder.join(format!("{handle}.txt")))
    }

    /// A collector for a command's output, which arrives in pieces. It collects what a terminal would show of it.
    pub fn collect(&self, handle: String) -> Collector {
        Collector { terminal: Some(TerminalText::default()), ..self.collect_text(handle) }
    }

    /// A collector for a text, which stays as it is.
    fn collect_text(&self, handle: String) -> Collector {
        Collector {
            outputs: self.clone(),
            handle,
            head: String::new(),
            tail: String::new(),
            size: 0,
            file: None,
            broken: None,
            partial: Vec::new(),
            terminal: None,
        }
    }

    /// The same for an output that is read while it grows: all of it is in its file from the start.
    pub fn collect_in_file(&self, handle: String) -> Collector {
        let mut collector = self.collect(handle);
        match collector.begin_file() {
            Ok(file) => collector.file = Some(file),
            Err(error) => collector.give_up(&error),
        }
        collector
    }

    /// Stores a whole output if it is too long to show, and returns the excerpt.
    pub fn keep(&self, handle: String, text: &str) -> KeptOutput {
        let mut collector = self.collect_text(handle);
        collector.push(text.as_bytes());
        collector.finish()
    }

    /// Stores a whole text, whatever its length. Returns its handle, if the disk accepted it.
    pub fn keep_whole(&self, handle: String, text: &str) -> Option<String> {
        let mut collector = self.collect_text(handle.clone());
        collector.push(text.as_bytes());
        match collector.file.is_none() && collector.broken.is_none() {
            true => collector.begin_file().ok().map(|_| handle),
            false => collector.finish().handle,
        }
    }

    /// Removes all of them. They are gone from the disk when this returns.
    ///
    /// # Errors
    /// If some may be left.
    pub fn remove_all(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.folder.parent().map_or(Ok(()), |above| File::open(above)?.sync_all()),
        }
    }

    /// Reads a part of a stored output; `None` if there is no such handle.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, handle: &str, offset: u64, limit: usize) -> io::Result<Option<OutputPart>> {
        let Some(path) = self.path(handle) else { return Ok(None) };
        let mut file = match private::open_to_read(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let size = file.metadata()?.len();
        let mut offset = offset.min(size);
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(u64::try_from(limit).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
        // Stored output is UTF-8; an offset within a character moves to the next one.
        let inside = bytes.iter().take_while(|byte| (**byte & 0b1100_0000) == 0b1000_0000).count();
        bytes.drain(..inside);
        offset = offset.saturating_add(u64::try_from(inside).unwrap_or(0));
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(cut) => {
                let whole = cut.utf8_error().valid_up_to();
                let mut bytes = cut.into_bytes();
                bytes.truncate(whole);
                String::from_utf8(bytes).unwrap_or_default()
            }
        };
        Ok(Some(OutputPart { text, offset, size }))
    }
}

/// An output that is still being written.
#[derive(Debug)]
pub struct Collector {
    outputs: Outputs,
    handle: String,
    /// The first part, up to half of a result; everything while that is short.
    head: String,
    /// The latest part after the head, at most twice as long as it is shown.
    tail: String,
    size: u64,
    file: Option<File>,
    broken: Option<String>,
    /// Bytes of an incomplete character.
    partial: Vec<u8>,
    /// The terminal that makes text of a command's output.
    terminal: Option<TerminalText>,
}

/// A complete output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOutput {
    /// The excerpt: everything, or the start and the end with a line about the missing part in between.
    pub text: String,
    /// Whether a part is missing from the excerpt.
    pub cut: bool,
    /// The handle of the whole, if a part is missing and the disk accepted it.
    pub handle: Option<String>,
    /// The whole output's size in bytes.
    pub size: u64,
}

impl Collector {
    /// Adds bytes. Replaces invalid UTF-8.
    pub fn push(&mut self, bytes: &[u8]) {
        let joined;
        let mut rest = if self.partial.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.partial).as_slice(), bytes].concat();
            joined.as_slice()
        };
        let mut text = String::with_capacity(rest.len());
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    match error.error_len() {
                        Some(bad) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            rest = after.get(bad..).unwrap_or_default();
                        }
                        None => {
                            self.partial = after.to_vec();
                            break;
                        }
                    }
                }
            }
        }
        self.push_shown(&text);
    }

    /// Adds text as it arrived.
    fn push_shown(&mut self, text: &str) {
        let Some(terminal) = &mut self.terminal else { return self.push_text(text) };
        let change = terminal.push(text);
        if change.taken_back > 0 {
            self.take_back(change.taken_back);
        }
        self.push_text(&change.added);
    }

    /// Takes so many bytes back from the end: a part of a line that was drawn again.
    fn take_back(&mut self, bytes: usize) {
        let of_tail = bytes.min(self.tail.len());
        self.tail.truncate(self.tail.len().saturating_sub(of_tail));
        self.head.truncate(self.head.len().saturating_sub(bytes.saturating_sub(of_tail)));
        let is_whole = self.size <= KEPT_OUTPUT_BYTES;
        self.size = self.size.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
        let size = self.size;
        let shortened = self.file.as_mut().filter(|_| is_whole).map(|file| {
            file.set_len(size)?;
            file.seek(SeekFrom::Start(size)).map(drop)
        });
        if let Some(Err(error)) = shortened {
            self.give_up(&error);
        }
    }

    fn push_text(&mut self, text: &str) {
        const HALF: usize = TOOL_RESULT_BYTES / 2;
        self.size = self.size.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
        let over = self.size > u64::try_from(TOOL_RESULT_BYTES).unwrap_or(u64::MAX);
        if over && self.file.is_none() && self.broken.is_none() {
            match self.begin_file() {
                Ok(file) => self.file = Some(file),
                Err(error) => self.give_up(&error),
            }
        }
        if let Some(file) = &mut self.file
            && self.size <= KEPT_OUTPUT_BYTES
            && let Err(error) = file.write_all(text.as_bytes())
        {
            self.give_up(&error);
        }
        let room = floor(text, HALF.saturating_sub(self.head.len()));
        let (first, rest) = if self.tail.is_empty() { text.split_at(room) } else { ("", text) };
        self.head.push_str(first);
        self.tail.push_str(rest);
        // Dropping the old part only when it has doubled keeps this linear.
        if self.tail.len() > TOOL_RESULT_BYTES.saturating_mul(2) {
            let from = ceil(&self.tail, self.tail.len().saturating_sub(TOOL_RESULT_BYTES));
            self.tail.drain(..from);
        }
    }

    /// Continues without a file. A useless file must not take room on a disk that may be full.
    fn give_up(&mut self, error: &io::Error) {
        self.broken = Some(error.to_string());
        if self.file.take().is_some()
            && let Some(path) = self.outputs.path(&self.handle)
        {
            let _ = std::fs::remove_file(path);
        }
    }

    /// The file, with everything so far. Called only while nothing was dropped.
    fn begin_file(&self) -> io::Result<File> {
        private::make_folder(&self.outputs.folder)?;
        let path = self
            .outputs
            .path(&self.handle)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no handle"))?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let begun = file.write_all(self.head.as_bytes()).and_then(|()| file.write_all(self.tail.as_bytes()));
        begun.map(|()| file).inspect_err(|_| {
            let _ = std::fs::remove_file(&path);
        })
    }

    /// The latest part, short enough for a progress event.
    pub fn excerpt(&self) -> &str {
        let newest = if self.tail.is_empty() { &self.head } else { &self.tail };
        newest.get(ceil(newest, newest.len().saturating_sub(TOOL_EXCERPT_BYTES))..).unwrap_or_default()
    }

    /// The output's size so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Ends the output.
    pub fn finish(mut self) -> KeptOutput {
        const HALF: usize = TOOL_RESULT_BYTES / 2;
        if !std::mem::take(&mut self.partial).is_empty() {
            self.push_shown("\u{FFFD}");
        }
        let whole = self.head.len().saturating_add(self.tail.len());
        if u64::try_from(whole).ok() == Some(self.size) && whole <= TOOL_RESULT_BYTES {
            return KeptOutput { text: self.head + &self.tail, cut: false, handle: None, size: self.size };
        }
        let end = self.tail.get(ceil(&self.tail, self.tail.len().saturating_sub(HALF))..).unwrap_or_default();
        let shown = u64::try_from(self.head.len().saturating_add(end.len())).unwrap_or(u64::MAX);
        let missing = self.size.saturating_sub(shown);
        let path = self.outputs.path(&self.handle).unwrap_or_default();
        let (handle, place) = match (&self.broken, self.size > KEPT_OUTPUT_BYTES) {
            (Some(error), _) => (None, format!("it could not be kept: {error}")),
            (None, true) => (
                Some(self.handle.clone()),
                format!("the first {KEPT_OUTPUT_BYTES} bytes of it: {}", path.display()),
            ),
            (None, false) => (Some(self.handle.clone()), format!("all of it: {}", path.display())),
        };
        let text = format!("{}\n[… {missing} of {} bytes left out; {place} …]\n{end}", self.head, self.size);
        KeptOutput { text, cut: true, handle, size: self.size }
    }
}

/// The last start of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The first start of a character at or after `at`.
fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_shown_whole_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let outputs = Outputs::new(dir.path(), "s-1");
        let text = "é".repeat(TOOL_RESULT_BYTES / 2);
        let kept = outputs.keep("o-1".to_owned(), &text);
        assert_eq!(kept, KeptOutput { text, cut: false, handle: None, size: TOOL_RESULT_BYTES as u64 });
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn each_session_has_a_folder_of_its_own() {
        let state = Path::new("/state");
        let folders = ["s-1", "s_1", "s.1", "../s-1", "s/1"].map(|id| Outputs::new(state, id).folder);
        let distinct: std::collections::HashSet<&PathBuf> = folders.iter().collect();
        assert_eq!(distinct.len(), folders.len());
        assert_eq!(folders[0], Path::new("/state/outputs/s-1"));
        assert!(folders.iter().all(|folder| folder.parent() == Some(Path::new("/state/outputs"))));
    }

    #[test]
    fn what_is_long_is_kept_and_can_be_read_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let outputs = Outputs::new(dir.path(), "../s");
        let text: String = (0..40_000).map(|n| format!("{n}é\n")).collect();
        let mut collector = outputs.collect("o-2".to_owned());
        for piece in text.as_bytes().chunks(7) {
            collector.push(piece);
            assert!(collector.excerpt().len() <= TOOL_EXCERPT_BYTES);
        }
        let kept = collector.finish();
        assert_eq!(kept.size, text.len() as u64);
        assert!(kept.text.starts_with("0é\n1é\n") && kept.text.ends_with("39999é\n"));
        assert!(kept.text.len() < TOOL_RESULT_BYTES + 200);
        let handle = kept.handle.unwrap();
        let mut read = String::new();
        loop {
            let part = outputs.read(&handle, read.len() as u64, 1000).unwrap().unwrap();
            assert_eq!((part.offset, part.size), (read.len() as u64, text.len() as u64));
            if part.text.is_empty() {
                break;
            }
            read.push_str(&part.text);
        }
        assert_eq!(read, text);
        for handle in ["o-3", "", "../o-2", "a/b"] {
            assert_eq!(outputs.read(handle, 0, 10).unwrap(), None, "{handle}");
        }
    }

    #[test]
    fn redrawn_lines_are_taken_back_from_file_and_excerpt() {
        let dir = tempfile::tempdir().unwrap();
        let outputs = Outputs::new(dir.path(), "s");
        let mut collector = outputs.collect_in_file("o-1".to_owned());
        let file = outputs.path("o-1").unwrap();
        for (piece, expected) in [
            ("start\n1%", "start\n1%"),
            ("\r22%", "start\n22%"),
            ("\r\u{1b}[K\u{1b}[32mé\u{1b}[0m\n", "start\né\n"),
            ("end\r", "start\né\nend"),
        ] {
            collector.push(piece.as_bytes());
            assert_eq!(
                (std::fs::read_to_string(&file).unwrap(), collector.excerpt()),
                (expected.to_owned(), expected)
            );
        }
        assert_eq!(collector.finish().text, "start\né\nend");
        // The middle of an output is left out; a line at its end is drawn again.
        let mut collector = outputs.collect("o-2".to_owned());
        collector.push("x".repeat(TOOL_RESULT_BYTES * 4).as_bytes());
        collector.push(b"\nold\rnew");
        let kept = collector.finish();
        assert!(kept.text.ends_with("x\nnew"));
        assert_eq!(kept.size, std::fs::metadata(outputs.path("o-2").unwrap()).unwrap().len());
        // A text of a file is no output of a command.
        assert_eq!(outputs.keep("o-3".to_owned(), "a\rb\r\n\u{1b}[0m").text, "a\rb\r\n\u{1b}[0m");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let outputs = Outputs::new(Path::new("/nonexistent"), "s");
        let mut collector = outputs.collect("o".to_owned());
        for bytes in [&b"a\xff"[..], &b"\xc3"[..], &b"\xa9b\xe2\x82"[..]] {
            collector.push(bytes);
        }
        assert_eq!(collector.finish().text, "a\u{FFFD}éb\u{FFFD}");
    }
}
