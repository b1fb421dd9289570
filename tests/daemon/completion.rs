//! Shell completion and manual pages, with the real binary and the shells that are there.

use crate::support;

use std::process::{Command, Output};

use support::Setup;

fn run(setup: &Setup, words: &[&str]) -> String {
    let output = setup.command().args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a program says; `None`, and a word on standard error, where it is not installed.
fn tried(program: &str, arguments: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(arguments).output();
    if output.is_err() {
        eprintln!("{program}: NOT TRIED, it is not installed");
    }
    output.ok()
}

/// The commands that the help lists.
fn commands(setup: &Setup) -> Vec<String> {
    let help = run(setup, &["--help"]);
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_command_is_completed_in_every_shell() {
    let setup = Setup::new();
    let commands = commands(&setup);
    assert!(commands.len() > 20 && commands.iter().any(|name| name == "prompt"), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "nushell"] {
        let text = run(&setup, &["completion", shell]);
        for command in &commands {
            assert!(text.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(text.contains("max-turns"), "{shell}");
        // What only the project itself and tests use is not offered.
        for hidden in ["generate", "--daemon"] {
            assert!(!text.contains(hidden), "{shell}: {hidden}");
        }
    }
}

#[test]
fn help_has_own_options_before_the_common_ones() {
    let setup = Setup::new();
    for command in commands(&setup).iter().filter(|name| *name != "help") {
        let help = run(&setup, &[command, "--help"]);
        let common = help.find("\nCommon options:\n").unwrap_or_else(|| panic!("{command}: {help}"));
        assert!(help[common..].contains("--state-dir") && !help[..common].contains("--state-dir"), "{help}");
    }
    let help = run(&setup, &["prompt", "--help"]);
    let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
    assert!(place("--max-turns") < place("Common options:") && place("--output") < place("Common options:"));
    // It fits a usual terminal, and a pipe has as many columns.
    for command in [&["--help"][..], &["prompt", "-h"], &["serve", "--help"]] {
        let help = run(&setup, command);
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
    // The usage of a command that was called wrongly names what is to be written, not what a variable sets.
    let wrong =
        setup.command().env("EDN_BRIDGE_PROVIDER", "scripted").args(["sessions", "rename", "x"]).output();
    let told = String::from_utf8(wrong.unwrap().stderr).unwrap();
    assert!(told.contains(" <SESSION> <NAME>") && !told.contains("--provider"), "{told}");
    // What a new user needs comes first.
    let order = commands(&setup);
    let at = |name: &str| order.iter().position(|other| other == name).unwrap();
    assert!(
        at("prompt") < at("chat") && at("chat") < at("sessions") && at("doctor") < at("serve"),
        "{order:?}"
    );
}

#[test]
fn completion_works_in_the_shells_that_are_there() {
    let setup = Setup::new();
    for (shell, program) in [("bash", "bash"), ("zsh", "zsh"), ("fish", "fish"), ("nushell", "nu")] {
        let file = setup.dir.path().join(shell);
        std::fs::write(&file, run(&setup, &["completion", shell])).unwrap();
        let file = file.to_str().unwrap();
        let (script, expected) = match shell {
            "bash" => (
                format!(
                    "source {file}; COMP_WORDS=(edn-bridge sessions pru); COMP_CWORD=2; \
                     set -- $(complete -p edn-bridge); while [ \"$1\" != -F ]; do shift; done; \
                     \"$2\" edn-bridge pru sessions; echo \"${{COMPREPLY[@]}}\""
                ),
                "prune",
            ),
            "zsh" => (format!("autoload -U compinit; compinit -u -D; source {file}; echo read"), "read"),
            "fish" => (format!("source {file}; complete -C 'edn-bridge sessions pru'"), "prune"),
            _ => (format!("source {file}; 'read'"), "read"),
        };
        let Some(output) = tried(program, &["-c", &script]) else { continue };
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && shown.contains(expected), "{shell}: {output:?}");
    }
}

#[test]
fn manual_has_a_page_for_every_command() {
    let setup = Setup::new();
    let folder = setup.dir.path().join("man/man1");
    // What is there already is no page of ours.
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("note"), "").unwrap();
    let told = run(&setup, &["man", folder.to_str().unwrap()]);
    let pages = std::fs::read_dir(&folder).unwrap().count() - 1;
    assert_eq!(told, format!("{pages} pages are in {}.\n", folder.display()));
    for command in commands(&setup).iter().filter(|name| *name != "help") {
        assert!(folder.join(format!("edn-bridge-{command}.1")).exists(), "{command}: {told}");
    }
    let page = folder.join("edn-bridge-prompt.1");
    let Some(output) = tried("groff", &["-man", "-Tutf8", "-ww", page.to_str().unwrap()]) else { return };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in ["--max-turns", "130"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(run(&setup, &["man"]).contains(".TH edn"), "one page without a folder");
}
