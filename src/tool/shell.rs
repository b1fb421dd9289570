//! Determines what a shell command would run, as far as possible without running it.
//!
//! A command is split into its simple commands only if every character has one plain meaning. Anything else
//! (substitutions, variables, redirections to files, compound commands, escapes, here-documents, or a text of more than
//! [`SHELL_BYTES`]) makes it [`Analysis::Opaque`]: a person may see it, but no rule may allow it. A redirection to `/dev/null` or
//! to an open descriptor changes no file, and is passed over. A command that runs its own text, or hides another program, is
//! [`veiled`]. Knows no rules.

use std::iter::Peekable;
use std::str::Chars;

mod danger;
mod mention;
mod opaque_command;
mod programs;

pub use danger::is_dangerous;
pub use mention::Mentions;
pub use opaque_command::{changes_later, veiled};
pub use programs::{bounded, has_subcommands};

use crate::limits::SHELL_BYTES;

/// The parts of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Analysis {
    /// Simple commands, joined by `&&`, `||`, `;`, `|` or line ends; each is a list of words.
    Plain(Vec<Vec<String>>),
    /// A command that only a shell can interpret.
    Opaque,
}

/// Words that start a compound command or run text as a command: the next word is not the command's name.
const RESERVED: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "eval", "exec", "fi", "for",
    "function", "if", "in", "select", "source", ".", "then", "time", "trap", "until", "while", "alias",
    "command", "builtin", "enable",
];

/// Whether a word at the beginning of a command is no program's name.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// A simple command.
struct Simple {
    words: Vec<String>,
    /// Whether a pipe leads into it.
    fed: bool,
}

/// Splits a command into its simple commands.
pub fn analyse(command: &str) -> Analysis {
    let words = |commands: Vec<Simple>| commands.into_iter().map(|simple| simple.words).collect();
    split(command).map_or(Analysis::Opaque, |commands| Analysis::Plain(words(commands)))
}

fn split(command: &str) -> Option<Vec<Simple>> {
    if command.len() > SHELL_BYTES {
        return None;
    }
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut fed = false;
    let mut word: Option<String> = None;
    // A quoted digit before a redirection is a word, and no descriptor.
    let mut is_quoted = false;
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        if matches!(c, '\'' | '"') {
            is_quoted = true;
        } else if word.is_none() {
            is_quoted = false;
        }
        match c {
            '\'' => {
                let text = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => text.push(c),
                    }
                }
            }
            '"' => {
                let text = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '$' | '`' | '\\' | '!' => return None,
                        c => text.push(c),
                    }
                }
            }
            ' ' | '\t' => words.extend(word.take()),
            ';' | '\n' => {
                words.extend(word.take());
                // `;;` ends a case, and an empty command before `;` is an error.
                // A line end may follow a pipe.
                let empty = words.is_empty();
                end_command(&mut commands, &mut words, fed, c == '\n')?;
                fed = fed && empty;
            }
            '>' | '<' => {
                let is_descriptor = |text: &str| {
                    !is_quoted && text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_digit())
                };
                words.extend(word.take().filter(|text| !is_descriptor(text)));
                pass_harmless_target(c, &mut chars)?;
            }
            '&' if chars.peek() == Some(&'>') => {
                words.extend(word.take());
                chars.next();
                pass_harmless_target('&', &mut chars)?;
            }
            '|' | '&' => {
                words.extend(word.take());
                let doubled = chars.next_if_eq(&c).is_some();
                // A single `&` leaves a process behind; `|&` and `&|` have other meanings.
                if (c == '&' && !doubled) || matches!(chars.peek(), Some('|' | '&')) {
                    return None;
                }
                end_command(&mut commands, &mut words, fed, false)?;
                fed = c == '|' && !doubled;
            }
            '#' if word.is_none() => return None,
            '$' | '`' | '\\' | '(' | ')' | '{' | '}' | '*' | '?' | '[' | ']' | '~' | '^' | '!' => {
                return None;
            }
            // A control character, or a blank that is one for some shells only.
            c if c.is_control() || c.is_whitespace() => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.take());
    end_command(&mut commands, &mut words, fed, true)?;
    (!commands.is_empty()).then_some(commands)
}

