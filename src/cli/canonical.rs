//! `edn-bridge edn`: forms in, canonical forms out, one a line; a rejection with its place and an excerpt.
//!
//! Knows streams of bytes; does not know files or processes.

use std::io::{self, ErrorKind, Read, Write};

use edn_bridge::edn::{Error, Stream, write_canonical};

/// The outcome for the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All of it was EDN; this many forms.
    Read(u64),
    /// A rejection. The forms before it are written.
    Rejected(Error),
}

impl Outcome {
    /// The exit status that says so: 65 (`EX_DATAERR` of `sysexits.h`) for a rejection.
    pub(super) fn exit_status(&self) -> u8 {
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
pub(super) fn canonical_forms(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_printed_and_a_rejection_is_shown_in_its_line() {
        let run = |input: &str| {
            let (mut out, mut errors) = (Vec::new(), Vec::new());
            let outcome = canonical_forms(input.as_bytes(), &mut out, &mut errors).unwrap();
            (outcome.exit_status(), String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap())
        };
        let good = run("{:b 1 :a (1 2)} ; note\n#{3 1N} 1.50M");
        assert_eq!(good, (0, "{:a [1 2] :b 1}\n#{1 3}\n1.5M\n".into(), String::new()));
        let bad = run(":fine\n{:a 1\n  :b \"x\\q\"}\n:more");
        assert_eq!(bad.0, 65);
        assert_eq!(bad.1, ":fine\n");
        assert_eq!(
            bad.2,
            "3:8 invalid-escape: expected an escape: \\t \\r \\n \\b \\f \\\\ \\\" \\uXXXX or \\NNN\n  :b \"x\\q\"}\n       ^\n"
        );
        assert_eq!(run("").0, 0);
    }
}
