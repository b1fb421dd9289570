//! `edn-bridge sessions`, `models`, `rules`, `audit` and `config` as tools of scripts, with the real binary.

use crate::support;

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;
use support::{Bridge, Setup, text, wait_until};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}]}";

/// Status, standard output and standard error of a command.
fn run(setup: &Setup, words: &[&str]) -> (Option<i32>, String, String) {
    let output = setup.command().args(words).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(setup: &Setup, words: &[&str]) -> Vec<Json> {
    let (status, out, err) = run(setup, words);
    assert_eq!(status, Some(0), "{words:?}: {err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// A session of the project with that message.
fn said(setup: &Setup, message: &str) -> String {
    let (status, _, err) = run(setup, &["prompt", message]);
    assert_eq!(status, Some(0), "{err}");
    let listed = json(setup, &["sessions", "list", "--json"]);
    let one = listed.iter().find(|one| one["name"] == message).unwrap();
    one["id"].as_str().unwrap().to_owned()
}

/// Waits until other programs reach a bridge: its socket is made beside its first answers.
fn wait_until_reached(setup: &Setup, bridge: &Bridge) {
    let ending = format!("-{}.sock", bridge.pid());
    let is_its = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(&ending);
    let sockets = || std::fs::read_dir(setup.state().join("run")).into_iter().flatten().flatten();
    wait_until("the bridge does not listen", || {
        sockets().map(|file| file.path()).filter(is_its).any(|path| UnixStream::connect(path).is_ok())
    });
}

#[test]
fn session_is_found_by_a_name_with_dots_not_by_nothing() {
    let setup = Setup::new().script(ECHO);
    said(&setup, "Fix src/main.rs.");
    for name in ["fix src/main.rs.", "Fix src/m"] {
        let (status, shown, err) = run(&setup, &["sessions", "show", name]);
        assert!(status == Some(0) && shown.contains("Fix src/main.rs."), "{name}: {shown}{err}");
    }
    for words in
        [&["sessions", "delete", "", "--yes"][..], &["sessions", "show", " "], &["sessions", "archive", ""]]
    {
        let (status, out, err) = run(&setup, words);
        assert!(status != Some(0) && err.contains("is empty"), "{words:?}: {out}{err}");
    }
    assert_eq!(json(&setup, &["sessions", "list", "--json"]).len(), 1);
}

#[test]
fn path_names_a_session_only_where_files_are_read() {
    let setup = Setup::new().script(ECHO);
    let (kept, named) = (said(&setup, "kept"), said(&setup, "Fix deps.edn"));
    let listed = json(&setup, &["sessions", "list", "--json"]);
    let file = listed.iter().find(|one| one["id"] == *kept).unwrap()["file"].as_str().unwrap().to_owned();
    // A copy elsewhere is no session, and neither is one that is not there.
    let copy = setup.dir.path().join(format!("{kept}.edn"));
    std::fs::copy(&file, &copy).unwrap();
    let (copy, gone) = (copy.to_str().unwrap(), format!("/nowhere/{kept}.edn"));
    for path in [copy, &gone, &file] {
        for words in [&["sessions", "delete", "--yes", path][..], &["sessions", "archive", path]] {
            let (status, out, err) = run(&setup, words);
            assert!(status == Some(1) && err.contains("There is no session"), "{words:?}: {out}{err}");
        }
    }
    assert_eq!(json(&setup, &["sessions", "list", "--json"]).len(), 2);
    for path in [copy, &file] {
        let (status, shown, err) = run(&setup, &["sessions", "show", path]);
        assert!(status == Some(0) && shown.starts_with("# kept\n"), "{shown}{err}");
    }
    let (status, _, err) = run(&setup, &["sessions", "show", &gone]);
    assert!(status == Some(1) && err.contains("There is no session"), "{err}");
    // The name of a session may end so.
    assert_eq!(run(&setup, &["sessions", "show", "fix deps.edn"]).0, Some(0));
    let (status, out, err) = run(&setup, &["sessions", "archive", "Fix deps.edn"]);
    assert_eq!((status, out), (Some(0), format!("{named} is archived.\n")), "{err}");
}

#[test]
fn sessions_are_renamed_archived_and_deleted() {
    let setup = Setup::new().script(ECHO);
    let (one, other) = (said(&setup, "first words"), said(&setup, "second words"));
    let names = || -> Vec<String> {
        json(&setup, &["sessions", "list", "--json"])
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let (status, out, err) = run(&setup, &["sessions", "rename", &one[..one.len() - 1], "Garden"]);
    assert_eq!((status, out), (Some(0), format!("{one} is named Garden.\n")), "{err}");
    assert!(names().contains(&"Garden".to_owned()), "{:?}", names());
    let (_, shown, _) = run(&setup, &["sessions", "show", "garden"]);
    assert!(shown.starts_with("# Garden\n"), "{shown}");
    // An archived session is in no list that is not asked for it.
    assert_eq!(run(&setup, &["sessions", "archive", "Garden"]).0, Some(0));
    assert_eq!(names(), ["second words"]);
    assert_eq!(json(&setup, &["sessions", "list", "--json", "--archived"]).len(), 2);
    assert_eq!(run(&setup, &["sessions", "archive", "--undo", &one]).0, Some(0));
    assert_eq!(names().len(), 2);
    // Nobody can be asked here.
    let (status, _, err) = run(&setup, &["sessions", "delete", &other]);
    assert!(status == Some(2) && err.contains("--yes deletes without asking"), "{err}");
    assert_eq!(names().len(), 2);
    let (status, out, err) = run(&setup, &["sessions", "delete", "--yes", "second"]);
    assert_eq!((status, out), (Some(0), format!("{other} is deleted.\n")), "{err}");
    assert_eq!(names(), ["Garden"]);
    let (status, _, err) = run(&setup, &["sessions", "delete", "--yes", "second"]);
    assert!(status == Some(1) && err.contains("There is no session"), "{err}");
}

#[test]
fn session_that_is_open_is_changed_by_its_bridge() {
    let setup = Setup::new().script(ECHO);
    let id = said(&setup, "kept open");
    let mut bridge = setup.ready();
    wait_until_reached(&setup, &bridge);
    bridge.ask("1", "switch_session", &format!("{{:session-id {id:?}}}"));
    let (status, _, err) = run(&setup, &["sessions", "rename", &id, "Renamed"]);
    assert_eq!(status, Some(0), "{err}");
    let state = bridge.ask("2", "get_state", "{}");
    assert_eq!(text(state.get("data").unwrap().get("state").unwrap(), "session-name"), "Renamed");
    let (status, _, err) = run(&setup, &["sessions", "delete", "--yes", &id]);
    assert!(status == Some(1) && err.contains("a client shows it"), "{err}");
    bridge.finish();
    assert_eq!(run(&setup, &["sessions", "delete", "--yes", &id]).0, Some(0));
}

#[test]
fn stopped_bridge_is_named_and_passed_over() {
    let setup = Setup::new().script(ECHO);
    let id = said(&setup, "of nobody");
    let stopped = setup.ready();
    wait_until_reached(&setup, &stopped);
    let signal = |name| {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(stopped.pid().cast_signed()).unwrap(),
            name,
        )
        .unwrap();
    };
    signal(rustix::process::Signal::STOP);
    let commands = [&["sessions", "rename", &id, "Mine"][..], &["query", "[:psi.process/pid]"]];
    let mut all: Vec<_> = commands
        .iter()
        .map(|words| {
            let mut command = setup.command();
            command.args(*words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            std::cell::RefCell::new(command.spawn().unwrap())
        })
        .collect();
    for (child, words) in all.iter().zip(commands) {
        wait_until(&format!("{words:?} waits for a stopped bridge"), || {
            child.borrow_mut().try_wait().unwrap().is_some()
        });
    }
    for (child, words) in all.drain(..).zip(commands) {
        let output = child.into_inner().wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words:?}: {err}");
        assert!(
            err.contains("does not answer") && err.contains(&format!("-{}.sock", stopped.pid())),
            "{err}"
        );
    }
    assert_eq!(json(&setup, &["sessions", "list", "--json"])[0]["name"], "Mine");
    signal(rustix::process::Signal::CONT);
    stopped.finish();
}

#[test]
fn old_sessions_are_pruned_and_others_stay() {
    let setup = Setup::new().script(ECHO);
    let (old, new) = (said(&setup, "long ago"), said(&setup, "just now"));
    let listed = json(&setup, &["sessions", "list", "--json"]);
    let file = listed.iter().find(|one| one["id"] == *old).unwrap()["file"].as_str().unwrap().to_owned();
    let then = SystemTime::now() - Duration::from_secs(40 * 24 * 60 * 60);
    std::fs::File::options().append(true).open(&file).unwrap().set_modified(then).unwrap();
    let (status, _, err) = run(&setup, &["sessions", "prune", "--older-than", "30d"]);
    assert!(status == Some(2) && err.contains("nothing is deleted"), "{err}");
    let (status, _, err) = run(&setup, &["sessions", "prune", "--older-than", "7w", "--yes"]);
    assert!(status == Some(0) && err.contains("no session that old"), "{err}");
    let (status, _, err) = run(&setup, &["sessions", "prune", "--older-than", "30d", "--archived", "--yes"]);
    assert!(status == Some(0) && err.contains("no session that old"), "{err}");
    let (status, out, err) = run(&setup, &["sessions", "prune", "--older-than", "30d", "--yes"]);
    assert_eq!((status, out), (Some(0), format!("{old} is deleted.\n")), "{err}");
    let left = json(&setup, &["sessions", "list", "--json"]);
    assert_eq!((left.len(), &left[0]["id"]), (1, &Json::from(new)));
    let (status, _, err) = run(&setup, &["sessions", "prune", "--older-than", "soon"]);
    assert!(status == Some(2) && err.contains("write 12h, 30d or 8w"), "{err}");
}

#[test]
fn search_without_a_match_says_so_and_fails() {
    let setup = Setup::new().script(ECHO);
    said(&setup, "needle");
    assert_eq!(run(&setup, &["sessions", "list", "needle"]).0, Some(0));
    let (status, out, err) = run(&setup, &["sessions", "list", "zzz"]);
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert!(err.contains("No session of this folder") && err.contains("\"zzz\""), "{err}");
    let (status, out, err) = run(&setup, &["sessions", "list", "zzz", "--json"]);
    assert_eq!((status, out.as_str()), (Some(1), "[]\n"), "{err}");
}

#[test]
fn archived_match_takes_no_place_of_the_limit() {
    let setup = Setup::new().script(ECHO);
    // Of two that fit alike, the later one is listed first.
    let (open, best) = (said(&setup, "the needle is among many other words here"), said(&setup, "needle"));
    let found = |words: &[&str]| -> Vec<String> {
        let words = [&["sessions", "list", "needle", "--limit", "1", "--json"], words].concat();
        json(&setup, &words).iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found(&[]), [best.as_str()]);
    assert_eq!(run(&setup, &["sessions", "archive", &best]).0, Some(0));
    assert_eq!(found(&[]), [open.as_str()]);
    assert_eq!(found(&["--archived"]), [best.as_str()]);
}

#[test]
fn query_takes_the_beginning_of_an_id_or_a_name() {
    let setup = Setup::new().script(ECHO);
    let id = said(&setup, "ask me");
    for way in [&id[..], &id[..id.len() - 3], "ask me", "ask"] {
        let (status, out, err) = run(&setup, &["query", "[:psi.agent-session/session-id]", "--session", way]);
        assert!(status == Some(0) && out.contains(&id), "{way}: {out}{err}");
    }
    let (status, _, err) = run(&setup, &["query", "[:psi.agent-session/session-id]", "--session", "zzz"]);
    assert!(status == Some(1) && err.contains("There is no session \"zzz\""), "{err}");
}

#[test]
fn models_are_listed_with_state_price_and_window() {
    let setup = Setup::new().env("ANTHROPIC_API_KEY", "sk-canary").env("OPENAI_API_KEY", "");
    let config = setup.dir.path().join("user.edn");
    std::fs::write(
        &config,
        "{:provider \"work\" :model \"large\" :providers {\"work\" {:base-url \"http://127.0.0.1:9/v1\"}}
          :models [{:provider \"work\" :id \"small\" :context-window 32768 :price {:input 1.5 :output 4}}]}",
    )
    .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let models = json(&setup, &["models", "list", "--json"]);
    let of = |provider: &str, id: &str| {
        let found = models.iter().find(|model| model["provider"] == provider && model["id"] == id);
        found.unwrap_or_else(|| panic!("{provider} {id}: {models:?}")).clone()
    };
    assert_eq!((&models[0]["id"], &models[0]["chosen"]), (&Json::from("large"), &Json::from(true)));
    assert_eq!(
        (&of("work", "small")["state"], &of("work", "small")["context-window"]),
        (&"ready".into(), &32768.into())
    );
    assert!(models.iter().any(|model| model["provider"] == "anthropic" && model["state"] == "ready"));
    assert!(
        models.iter().filter(|model| model["provider"] == "openai").all(|model| model["state"] == "no key")
    );
    let embedded = of("embedded", "smollm2-135m-instruct");
    assert_ne!(embedded["state"], "ready");
    assert!(models.iter().all(|model| model["provider"] != "scripted"));
    let (_, out, _) = run(&setup, &["models", "list", "--ready"]);
    let small = out.lines().find(|line| line.contains("small")).unwrap();
    for part in ["work", "ready", "32k", "1.50", "4.00"] {
        assert!(small.contains(part), "{part}: {small}");
    }
    assert!(!out.contains("no key") && !out.contains("openai") && !out.contains("canary"), "{out}");
}

#[test]
fn rules_and_decisions_are_listed_and_taken_back() {
    let setup = Setup::new().script("{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"make all\"}}}]} {:steps [{:delta \"Done.\"}]}]}");
    let config = setup.dir.path().join("user.edn");
    std::fs::write(&config, "{:permissions {:rules [{:decision :deny :tool \"bash\" :command \"rm\"}]}}")
        .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    assert_eq!(run(&setup, &["audit"]).1, "");
    let mut bridge = setup.interactor();
    bridge.request("1", "prompt", "{:message \"build\"}");
    let asked = bridge.event("interaction/requested");
    support::accept(&mut bridge, &asked, ":value {:outcome \"approve\" :scope \"rule\"}");
    bridge.event("turn/ended");
    // The running bridge and the disk say the same.
    let kept = |setup: &Setup| -> Vec<Json> {
        let rules = json(setup, &["rules", "list", "--json"]);
        assert!(rules.iter().any(|rule| rule["source"] == "configuration"), "{rules:?}");
        rules.into_iter().filter(|rule| rule["source"] == "kept").collect()
    };
    let rule = kept(&setup).remove(0);
    assert!(rule["text"].as_str().unwrap().contains("make"), "{rule}");
    let (_, out, _) = run(&setup, &["rules"]);
    assert!(out.contains(rule["rule-id"].as_str().unwrap()), "{out}");
    let decided = json(&setup, &["audit", "--json"]);
    assert_eq!(decided.len(), 1, "{decided:?}");
    let (_, out, _) = run(&setup, &["audit"]);
    assert!(out.contains("approve") && out.lines().count() == 1, "{out}");
    let id = rule["rule-id"].as_str().unwrap();
    let (status, out, err) = run(&setup, &["rules", "remove", &id[..id.len() - 1]]);
    assert!(status == Some(0) && out.starts_with("Taken back: "), "{out}{err}");
    assert_eq!(kept(&setup), Vec::<Json>::new());
    bridge.finish();
    assert_eq!(kept(&setup), Vec::<Json>::new());
    let (status, _, err) = run(&setup, &["rules", "remove", "no-such"]);
    assert!(status == Some(1) && !err.is_empty(), "{err}");
}

#[test]
fn configuration_is_checked_shown_and_edited() {
    let setup = Setup::new().script(ECHO);
    let config = setup.dir.path().join("a/user.edn");
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    // The editor of the test writes the file that it is given.
    let editor = setup.dir.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\ncat \"$2\" > \"$2.before\"\necho \"$TEXT\" > \"$2\"\n").unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o700)).unwrap();
    let edit = |text: &str| {
        let mut command = setup.command();
        command.env_remove("VISUAL").env("EDITOR", format!("{} --wait", editor.display())).env("TEXT", text);
        let output =
            command.args(["config", "edit", "--log", "error"]).stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (status, out) = edit(
        "{:mode :accept-edits :providers {\"w\" {:base-url \"https://a\" :headers {\"x\" \"sk-canary\"}}}}",
    );
    assert!(status == Some(0) && out.contains("The configuration is valid."), "{out}");
    assert!(std::fs::read_to_string(config.with_extension("edn.before")).unwrap().contains("config check"));
    assert_eq!(config.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let shown = json(&setup, &["config", "show", "--json"]);
    let of = |key: &str| shown.iter().find(|one| one["key"] == key).unwrap().clone();
    assert_eq!(
        (&of("mode")["value"], &of("mode")["source"]),
        (&"accept-edits".into(), &config.to_str().unwrap().into())
    );
    let (_, out, _) = run(&setup, &["config", "show"]);
    assert!(out.contains("providers") && !out.contains("canary"), "{out}");
    for (text, expected) in [
        ("{:modl 1}", "1:2: there is no setting :modl; did you mean"),
        ("{:models [{:id \"x\"}]}", ":models: a model needs :provider"),
        ("{:permissions {:rules [{:decision :perhaps}]}}", "1:24: a rule allows, asks or denies"),
        ("{:hooks [{:at :nowhere}]}", ":hooks: "),
        ("{:mcp {\"x\" {}}}", ":mcp: "),
        ("{:mode", "the map that opens at 1:1"),
        ("{:hooks {:a 1}}", ":hooks must be a vector of maps"),
        ("{:permissions {:rules {}}}", ":permissions must be {:rules [rule …]}"),
    ] {
        let (status, out) = edit(text);
        assert!(status == Some(1) && out.contains(expected), "{text}: {out}");
        let output = setup.command().args(["config", "check", "--log", "error"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}: {output:?}");
    }
    // All mistakes are told at once, also beside those that make a command refuse the file.
    let (_, out) = edit("{:mode 1 :modl 2 :fetch 3\n :permissions {:rules [{:decision :perhaps}]}}");
    for expected in
        ["1:2: :mode must be", "1:10: there is no setting :modl", "1:18: :fetch must be", "2:24: a rule"]
    {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    assert!(out.contains("4 things are wrong."), "{out}");
    let (_, report, _) = run(&setup, &["doctor"]);
    assert!(report.contains(":mode must be") && report.contains(":fetch must be"), "{report}");
    let (status, _, err) = run(&setup, &["prompt", "hi"]);
    assert!(status == Some(4) && err.contains(":mode must be") && err.contains(":fetch must be"), "{err}");
}

#[test]
fn no_file_is_made_behind_a_link_of_a_project() {
    let setup = Setup::new().script(ECHO);
    let (folder, elsewhere) = (setup.project().join(".edn-bridge"), setup.dir.path().join("elsewhere"));
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.join("config.edn")).unwrap();
    let output =
        setup.command().env("EDITOR", "true").args(["config", "edit", "--project"]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && err.contains("is a link that leads nowhere"), "{err}");
    assert!(!elsewhere.exists());
    std::fs::remove_file(folder.join("config.edn")).unwrap();
    let edit = setup.command().env("EDITOR", "true").args(["config", "edit", "--project"]).output().unwrap();
    assert!(edit.status.success() && folder.join("config.edn").exists(), "{edit:?}");
}

#[test]
fn closed_pipe_is_no_error_in_any_command() {
    let setup = Setup::new().script(ECHO);
    for n in 0..3 {
        said(&setup, &format!("message {n}"));
    }
    for words in [
        &["--help"][..],
        &["sessions", "list"],
        &["sessions", "list", "--json"],
        &["sessions", "show", "message 1"],
        &["sessions", "export", "message 1"],
        &["sessions", "verify"],
        &["models", "list"],
        &["rules"],
        &["audit"],
        &["config", "show"],
        &["config", "check"],
        &["doctor"],
        &["query", "[*]"],
        &["mcp", "list"],
        &["edn"],
    ] {
        let mut command = setup.command();
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let _ = child.stdin.take().unwrap().write_all(b"{:a 1}");
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success() && !err.contains("pipe"), "{words:?}: {status} {err}");
    }
}

#[test]
fn colours_are_chosen_by_option_variable_and_terminal() {
    let setup = Setup::new().script("{:turns [{:steps []}]}");
    let coloured = |command: &mut Command| {
        let output = command.args(["doctor", "--log", "error"]).output().unwrap();
        output.stdout.contains(&0x1b)
    };
    assert!(!coloured(&mut setup.command()), "a pipe gets none");
    assert!(coloured(setup.command().args(["--color", "always"])));
    assert!(
        coloured(setup.command().args(["--color", "always"]).env("NO_COLOR", "1")),
        "the option counts more"
    );
    assert!(!coloured(setup.command().args(["--color", "never"])));
}

#[test]
fn usage_is_summed_and_a_fork_counts_once() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"Hi\"}] :usage {:input 7 :output 2}}]}");
    assert_eq!(run(&setup, &["usage"]), (Some(0), String::new(), "No model was called yet.\n".to_owned()));
    let (one, _) = (said(&setup, "first"), said(&setup, "second"));
    assert_eq!(run(&setup, &["prompt", "--session", &one, "third"]).0, Some(0));
    let mut bridge = setup.ready();
    bridge.ask("1", "switch_session", &format!("{{:session-id {one:?}}}"));
    let messages = bridge.ask("2", "get_fork_messages", "{}");
    let messages = messages.get("data").unwrap().get("messages").unwrap().as_slice().unwrap().to_vec();
    let entry = text(messages.last().unwrap(), "id").to_owned();
    bridge.ask("3", "fork", &format!("{{:entry-id {entry:?}}}"));
    bridge.finish();
    assert_eq!(json(&setup, &["sessions", "list", "--json"]).len(), 3, "the fork is there");
    for by in ["day", "project", "session"] {
        let sums = json(&setup, &["usage", "--by", by, "--json"]);
        let of = |key: &str| -> i64 { sums.iter().map(|sum| sum["usage"][key].as_i64().unwrap()).sum() };
        assert_eq!((of("input"), of("output")), (21, 6), "{by}: {sums:?}");
        assert_eq!(sums.iter().map(|sum| sum["calls"].as_i64().unwrap()).sum::<i64>(), 3);
        assert_eq!(sums.len(), if by == "session" { 2 } else { 1 }, "{by}: {sums:?}");
    }
    let (_, out, _) = run(&setup, &["usage", "--by", "model"]);
    assert!(
        out.contains("scripted ")
            && !out.contains("not noted")
            && out.lines().last().unwrap().starts_with("all"),
        "{out}"
    );
    assert!(!out.contains('█'), "a script wants the numbers alone: {out}");
    // As pages: of all sessions, by three things; and of one session, by turn.
    let file = setup.dir.path().join("usage.html");
    for _ in 0..2 {
        assert_eq!(
            run(&setup, &["usage", "--html", file.to_str().unwrap()]).0,
            Some(0),
            "a page may be replaced"
        );
    }
    let page = std::fs::read_to_string(&file).unwrap();
    assert_eq!((page.matches("<svg").count(), page.matches("<table>").count()), (3, 3), "{page}");
    let cells = "<td>3</td><td>21</td><td>0</td><td>6</td><td>0.0000</td>";
    assert_eq!(page.matches(cells).count(), 3, "{page}");
    assert!(
        page.contains(&format!("<td>{}</td>", setup.project().canonicalize().unwrap().display())),
        "{page}"
    );
    let (_, page, _) = run(&setup, &["sessions", "export", &one, "--format", "html"]);
    assert!(page.contains("Tokens and cost: By turn") && page.matches("<td>7</td>").count() == 2, "{page}");
    assert!(!page.contains("<script"), "{page}");
    let (_, out, err) = run(&setup, &["usage", "--since", "0h"]);
    assert!(out.is_empty() && err.contains("No model was called"), "{out}{err}");
}

#[test]
fn usage_says_that_a_folder_is_left_out() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"Hi\"}] :usage {:input 7 :output 2}}]}");
    said(&setup, "first");
    let (status, _, err) = run(&setup, &["usage"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    // Whoever the user is, this cannot be looked into.
    std::os::unix::fs::symlink("round", setup.state().join("sessions/round")).unwrap();
    let (status, out, err) = run(&setup, &["usage"]);
    assert!(status == Some(0) && out.contains(" 7 "), "{out}{err}");
    assert!(err.contains("0 sessions and 1 folders of sessions cannot be read"), "{err}");
}