/// Passes over the target of a redirection (`>`, `<`, or `&` for both outputs) that changes no file: `/dev/null`, or standard
/// output or error. `None` for any other.
fn pass_harmless_target(kind: char, chars: &mut Peekable<Chars<'_>>) -> Option<()> {
    let appends = kind != '<' && chars.next_if_eq(&'>').is_some();
    if kind == '>' && !appends && chars.next_if_eq(&'&').is_some() {
        chars.next_if(|c| matches!(c, '1' | '2'))?;
    } else {
        while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        for c in "/dev/null".chars() {
            chars.next_if_eq(&c)?;
        }
    }
    let ends_word = |c: &char| matches!(c, ' ' | '\t' | ';' | '\n' | '|' | '&' | '>' | '<');
    chars.peek().is_none_or(ends_word).then_some(())
}

fn end_command(
    commands: &mut Vec<Simple>,
    words: &mut Vec<String>,
    fed: bool,
    may_be_empty: bool,
) -> Option<()> {
    let words = std::mem::take(words);
    match words.first() {
        None => may_be_empty.then_some(()),
        Some(name) if name.is_empty() || name.contains('=') || RESERVED.contains(&name.as_str()) => None,
        Some(_) => {
            commands.push(Simple { words, fed });
            Some(())
        }
    }
}

/// Whether a simple command starts with the words of a prefix.
pub fn begins_with(command: &[String], prefix: &[String]) -> bool {
    !prefix.is_empty() && command.starts_with(prefix)
}

