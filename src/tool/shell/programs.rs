//! What programs do with their words and their input: one table, by which commands that hide others are known, and words
//! that a rule lets through.
//!
//! A rule for the start of a command (`cargo test`) permits any later word, so it is suggested only for the programs whose
//! later words are bounded here. No later word that is permitted runs another program, writes a file that it names, or reads
//! outside the workspace. For all other programs, the exact command is suggested. A program with a language (`awk`, `jq`) or
//! with words that are no options (`ps e`, `date 0101`) has no bound. Knows neither rules nor modes.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{base, folded};

/// What a program does with its words and its input: any of the following.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Does(u16);

/// None of the following.
const NOTHING: Does = Does(0);
/// Its input is a program, and a text among its words may be one.
pub(super) const EVALUATES: Does = Does(1);
/// It has commands of its own that start programs: a word after the file may be one.
pub(super) const CONSOLE: Does = Does(1 << 1);
/// It takes commands from its input, or starts a shell if it is given none.
pub(super) const OBEYS: Does = Does(1 << 2);
/// It runs another program, named in its words or in a text among them.
pub(super) const RUNS: Does = Does(1 << 3);
/// It hands its input on to the program that it runs.
pub(super) const HANDS_ON: Does = Does(1 << 4);
/// It is a command of the shell, and changes what later words mean: the folder, variables, options, or what a name stands
/// for. It evaluates the places of lists.
pub(super) const CHANGES: Does = Does(1 << 5);
/// Its words are patterns and data.
pub(super) const WORDS: Does = Does(1 << 6);
/// Its input is data.
pub(super) const INPUT: Does = Does(1 << 7);
/// No word that `xargs` appends makes it run another program.
pub(super) const APPENDS: Does = Does(1 << 8);

