//! Files that a prompt refers to as `@path`: found in its text, and read as the read tool reads them.
//!
//! Who may read what, the caller says for each path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::limits::{REFERENCES, REFERENCES_BYTES};
use crate::message::Block;
use crate::tool::{self, path};

/// A file that was referred to.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    /// The path as the person wrote it.
    pub name: String,
    /// What the model is shown; for a file that could not be read, why not.
    pub text: String,
    /// An image, where it is one.
    pub images: Vec<Block>,
    /// Whether it could not be read.
    pub failed: bool,
}

/// A path that a text may mean, without its `@`, and whether it was written in quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mention<'t> {
    text: &'t str,
    quoted: bool,
}

/// Whether a text may refer to a file. Cheap, for the many that do not.
pub fn may_refer(text: &str) -> bool {
    !mentions(text).is_empty()
}

/// The files that a text refers to, each once, in order.
///
/// A word that no file is named like is left alone, unless it can only be meant as a path. `may_read` is
/// asked for each path, resolved; why it may not is told in the attachment's place. At most `room` bytes
/// are attached altogether. Reads the disk.
pub fn attach(
    cwd: &Path,
    text: &str,
    room: usize,
    may_read: &dyn Fn(&Path) -> Result<(), String>,
) -> Vec<Attachment> {
    let mut found: Vec<Attachment> = Vec::new();
    let mut seen: Vec<(PathBuf, Option<Lines>)> = Vec::new();
    let mut left = room.min(REFERENCES_BYTES);
    for mention in mentions(text) {
        let (name, read) = match locate(cwd, mention) {
            Located::No => continue,
            Located::Missing(name) => (name, Err("There is no such file.".to_owned())),
            Located::File { name, path, lines } => {
                if seen.contains(&(path.clone(), lines)) {
                    continue;
                }
                seen.push((path.clone(), lines));
                let read = may_read(&path).and_then(|()| {
                    let (first, limit) = lines.map_or((1, None), |lines| {
                        (lines.first, Some(lines.last.saturating_sub(lines.first).saturating_add(1)))
                    });
                    let outcome = tool::read_file(&path, first, limit);
                    if outcome.is_error { Err(outcome.text) } else { Ok(outcome) }
                });
                (name, read)
            }
        };
        if found.len() >= REFERENCES {
            let text = format!("At most {REFERENCES} files are attached to one message; it was left out.");
            found.push(Attachment { name, text, images: Vec::new(), failed: true });
            break;
        }
        found.push(match read {
            Ok(outcome) if outcome.text.len() <= left => {
                left = left.saturating_sub(outcome.text.len());
                Attachment { name, text: outcome.text, images: outcome.images, failed: false }
            }
            Ok(_) => Attachment {
                name,
                text: "There is no room for it beside the other files; it was left out.".to_owned(),
                images: Vec::new(),
                failed: true,
            },
            Err(text) => Attachment { name, text, images: Vec::new(), failed: true },
        });
    }
    found
}

/// The attachments as the model is shown them.
pub fn shown(attachments: &[Attachment]) -> String {
    let mut text = String::new();
    for attachment in attachments {
        let name = attachment.name.replace('"', "'");
        if attachment.failed {
            text.push_str(&format!(
                "<file path=\"{name}\" error=\"{}\"/>\n",
                attachment.text.replace('"', "'")
            ));
        } else {
            text.push_str(&format!("<file path=\"{name}\">\n{}</file>\n", attachment.text));
        }
    }
    text
}

/// Lines of a file, from 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lines {
    first: usize,
    last: usize,
}

enum Located {
    /// It means no file.
    No,
    /// It can only mean a file, and there is none.
    Missing(String),
    File {
        name: String,
        path: PathBuf,
        lines: Option<Lines>,
    },
}

/// The file that a mention means: the whole of it, or without the punctuation of the sentence, or with a
/// range of lines behind a colon.
fn locate(cwd: &Path, mention: Mention<'_>) -> Located {
    let exists = |name: &str| {
        let path = path::resolve(cwd, name).ok()?;
        path.exists().then_some(path)
    };
    let mut name = mention.text;
    loop {
        if let Some(path) = exists(name) {
            return Located::File { name: name.to_owned(), path, lines: None };
        }
        if let Some((base, lines)) = lines(name)
            && let Some(path) = exists(base)
        {
            return Located::File { name: name.to_owned(), path, lines: Some(lines) };
        }
        match name.strip_suffix(|c: char| ".,;:!?)]}>'\"`".contains(c)) {
            Some(shorter) if !shorter.is_empty() && !mention.quoted => name = shorter,
            _ => break,
        }
    }
    // `@alice` or `@Override` may mean anything; `@src/x.rs` means a file.
    let stripped = mention.text.trim_end_matches(|c: char| ".,;:!?)]}>'\"`".contains(c));
    let inner_dot = Path::new(stripped).extension().is_some();
    if mention.quoted || (stripped.contains('/') && inner_dot) || stripped.starts_with(['/', '~', '.']) {
        return Located::Missing(stripped.to_owned());
    }
    Located::No
}

