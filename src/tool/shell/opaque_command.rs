//! Commands that hide what they run: text for a shell or an interpreter, and programs that take a command as
//! text.
//!
//! For rules that deny, because a hidden command cannot be checked against them. A text in which a name can
//! hide (a pattern, a variable, a quote, a pipe) is suspicious in the words of every program but those that are
//! known to run none, and a pipe is suspicious if it leads into a program that is not known to take its input as
//! data. This is a guard rail, not a wall: an existing file, or a program that does the same, can hide anything.
//! Knows no rules.

use super::programs::{
    APPENDS, CHANGES, CONSOLE, EVALUATES, HANDS_ON, INPUT, OBEYS, RUNS, WORDS, does, does_in_any_version,
    git_does, runs_none,
};
use super::{Simple, base, folded, split};
use crate::meter::{Exhausted, Meter};

/// Names of programs among the words of one command. One with more has something to hide: each is looked at with all words
/// behind it.
const PROGRAMS: usize = 16;

/// Steps of a look at one word: it is compared with the names of all tables.
const STEPS: usize = 256;

/// The options of git that name a program.
const GIT_PROGRAMS: &[&str] =
    &["--config", "--exec", "--ext-diff", "--open-files-in-pager", "--receive-pack", "--upload-pack"];

/// Whether a command may run something that its words do not show, or is too long to say it.
pub fn veiled(command: &str, meter: &mut Meter) -> bool {
    let Some(commands) = split(command) else { return true };
    commands.iter().any(|Simple { words, fed }| {
        (hides(words, meter).unwrap_or(true) && !runs_none(words))
            || (*fed && !takes_data(words) && !runs_none(words))
    })
}

/// Whether a command of a line changes what the words of a later one mean: the folder, variables, or what a name stands for.
pub fn changes_later(commands: &[Vec<String>]) -> bool {
    let before = commands.len().saturating_sub(1);
    let changes = |words: &Vec<String>| words.first().is_some_and(|name| does(name).has(CHANGES));
    commands.iter().take(before).any(changes)
}

/// Whether a word names one of these, or a version of it: `python3-dbg`, `perl5.36-x86_64-linux-gnu`.
fn named(word: &str, names: &str) -> bool {
    let word = folded(base(word));
    names.split(' ').any(|name| {
        let version = |c: char| c.is_ascii_digit() || "-._".contains(c);
        word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(version))
    })
}

/// Whether a word names one of these and no other program: another folder may have another one.
fn is_one_of(word: &str, names: &str) -> bool {
    let known = ["/bin/", "/usr/bin/"].iter().find_map(|folder| word.strip_prefix(folder)).unwrap_or(word);
    names.split(' ').any(|name| name == known)
}

/// Whether a program takes its input as data. Most do, but some read commands from it.
fn takes_data(words: &[String]) -> bool {
    let Some((mut name, mut later)) = words.split_first() else { return false };
    while does(name).has(HANDS_ON) {
        let number = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
        let handed = match later.split_first() {
            Some((first, rest)) if number(first) => rest,
            _ => later,
        };
        let Some((next, rest)) = handed.split_first() else { return false };
        (name, later) = (next, rest);
    }
    if is_one_of(name, "git") {
        return later.first().is_some_and(|word| git_does(word).has(INPUT));
    }
    if does_in_any_version(name).has(EVALUATES) {
        // Its program is the file.
        return !later.iter().any(|word| word.starts_with("/dev/") || word.starts_with("/proc/"));
    }
    does(name).has(INPUT)
}