impl Does {
    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it does this.
    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The permitted later words.
#[derive(Debug)]
pub enum Options {
    /// Nothing is known of them.
    Unbounded,
    /// All except these and their abbreviations.
    But(&'static str),
    /// Only these, and no `@file` with further options.
    Only(&'static str),
}

use Options::{But, Only, Unbounded};

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

const FILE: Options =
    // Others compile its database, change times, unpack with other programs, or read names from a file.
    Only(
        "-b --brief -i --mime --mime-type --mime-encoding --extension -k --keep-going -h --no-dereference -N --no-pad -r --raw -0 --print0",
    );

const RUFF_CHECK: Options = Only("-q --quiet -v --diff --select --ignore --statistics");

/// The programs, or their first words, that do the same. Each stands in one row.
const ROWS: &[(&str, Does, Options)] = &[
    // Shells and languages.
    (
        "ash, awk, bash, bb, bpython, bun, clisp, csh, dash, dc, deno, elixir, elvish, erl, expect, fish, \
         gawk, ghci, gnuplot, groovy, guile, hy, iex, ipython, irb, janet, jruby, jshell, julia, jython, ksh, \
         lua, luajit, m4, mawk, micropython, mksh, nawk, node, nodejs, nu, ocaml, octave, osascript, osh, \
         perl, php, powershell, pwsh, pypy, python, r, racket, rake, raku, rbash, rscript, ruby, sbcl, scala, \
         sh, swipl, tcl, tclsh, tcsh, ts-node, tsx, wish, xonsh, yash, zsh",
        EVALUATES,
        Unbounded,
    ),
    // Editors, debuggers and databases.
    (
        "duckdb, ed, emacs, emacsclient, ex, ftp, gdb, lldb, mysql, nvim, psql, sqlite, vi, view, vim, \
         vimdiff",
        CONSOLE,
        Unbounded,
    ),
    // Programs with commands in their input, or a shell of their own.
    (
        "at, batch, bind, chroot, compgen, complete, fakeroot, fc, history, i386, linux, newgrp, nix-shell, \
         nsenter, parallel, proot, runuser, script, sem, setarch, sg, ssh, su, unshare, x86_64",
        OBEYS,
        Unbounded,
    ),
    ("mapfile, readarray", OBEYS.and(CHANGES), Unbounded),
    // Programs that start another one, and subcommands of git that do.
    (
        "bsdtar, busybox, bwrap, caffeinate, catchsegv, cgexec, chpst, chrt, cpulimit, crontab, \
         dbus-run-session, docker, entr, env, faketime, fd, fdfind, find, firejail, flock, git bisect, git \
         config, git difftool, git filter-branch, git filter-repo, git for-each-repo, git hook, git instaweb, \
         git mergetool, git remote-ext, git remote-fd, git send-email, git submodule, gmake, gnumake, ionice, \
         kubectl, less, lima, logsave, ltrace, make, man, more, mosh, mpirun, multitime, nerdctl, nix, npm, \
         npx, numactl, pdsh, perf, pkexec, pnpm, podman, prlimit, rlwrap, rsync, run-parts, scp, screen, \
         setpriv, setsid, sftp, socat, softlimit, sshpass, start-stop-daemon, strace, systemd-run, taskset, \
         tmux, torsocks, toybox, trickle, unbuffer, valgrind, watch, xvfb-run, yarn, zip",
        RUNS,
        Unbounded,
    ),
    ("doas, nice, nohup, stdbuf, sudo, time, timeout", RUNS.and(HANDS_ON), Unbounded),
    ("tar, xargs", RUNS.and(INPUT), Unbounded),
    // Commands of a shell that change what later ones mean.
    (
        "cd, chdir, getopts, hash, let, popd, pushd, read, set, shopt, ulimit, umask, unset",
        CHANGES,
        Unbounded,
    ),
    ("declare, export, local, readonly, typeset", CHANGES, Unbounded),
    // Programs with a language of their own words, or which write what they name: no rule is suggested for their first words.
    (
        "base32, base64, bunzip2, bzip2, fmt, git am, git apply, git check-ignore, git diff-tree, git \
         hash-object, git patch-id, gunzip, gzip, hexdump, hexyl, iconv, pbcopy, pr, rev, sed, shuf, strings, \
         tee, unexpand, uniq, xclip, xxd, xz, zcat, zstd",
        INPUT,
        Unbounded,
    ),
    ("cargo, column, curl, jq, printf, pytest, ruff, tr, wget, yq", WORDS.and(INPUT), Unbounded),
    ("chmod, chown, cp, ln, mv, rm, rmdir", APPENDS, Unbounded),
    ("touch", WORDS.and(INPUT).and(APPENDS), Unbounded),
    // Programs whose later words are bounded.
    ("basename, cat, cut, dirname, echo, head, mkdir, stat, tail", WORDS.and(INPUT).and(APPENDS), But("")),
    (
        "cargo bench, cargo build, cargo check, cargo clippy, cargo doc, cargo fmt, cargo metadata, cargo \
         nextest list, cargo nextest run, cargo test, cargo tree",
        NOTHING,
        CARGO,
    ),
    ("cksum, md5sum, sha1sum, sha256sum", INPUT.and(APPENDS), SUMS),
    ("cmp, comm, expand, fold, join, nl, od, paste, tac, true", INPUT, But("")),
    (
        "df, false, free, git describe, git ls-files, git ls-tree, git merge-base, git rev-parse, git status, \
         id, nproc, pwd, readlink, realpath, seq, uname, uptime, which, whoami",
        NOTHING,
        But(""),
    ),
    // It pipes through `pr`, and goes through folders.
    ("diff", WORDS.and(INPUT), But("-l --paginate -r --recursive")),
    ("docker images, docker logs, docker ps, podman images, podman logs, podman ps", NOTHING, CONTAINERS),
    ("du", APPENDS, But("-L --dereference --files0-from")),
    ("egrep, fgrep, grep", WORDS.and(INPUT).and(APPENDS), GREP),
    ("file", WORDS.and(INPUT).and(APPENDS), FILE),
    (
        "gh issue list, gh issue view, gh pr checks, gh pr diff, gh pr list, gh pr view, gh run list, gh run \
         view",
        NOTHING,
        GH,
    ),
    // The forbidden ones start an editor.
    ("git add", NOTHING, But("-e --edit -i --interactive -p --patch")),
    ("git blame", NOTHING, But("--contents --textconv")),
    ("git cat-file", INPUT, But("--textconv --filters --batch-command")),
    ("git commit", INPUT, Only("-m --message -a --all -am -q --quiet -s --signoff")),
    ("git diff, git log, git shortlog, git show, git whatchanged", NOTHING, GIT_DIFF),
    ("git grep", INPUT, But("-O --open-files-in-pager --ext-grep --textconv --no-index")),
    ("git rev-list", NOTHING, But("--alternate-refs")),
    ("git show-ref", NOTHING, But("--exclude-existing")),
    ("go build, go list, go test, go version, go vet", NOTHING, GO),
    ("kubectl describe, kubectl get, kubectl logs", NOTHING, KUBECTL),
    ("ls", WORDS.and(INPUT).and(APPENDS), But("-L --dereference")),
    ("npm list, npm ls, npm outdated, pip list, pip show, pip3 list, pip3 show", NOTHING, PACKAGES),
    // They run a program for each file, for the host's name, and for packed files, and follow links.
    ("rg", WORDS.and(INPUT), But("--pre --hostname-bin -z --search-zip -L --follow")),
    ("ruff check", NOTHING, RUFF_CHECK),
    ("ruff format", NOTHING, Only("-q --quiet -v --diff --check")),
    ("rustup show", NOTHING, Only("-v")),
    ("sha512sum", INPUT, SUMS),
    ("sort", INPUT, But("-o --output --compress-program -T --temporary-directory --files0-from")),
    ("systemctl status", NOTHING, Only("--no-pager -l --full -n --lines --user")),
    // `-R` writes a page into each folder, `-l` follows links.
    ("tree", NOTHING, But("-o -R -l")),
    ("wc", WORDS.and(INPUT).and(APPENDS), But("--files0-from")),
];

/// Bytes of the longest name, and some more.
const LONGEST: usize = 32;

/// A row, by each of its names.
struct Program {
    words: &'static str,
    does: Does,
    options: &'static Options,
}

/// The rows by the first words of each name, and all of the names that begin with that word.
static PROGRAMS: LazyLock<HashMap<&str, Vec<Program>>> = LazyLock::new(|| {
    let mut all: HashMap<&str, Vec<Program>> = HashMap::new();
    for (names, does, options) in ROWS {
        for words in names.split(", ") {
            let name = words.split(' ').next().unwrap_or_default();
            all.entry(name).or_default().push(Program { words, does: *does, options });
        }
    }
    all
});

fn named(name: &str) -> &'static [Program] {
    PROGRAMS.get(name).map_or(&[], Vec::as_slice)
}

fn does_of(name: &str, words: &str) -> Does {
    named(name).iter().find(|program| program.words == words).map_or(NOTHING, |program| program.does)
}

/// What the program of a name does, and no other one: another folder may have another one.
pub(super) fn does(word: &str) -> Does {
    let name = ["/bin/", "/usr/bin/"].iter().find_map(|folder| word.strip_prefix(folder)).unwrap_or(word);
    does_of(name, name)
}

/// What a program does of which a word is the name, in any folder, or a version: `python3-dbg`, `perl5.36-x86_64-linux-gnu`.
pub(super) fn does_in_any_version(word: &str) -> Does {
    let word = folded(base(word));
    let ends = word.char_indices().take_while(|(end, _)| *end <= LONGEST);
    let ends = ends.filter(|(_, c)| c.is_ascii_digit() || "-._".contains(*c));
    let names = ends.filter_map(|(end, _)| word.get(..end)).chain([word.as_str()]);
    names.fold(NOTHING, |all, name| all.and(does_of(name, name)))
}

/// What a subcommand of git does.
pub(super) fn git_does(subcommand: &str) -> Does {
    let of_git = |program: &&Program| program.words.strip_prefix("git ") == Some(subcommand);
    named("git").iter().find(of_git).map_or(NOTHING, |program| program.does)
}

/// The first words of a command whose later words are bounded, their number, and the bound. A name with a slash is another
/// program, whatever its name.
pub fn bounded(command: &[String]) -> Option<(usize, &'static str, &'static Options)> {
    let fits = |words: &str| {
        let mut own = command.iter();
        words.split(' ').all(|word| own.next().is_some_and(|own| own == word))
    };
    let of_name = named(command.first()?).iter().filter(|program| !matches!(program.options, Unbounded));
    let mut fitting = of_name.filter(|program| fits(program.words));
    fitting.next().map(|program| (program.words.split(' ').count(), program.words, program.options))
}

/// Whether what a program does is decided by the word after its name.
pub fn has_subcommands(name: &str) -> bool {
    named(name).iter().any(|program| program.words != name && !matches!(program.options, Unbounded))
}

/// Whether no word of a bounded command runs another program, whatever it names.
pub(super) fn runs_none(command: &[String]) -> bool {
    bounded(command).is_some_and(|(count, _, options)| {
        let name = command.first().map_or("", String::as_str);
        let mut later = command.iter().skip(count);
        later.all(|word| options.allow(word) && (name != "git" || (word != "--help" && !word.contains("%G"))))
    })
}

impl Options {
    /// Whether a later word is permitted.
    pub fn allow(&self, word: &str) -> bool {
        if !word.starts_with('-') || matches!(word, "-" | "--") {
            return matches!(self, But(_)) || !word.starts_with('@');
        }
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        match self {
            Unbounded => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_stands_in_one_row_and_is_found() {
        let mut seen = std::collections::HashSet::new();
        for (names, does, options) in ROWS {
            for words in names.split(", ") {
                assert!(seen.insert(words), "{words} stands there twice");
                assert!(words.len() <= LONGEST);
                let command: Vec<String> = words.split(' ').map(str::to_owned).collect();
                let found = bounded(&command).map(|(count, found, _)| (count, found));
                let expected = (!matches!(options, Unbounded)).then_some((command.len(), words));
                assert_eq!(found, expected, "{words}");
                match words.strip_prefix("git ") {
                    Some(word) => assert_eq!(git_does(word), *does, "{words}"),
                    None if command.len() == 1 => assert_eq!(super::does(words), *does, "{words}"),
                    None => {}
                }
            }
        }
    }

    #[test]
    fn version_of_a_program_does_what_it_does() {
        for (word, does, expected) in [
            ("python3.11", EVALUATES, true),
            ("/opt/Python3-dbg", EVALUATES, true),
            ("perl5.36-x86_64-linux-gnu", EVALUATES, true),
            ("pythonic", EVALUATES, false),
            ("sqlite3", CONSOLE, true),
            ("ssh-keygen", OBEYS, true),
        ] {
            assert_eq!(does_in_any_version(word).has(does), expected, "{word}");
        }
        assert!(super::does("/usr/bin/cat").has(INPUT) && !super::does("./cat").has(INPUT));
    }
}
