//! `edn-bridge edn`: forms in, canonical forms out, one a line; a rejection with its place and an excerpt.
//!
//! Knows streams of bytes, given by the caller; knows no file and no process.

use std::io::{self, ErrorKind, Read, Write};

use super::{Error, Stream, write_canonical};

/// What came of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was EDN; this many forms.
    Read(u64),
    /// A rejection. The forms before it are written.
    Rejected(Error),
}

impl Outcome {
    /// The exit status that says so: 65 (`EX_DATAERR` of `sysexits.h`) for a rejection.
    pub fn exit_status(&self) -> u8 {
        match self {
            Outcome::Read(_) => 0,
            Outcome::Rejected(_) => 65,
        }
    }
}

/// Reads all forms of `input` and writes each in its canonical spelling on a line of `output`. A rejection
/// is told on `errors`: `line:column code: expected …`, then the line and a caret below the place. Holds
/// one form at a time.
///
/// # Errors
/// What `input` or the writers fail with.
pub fn canonical_forms(
    mut input: impl Read,
    mut output: impl Write,
    mut errors: impl Write,
) -> io::Result<Outcome> {
    let mut stream = Stream::new();
    let mut piece = vec![0; 64 * 1024];
    let mut line = Vec::new();
    let mut count = 0;
    let mut end = false;
    while !end {
        let length = match input.read(&mut piece) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        end = length == 0;
        stream.push(piece.get(..length).unwrap_or_default());
        loop {
            let form = if end { stream.finish() } else { stream.next_form() };
            match form {
                Ok(Some(form)) => {
                    line.clear();
                    write_canonical(&form, &mut line);
                    line.push(b'\n');
                    output.write_all(&line)?;
                    count += 1;
                }
                Ok(None) => break,
                Err(error) => {
                    output.flush()?;
                    writeln!(errors, "{error}")?;
                    if let Some(excerpt) = stream.excerpt() {
                        writeln!(errors, "{excerpt}")?;
                    }
                    errors.flush()?;
                    return Ok(Outcome::Rejected(error));
                }
            }
        }
    }
    output.flush()?;
    Ok(Outcome::Read(count))
}
