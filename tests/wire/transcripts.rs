//! Golden transcripts: requests and answers, line by line, with the real binary.
//!
//! `tests/transcripts/*.edn` contain lines that start with `> ` (sent) or `< ` (received, in this order). A
//! line `; script: …` gives the scripted provider's script, and `; file: name "text"` a file of the project,
//! with the text as EDN. `STATE` and `PROJECT` stand for the folders of the run. `UPDATE_TRANSCRIPTS=1`
//! records the received lines again; review the difference like code.

#[path = "../../src/client/examples/answer.rs"]
mod answer;
use crate::support;

use std::path::Path;

use support::Setup;

#[test]
fn transcripts_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let files = support::files(&folder);
    assert!(!files.is_empty(), "no transcripts in {}", folder.display());
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        if update {
            std::fs::write(&file, record(&text)).unwrap();
        } else {
            check(&file, &text);
        }
    }
}

#[test]
fn example_of_the_client_library_gets_its_answer() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"Good \"} {:delta \"day.\"}]}]}");
    let answer = answer::answer(setup.command().arg("serve"), "Say hello.");
    assert_eq!(answer.unwrap(), "Good day.");
}

fn setup(text: &str) -> Setup {
    let setup = Setup::new().fixed();
    for (name, content) in
        text.lines().filter_map(|line| line.strip_prefix("; file: ")).filter_map(|rest| rest.split_once(' '))
    {
        let path = setup.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = edn_bridge::edn::read_one(content.as_bytes()).unwrap();
        std::fs::write(path, content.as_str().unwrap()).unwrap();
    }
    match text.lines().find_map(|line| line.strip_prefix("; script: ")) {
        Some(script) => setup.script(script),
        None => setup,
    }
}

/// The run's folders under the names that a transcript has for them.
fn normal(setup: &Setup, line: &str) -> String {
    let project = setup.project().canonicalize().unwrap();
    // The folder of a project's sessions carries a digest of its path.
    // Whether the kernel has a sandbox is the machine's affair.
    let line = line
        .replace("sandbox: enforced", "sandbox: KERNEL")
        .replace("sandbox: unavailable", "sandbox: KERNEL");
    let line =
        line.replace(setup.state().to_str().unwrap(), "STATE").replace(project.to_str().unwrap(), "PROJECT");
    match line.split_once("/project-") {
        Some(_) => {
            let mut normal = String::new();
            for (place, part) in line.split("/project-").enumerate() {
                if place > 0 {
                    normal.push_str("/project-DIGEST");
                }
                normal.push_str(if place > 0 { part.get(8..).unwrap_or(part) } else { part });
            }
            normal
        }
        None => line,
    }
}

fn check(file: &Path, text: &str) {
    let setup = setup(text);
    let mut bridge = setup.serve();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(sent) = line.strip_prefix("> ") {
            bridge.send(&sent.replace("STATE", setup.state().to_str().unwrap()));
        } else if let Some(expected) = line.strip_prefix("< ") {
            let found = normal(&setup, &bridge.line());
            assert_eq!(found, expected, "{}:{number}\n{}", file.display(), bridge.told());
        }
    }
    let (status, rest, errors) = bridge.finish();
    assert_eq!(rest, Vec::<String>::new(), "{}: more came than is recorded", file.display());
    assert_eq!(errors, "", "{}: standard error", file.display());
    assert!(status.success(), "{}: {status}", file.display());
}

fn record(text: &str) -> String {
    let setup = setup(text);
    let mut bridge = setup.serve();
    let mut recorded = String::new();
    for line in text.lines().filter(|line| !line.starts_with("< ")) {
        recorded.push_str(line);
        recorded.push('\n');
        if let Some(sent) = line.strip_prefix("> ") {
            bridge.send(&sent.replace("STATE", setup.state().to_str().unwrap()));
            for received in bridge.settle() {
                recorded.push_str(&format!("< {}\n", normal(&setup, &received)));
            }
        }
    }
    recorded
}
