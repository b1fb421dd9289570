//! Commands that hide what they run: text for a shell or an interpreter, and programs that take a command as
//! text.
//!
//! For rules that deny, because a hidden command cannot be checked against them. This is a guard rail, not a
//! wall: an existing file, or an unlisted program, can hide anything. Knows no rules.

use super::{Analysis, analyse, base, stem};

/// Shells and languages: their input is a program.
const INTERPRETERS: &str = "ash awk bash bun csh dash deno ed elixir emacs emacsclient erl ex expect fish gawk gdb ghci \
    groovy guile irb jshell julia ksh lldb lua luajit mawk mksh mysql nawk node nodejs nu nvim \
    octave osascript perl php powershell psql pwsh pypy python r racket rbash rscript ruby scala sh \
    sqlite tcl tclsh tcsh ts-node vi view vim vimdiff wish xonsh yash zsh";

/// Programs that run another one, named in their words or in a text among them.
const WRAPPERS: &str = "at batch bsdtar busybox bwrap caffeinate catchsegv cgexec chpst chroot chrt cpulimit crontab \
    dbus-run-session docker doas entr env fakeroot faketime fd fdfind find firejail flock gmake \
    gnumake ionice kubectl less lima logsave ltrace make man mosh more mpirun multitime nerdctl nice \
    nix nix-shell nohup npm npx nsenter numactl parallel pdsh perf pkexec pnpm podman prlimit proot \
    rlwrap rsync run-parts runuser scp screen script sem setarch setpriv setsid sftp softlimit socat \
    ssh sshpass start-stop-daemon stdbuf strace su sudo systemd-run tar taskset time timeout tmux \
    torsocks toybox trickle unbuffer unshare valgrind watch xargs xvfb-run yarn zip";

/// The subcommands of git that run another command.
const GIT: &str = "bisect config difftool filter-branch mergetool submodule";

/// Whether a command may run something that its words do not show.
pub fn veiled(command: &str) -> bool {
    match analyse(command) {
        Analysis::Opaque => true,
        Analysis::Plain(commands) => commands.iter().any(|words| hides(words)),
    }
}

fn named(word: &str, names: &str) -> bool {
    let word = word.to_ascii_lowercase();
    names.split(' ').any(|name| name == base(&word) || name == stem(&word))
}

fn hides(words: &[String]) -> bool {
    let Some((name, later)) = words.split_first() else { return false };
    if named(name, INTERPRETERS) {
        return !runs_a_file(later);
    }
    if named(name, "git") {
        return git(later);
    }
    if named(name, "cargo npm") && later.iter().any(|word| is_setting(word)) {
        return true;
    }
    if !named(name, WRAPPERS) {
        return false;
    }
    later.iter().any(|word| is_text(word) || word.starts_with("-S") || word.starts_with("--sp"))
        || later.iter().enumerate().any(|(place, word)| {
            let program = named(word, INTERPRETERS) || named(word, "git cargo");
            program && words.get(place.saturating_add(1)..).is_some_and(hides)
        })
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
    let begins = |word: &String, known: &[&str]| known.iter().any(|known| word.starts_with(known));
    options.iter().any(|word| begins(word, &["-c", "--config", "--exec"]))
        || later.iter().any(|word| GIT.split(' ').any(|known| known == word))
        || rest.iter().any(|word| {
            begins(word, &["--exec", "--ext-diff", "--open-files", "--upload-pack", "--receive-pack"])
                || (word == "-x" && rest.first().is_some_and(|name| name == "rebase"))
        })
}

fn is_setting(word: &str) -> bool {
    ["--config", "-Z", "--script-shell", "--node-options", "-c", "exec"]
        .iter()
        .any(|known| word.starts_with(known))
}

/// Whether a word is more than a name: another program could read it as a command or a pattern.
fn is_text(word: &str) -> bool {
    word.chars().any(|c| c.is_whitespace() || "$`*?[]{}()<>|&;\\'\"!".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert!(veiled(command), "{command}");
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
        ] {
            assert!(!veiled(command), "{command}");
        }
    }
}
