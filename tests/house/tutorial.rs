//! The tutorial of docs/tutorial.md to the letter: each command is run in one folder, in order, and prints what the
//! page says. In the page, `…` stands for any text of a line, and a line of `…` for any lines.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command of the page, and what it prints.
#[derive(Default)]
struct Step {
    line: usize,
    command: String,
    printed: Vec<String>,
}

/// The commands in the `console` blocks: `$ ` begins one, `> ` continues it.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if !is_inside {
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: number + 1, command: command.to_owned(), printed: Vec::new() });
        } else {
            let step =
                steps.last_mut().unwrap_or_else(|| panic!("line {}: no command before it", number + 1));
            match line.strip_prefix("> ").or((line == ">").then_some("")) {
                Some(more) if step.printed.is_empty() => write!(step.command, "\n{more}").unwrap(),
                _ => step.printed.push(line.to_owned()),
            }
        }
    }
    steps
}

/// Whether a line is as the page has it.
fn fits(wanted: &str, line: &str) -> bool {
    let mut parts = wanted.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Whether the lines are as the page has them.
fn all_fit(wanted: &[String], lines: &[&str]) -> bool {
    match wanted.split_first() {
        None => lines.is_empty(),
        Some((first, more)) if first == "…" => (0..=lines.len()).any(|skip| all_fit(more, &lines[skip..])),
        Some((first, more)) => {
            lines.split_first().is_some_and(|(line, rest)| fits(first, line) && all_fit(more, rest))
        }
    }
}

/// Runs a command as a person at a prompt would after those before it: in their folder, with their variables.
fn run(home: &Path, command: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_edn-bridge")).parent().unwrap();
    let script = format!(
        "exec 2>&1\n[ -e ~/.shell ] && . ~/.shell\n[ -e ~/.folder ] && cd \"$(cat ~/.folder)\"\n{command}\n\
         export -p >~/.shell\npwd >~/.folder\n"
    );
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &script])
        .env_clear()
        .envs([("HOME", home.to_str().unwrap()), ("PATH", &path), ("EDN_BRIDGE_DAEMON", "never")])
        .current_dir(home)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_of_the_tutorial_prints_what_it_says() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tutorial.md")).unwrap();
    let home = tempfile::tempdir().unwrap();
    let steps = steps(&page);
    assert!(steps.len() > 10, "{} commands were found", steps.len());
    for step in steps {
        let printed = run(home.path(), &step.command);
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let wanted = step.printed.join("\n");
        assert!(
            all_fit(&step.printed, &lines),
            "docs/tutorial.md:{}: $ {}\nthe page says:\n{wanted}\nit prints:\n{printed}",
            step.line,
            step.command
        );
    }
}

#[test]
fn ellipsis_stands_for_any_text_and_any_lines() {
    let wanted = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(fits("s-…  …  Add", "s-01  now  Add") && !fits("s-…  …  Add", "s-01  Add!"));
    assert!(all_fit(&wanted("a\n…\nz"), &["a", "b", "c", "z"]) && all_fit(&wanted("a\n…\nz"), &["a", "z"]));
    assert!(!all_fit(&wanted("a\n…\nz"), &["a", "b"]) && !all_fit(&wanted("a"), &["a", "b"]));
}
