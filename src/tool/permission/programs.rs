//! The later words of a command that a rule for its first words lets through: they stay in the workspace. Which words run
//! another program is said by the table of [`crate::tool::shell`].
//!
//! Looks at the links in the workspace, and at its repository. Knows neither rules nor modes.

use std::fs::Metadata;
use std::io::Read as _;
use std::path::Path;

use crate::limits::GIT_FILE_BYTES;
use crate::private;
use crate::tool::path::{resolve, within};
use crate::tool::shell::{bounded, has_subcommands};

/// The longest words that may name a file: letters with a value after one of them, and others.
const LETTERS: usize = 256;
const NAME: usize = 4096;

/// The first words for a rule about this command, unless a later word forbids it.
pub fn prefix(command: &[String], workspace: &Path) -> Option<&'static str> {
    let (_, words, _) = bounded(command)?;
    stays(command, 0, workspace).then_some(words)
}

/// Whether the later words of a known command keep its effect. The rule names the first `given` words. An
/// unknown program always passes.
pub fn stays(command: &[String], given: usize, workspace: &Path) -> bool {
    let Some((count, _, options)) = bounded(command) else {
        // Options before the subcommand decide what runs (`git -c`, `cargo --config`).
        let name = command.first().map_or("", String::as_str);
        let next = command.get(given.max(1)).filter(|_| given < 2);
        return !(has_subcommands(name) && next.is_some_and(|word| word.starts_with('-')));
    };
    let later = command.get(count.max(given)..).unwrap_or_default();
    let is_kept = match command.first().map(String::as_str) {
        Some("git") => git_stays(command, workspace),
        _ => true,
    };
    let kept = |word: &String| match command.first().map(String::as_str) {
        // It starts a reader of manuals, and a checker of signatures.
        Some("git") => word != "--help" && !word.contains("%G"),
        // It follows the links in a folder.
        Some("diff") => !word.split('=').any(|part| workspace.join(part).is_dir()),
        Some("kubectl") => !word.to_ascii_lowercase().contains("secret"),
        _ => true,
    };
    is_kept && later.iter().all(|word| options.allow(word) && kept(word) && !leaves(word, workspace))
}

/// Whether a known command of git stays in the workspace and starts no editor. In a folder of a repository, git shows
/// the whole repository.
fn git_stays(command: &[String], workspace: &Path) -> bool {
    let has_message = |word: &String| matches!(word.as_str(), "-m" | "-am") || word.starts_with("--message");
    let mut options = command.iter().take_while(|word| *word != "--");
    let names_git = |folder: &Path| folder.join(".git").symlink_metadata().is_ok();
    let is_alone = !workspace.ancestors().any(names_git);
    (is_alone || is_repository(&workspace.join(".git")))
        && (command.get(1).is_none_or(|word| word != "commit") || options.any(has_message))
}

/// Whether git takes a folder for a repository whose files are those around it. It passes over an empty one and goes on
/// above; a file, a link or a setting may lead anywhere.
fn is_repository(folder: &Path) -> bool {
    let is = |name: &str, check: fn(&Metadata) -> bool| {
        folder.join(name).symlink_metadata().is_ok_and(|found| check(&found))
    };
    let leads_elsewhere = || {
        let settings = private::open_to_read(&folder.join("config")).and_then(|file| {
            let mut text = String::new();
            file.take(GIT_FILE_BYTES).read_to_string(&mut text)?;
            Ok(text.to_ascii_lowercase())
        });
        settings.map_or(true, |text| {
            text.len() >= usize::try_from(GIT_FILE_BYTES).unwrap_or(usize::MAX)
                || ["worktree", "include"].iter().any(|word| text.contains(word))
        })
    };
    // A path that ends in a slash would follow a link.
    folder.symlink_metadata().is_ok_and(|found| found.is_dir())
        && is("HEAD", Metadata::is_file)
        && is("config", Metadata::is_file)
        && ["objects", "refs"].iter().all(|name| is(name, Metadata::is_dir))
        && !leads_elsewhere()
}

/// Whether a word may name a file outside the workspace, directly or by a link in the workspace.
fn leaves(word: &str, workspace: &Path) -> bool {
    let out = |part: &str| !resolve(workspace, part).is_ok_and(|path| within(&path, workspace));
    if word.starts_with('-') && !word.starts_with("--") {
        // A value may follow its letter.
        let values = || word.char_indices().filter_map(|(place, _)| word.get(place..));
        return word.contains('/') || word.len() > LETTERS || values().any(out);
    }
    word.len() > NAME
        || out(word)
        || word.split(['=', ',', ':']).any(|part| part.split('/').any(|name| name == "..") || out(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_in_a_folder_of_a_repository_is_not_permitted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let inner = root.join("a/b");
        let empty = root.join("empty");
        let moved = root.join("moved");
        let linked = root.join("linked");
        for repository in [&root, &inner, &moved] {
            for name in ["objects", "refs"] {
                std::fs::create_dir_all(repository.join(".git").join(name)).unwrap();
            }
            std::fs::write(repository.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
            std::fs::write(repository.join(".git/config"), "[core]\n\tbare = false\n").unwrap();
        }
        std::fs::write(moved.join(".git/config"), "[core]\n\tworktree = ../..\n").unwrap();
        std::fs::create_dir_all(empty.join(".git")).unwrap();
        std::fs::create_dir(&linked).unwrap();
        std::os::unix::fs::symlink("../.git", linked.join(".git")).unwrap();
        for (workspace, command, expected) in [
            (&root, "git diff", true),
            (&inner, "git grep x -- :(top)", true),
            (&root.join("a"), "git diff", false),
            (&root.join("a"), "git grep x -- :(top)", false),
            (&root.join("a"), "ls", true),
            (&empty, "git show HEAD:secret", false),
            (&moved, "git status", false),
            (&linked, "git diff", false),
            (&root, "git commit -m x", true),
            (&root, "git commit -- -m", false),
        ] {
            let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(prefix(&command, workspace).is_some(), expected, "{command:?} in {workspace:?}");
        }
    }

    #[test]
    fn a_word_that_leads_out_by_a_link_is_not_permitted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = root.join("w");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(root.join("secret"), "x").unwrap();
        std::fs::write(workspace.join("a"), "x").unwrap();
        for (link, to) in [("door", ".."), ("s", "../secret"), ("a=b", "../secret"), ("in", "a")] {
            std::os::unix::fs::symlink(to, workspace.join(link)).unwrap();
        }
        for (command, expected) in [
            ("cat a", true),
            ("cat in", true),
            ("cat new/name", true),
            ("git log --format=%h -- a", true),
            ("cat s", false),
            ("cat a=b", false),
            ("cat door/secret", false),
            ("ls door", false),
            ("grep x a -fs", false),
            ("grep --file=s x", false),
            ("mkdir door/new", false),
            ("diff a in", true),
            ("diff a .", false),
            ("diff --from-file=. a", false),
        ] {
            let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(prefix(&command, &workspace).is_some(), expected, "{command:?}");
        }
    }
}