/// A name as the file systems see it that ignore the case of letters: also of those that have two small ones, such
/// as the long s.
pub fn folded(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The name of a program without its folders.
pub(super) fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The same without a version: `python` for `/usr/bin/python3.11`.
pub(super) fn stem(word: &str) -> &str {
    let base = base(word);
    let stem = base.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if stem.is_empty() { base } else { stem }
}

/// A rule's prefix, as words.
pub fn words(prefix: &str) -> Vec<String> {
    prefix.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Meter;

    #[test]
    fn plain_commands_are_cut_into_words() {
        for (command, expected) in [
            ("cargo test", vec![vec!["cargo", "test"]]),
            ("  ls  -l ", vec![vec!["ls", "-l"]]),
            ("git add 'a b' \"c d\"", vec![vec!["git", "add", "a b", "c d"]]),
            ("a && b || c; d | e", vec![vec!["a"], vec!["b"], vec!["c"], vec!["d"], vec!["e"]]),
            ("a\nb\n", vec![vec!["a"], vec!["b"]]),
            ("echo a'b'\"c\"", vec![vec!["echo", "abc"]]),
            ("ls 2>/dev/null", vec![vec!["ls"]]),
            ("ls x>/dev/null 2>&1 | wc -l", vec![vec!["ls", "x"], vec!["wc", "-l"]]),
            ("2> /dev/null ls a >>/dev/null;b</dev/null", vec![vec!["ls", "a"], vec!["b"]]),
            ("ls &>/dev/null && a >&2", vec![vec!["ls"], vec!["a"]]),
            ("kill '9'>/dev/null 12>/dev/null", vec![vec!["kill", "9", "12"]]),
            ("echo 1''2>&1", vec![vec!["echo", "12"]]),
        ] {
            let expected = expected
                .into_iter()
                .map(|words| words.into_iter().map(str::to_owned).collect())
                .collect::<Vec<Vec<String>>>();
            assert_eq!(analyse(command), Analysis::Plain(expected), "{command}");
        }
    }

    #[test]
    fn whatever_only_a_shell_understands_is_opaque() {
        for command in [
            "",
            "echo $(rm -rf x)",
            "echo `id`",
            "ls > /etc/x",
            "ls >/dev/null2>&1",
            "ls >/dev/nullx",
            "ls >/dev/null'x'",
            "ls >/dev/null/../x",
            "ls >'/dev/null'",
            "ls >&3",
            "ls >&12",
            "ls >&2x",
            "ls >&-",
            "ls >&x",
            "ls <&0",
            "ls <>/dev/null",
            "ls >|/dev/null",
            "ls <<</dev/null",
            "ls </dev/stdin",
            "ls >/dev/null &",
            "ls &>&1",
            "FOO=1 ls >/dev/null",
            ">/dev/null FOO=1 ls",
            "cat < a",
            "a & b",
            "a &",
            "FOO=1 ls",
            "(ls)",
            "{ ls; }",
            "ls *",
            "ls ~",
            "echo \"$HOME\"",
            "echo \\$x",
            "if true; then ls; fi",
            "eval ls",
            ". ./x",
            "a ;; b",
            "a || || b",
            "| a",
            "echo 'open",
            "echo \"open",
            "cat <<X\nX",
            "a |& b",
            "! a",
            "exec ls",
            "# note",
            "ls\r",
            "ls x\u{a0}/etc",
            "ls\u{2003}x",
            "$x",
            "ls {a,b}",
            "echo \u{7}",
            "command rm x",
        ] {
            assert_eq!(analyse(command), Analysis::Opaque, "{command}");
        }
    }

    fn mentions(command: &str, prefix: &[String]) -> bool {
        let mut meter = Meter::new(usize::MAX, 0);
        let found = Mentions::new([(7, prefix.to_vec())]).found(command, &mut meter).unwrap();
        assert!(found.is_empty() || found == [7]);
        !found.is_empty()
    }

    #[test]
    fn a_denied_command_is_found_behind_what_hides_it() {
        let rm = words("rm");
        let push = words("git push");
        for command in [
            "rm x",
            "sudo rm x",
            "/bin/rm x",
            "sh -c 'rm x'",
            "echo $(rm x)",
            "ls;rm x",
            "r\\m x",
            "'rm' x",
            "xargs rm",
            "RM x",
            "rm-9.1 x",
            "split --filter=rm x",
            "cc -wrapper /bin/rm,x",
            "tar -Irm -cf x y",
        ] {
            assert!(mentions(command, &rm), "{command}");
        }
        for command in ["cargo rmx", "echo farm", "arm x", "gcc -mtune=farm"] {
            assert!(!mentions(command, &rm), "{command}");
        }
        assert!(mentions("/bin/\u{17f}hred x", &words("shred")));
        assert!(mentions("p\u{212a}ill x", &words("pkill")));
        assert!(mentions("cargo +nightly publish", &words("cargo publish")));
        for command in [
            "env X=1 git push -f",
            "git -C . push",
            "git --no-pager push",
            "git -P push",
            "git -C . --no-pager -c a=b push",
            "/usr/lib/git-core/git-push -f",
        ] {
            assert!(mentions(command, &push), "{command}");
        }
        for command in ["git pull", "git log push", "git -C . commit push", "git commit -m push"] {
            assert!(!mentions(command, &push), "{command}");
        }
    }

    #[test]
    fn words_are_looked_for_in_linear_steps() {
        let options = format!("a {}", "-a a ".repeat(10_000));
        let rule = words("a a a a a a a b");
        let steps = |rules: usize| {
            let mut meter = Meter::new(usize::MAX, 0);
            let all = Mentions::new((0..rules).map(|at| (at, rule.clone())));
            assert!(all.found(&options, &mut meter).unwrap().is_empty());
            meter.steps()
        };
        // Words times words of the rule, and as much more as there are more rules.
        assert!(steps(1) < 20 * options.len(), "{}", steps(1));
        assert!(steps(10) < 11 * steps(1), "{} {}", steps(10), steps(1));
        let mut meter = Meter::new(1000, 0);
        assert!(Mentions::new([(0, rule.clone())]).found(&options, &mut meter).is_err());
        assert!(mentions(&format!("{options} b"), &rule), "through a thousand options");
        assert!(mentions(&"git -a ".repeat(9_000), &words("git -a git")));
    }

    #[test]
    fn long_command_is_opaque_and_its_start_is_looked_through() {
        let long = format!("ls {}", "a".repeat(SHELL_BYTES));
        assert_eq!(analyse(&long), Analysis::Opaque);
        assert!(veiled(&long, &mut Meter::new(1000, 0)));
        let rest = "é ".repeat(SHELL_BYTES);
        assert!(mentions(&format!("rm {rest}"), &words("rm")));
        assert!(!mentions(&format!("{rest} rm"), &words("rm")));
    }
}
