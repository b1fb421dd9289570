//! Bounded lines of a program's output.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Reads lines, each of at most so many bytes.
#[derive(Debug)]
pub struct LineReader<R> {
    read: BufReader<R>,
    /// What has come of the next line.
    line: Vec<u8>,
    most: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads what comes.
    pub fn new(read: R, most: usize) -> Self {
        Self { read: BufReader::new(read), line: Vec::new(), most }
    }

    /// The next line, without its end; `None` at the end of the output. May be given up and asked again.
    ///
    /// # Errors
    /// Those of reading, and of a line that is too long.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                return Ok(None);
            }
            let end = memchr::memchr(b'\n', available);
            let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            if self.line.len().saturating_add(part.len()) > self.most {
                return Err(io::Error::other(format!("it sent a line of more than {} bytes", self.most)));
            }
            self.line.extend_from_slice(part);
            let used = part.len().saturating_add(usize::from(end.is_some()));
            self.read.consume(used);
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}
