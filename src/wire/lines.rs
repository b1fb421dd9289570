//! Splits bytes into lines of bounded length.
//!
//! A line ends with a line feed; a carriage return before it is dropped. The splitter skips a line over the
//! bound, and only counts its length. Lines are slices of the read buffer. Only the bytes of a line that a
//! read has cut are copied. Knows nothing of EDN.

use std::io::{self, Read};

/// What the splitter found.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its line end.
    Whole(&'a [u8]),
    /// A line over the bound: its length in bytes, and its start.
    Oversize(usize, &'a [u8]),
    /// Bytes after the last line feed, at the end of input.
    Unterminated(&'a [u8]),
}

/// Cuts a stream of bytes into lines.
#[derive(Debug)]
pub struct Splitter {
    buffer: Vec<u8>,
    /// Bytes of the buffer that hold input.
    filled: usize,
    /// The start of the current line.
    start: usize,
    /// Where the search for the line end continues.
    scanned: usize,
    /// The length so far of the line that is being skipped, if any.
    skipping: Option<usize>,
    /// The start of that line.
    head: Vec<u8>,
    limit: usize,
    ended: bool,
}

/// Room for one read. After a long line the buffer shrinks back to this.
const READ_BYTES: usize = 64 * 1024;

/// Bytes of the start of a line over the bound, in which a wire may find its id.
const HEAD_BYTES: usize = 4096;

impl Splitter {
    /// A splitter for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            filled: 0,
            start: 0,
            scanned: 0,
            skipping: None,
            head: Vec::new(),
            limit,
            ended: false,
        }
    }

    /// Reads once and returns the number of bytes; 0 at the end of input.
    ///
    /// # Errors
    /// Those of `input`, except for interruptions, after which it tries again.
    pub fn fill(&mut self, input: &mut dyn Read) -> io::Result<usize> {
        self.make_room();
        let free = self.buffer.get_mut(self.filled..).unwrap_or_default();
        loop {
            match input.read(free) {
                Ok(count) => {
                    self.filled = self.filled.saturating_add(count);
                    self.ended = count == 0;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes bytes from memory; the counterpart of [`Splitter::fill`].
    pub fn push(&mut self, bytes: &[u8]) {
        self.make_room();
        self.buffer.truncate(self.filled);
        self.buffer.extend_from_slice(bytes);
        self.filled = self.buffer.len();
    }

    /// Marks the end of input.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The next complete line, or the rest at the end of input.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let unread = self.buffer.get(self.scanned..self.filled).unwrap_or_default();
        let Some(position) = memchr::memchr(b'\n', unread) else {
            self.scanned = self.filled;
            return self.rest();
        };
        let end = self.scanned.saturating_add(position);
        let start = std::mem::replace(&mut self.start, end.saturating_add(1));
        self.scanned = self.start;
        let length = end.saturating_sub(start);
        if let Some(skipped) = self.skipping.take() {
            return Some(Line::Oversize(skipped.saturating_add(length), &self.head));
        }
        if length > self.limit {
            let head = self.buffer.get(start..start.saturating_add(HEAD_BYTES).min(end)).unwrap_or_default();
            return Some(Line::Oversize(length, head));
        }
        let line = self.buffer.get(start..end).unwrap_or_default();
        Some(Line::Whole(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// There is no line feed: skips a line that is already too long, and returns the rest at the end of
    /// input.
    fn rest(&mut self) -> Option<Line<'_>> {
        let held = self.filled.saturating_sub(self.start);
        if let Some(skipped) = &mut self.skipping {
            *skipped = skipped.saturating_add(held);
            self.start = self.filled;
        } else if held > self.limit {
            self.keep_head();
            self.skipping = Some(held);
            self.start = self.filled;
        }
        if !self.ended {
            return None;
        }
        if let Some(skipped) = self.skipping.take() {
            return Some(Line::Oversize(skipped, &self.head));
        }
        let start = std::mem::replace(&mut self.start, self.filled);
        let rest = self.buffer.get(start..self.filled).unwrap_or_default();
        (!rest.is_empty()).then_some(Line::Unterminated(rest))
    }

    /// Bytes of an unfinished line, if they exceed a usual read.
    pub fn held(&self) -> usize {
        let line = self.filled.saturating_sub(self.start);
        if line > READ_BYTES.saturating_mul(4) { self.buffer.len() } else { 0 }
    }

    /// Skips the unfinished line like one over the bound.
    pub fn skip(&mut self) {
        let held = self.filled.saturating_sub(self.start);
        if self.skipping.is_none() {
            self.keep_head();
        }
        self.skipping = Some(self.skipping.unwrap_or(0).saturating_add(held));
        self.start = 0;
        self.filled = 0;
        self.scanned = 0;
        self.buffer = Vec::new();
    }

    /// Keeps the start of the line that is to be skipped.
    fn keep_head(&mut self) {
        let end = self.start.saturating_add(HEAD_BYTES).min(self.filled);
        self.head.clear();
        self.head.extend_from_slice(self.buffer.get(self.start..end).unwrap_or_default());
    }

    /// Moves the incomplete line to the front and makes room for a read.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled = self.filled.saturating_sub(self.start);
            self.scanned = self.scanned.saturating_sub(self.start);
            self.start = 0;
            if self.filled < READ_BYTES && self.buffer.len() > READ_BYTES.saturating_mul(4) {
                self.buffer.truncate(READ_BYTES);
                self.buffer.shrink_to_fit();
            }
        }
        if self.buffer.len().saturating_sub(self.filled) < READ_BYTES {
            // Doubling keeps the copying of a long line linear in its length. Beyond the longest permitted
            // line the buffer grows by one read only.
            let least = self.filled.saturating_add(READ_BYTES);
            let most = self.limit.saturating_add(READ_BYTES);
            let wanted = self.filled.saturating_mul(2).min(most).max(least);
            self.buffer.reserve_exact(wanted.saturating_sub(self.buffer.len()));
            self.buffer.resize(wanted, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]], limit: usize) -> Vec<String> {
        let mut splitter = Splitter::new(limit);
        let mut found = Vec::new();
        let mut drain = |splitter: &mut Splitter| {
            while let Some(line) = splitter.next_line() {
                found.push(match line {
                    Line::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    Line::Oversize(length, _) => format!("<oversize {length}>"),
                    Line::Unterminated(bytes) => format!("<cut {}>", String::from_utf8_lossy(bytes)),
                });
            }
        };
        for piece in pieces {
            splitter.push(piece);
            drain(&mut splitter);
        }
        splitter.end();
        drain(&mut splitter);
        found
    }

    #[test]
    fn lines_do_not_depend_on_read_boundaries() {
        let input = b"{:a 1}\r\n\nsecond\n0123456789abc\nlast";
        let expected = vec!["{:a 1}", "", "second", "<oversize 13>", "<cut last>"];
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let pieces = [&input[..first], &input[first..second], &input[second..]];
                assert_eq!(lines(&pieces, 12), expected, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn line_of_exact_limit_is_accepted() {
        assert_eq!(lines(&[b"0123456789\n"], 10), ["0123456789"]);
        assert_eq!(lines(&[b"0123456789a\n"], 10), ["<oversize 11>"]);
    }

    #[test]
    fn long_line_buffer_shrinks_afterwards() {
        const LIMIT: usize = 1 << 20;
        let line = [vec![b'x'; LIMIT], b"\n".to_vec()].concat();
        let mut splitter = Splitter::new(LIMIT);
        let mut input = &line[..];
        while splitter.fill(&mut input).unwrap() > 0 {
            match splitter.next_line() {
                Some(line) => assert!(matches!(line, Line::Whole(bytes) if bytes.len() == LIMIT)),
                None => assert!(splitter.buffer.capacity() <= LIMIT + READ_BYTES),
            }
        }
        assert!(splitter.buffer.capacity() <= READ_BYTES, "holds {}", splitter.buffer.capacity());
    }

    #[test]
    fn endless_line_is_counted_not_kept() {
        let mut splitter = Splitter::new(1000);
        for _ in 0..100 {
            splitter.push(&[b'x'; 5000]);
            assert_eq!(splitter.next_line(), None);
        }
        assert!(splitter.buffer.len() < 4 * READ_BYTES + 5000, "holds {}", splitter.buffer.len());
        splitter.push(b"\nnext\n");
        assert_eq!(splitter.next_line(), Some(Line::Oversize(500_000, &[b'x'; HEAD_BYTES])));
        assert_eq!(splitter.next_line(), Some(Line::Whole(b"next")));
    }

    #[test]
    fn a_line_that_is_skipped_is_told_and_not_held() {
        let mut splitter = Splitter::new(100 * READ_BYTES);
        splitter.push(&vec![b'x'; 10 * READ_BYTES]);
        assert_eq!(splitter.next_line(), None);
        assert!(splitter.held() >= 10 * READ_BYTES);
        splitter.skip();
        assert_eq!((splitter.held(), splitter.buffer.capacity()), (0, 0));
        splitter.push(b"rest\nnext\n");
        assert_eq!(splitter.next_line(), Some(Line::Oversize(10 * READ_BYTES + 4, &[b'x'; HEAD_BYTES])));
        assert_eq!(splitter.next_line(), Some(Line::Whole(b"next")));
        assert_eq!(splitter.held(), 0);
    }
}