/// Whether the words of a simple command hide another one. Each look through them is paid for.
fn hides(words: &[String], meter: &mut Meter) -> Result<bool, Exhausted> {
    meter.spend(words.len().saturating_mul(STEPS), 0)?;
    let Some((name, later)) = words.split_first() else { return Ok(false) };
    if does_in_any_version(name).has(OBEYS) {
        return Ok(true);
    }
    if does_in_any_version(name).has(EVALUATES) {
        let as_word = named(name, "bun deno")
            && later.first().is_some_and(|word| matches!(word.as_str(), "eval" | "exec" | "repl" | "x"));
        return Ok(as_word || !runs_a_file(later));
    }
    if does_in_any_version(name).has(CONSOLE) {
        return Ok(later.is_empty() || later.iter().any(|word| word.starts_with(['-', '+']) || is_text(word)));
    }
    if named(name, "git") {
        return Ok(git(later));
    }
    if named(name, "sed") {
        return Ok(!edits_only(later));
    }
    if named(name, "cargo go npm") && later.iter().any(|word| is_setting(word)) {
        return Ok(true);
    }
    if named(name, "printf") && later.first().is_some_and(|word| word.starts_with("-v")) {
        return Ok(true);
    }
    // What they set may name a program, and they evaluate the places of lists.
    if does(name).has(CHANGES) {
        return Ok(later.iter().any(|word| is_text(word)));
    }
    if !does_in_any_version(name).has(RUNS) {
        return Ok(
            !does(name).has(WORDS) && (later.iter().any(|word| is_veil(word)) || wraps_text(later, meter)?)
        );
    }
    // The words that follow are in the input.
    if named(name, "xargs") && !appends_to_known(later) {
        return Ok(true);
    }
    if later.iter().any(|word| is_text(word) || word.starts_with("-S") || word.starts_with("--sp"))
        || (named(name, "sudo doas") && later.iter().any(|word| starts_a_shell(word)))
    {
        return Ok(true);
    }
    let mut programs = 0_usize;
    for (place, word) in later.iter().enumerate() {
        let program = {
            let does = does_in_any_version(word);
            [EVALUATES, CONSOLE, OBEYS].iter().any(|these| does.has(*these)) || named(word, "git cargo sed")
        };
        if program {
            programs = programs.saturating_add(1);
            if programs > PROGRAMS || hides(later.get(place..).unwrap_or_default(), meter)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether `xargs` is told to start a program that does nothing but its own work with the words of the input.
fn appends_to_known(later: &[String]) -> bool {
    let is_number = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
    let mut words = later.iter();
    words
        .find(|word| {
            let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
            let plain = "-0 -r -t -n -L -P --null --no-run-if-empty --verbose";
            !is_number(word) && ![word.as_str(), letters].iter().any(|word| is_one_of(word, plain))
        })
        .is_none_or(|program| does(program).has(APPENDS))
}

/// Whether a program of another name runs an interpreter with a text: `choom -n 0 -- perl -e 'x()'`.
fn wraps_text(later: &[String], meter: &mut Meter) -> Result<bool, Exhausted> {
    let named = later.iter().enumerate().filter(|(_, word)| does_in_any_version(word).has(EVALUATES));
    for (count, (place, _)) in named.enumerate() {
        let rest = later.get(place..).unwrap_or_default();
        if count >= PROGRAMS || (hides(rest, meter)? && rest.iter().any(|word| is_text(word))) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn starts_a_shell(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => !long.is_empty() && ["shell", "login"].iter().any(|known| known.starts_with(long)),
        None => word.starts_with('-') && word.contains(['s', 'i']),
    }
}

/// Whether the script of `sed` is one plain command: it can run programs (`e`).
fn edits_only(later: &[String]) -> bool {
    let mut words =
        later.iter().filter(|word| !matches!(word.as_str(), "-n" | "-E" | "-r" | "-i" | "-s" | "--"));
    let Some(script) = words.next() else { return false };
    if words.any(|word| word.starts_with('-')) {
        return false;
    }
    if script.contains(['\\', '\n']) {
        return false;
    }
    let mut command = script.as_str();
    // The address: lines, patterns.
    loop {
        command = command.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',' || c == '$');
        let Some((_, rest)) = command.strip_prefix('/').and_then(|pattern| pattern.split_once('/')) else {
            break;
        };
        command = rest;
    }
    let mut chars = command.chars();
    match (chars.next(), chars.next()) {
        (Some('p' | 'd' | 'q' | '='), None) => true,
        (Some('s'), Some(mark)) => {
            let parts: Vec<&str> = chars.as_str().split(mark).collect();
            let flags = |flags: &&str| flags.chars().all(|c| c.is_ascii_digit() || "gpiIM".contains(c));
            parts.len() == 3 && parts.last().is_some_and(flags)
        }
        _ => false,
    }
}

/// Whether an interpreter's input is only the name of a file.
fn runs_a_file(later: &[String]) -> bool {
    match later {
        // Modules that run the project's tests.
        [option, module, ..] if option == "-m" => matches!(module.as_str(), "pytest" | "unittest"),
        [file, ..] => !file.starts_with(['-', '+']) && !is_text(file),
        [] => false,
    }
}

/// Whether git is told to run a command, or one of its words may be one.
fn git(later: &[String]) -> bool {
    // An option before the subcommand may have a value after it.
    let begin = later.iter().enumerate().position(|(place, word)| {
        let before = place.checked_sub(1).and_then(|before| later.get(before));
        !word.starts_with('-')
            && !before.is_some_and(|before| before.starts_with('-') && !before.contains('='))
    });
    let (options, rest) = later.split_at_checked(begin.unwrap_or(later.len())).unwrap_or((later, &[]));
    let names_program = |word: &String| {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        // Options may be cut: `--exe`.
        name.len() > 3 && GIT_PROGRAMS.iter().any(|known| known.starts_with(name))
    };
    let letters = match rest.first().map(String::as_str) {
        Some("rebase") => "x",
        Some("grep") => "O",
        Some("clone") => "uc",
        _ => "-",
    };
    options.iter().any(|word| ["-c", "--config", "--exec"].iter().any(|known| word.starts_with(known)))
        || later.iter().any(|word| git_does(word).has(RUNS))
        || rest.iter().any(|word| {
            names_program(word)
                || (word.starts_with('-')
                    && !word.starts_with("--")
                    && word.get(1..).is_some_and(|word| word.contains(|c| letters.contains(c))))
        })
}

fn is_setting(word: &str) -> bool {
    [
        "--config",
        "-Z",
        "--script-shell",
        "--node-options",
        "-c",
        "exec",
        "-exec",
        "--exec",
        "-toolexec",
        "--toolexec",
    ]
    .iter()
    .any(|known| word.starts_with(known))
}

/// Whether a word is more than a name: another program could read it as a command or a pattern.
fn is_text(word: &str) -> bool {
    word.chars().any(|c| c.is_whitespace() || "$`*?[]{}()<>|&;\\'\"!".contains(c))
}

/// Whether a name can hide in a word of a program that reads it as a command.
fn is_veil(word: &str) -> bool {
    word.contains(['$', '`', '*', '?', '[', '{', '\\', '\'', '"', '|'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RULE_STEPS;

    #[test]
    fn words_that_are_looked_at_again_and_again_are_veiled() {
        for command in ["nohup git ", "x sh a ", "echo a | sudo ", "xargs sed p "] {
            let (start, again) = command.split_once(' ').unwrap();
            let long = format!("{start} {}", again.repeat(60_000 / again.len()));
            let mut meter = Meter::new(RULE_STEPS, 0);
            let _ = veiled(&long, &mut meter);
            assert!(meter.steps() <= 2 * RULE_STEPS, "{command}");
        }
        assert!(veiled(&format!("nohup {}", "git status ".repeat(5_000)), &mut Meter::new(RULE_STEPS, 0)));
        assert!(veiled(&format!("a | {}", "sudo ".repeat(13_000)), &mut Meter::new(RULE_STEPS, 0)));
    }

    #[test]
    fn what_may_hide_a_command_is_veiled() {
        for command in [
            "bash -c 'r${x}m f'",
            "sh -c 'c=m; r$c f'",
            "bash -c '/bin/r? f'",
            "bash -c ls",
            "env -Srm' 'f",
            "env -S'rm f'",
            "/usr/bin/env -S 'rm f'",
            "git -c alias.z='!/bin/r? f' z",
            "git --config-env=alias.z=X z",
            "git -C . -c alias.p=push p",
            "git bisect run ./x",
            "git submodule foreach 'rm f'",
            "python3.11 -c 'import os'",
            "perl -e 1",
            "awk 'BEGIN{}'",
            "cat x | sh",
            "cat x | sudo bash",
            "timeout 5 bash -c 'x'",
            "find . -name x -exec sh -c x ';'",
            "xargs sh",
            "ssh host 'r$x'",
            "script -qc 'r*m' x",
            "cargo --config 'alias.x=\"y\"' x",
            "tar -cf x --checkpoint-action='exec=sh x' y",
            "echo $(ls)",
            "test -v 'a[$(/bin/r? f)]'",
            "printf -v 'a[$(/bin/r? f)]' x",
            "let 'a[$(/bin/r? f)]=1'",
            "declare 'a[$(/bin/r? f)]=1'",
            "read 'a[$(/bin/r? f)]'",
            "export 'PS4=$(/bin/r? f)'; set -x; ls",
            "compgen -W '$(/bin/r? f)'",
            "echo 'f mr' | rev | xargs env",
            "echo 'f mr' | rev | xargs -a - nice",
            "echo mr | rev | xargs -I% % f",
            "echo 'f mr' | rev | unshare",
            "echo 'f mr' | rev | sudo -s",
            "echo 'f mr' | rev | sudo -niu root",
            "sed -n '1e /bin/r? f' g",
            "sed 's,.*,r? f,e' g",
            "echo 'xm f' | sed s/x/r/e",
            "sed s/x/r/ge g",
            "sed -e 1e g",
            "sed 's/a/b/;e' g",
            "sed p -e 1e",
            "sed '/a\\/s/e x/y/g' g",
            "sed '/a/e x' g",
            "sqlite3 a.db '.shell /bin/r? f'",
            "vim g -es -c '!/bin/r? f' -c q",
            "gdb g -batch -ex '!/bin/r? f'",
            "split --filter='/bin/r? f' g",
            "pip config edit --editor '/bin/r? f'",
            "git clone -u '/bin/r? f' . x",
            "git fetch --upload-p='/bin/r? f' .",
            "git ls-remote --exe='/bin/r? f' .",
            "git rebase -ix./x main",
            "git grep -O./x y",
            "git for-each-repo --config=k push",
            "go test -exec './r? f'",
            "unknown 'r?'",
        ] {
            assert!(veiled(command, &mut Meter::new(RULE_STEPS, 0)), "{command}");
        }
        for command in [
            "ls -l",
            "cargo test -p x",
            "git -C . status",
            "git commit -m 'fix (all) of it'",
            "git rm -r --cached x",
            "python3 tools/x.py --all",
            "python3 -m pytest -q",
            "bash build.sh",
            "timeout 60 cargo test",
            "grep -rn 'a*b' src",
            "which bash",
            "sed -n 's/a b/c/p' x",
            "sed -n 1,5p x",
            "sed -i s,a/b,c,g x",
            "sed '$d' x",
            "sed -n '/a b/,/c/p' x",
            "xargs grep x",
            "xargs -n 1 wc -l",
            "xargs -0 -P4 rm -f",
            "git ls-files | xargs wc -l | sort -n | tail -5",
            "cargo test | tee log | tail -n 20",
            "echo x | sudo tee a",
            "git diff | git apply -R",
            "cat a.json | jq . | timeout 5 head",
            "cat a | python3 tools/x.py",
            "cat a |\n sort",
            "node-gyp rebuild",
            "apt install -y python3 ruby",
            "sudo apt install x",
            "printf '[%s]' x",
            "curl 'http://x/?a=b'",
            "pytest -k 'a[1]'",
            "unknown 'a b (c)'",
            "test -f x",
            "export A=b",
            "git log --exclude=x --author='a b'",
            "vim a.txt",
        ] {
            assert!(!veiled(command, &mut Meter::new(RULE_STEPS, 0)), "{command}");
        }
    }
}
