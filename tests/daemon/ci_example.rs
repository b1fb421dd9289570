//! `examples/ci.sh`, as a runner of CI starts it: without a home folder, a terminal and a person.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::Setup;

/// Runs the example in the project, with the words of the model that this script says.
fn ci(setup: &Setup, script: &str, message: &str) -> (Option<i32>, serde_json::Value, Output) {
    let words = setup.dir.path().join("words.edn");
    std::fs::write(&words, script).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_edn-bridge")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ci.sh"))
        .args(["./check", message])
        .env_clear()
        .env("PATH", path)
        .env("TMPDIR", setup.dir.path().join("tmp"))
        .env("XDG_CONFIG_HOME", setup.dir.path().join("config"))
        .env("EDN_BRIDGE_SCRIPT", &words)
        .env("EDN_BRIDGE_DAEMON", "never")
        .current_dir(setup.project())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let report = std::fs::read(setup.project().join("edn-bridge-report.json")).unwrap();
    let report = serde_json::from_slice(&report).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report, output)
}

/// A turn that runs these commands and answers then.
fn runs(commands: &[&str]) -> String {
    let calls = commands
        .iter()
        .map(|command| format!("{{:tool-call {{:name \"bash\" :arguments {{:command {command:?}}}}}}}"));
    format!("{{:turns [{{:steps [{}]}} {{:steps [{{:delta \"Done.\"}}]}}]}}", calls.collect::<String>())
}

/// A project with a command of tests, and a repository that it could be pushed to.
fn project() -> Setup {
    use std::os::unix::fs::PermissionsExt as _;
    let setup = Setup::new();
    std::fs::create_dir_all(setup.dir.path().join("tmp")).unwrap();
    let check = setup.project().join("check");
    std::fs::write(&check, "#!/bin/sh\necho tested >>tested\n").unwrap();
    std::fs::set_permissions(&check, std::fs::Permissions::from_mode(0o755)).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@localhost"]).args(arguments);
        let output = git.current_dir(setup.project()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    let far = setup.dir.path().join("far.git");
    git(&["init", "--quiet", "--bare", far.to_str().unwrap()]);
    git(&["init", "--quiet"]);
    git(&["remote", "add", "origin", far.to_str().unwrap()]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    setup
}

#[test]
fn runner_runs_the_tests_and_pushes_nothing() {
    let setup = project();
    let (status, report, output) = ci(&setup, &runs(&["./check"]), "Make the tests pass.");
    assert_eq!((status, report["text"].as_str()), (Some(0), Some("Done.")), "{output:?}");
    assert!(setup.project().join("tested").is_file(), "{report}");

    let (status, report, output) = ci(&setup, &runs(&["git push origin HEAD:main"]), "Publish it.");
    assert_eq!((status, report["text"].as_str()), (Some(7), Some("Done.")), "{output:?}");
    assert_eq!(report["refused"][0]["allow"], "bash=git push origin HEAD:main", "{report}");
    let pushed = std::fs::read_dir(setup.dir.path().join("far.git/refs/heads")).unwrap();
    assert_eq!(pushed.count(), 0);
    let left = std::fs::read_dir(setup.dir.path().join("tmp")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with("tmp.")), "its state is gone: {left:?}");
}

#[test]
fn runner_follows_a_workflow_to_its_end() {
    let setup = project();
    let folder = setup.dir.path().join("config/edn-bridge/workflows");
    std::fs::create_dir_all(&folder).unwrap();
    let stage =
        |rest: &str| format!("{{:doc \"x\" :stages [{{:id :a :body \"hello\" :turn-cap 3 {rest}}}]}}");
    std::fs::write(folder.join("w1.edn"), stage(":tools [\"bash\"]")).unwrap();
    std::fs::write(folder.join("w2.edn"), stage(":gate [{:command \"false\"}]")).unwrap();
    let (status, report, output) = ci(&setup, &runs(&["./check"]), "/workflow w1");
    assert_eq!(status, Some(0), "{output:?}");
    assert_eq!(report["tool-calls"][0]["error"], false, "{report}");
    assert!(setup.project().join("tested").is_file(), "{report}");
    let (status, report, _) = ci(&setup, &runs(&[]), "/workflow w2");
    assert_eq!((status, report["error"]["code"].as_str()), (Some(1), Some("workflow-failed")), "{report}");
}
