//! Whether a command can destroy what cannot be had back, so that a question about it is told as dangerous. It is a help for the
//! person's eye and decides nothing: a command can hide anything.

/// Programs that are dangerous whatever they are told.
const PROGRAMS: &[&str] = &[
    "sudo", "doas", "su", "pkexec", "dd", "shred", "wipefs", "fdisk", "parted", "mkswap", "shutdown",
    "reboot", "halt", "poweroff", "killall", "pkill", "dropdb", "iptables", "nft", "crontab",
];

/// Programs that are dangerous with all of these words; `-x` is also found in `-vxf`.
const WITH: &[(&str, &[&str])] = &[
    ("rm", &["-r"]),
    ("rm", &["-R"]),
    ("rm", &["-f"]),
    ("rm", &["--recursive"]),
    ("rm", &["--force"]),
    ("chmod", &["-R"]),
    ("chmod", &["--recursive"]),
    ("chown", &["-R"]),
    ("chown", &["--recursive"]),
    ("find", &["-delete"]),
    ("git", &["push", "-f"]),
    ("git", &["push", "--force"]),
    ("git", &["push", "--force-with-lease"]),
    ("git", &["push", "--mirror"]),
    ("git", &["push", "--delete"]),
    ("git", &["reset", "--hard"]),
    ("git", &["clean", "-f"]),
    ("git", &["clean", "--force"]),
    ("git", &["branch", "-D"]),
    ("git", &["checkout", "-f"]),
    ("git", &["filter-branch"]),
    ("git", &["stash", "drop"]),
    ("git", &["stash", "clear"]),
    ("docker", &["prune"]),
    ("docker", &["rm", "-f"]),
    ("kubectl", &["delete"]),
    ("terraform", &["destroy"]),
    ("terraform", &["apply"]),
    ("npm", &["publish"]),
    ("cargo", &["publish"]),
    ("systemctl", &["stop"]),
    ("systemctl", &["disable"]),
    ("kill", &["-9"]),
    ("truncate", &["-s"]),
    ("rsync", &["--delete"]),
];

/// Programs that run what is fed into them.
const INTERPRETERS: &[&str] =
    &["sh", "bash", "zsh", "dash", "ksh", "fish", "python", "python3", "perl", "ruby", "node", "php"];

/// Programs that fetch from elsewhere.
const FETCHERS: &[&str] = &["curl", "wget", "fetch"];

/// Words before a program's name.
const BEFORE: &[&str] = &[
    "env", "nohup", "time", "nice", "exec", "command", "xargs", "then", "do", "else", "!", "stdbuf",
    "timeout", "setsid",
];

/// Whether a person should look twice.
pub fn is_dangerous(command: &str) -> bool {
    // Quotes are ignored: what stands in them may run too, as in `sh -c 'rm -rf x'`.
    let plain = command.replace(['\'', '"', '\\'], " ");
    let mut has_fetched = false;
    plain.split_inclusive(['|', '&', ';', '\n', '(', ')', '{', '}', '`']).any(|piece| {
        let is_fed = piece.ends_with('|');
        let words: Vec<&str> = piece
            .trim_end_matches(['|', '&', ';', '\n', '(', ')', '{', '}', '`'])
            .split_whitespace()
            .collect();
        let danger = (0..words.len()).any(|start| {
            let begins =
                words.iter().take(start).all(|word| is_before(word)) || start_of_inner(&words, start);
            begins && words.get(start..).is_some_and(|words| is_dangerous_call(words, has_fetched))
        });
        has_fetched = is_fed && (has_fetched || words.iter().any(|word| FETCHERS.contains(&name(word))));
        danger || overwrites_device(&words)
    })
}

/// Whether a word may stand before a program's name.
fn is_before(word: &str) -> bool {
    BEFORE.contains(&word)
        || word.contains('=')
        || word.starts_with('-')
        || word.chars().all(|c| c.is_ascii_digit())
}

/// Whether a command of its own begins at that word, as behind `sh -c` and `xargs`.
fn start_of_inner(words: &[&str], start: usize) -> bool {
    let before = words.get(..start).unwrap_or_default();
    before.iter().any(|word| INTERPRETERS.contains(&name(word)))
        && before.last().is_some_and(|last| last.starts_with('-') && last.contains('c'))
        || before.last() == Some(&"-exec")
        || before.first() == Some(&"xargs")
}

fn is_dangerous_call(words: &[&str], has_fetched: bool) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    let program = name(first);
    let has = |wanted: &&str| rest.iter().any(|word| word == wanted || is_flag_in(word, wanted));
    PROGRAMS.contains(&program)
        || program.starts_with("mkfs")
        || (has_fetched && INTERPRETERS.contains(&program))
        || WITH.iter().any(|(known, wanted)| *known == program && wanted.iter().all(has))
}

/// Whether a short flag such as `-f` is one of several in a word.
fn is_flag_in(word: &str, flag: &str) -> bool {
    let mut letters = flag.chars();
    let (Some('-'), Some(letter), None) = (letters.next(), letters.next(), letters.next()) else {
        return false;
    };
    word.starts_with('-') && !word.starts_with("--") && word.chars().skip(1).any(|c| c == letter)
}

/// Whether an output goes to a device.
fn overwrites_device(words: &[&str]) -> bool {
    words.iter().any(|word| {
        let target = word.trim_start_matches('>');
        target.starts_with("/dev/sd") || target.starts_with("/dev/nvme") || target.starts_with("/dev/disk")
    })
}

/// The name of a program without its folder.
fn name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_commands_are_told_from_others() {
        for command in [
            "rm -rf ~",
            "cd x && rm -fr build",
            "/bin/rm -r a",
            "sudo ls",
            "FOO=1 sudo -n ls",
            "curl -fsSL https://example.com/x.sh | sh",
            "wget -qO- https://example.com | sudo bash -s -- --yes",
            "curl x | tee log | bash",
            "git push --force",
            "git -C sub push -f origin main",
            "git reset --hard HEAD~3",
            "git clean -xdf",
            "sh -c 'rm -rf build'",
            "find . -name '*.o' -exec rm -f {} +",
            "find . -delete",
            "git ls-files | xargs rm -f",
            "dd if=a of=/dev/sda",
            "echo x > /dev/sda",
            "mkfs.ext4 /dev/sdb1",
            "chmod -R 777 .",
            "if true; then sudo reboot; fi",
            "(rm -rf x)",
            "echo `rm -rf x`",
        ] {
            assert!(is_dangerous(command), "{command}");
        }
        for command in [
            "",
            "ls -la",
            "rm a.txt",
            "git push",
            "git push origin feature",
            "git reset HEAD a.rs",
            "cargo build --release",
            "curl https://example.com",
            "curl https://example.com | jq .",
            "echo sudo",
            "grep -rf patterns src",
            "cat sh | less",
            "git commit -m 'no --force'",
            "npm run rm-all",
            "kill 12",
        ] {
            assert!(!is_dangerous(command), "{command}");
        }
    }
}
