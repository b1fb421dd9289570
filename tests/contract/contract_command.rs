//! `edn-bridge contract` as a person runs it: its output in each format, and its exit status.
use std::process::{Command, Output};

use edn_bridge::edn;
use edn_bridge::value::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_edn-bridge");

/// Checks a server with two checks of the contract and the rules that apply.
fn contract(format: &str, server: &[&str]) -> Output {
    let only = ["--only", "ping", "--only", "hook.guards-allow", "--only", "frame"];
    let patience = ["--patience", "20", "--format", format, "--"];
    let words = only.iter().chain(&patience).chain(server);
    Command::new(PROGRAM).arg("contract").args(words).output().unwrap()
}

/// This server with all that a check may set.
const SERVER: [&str; 10] = [
    PROGRAM,
    "serve",
    "--provider",
    "scripted",
    "--script",
    "{script}",
    "--state-dir",
    "{state}",
    "--config",
    "{config}",
];

#[test]
fn name_that_no_check_has_is_an_error() {
    let words = ["contract", "--only", "ping", "--only", "pnig", "--"];
    let output = Command::new(PROGRAM).args(words).args(SERVER).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("is named \"pnig\""), "{told}");
}

#[test]
fn report_has_formats_for_people_and_programs() {
    for format in ["text", "edn", "junit"] {
        let output = contract(format, &SERVER);
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
        match format {
            "text" => {
                assert!(
                    told.contains("ok   ping.answer") && told.contains(" obligations hold, 0 do not"),
                    "{told}"
                );
            }
            "edn" => {
                let report = edn::read_one(told.as_bytes()).unwrap();
                assert_eq!(report.get("holds"), Some(&Value::Bool(true)));
                let obligations = report.get("obligations").and_then(Value::as_slice).unwrap();
                let hook = obligations.iter().find(|obligation| {
                    obligation.get("obligation").and_then(Value::as_str)
                        == Some("hooks/rule-success.GuardAllows")
                });
                assert_eq!(hook.unwrap().get("status").and_then(Value::as_keyword), Some("passed"));
            }
            _ => assert!(told.contains("<testcase classname=\"contract\" name=\"ping.answer\">"), "{told}"),
        }
    }
}

#[test]
fn unsupported_feature_makes_check_not_applicable() {
    let output = contract("text", &SERVER[..8]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("n/a  hook.guards-allow") && told.contains("no {config}"), "{told}");
}

/// Without any choices and without a model, the rest of the contract still passes, and the run leaves nothing in the
/// working folder and in the user's home.
#[test]
fn plain_run_passes_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(PROGRAM)
        .args(["contract", "--patience", "20", "--", PROGRAM, "serve", "--provider", "scripted"])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .env("XDG_STATE_HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    let ended = told.lines().rev().nth(1).unwrap();
    assert!(ended.contains(" checks and rules passed, 0 failed"), "{ended}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn command_that_is_no_server_gives_one_line() {
    for server in [&["true"] as &[&str], &["no-such-program-of-any-kind"]] {
        let output = contract("text", server);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(told.trim_end().lines().count(), 1, "{told}");
    }
}
