//! Cuts server-sent events out of bytes that arrive in pieces, even within a line, a character or a line end.
//!
//! Holds the bytes of one event and those after it, and reads each byte once. Knows lines and fields; the
//! protocol knows what an event means.

use memchr::memchr2;

use crate::limits::SSE_EVENT_BYTES;

/// Events cut out of a byte stream.
#[derive(Debug, Default)]
pub struct Events {
    bytes: Vec<u8>,
    /// The start of the next line.
    start: usize,
    /// The end of the searched part of the next line.
    seen: usize,
    /// The joined data lines of the current event.
    data: Vec<u8>,
    /// The event's name; empty for none.
    name: Vec<u8>,
    /// Whether there was a line of data.
    has_data: bool,
    /// Whether the event was returned, so that the next one starts.
    given: bool,
    /// Whether the last line ended with a carriage return. A line feed right after it belongs to it.
    after_return: bool,
    /// Whether the first bytes of the stream were checked.
    begun: bool,
}

/// An error in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// An event exceeds the bound.
    #[error("an event of more than {} MiB", SSE_EVENT_BYTES / 1024 / 1024)]
    TooLong,
    /// An event is not UTF-8.
    #[error("an event that is not UTF-8")]
    NotText,
}

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The name; empty if the stream has none.
    pub name: &'a str,
    /// The data.
    pub data: &'a str,
}

impl Events {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        // Drops read bytes only if that is worth the move, so that each byte moves a bounded number of times.
        if self.start > 0 && self.start >= self.bytes.len().saturating_sub(self.start) {
            self.bytes.drain(..self.start);
            self.seen = self.seen.saturating_sub(self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete event.
    ///
    /// # Errors
    /// See [`StreamError`]; the stream is unusable afterwards.
    pub fn next(&mut self) -> Result<Option<SseEvent<'_>>, StreamError> {
        if std::mem::take(&mut self.given) {
            self.data.clear();
            self.name.clear();
            self.has_data = false;
        }
        loop {
            let unseen = self.bytes.get(self.seen..).unwrap_or_default();
            let Some(found) = memchr2(b'\n', b'\r', unseen) else {
                self.seen = self.bytes.len();
                let waiting = self.bytes.len().saturating_sub(self.start).saturating_add(self.data.len());
                return if waiting > SSE_EVENT_BYTES { Err(StreamError::TooLong) } else { Ok(None) };
            };
            let end = self.seen.saturating_add(found);
            let line = self.start..end;
            let ended_by = self.bytes.get(end).copied();
            let empty = line.is_empty();
            self.start = end.saturating_add(1);
            self.seen = self.start;
            if empty && ended_by == Some(b'\n') && std::mem::take(&mut self.after_return) {
                continue;
            }
            self.after_return = ended_by == Some(b'\r');
            if !empty {
                self.line(line)?;
                continue;
            }
            // An event without data is none, as a keep-alive of some servers.
            if !self.data.is_empty() {
                return self.finished().map(Some);
            }
            self.has_data = false;
            self.name.clear();
        }
    }

    fn line(&mut self, place: std::ops::Range<usize>) -> Result<(), StreamError> {
        let mut line = self.bytes.get(place).unwrap_or_default();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (field, value) = line.split_at_checked(colon).unwrap_or((line, &[]));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
                if self.data.len() > SSE_EVENT_BYTES {
                    return Err(StreamError::TooLong);
                }
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // llama.cpp and GPUStack report a failure in a field of its own.
            b"error" => {
                self.name.clear();
                self.name.extend_from_slice(b"error");
                self.data.clear();
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            // A comment, or a field without meaning here.
            _ => {}
        }
        Ok(())
    }

    fn finished(&mut self) -> Result<SseEvent<'_>, StreamError> {
        self.given = true;
        let name = std::str::from_utf8(&self.name).map_err(|_| StreamError::NotText)?;
        let data = std::str::from_utf8(&self.data).map_err(|_| StreamError::NotText)?;
        Ok(SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a stream that comes in pieces of `size` bytes.
    fn read(stream: &[u8], size: usize) -> Vec<(String, String)> {
        let mut events = Events::default();
        let mut found = Vec::new();
        for piece in stream.chunks(size) {
            events.push(piece);
            while let Some(event) = events.next().unwrap() {
                found.push((event.name.to_owned(), event.data.to_owned()));
            }
        }
        found
    }

    #[test]
    fn sse_events_do_not_depend_on_read_boundaries() {
        for (stream, expected) in [
            ("data: a\n\n", vec![("", "a")]),
            ("event: x\ndata: a\ndata:b\n\ndata: c\n\n", vec![("x", "a\nb"), ("x", "c")]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec![("", "a"), ("", "b")]),
            ("data: a\r\rdata: b\r\r", vec![("", "a"), ("", "b")]),
            ("\u{feff}data: a\n\n: a comment\n\n\ndata\n\ndata: \n\n", vec![("", "a")]),
            ("event: ping\ndata: \n\ndata: a\n\n", vec![("", "a")]),
            ("error: {\"code\":500}\n\n", vec![("error", "{\"code\":500}")]),
            ("id: 1\nretry: 5\ndata:  two blanks\n\n", vec![("", " two blanks")]),
            ("data: é日本🎉\n\ndata: unfinished\n", vec![("", "é日本🎉")]),
            ("event: x\n\ndata: a\n\n", vec![("", "a")]),
        ] {
            // A name applies only to its own event.
            let expected: Vec<_> = expected
                .iter()
                .enumerate()
                .map(|(n, (name, data))| (if n == 0 { *name } else { "" }.to_owned(), (*data).to_owned()))
                .collect();
            for size in 1..=stream.len() {
                assert_eq!(read(stream.as_bytes(), size), expected, "{stream:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn endless_sse_event_is_refused() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1024 * 1024];
        events.push(b"data: ");
        let refused = (0..=SSE_EVENT_BYTES / piece.len()).find_map(|_| {
            events.push(&piece);
            events.next().err()
        });
        assert_eq!(refused, Some(StreamError::TooLong));

        let mut events = Events::default();
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        let refused = (0..=SSE_EVENT_BYTES / piece.len()).find_map(|_| {
            events.push(&line);
            events.next().err()
        });
        assert_eq!(refused, Some(StreamError::TooLong));
        events = Events::default();
        events.push(b"data: \xff\n\n");
        assert_eq!(events.next(), Err(StreamError::NotText));
    }

    #[test]
    fn read_sse_bytes_are_released() {
        let mut events = Events::default();
        for _ in 0..10_000 {
            events.push(b"data: 0123456789012345678901234567890123456789\n\nda");
            assert!(events.next().unwrap().is_some());
            assert!(events.next().unwrap().is_none());
            events.push(b"ta: x\n\n");
            assert!(events.next().unwrap().is_some());
        }
        assert!(events.bytes.capacity() < 4096, "{}", events.bytes.capacity());
    }
}
