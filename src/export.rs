//! Exports a session as a document: an HTML page, Markdown, or EDN.
//!
//! Pure, except for [`save`]: a transcript in, text out. A page is one file, needs no scripts and loads
//! nothing. Nothing in a transcript can run in it: all text is escaped, raw HTML appears as text, links keep
//! only harmless schemes, and the page itself forbids everything except its own style. Does not know live
//! sessions.

mod escape;
mod highlight;
mod html;
mod markdown;
mod page;
mod transcript;
mod usage;

use std::io;
use std::path::Path;

use crate::edn;
use crate::files::{FilePlace, ReplaceError, Rights};
use crate::limits::JOURNAL_BYTES;
use crate::value::{Map, Value};

pub use page::MARK;
pub use transcript::Transcript;
pub use usage::{UsageFigure, UsageRow, page as usage_page};

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One self-contained page.
    Html,
    /// Markdown.
    Markdown,
    /// One EDN map, with messages in the shape of the wire.
    Edn,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Html, Self::Markdown, Self::Edn];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Markdown => "markdown",
            Self::Edn => "edn",
        }
    }

    /// The ending of a file.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Markdown => "md",
            Self::Edn => "edn",
        }
    }

    /// The format with that name or file extension.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name || format.extension() == name)
    }
}

/// Formats a transcript.
pub fn export(transcript: &Transcript, format: Format) -> String {
    match format {
        Format::Html => html::page(transcript),
        Format::Markdown => markdown::document(transcript),
        Format::Edn => edn_map(transcript),
    }
}

/// Writes an exported text to a new file or over an earlier page, for this user alone. Never overwrites another file
/// or a link; the earlier page stays until the new one is complete.
///
/// # Errors
/// If the file is something else, or the system refuses.
pub fn save(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = FilePlace::open(&folder.canonicalize()?.join(name))?.ok_or(io::ErrorKind::NotFound)?;
    let earlier = place.read(JOURNAL_BYTES)?;
    if earlier
        .as_ref()
        .is_some_and(|page| !page.bytes.starts_with(MARK.as_bytes()) || !text.starts_with(MARK))
    {
        let message = match text.starts_with(MARK) {
            true => "the file exists and is not an earlier export",
            false => {
                "the file exists, and only an earlier HTML page is replaced; name another, or delete it first"
            }
        };
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    match place.replace(earlier.as_ref(), text.as_bytes(), Rights::Private, &|| true) {
        Ok(_) => Ok(()),
        Err(ReplaceError::System(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn edn_map(transcript: &Transcript) -> String {
    let mut map = Map::new();
    map.put("session-id", transcript.session.to_value());
    map.put("title", transcript.title.clone());
    map.put("created-at", transcript.created_at.as_ref().to_owned());
    map.put("cwd", transcript.cwd.as_ref().to_owned());
    map.put("messages", Value::vector(transcript.messages.iter().map(|message| message.to_value())));
    if !transcript.interrupted.is_empty() {
        map.put("interrupted", Value::vector(transcript.interrupted.iter().map(|turn| turn.to_value())));
    }
    let mut bytes = Vec::new();
    edn::write_pretty(&Value::from(map), 100, &mut bytes);
    bytes.push(b'\n');
    // The writer writes UTF-8.
    String::from_utf8(bytes).unwrap_or_default()
}
