//! The programs that a rule may name by their first words, and the later words that would change their
//! effect.
//!
//! A rule for the start of a command (`cargo test`) permits any later word, so it is suggested only for the
//! programs of this table. No later word that is permitted here runs another program, writes a file that it
//! names, or reads outside the workspace. For all other programs, the exact command is suggested. A program
//! with a language (`awk`, `jq`) or with words that are no options (`ps e`, `date 0101`) does not belong here.
//! Looks at the links in the workspace. Knows neither rules nor modes.

use std::fs::Metadata;
use std::io::Read as _;
use std::path::Path;

use crate::limits::GIT_FILE_BYTES;

use crate::tool::path::{resolve, within};

/// The permitted options.
enum Options {
    /// All except these and their abbreviations.
    But(&'static str),
    /// Only these, and no `@file` with further options.
    Only(&'static str),
}

use Options::{But, Only};

/// The longest words that may name a file: letters with a value after one of them, and others.
const LETTERS: usize = 256;
const NAME: usize = 4096;

/// The options of `git log` and similar commands that write a file, run a program (also one for merges, or for the
/// references of another repository) or leave the repository.
const GIT_DIFF: Options = But("--output --ext-diff --textconv --no-index --show-signature --remerge-diff \
    --diff-merges --alternate-refs");

/// The options that select what is built or tested in a package, and the output format.
const CARGO: Options = Only(
    "-p --package --workspace --all --exclude --lib --bin --bins --test --tests --example --examples \
    --bench --benches --all-targets --doc --features --all-features --no-default-features --release \
    -r --profile -j --jobs --keep-going --no-run --no-fail-fast --no-deps --locked --offline \
    --frozen -q --quiet -v -vv --verbose --color --message-format --format-version --check \
    --document-private-items --depth -i --invert -d --duplicates -e --edges --nocapture --no-capture \
    --show-output --test-threads --exact --skip --ignored --include-ignored --run-ignored --list -E \
    -D -W -A",
);

const GO: Options = Only(
    "-v -run -skip -count -race -short -timeout -cover -bench -benchmem -failfast -json -parallel \
    -shuffle -p -m -f",
);

const CONTAINERS: Options = Only(
    "-a --all -q --quiet --no-trunc --filter --format -f --follow --tail -n --since --until -t \
    --timestamps",
);

const KUBECTL: Options = Only(
    "-n --namespace -A --all-namespaces -o --output -l --selector --tail --since -c --container \
    --previous --show-labels --sort-by",
);

const GH: Options =
    Only("--json -L --limit -s --state -l --label --author --comments --log --log-failed --job");

const PACKAGES: Options = Only("-a --all -l --long -g --global --json --depth --outdated --format");

/// Follows the links in a folder.
const GREP: Options = But("-R --dereference-recursive");

/// Reads the files that another file names.
const SUMS: Options = But("-c --check");

/// The first words of a command, and its permitted options.
const KNOWN: &[(&str, Options)] = &[
    ("basename", But("")),
    ("cargo bench", CARGO),
    ("cargo build", CARGO),
    ("cargo check", CARGO),
    ("cargo clippy", CARGO),
    ("cargo doc", CARGO),
    ("cargo fmt", CARGO),
    ("cargo metadata", CARGO),
    ("cargo nextest list", CARGO),
    ("cargo nextest run", CARGO),
    ("cargo test", CARGO),
    ("cargo tree", CARGO),
    ("cat", But("")),
    ("cksum", SUMS),
    ("cmp", But("")),
    ("comm", But("")),
    ("cut", But("")),
    ("df", But("")),
    // It pipes through `pr`, and goes through folders.
    ("diff", But("-l --paginate -r --recursive")),
    ("dirname", But("")),
    ("docker images", CONTAINERS),
    ("docker logs", CONTAINERS),
    ("docker ps", CONTAINERS),
    ("du", But("-L --dereference --files0-from")),
    ("echo", But("")),
    ("egrep", GREP),
    ("expand", But("")),
    ("false", But("")),
    ("fgrep", GREP),
    // Others compile its database, change times, unpack with other programs, or read names from a file.
    (
        "file",
        Only(
            "-b --brief -i --mime --mime-type --mime-encoding --extension -k --keep-going -h \
            --no-dereference -N --no-pad -r --raw -0 --print0",
        ),
    ),
    ("fold", But("")),
    ("free", But("")),
    ("gh issue list", GH),
    ("gh issue view", GH),
    ("gh pr checks", GH),
    ("gh pr diff", GH),
    ("gh pr list", GH),
    ("gh pr view", GH),
    ("gh run list", GH),
    ("gh run view", GH),
    // The forbidden ones start an editor.
    ("git add", But("-e --edit -i --interactive -p --patch")),
    ("git blame", But("--contents --textconv")),
    ("git cat-file", But("--textconv --filters --batch-command")),
    ("git commit", Only("-m --message -a --all -am -q --quiet -s --signoff")),
    ("git describe", But("")),
    ("git diff", GIT_DIFF),
    ("git grep", But("-O --open-files-in-pager --ext-grep --textconv --no-index")),
    ("git log", GIT_DIFF),
    ("git ls-files", But("")),
    ("git ls-tree", But("")),
    ("git merge-base", But("")),
    ("git rev-list", But("--alternate-refs")),
    ("git rev-parse", But("")),
    ("git shortlog", GIT_DIFF),
    ("git show", GIT_DIFF),
    ("git show-ref", But("--exclude-existing")),
    ("git status", But("")),
    ("git whatchanged", GIT_DIFF),
    ("go build", GO),
    ("go list", GO),
    ("go test", GO),
    ("go version", GO),
    ("go vet", GO),
    ("grep", GREP),
    ("head", But("")),
    ("id", But("")),
    ("join", But("")),
    ("kubectl describe", KUBECTL),
    ("kubectl get", KUBECTL),
    ("kubectl logs", KUBECTL),
    ("ls", But("-L --dereference")),
    ("md5sum", SUMS),
    ("mkdir", But("")),
    ("nl", But("")),
    ("npm list", PACKAGES),
    ("npm ls", PACKAGES),
    ("npm outdated", PACKAGES),
    ("nproc", But("")),
    ("od", But("")),
    ("paste", But("")),
    ("pip list", PACKAGES),
    ("pip show", PACKAGES),
    ("pip3 list", PACKAGES),
    ("pip3 show", PACKAGES),
    ("podman images", CONTAINERS),
    ("podman logs", CONTAINERS),
    ("podman ps", CONTAINERS),
    ("pwd", But("")),
    ("readlink", But("")),
    ("realpath", But("")),
    // They run a program for each file, for the host's name, and for packed files, and follow links.
    ("rg", But("--pre --hostname-bin -z --search-zip -L --follow")),
    ("ruff check", Only("-q --quiet -v --diff --select --ignore --statistics")),
    ("ruff format", Only("-q --quiet -v --diff --check")),
    ("rustup show", Only("-v")),
    ("seq", But("")),
    ("sha1sum", SUMS),
    ("sha256sum", SUMS),
    ("sha512sum", SUMS),
    ("sort", But("-o --output --compress-program -T --temporary-directory --files0-from")),
    ("stat", But("")),
    ("systemctl status", Only("--no-pager -l --full -n --lines --user")),
    ("tac", But("")),
    ("tail", But("")),
    // `-R` writes a page into each folder, `-l` follows links.
    ("tree", But("-o -R -l")),
    ("true", But("")),
    ("uname", But("")),
    ("uptime", But("")),
    ("wc", But("--files0-from")),
    ("which", But("")),
    ("whoami", But("")),
];

/// The row of a command. A name with a slash is another program, whatever its name.
fn row(command: &[String]) -> Option<(usize, &'static str, &'static Options)> {
    let fits = |words: &str| {
        let mut count = 0_usize;
        let all = words.split(' ').all(|word| {
            let same = command.get(count).is_some_and(|own| own == word);
            count = count.saturating_add(1);
            same
        });
        all.then_some(count)
    };
    KNOWN.iter().find_map(|(words, options)| Some((fits(words)?, *words, options)))
}

/// The first words for a rule about this command, unless a later word forbids it.
pub fn prefix(command: &[String], workspace: &Path) -> Option<&'static str> {
    let (_, words, _) = row(command)?;
    stays(command, 0, workspace).then_some(words)
}

/// Whether the later words of a known command keep its effect. The rule names the first `given` words. An
/// unknown program always passes.
pub fn stays(command: &[String], given: usize, workspace: &Path) -> bool {
    let Some((count, _, options)) = row(command) else {
        // Options before the subcommand decide what runs (`git -c`, `cargo --config`).
        let name = command.first().map_or("", String::as_str);
        let has_subcommands =
            KNOWN.iter().any(|(words, _)| words.split_once(' ').is_some_and(|w| w.0 == name));
        let next = command.get(given.max(1)).filter(|_| given < 2);
        return !(has_subcommands && next.is_some_and(|word| word.starts_with('-')));
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
        let settings = std::fs::File::open(folder.join("config")).and_then(|file| {
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

impl Options {
    fn allow(&self, word: &str) -> bool {
        if !word.starts_with('-') || matches!(word, "-" | "--") {
            return matches!(self, But(_)) || !word.starts_with('@');
        }
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        match self {
            // A number may follow its letter: `-j4`.
            Only(known) => {
                let letter = name.trim_end_matches(|c: char| c.is_ascii_digit());
                known.split(' ').any(|option| option == name || option == letter)
            }
            But(known) => !known.split(' ').any(|option| match name.starts_with("--") {
                true => option.starts_with(name),
                // Letters may be combined, and a value may follow its letter.
                false => {
                    option.len() == 2 && option.chars().nth(1).is_some_and(|letter| name.contains(letter))
                }
            }),
        }
    }
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
    fn the_rows_are_in_order_and_each_is_found() {
        assert!(KNOWN.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (words, _) in KNOWN {
            let mut command: Vec<String> = words.split(' ').map(str::to_owned).collect();
            if *words == "git commit" {
                assert_eq!(prefix(&command, Path::new("/w")), None, "it opens an editor");
                command.extend(["-m".to_owned(), "x".to_owned()]);
            }
            assert_eq!(prefix(&command, Path::new("/w")), Some(*words));
        }
    }

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