/// `path:10` and `path:10-20`.
fn lines(name: &str) -> Option<(&str, Lines)> {
    let (base, range) = name.rsplit_once(':')?;
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first >= 1 && last >= first).then_some((base, Lines { first, last }))
}

/// What stands behind an `@` that begins a word. Code in fences is not looked at.
fn mentions(text: &str) -> Vec<Mention<'_>> {
    let mut found = Vec::new();
    if memchr::memchr(b'@', text.as_bytes()).is_none() {
        return found;
    }
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => in_line(line, &mut found),
            _ => {}
        }
    }
    found
}

fn in_line<'t>(line: &'t str, found: &mut Vec<Mention<'t>>) {
    let mut rest = line;
    let mut before: Option<char> = None;
    while let Some(at) = rest.find('@') {
        let (left, right) = rest.split_at(at);
        let begins =
            left.chars().next_back().or(before).is_none_or(|c| c.is_whitespace() || "([{<\"'".contains(c));
        let after = right.strip_prefix('@').unwrap_or_default();
        let (text, quoted) = match after.strip_prefix('"') {
            Some(inner) => (inner.split_once('"').map_or("", |(text, _)| text), true),
            None => (after.split(char::is_whitespace).next().unwrap_or_default(), false),
        };
        if begins && !text.is_empty() {
            found.push(Mention { text, quoted });
            rest = after.get(text.len()..).unwrap_or_default();
            before = text.chars().next_back();
        } else {
            rest = after;
            before = Some('@');
        }
    }
}

/// The images of attachments.
pub fn images(attachments: &[Attachment]) -> impl Iterator<Item = Block> {
    attachments.iter().flat_map(|attachment| attachment.images.iter().cloned())
}

/// What could not be attached, for the person.
pub fn failures(attachments: &[Attachment]) -> Vec<Arc<str>> {
    let failed = attachments.iter().filter(|attachment| attachment.failed);
    failed.map(|attachment| format!("@{}: {}", attachment.name, attachment.text).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        std::fs::write(dir.path().join("src/a.rs"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(dir.path().join("with blank.txt"), "blank").unwrap();
        std::fs::write(dir.path().join("README"), "read me").unwrap();
        dir
    }

    fn attached(text: &str) -> Vec<(String, bool)> {
        let dir = folder();
        let cwd = dir.path().canonicalize().unwrap();
        let found = attach(&cwd, text, usize::MAX, &|path| {
            if within(path, &cwd) { Ok(()) } else { Err("outside".to_owned()) }
        });
        found.into_iter().map(|one| (one.name, !one.failed)).collect()
    }

    use crate::tool::path::within;

    #[test]
    fn references_are_found_where_a_file_is_meant() {
        let yes = |name: &str| (name.to_owned(), true);
        let no = |name: &str| (name.to_owned(), false);
        for (text, expected) in [
            ("look at @src/a.rs.", vec![yes("src/a.rs")]),
            ("(@README), and @README again", vec![yes("README")]),
            ("@\"with blank.txt\" please", vec![yes("with blank.txt")]),
            ("@src/a.rs:2-3 and @src/a.rs:1", vec![yes("src/a.rs:2-3"), yes("src/a.rs:1")]),
            ("@src", vec![yes("src")]),
            ("mail me@example.com, @alice, @Override", vec![]),
            ("@src/none.rs!", vec![no("src/none.rs")]),
            ("@/etc/hostname", vec![no("/etc/hostname")]),
            ("@../x", vec![no("../x")]),
            ("@\"none\"", vec![no("none")]),
            ("```\n@src/a.rs\n```\n@README", vec![yes("README")]),
            ("@", vec![]),
            ("@@README", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(attached(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_attached_is_bounded() {
        let dir = folder();
        let many: String = (0..REFERENCES + 5).map(|n| format!("@src/a.rs:{} ", n + 1)).collect();
        let found = attach(dir.path(), &many, usize::MAX, &|_| Ok(()));
        assert_eq!(found.len(), REFERENCES + 1);
        let found = attach(dir.path(), "@src/a.rs @README", 30, &|_| Ok(()));
        assert_eq!(found.iter().map(|one| one.failed).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn the_model_is_shown_lines_and_reasons() {
        let dir = folder();
        let found = attach(dir.path(), "@src/a.rs:2 @src/b.rs", usize::MAX, &|_| Ok(()));
        let text = shown(&found);
        assert!(text.starts_with("<file path=\"src/a.rs:2\">\n     2\ttwo\n"), "{text}");
        assert!(text.ends_with("<file path=\"src/b.rs\" error=\"There is no such file.\"/>\n"), "{text}");
    }
}
