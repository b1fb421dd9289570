//! Reads `.editorconfig`: the encoding of a file and the end of its lines. The other keys are an editor's.
//!
//! Reads the files of that name from the file's folder upwards, to the first with `root = true`. Each is read as a
//! regular file and within bounds, since it belongs to a project. Does not know who asks.

use std::path::Path;

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE, WINDOWS_1252};

use crate::files;
use crate::glob::PathGlob;
use crate::limits::{IGNORE_BYTES, IGNORE_LINES, RULE_STEPS};
use crate::meter::Meter;

/// An encoding by its name in `.editorconfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    /// UTF-8.
    Utf8 {
        /// Whether it begins with a byte order mark.
        has_mark: bool,
    },
    /// UTF-16, with a byte order mark.
    Utf16(&'static Encoding),
    /// Another one.
    Other(&'static Encoding),
}

/// The settings of a file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// `charset`.
    pub charset: Option<Charset>,
    /// `end_of_line`.
    pub end: Option<&'static str>,
}

/// The settings of the file at an absolute path.
pub(super) fn of(path: &Path) -> Wanted {
    let mut wanted = Wanted::default();
    let mut meter = Meter::new(RULE_STEPS, usize::MAX);
    for folder in path.ancestors().skip(1) {
        let Ok(bytes) = files::read(&folder.join(".editorconfig"), IGNORE_BYTES) else { continue };
        let Ok(below) = path.strip_prefix(folder) else { break };
        let (found, is_root) = read(&String::from_utf8_lossy(&bytes), below, &mut meter);
        // The nearer file counts.
        wanted.charset = wanted.charset.or(found.charset);
        wanted.end = wanted.end.or(found.end);
        if is_root {
            break;
        }
    }
    wanted
}

/// The settings in one file for a path below its folder, and whether it is the topmost one.
fn read(text: &str, below: &Path, meter: &mut Meter) -> (Wanted, bool) {
    let (mut wanted, mut is_root, mut section) = (Wanted::default(), false, None);
    for line in text.strip_prefix('\u{feff}').unwrap_or(text).lines().take(IGNORE_LINES) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(glob) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = Some(fits(glob, below, meter));
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().to_ascii_lowercase());
        match (key.as_str(), section) {
            ("root", None) => is_root = value == "true",
            ("charset", Some(true)) => {
                wanted.charset = match value.as_str() {
                    "utf-8" => Some(Charset::Utf8 { has_mark: false }),
                    "utf-8-bom" => Some(Charset::Utf8 { has_mark: true }),
                    "utf-16le" => Some(Charset::Utf16(UTF_16LE)),
                    "utf-16be" => Some(Charset::Utf16(UTF_16BE)),
                    "latin1" => Some(Charset::Other(WINDOWS_1252)),
                    _ => None,
                }
            }
            ("end_of_line", Some(true)) => {
                wanted.end = match value.as_str() {
                    "lf" => Some("\n"),
                    "crlf" => Some("\r\n"),
                    _ => None,
                }
            }
            _ => {}
        }
    }
    (wanted, is_root)
}

/// Whether the glob of a section fits. One without a slash fits in every folder below. Beyond the budget none does.
fn fits(glob: &str, below: &Path, meter: &mut Meter) -> bool {
    let steps = glob.len().saturating_add(below.as_os_str().len());
    if meter.spend(steps, 0).is_err() {
        return false;
    }
    let glob = match glob.trim_start_matches('/') {
        inner if glob.contains('/') => inner.to_owned(),
        inner => format!("**/{inner}"),
    };
    PathGlob::new(&glob).is_ok_and(|glob| glob.is_match(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_section_that_fits_counts() {
        let text = "root = true\n[*]\nend_of_line = lf\ncharset = utf-8\n[*.{bat,cmd}]\nend_of_line=CRLF\n\
                    [/old/**]\ncharset = latin1\n";
        let read = |path: &str| read(text, Path::new(path), &mut Meter::new(RULE_STEPS, usize::MAX));
        let end = |path: &str| read(path).0.end;
        assert_eq!((end("a.rs"), end("x/run.bat")), (Some("\n"), Some("\r\n")));
        let charset = |path: &str| read(path).0.charset;
        assert_eq!(charset("old/a"), Some(Charset::Other(WINDOWS_1252)));
        assert_eq!(charset("new/old/a"), Some(Charset::Utf8 { has_mark: false }));
        assert!(read("a").1);
    }

    #[test]
    fn nearer_file_counts_up_to_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join(".editorconfig"), "[*]\nend_of_line = lf\ncharset = utf-16le\n").unwrap();
        std::fs::write(root.join("a/.editorconfig"), "[*.txt]\nend_of_line = crlf\n").unwrap();
        let wanted = of(&root.join("a/b/x.txt"));
        assert_eq!(wanted, Wanted { charset: Some(Charset::Utf16(UTF_16LE)), end: Some("\r\n") });
        std::fs::write(root.join("a/b/.editorconfig"), "root=true\n").unwrap();
        assert_eq!(of(&root.join("a/b/x.txt")), Wanted::default());
    }
}
