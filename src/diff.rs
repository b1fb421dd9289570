//! Unified diffs of texts, in the format of `diff -u` and `git diff`. Opens no files.

use std::ops::Range;
use std::path::Path;

use imara_diff::{Algorithm, Diff, Hunk, InternedInput, Token};

use crate::limits::TOOL_RESULT_BYTES;

/// What stands below the start of a diff that was cut.
pub const GOES_ON: &str = "\n[… the diff goes on …]\n";

/// The part of a diff that is shown, and the rest.
pub fn cut(diff: &str) -> (&str, &str) {
    let end = (0..=diff.len().min(TOOL_RESULT_BYTES)).rev().find(|end| diff.is_char_boundary(*end));
    diff.split_at(end.unwrap_or(0))
}

/// The unchanged lines around a change.
const AROUND: u32 = 3;

/// A unified diff with three lines around each change; empty if the texts are equal. The time is linear in
/// the texts' length, for any content: if the shortest diff would take long, the result is a longer one.
pub fn unified(old: &str, new: &str, name: &str) -> String {
    if old == new {
        return String::new();
    }
    let input = InternedInput::new(old, new);
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    let before = if old.is_empty() { "/dev/null".to_owned() } else { format!("a/{name}") };
    let mut text = format!("--- {before}\n+++ b/{name}\n");
    let mut group: Vec<Hunk> = Vec::new();
    for change in diff.hunks() {
        // Changes with overlapping context share a hunk.
        if group.last().is_some_and(|last| change.before.start - last.before.end > 2 * AROUND) {
            write_group(&mut text, &input, &group);
            group.clear();
        }
        group.push(change);
    }
    write_group(&mut text, &input, &group);
    text
}

/// A change of a file as `git diff --patch` writes it, but with absolute paths and without prefixes. `is_new` if there
/// was no file before. `diff` is a unified diff of the texts; its own first lines, which name the file, are left out.
pub fn patch(path: &Path, is_new: bool, diff: &str) -> String {
    let name = quoted(&path.to_string_lossy());
    // Git marks the end of a name with spaces.
    let end = if name.contains(' ') && !name.starts_with('"') { "\t" } else { "" };
    let mut text = format!("diff --git {name} {name}\n");
    if is_new {
        text.push_str("new file mode 100644\n");
    }
    let hunks = match diff.starts_with("@@ ") {
        true => Some(0),
        false => diff.find("\n@@ ").map(|line| line.saturating_add(1)),
    };
    let Some(hunks) = hunks else { return text };
    let before = if is_new { "/dev/null".to_owned() } else { format!("{name}{end}") };
    text.push_str(&format!("--- {before}\n+++ {name}{end}\n"));
    text.push_str(diff.get(hunks..).unwrap_or_default());
    text
}

/// A path as Git writes it: in quotes where it has characters that a line could not hold.
fn quoted(path: &str) -> String {
    if !path.contains(|c: char| c.is_control() || matches!(c, '"' | '\\')) {
        return path.to_owned();
    }
    let mut text = String::from("\"");
    for c in path.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    text.push_str(&format!("\\{byte:03o}"));
                }
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

fn write_group(text: &mut String, input: &InternedInput<&str>, group: &[Hunk]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let lines = u32::try_from(input.before.len()).unwrap_or(u32::MAX);
    let lead = first.before.start.min(AROUND);
    let tail = (lines - last.before.end).min(AROUND);
    let sides = [(&first.before, &last.before), (&first.after, &last.after)];
    let [before, after] = sides.map(|(first, last)| first.start - lead..last.end + tail);
    text.push_str(&format!("@@ -{} +{} @@\n", place(&before), place(&after)));
    let mut at = before.start;
    for change in group {
        write_lines(text, ' ', input, &input.before, at..change.before.start);
        write_lines(text, '-', input, &input.before, change.before.clone());
        write_lines(text, '+', input, &input.after, change.after.clone());
        at = change.before.end;
    }
    write_lines(text, ' ', input, &input.before, at..before.end);
}

/// Lines count from 1; a side without lines names the line before it.
fn place(lines: &Range<u32>) -> String {
    let (start, count) = (lines.start, lines.end - lines.start);
    format!("{},{count}", start + u32::from(count > 0))
}

/// A last line without a line feed is marked; otherwise the diff could not be applied.
fn write_lines(
    text: &mut String,
    sign: char,
    input: &InternedInput<&str>,
    side: &[Token],
    lines: Range<u32>,
) {
    for token in side.get(lines.start as usize..lines.end as usize).unwrap_or_default() {
        let line = input.interner[*token];
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        let lines =
            |range: std::ops::RangeInclusive<u32>| range.map(|n| format!("{n}\n")).collect::<String>();
        let old = lines(1..=30);
        assert_eq!(unified(&old, &old, "x"), "");
        assert_eq!(unified("", "a\nb\n", "x"), "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(unified("a\n", "", "x"), "--- a/x\n+++ b/x\n@@ -1,1 +0,0 @@\n-a\n");
        assert_eq!(
            unified("a\nb", "a\nb\n", "x"),
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
        );
        let new = old.replace("\n5\n", "\nfive\n").replace("\n25\n", "\n");
        assert_eq!(
            unified(&old, &new, "x"),
            "--- a/x\n+++ b/x\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
             @@ -22,7 +22,6 @@\n 22\n 23\n 24\n-25\n 26\n 27\n 28\n"
        );
    }

    #[test]
    fn patch_is_what_git_applies() {
        let dir = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.current_dir(dir.path()).args(arguments);
            assert!(git.status().unwrap().success(), "{arguments:?}");
        };
        git(&["init", "-q"]);
        for (name, old, new) in [
            ("a.txt", Some("one\ntwo"), "one\nthree\n"),
            ("with space.txt", Some("one\n"), "two\n"),
            ("quoted\"\t.txt", Some("one\n"), "two\n"),
            ("new.txt", None, "first\n"),
        ] {
            if let Some(old) = old {
                std::fs::write(dir.path().join(name), old).unwrap();
            }
            let whole = Path::new("/").join(name);
            let text = patch(&whole, old.is_none(), &unified(old.unwrap_or_default(), new, "ignored"));
            std::fs::write(dir.path().join("patch"), text).unwrap();
            // The names have one part more than here.
            git(&["apply", "-p1", "patch"]);
            assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), new, "{name:?}");
        }
        let empty = "diff --git /e /e\nnew file mode 100644\n";
        assert_eq!(patch(Path::new("/e"), true, &unified("", "", "e")), empty);
    }
}
