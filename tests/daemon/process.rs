//! The start and the end of the daemon and of its engines, and who may ask it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use edn_bridge::value::Value;
use rustix::fs::{FlockOperation, flock};

use crate::fixture::{Daemon, END, prompt, until};
use crate::support::{Bridge, Setup, at, code, data, wait_until};

#[test]
fn editors_that_start_at_once_share_a_daemon() {
    // Without a script, which each start would write anew.
    let daemon = Daemon::new(Setup::new());
    let mut bridges: Vec<_> = (0..50).map(|_| daemon.setup.serve()).collect();
    for bridge in &mut bridges {
        bridge.handshake();
    }
    assert_eq!(daemon.clients(), 50);
    assert_eq!(daemon.engines().len(), 1);
}

#[test]
fn daemon_that_can_not_start_says_why() {
    let daemon = Daemon::calling(&["true"]);
    std::fs::create_dir_all(daemon.setup.state().join("run")).unwrap();
    // There can be no socket where a folder is.
    std::fs::create_dir(daemon.setup.state().join("run/daemon.sock")).unwrap();
    let output = daemon.setup.command().arg("serve").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("the daemon did not start"), "{said}");
    std::fs::remove_dir(daemon.setup.state().join("run/daemon.sock")).unwrap();
}

#[test]
fn long_path_of_the_state_folder_is_no_hindrance() {
    let (mut setup, outer) = (Setup::new(), tempfile::tempdir().unwrap());
    let long = outer.path().join("x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    setup.dir = std::sync::Arc::new(tempfile::tempdir_in(&long).unwrap());
    std::fs::create_dir(setup.project()).unwrap();
    let daemon = Daemon::new(setup);
    let mut bridge = daemon.setup.serve();
    bridge.handshake();
    assert_eq!(daemon.clients(), 1);
}

#[test]
fn serve_without_a_daemon_is_as_before() {
    let mut daemon = Daemon::calling(&["true"]);
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:daemon {:use :never}}").unwrap();
    let mut bridge = daemon.setup.interactor();
    assert!(!bridge.handshake().to_string().contains("outlives-clients"));
    assert!(daemon.status().is_none());
    bridge.close_input();
    assert!(bridge.wait().success());
    std::fs::remove_file(folder.join("config.edn")).unwrap();
    daemon.change(|setup| setup.env("EDN_BRIDGE_DAEMON", "never"));
    daemon.setup.interactor();
    assert!(daemon.status().is_none());
}

#[test]
fn daemon_without_client_and_work_ends() {
    let daemon = Daemon::calling(&["true"]);
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:daemon {:idle-exit-ms 1}}").unwrap();
    let mut bridge = daemon.setup.interactor();
    prompt(&mut bridge);
    assert!(daemon.status().is_some());
    bridge.kill();
    // The question waits, and so does the daemon.
    wait_until("the editor is still there", || daemon.clients() == 0);
    let session = at(&daemon.at_work()[0], &["session"]).and_then(Value::as_str).unwrap().to_owned();
    let mut bridge = daemon.editor_at(&session);
    bridge.ask("a", "abort", "{}");
    bridge.event("turn/ended");
    bridge.close_input();
    assert!(bridge.wait().success());
    wait_until("the daemon does not end", || daemon.status().is_none());
}

#[test]
fn stop_refuses_while_a_turn_runs_unless_now() {
    let mut daemon = Daemon::calling(&[&until("never")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    wait_until("the command did not begin", || daemon.wrote("began"));
    let refused = daemon.control(&["stop"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains(&session), "{refused:?}");
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
    assert!(daemon.control(&["stop", "--now"]).status.success());
    // The editor learns how its turn ends, and that its process can be started again.
    let ended = bridge.event("turn/ended");
    assert_eq!(data(&ended, "outcome"), "aborted", "{ended}");
    assert_eq!(bridge.wait().code(), Some(75));
}

#[test]
fn engine_that_ends_leaves_nothing_in_the_daemon() {
    let mut daemon = Daemon::calling(&["true"]);
    let mut stays = daemon.setup.interactor();
    let pid = daemon.pid();
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let sockets = |daemon: &Daemon| {
        let names = std::fs::read_dir(daemon.setup.state().join("run")).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().ends_with(".sock")).count()
    };
    // Each of these has an engine of its own, because it has other options.
    daemon.change(|setup| setup.arg("--durability").arg("relaxed"));
    let round = |daemon: &Daemon| {
        let mut bridge = daemon.setup.interactor();
        bridge.close_input();
        assert!(bridge.wait().success());
        wait_until("the engine stays", || daemon.engines().len() == 1);
    };
    round(&daemon);
    let (tasks, files) = (count("task"), count("fd"));
    for _ in 0..20 {
        round(&daemon);
    }
    wait_until("threads or descriptors are left", || count("task") <= tasks + 4 && count("fd") <= files + 4);
    wait_until("sockets are left", || sockets(&daemon) == 2);
    assert_eq!(code(&stays.ask("ping", "ping", "{}")), "");
}

#[test]
fn engine_that_hangs_at_its_start_stops_nobody_else() {
    let mut daemon = Daemon::calling(&["true"]);
    let mut other = daemon.setup.interactor();
    let path = daemon.setup.dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    daemon.change(|mut setup| {
        setup.script = None;
        setup.arg("--script").arg(path.to_str().unwrap())
    });
    // Nobody writes the script.
    let mut hangs = daemon.setup.serve();
    assert_eq!(daemon.clients(), 1);
    assert_eq!(code(&other.ask("q", "query_eql", "{:query \"[:psi.process/at-work]\"}")), "");
    // An editor with other options gets an engine of its own.
    daemon.change(|mut setup| {
        setup.arguments.clear();
        setup
    });
    daemon.setup.interactor();
    assert!(daemon.control(&["stop", "--now"]).status.success());
    assert_eq!(other.wait().code(), Some(75));
    assert_eq!(hangs.wait().code(), Some(75));
}

#[test]
fn program_of_the_daemon_can_not_ask_it() {
    let program = env!("CARGO_BIN_EXE_edn-bridge");
    let state = "\"$(dirname \"$PWD\")\"/state";
    let mut daemon =
        Daemon::calling(&[&format!("\"{program}\" --state-dir {state} daemon stop --now; echo $? > said")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    prompt(&mut bridge);
    let result = bridge.event("tool/result");
    assert!(result.to_string().contains("may not connect"), "{result}");
    assert_eq!(std::fs::read_to_string(daemon.file("said")).unwrap(), "1\n");
    bridge.event("turn/ended");
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
}

#[test]
fn program_of_a_session_starts_no_daemon() {
    let program = env!("CARGO_BIN_EXE_edn-bridge");
    let state = "\"$(dirname \"$PWD\")\"/state";
    let daemon =
        Daemon::calling(&[&format!("\"{program}\" --state-dir {state} daemon start; echo $? > said")]);
    let mut command = daemon.setup.command();
    let mut bridge = Bridge::start(command.arg("--yolo").args(["serve", "--no-daemon"]));
    bridge.handshake();
    bridge.ask("all", "subscribe", "{}");
    prompt(&mut bridge);
    let result = bridge.event("tool/result");
    assert!(result.to_string().contains("may not start the daemon"), "{result}");
    assert!(daemon.status().is_none());
}

/// A figure of a process's memory, in KiB.
fn kibibytes(pid: i64, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn long_lines_of_many_clients_take_bounded_memory() {
    let daemon = Daemon::calling(&["true"]);
    let mut bridge = daemon.setup.interactor();
    let (pid, socket) = (daemon.pid(), daemon.setup.state().join("run/daemon.sock"));
    let before = kibibytes(pid, "VmHWM:");
    // A value for each two bytes: the most that a line can ask for.
    let mut line = vec![b'['];
    line.extend(b"1 ".repeat((3 << 19) - 2));
    line.extend(b"]\n");
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let (socket, line) = (socket.clone(), line.clone());
            std::thread::spawn(move || {
                let mut stream = UnixStream::connect(socket).unwrap();
                // Whoever is refused is told so before its line is over.
                let _ = stream.write_all(&line);
                let mut told = String::new();
                let _ = stream.read_to_string(&mut told);
                told
            })
        })
        .collect();
    for client in clients {
        let told = client.join().unwrap();
        assert!(told.is_empty() || told.contains(":refused"), "{told}");
    }
    let after = kibibytes(pid, "VmHWM:");
    // The lines together, and the values of one of them.
    assert!(after < before + 64 * 1024 + 160 * 1024, "{before} KiB, then {after} KiB");
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
    assert_eq!(daemon.pid(), pid);
}

#[test]
fn unit_runs_this_program_and_log_shows_its_start() {
    let daemon = Daemon::calling(&["true"]);
    let unit = String::from_utf8(daemon.control(&["unit"]).stdout).unwrap();
    let program = env!("CARGO_BIN_EXE_edn-bridge");
    if cfg!(target_os = "linux") {
        assert!(unit.contains(&format!("ExecStart=\"{program}\" daemon run\n")), "{unit}");
        assert!(unit.contains("[Install]"), "{unit}");
    } else {
        assert!(unit.contains(&format!("<string>{program}</string>")), "{unit}");
    }
    assert_eq!(daemon.control(&["log"]).stdout, b"");
    // What the unit does: the daemon in the foreground.
    let command = |words: &[&str]| {
        let mut command = Command::new(program);
        command.arg("--state-dir").arg(daemon.setup.state()).args(["--log", "info", "daemon"]).args(words);
        command.stdin(Stdio::null());
        command
    };
    let mut foreground = command(&["run"]).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it does not run", || daemon.status().is_some());
    assert_eq!(daemon.pid(), i64::from(foreground.id()));
    assert!(daemon.control(&["stop"]).status.success());
    assert!(foreground.wait().unwrap().success());
    // One in the background has its log in the state folder.
    assert!(command(&["start"]).status().unwrap().success());
    let log = || String::from_utf8(daemon.control(&["log"]).stdout).unwrap();
    wait_until("there is no log", || log().contains("the daemon is ready"));
    assert!(daemon.control(&["stop"]).status.success());
    assert_eq!(daemon.control(&["status"]).status.code(), Some(3));
}

/// What the daemon tells a program that sends this line.
fn told(daemon: &Daemon, line: &str) -> String {
    let socket = daemon.setup.state().join("run/daemon.sock");
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

#[test]
fn editor_of_another_version_is_told_both_and_what_to_do() {
    let daemon = Daemon::calling(&["true"]);
    assert!(daemon.control(&["start"]).status.success());
    let attach = |version: u32| {
        let given = "{:cwd \"/\" :provider nil :model nil :model-file nil :script nil :mode nil :config nil \
                     :durability \"relaxed\" :origins []}";
        let line = format!(
            "{{:attach {{:version {version} :build \"9\" :protocol :edn :homes {{:home \"/nobody\" :config nil}} \
             :given {given} :environment []}}}}\n"
        );
        told(&daemon, &line)
    };
    let other = attach(99);
    assert!(other.contains("speaks version 1 ") && other.contains("version 99"), "{other}");
    assert!(other.contains("daemon restart") && other.contains(":by-itself true"), "{other}");
    // Nor is one whose files are elsewhere.
    let other = attach(1);
    assert!(other.contains("another home") && other.contains(":by-itself true"), "{other}");
}

/// Holds the daemon's lock and answers the first line to its socket, in place of a daemon of another version, of which there
/// is none yet.
fn stand_in(daemon: &Daemon, answer: &'static str) -> JoinHandle<()> {
    let run = daemon.setup.state().join("run");
    std::fs::create_dir_all(&run).unwrap();
    let lock = std::fs::File::create(daemon.setup.state().join("daemon.lock")).unwrap();
    lock.lock().unwrap();
    let path = run.join("daemon.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        BufReader::new(&stream).read_line(&mut String::new()).unwrap();
        std::fs::remove_file(path).unwrap();
        drop(lock);
        stream.write_all(answer.as_bytes()).unwrap();
    })
}

#[test]
fn editor_beside_a_daemon_of_another_version_is_served() {
    let daemon = Daemon::calling(&["true"]);
    let refusing = stand_in(&daemon, "{:refused {:message \"another version\" :by-itself true}}\n");
    let mut bridge = daemon.setup.serve();
    let told = bridge.handshake();
    assert!(!told.to_string().contains("outlives-clients"), "{told}");
    refusing.join().unwrap();
    bridge.close_input();
    assert!(bridge.wait().success());
}

#[test]
fn start_follows_a_daemon_that_ends_at_that_moment() {
    let daemon = Daemon::calling(&["true"]);
    // As a killed process does whose socket is not closed yet.
    let ending = stand_in(&daemon, "");
    assert!(daemon.control(&["start"]).status.success());
    ending.join().unwrap();
    assert!(daemon.status().is_some());
}

#[test]
fn daemon_logs_in_the_format_of_the_program_that_starts_it() {
    let daemon =
        Daemon::new(Setup::new().script(END).arg("--log").arg("debug").arg("--log-format").arg("json"));
    let mut bridge = daemon.setup.interactor();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.event("turn/ended");
    let log = daemon.setup.state().join("daemon.log");
    wait_until("nothing is logged", || std::fs::metadata(&log).is_ok_and(|log| log.len() > 0));
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
}

#[test]
fn start_finds_a_daemon_that_another_program_began() {
    let daemon = Daemon::calling(&["true"]);
    let run = daemon.setup.state().join("run");
    std::fs::create_dir_all(&run).unwrap();
    // In place of a daemon that has its lock, and no socket yet.
    let lock = std::fs::File::create(run.with_file_name("daemon.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| daemon.control(&["restart"]));
        // It is written once nobody has been found to serve.
        wait_until("nobody starts it", || daemon.setup.state().join("daemon.log").exists());
        let _listener = UnixListener::bind(run.join("daemon.sock")).unwrap();
        let started = starting.join().unwrap();
        assert!(started.status.success(), "{started:?}");
    });
    std::fs::remove_file(run.join("daemon.sock")).unwrap();
}

#[test]
fn daemon_whose_starter_is_gone_serves_others() {
    let daemon = Daemon::calling(&["true"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
    daemon.setup.folders(&mut command);
    command.arg("--state-dir").arg(daemon.setup.state()).args(["daemon", "run", "--announce"]);
    let mut started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    // Before it could say that it is ready.
    drop(started.stdout.take());
    wait_until("it does not serve", || daemon.status().is_some());
    let mut bridge = daemon.setup.serve();
    bridge.handshake();
    assert_eq!(daemon.pid(), i64::from(started.id()));
    assert!(daemon.control(&["stop"]).status.success());
    assert!(started.wait().unwrap().success());
}

#[test]
fn other_build_of_the_daemon_is_named() {
    let daemon = Daemon::calling(&["true"]);
    let serving = stand_in(&daemon, "{:attached {:build \"0.0.0-other\"}}\n:ended\n");
    let output = daemon.setup.command().arg("serve").stdin(Stdio::piped()).output().unwrap();
    serving.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("the daemon that runs is 0.0.0-other") && said.contains("restart"), "{said}");
}

#[test]
fn editors_that_come_and_go_leave_no_memory() {
    let daemon = Daemon::calling(&["true"]);
    let mut stays = daemon.setup.interactor();
    let pid = daemon.pid();
    let rounds = |count| {
        for _ in 0..count {
            let mut bridge = daemon.setup.interactor();
            bridge.close_input();
            assert!(bridge.wait().success());
        }
        wait_until("an editor stays", || daemon.clients() == 1);
        kibibytes(pid, "VmRSS:")
    };
    let before = rounds(20);
    let after = rounds(100);
    assert!(after <= before + before / 5, "{before} KiB, then {after} KiB");
    assert_eq!(code(&stays.ask("ping", "ping", "{}")), "");
}

#[test]
fn doctor_tells_of_the_daemon() {
    let daemon = Daemon::new(Setup::new().script("{:turns [{:steps [{:sleep-ms 600000}]}]}"));
    let mut editor = daemon.setup.ready();
    prompt(&mut editor);
    wait_until("nothing is at work", || !daemon.at_work().is_empty());
    let report = daemon.setup.command().arg("doctor").output().unwrap();
    let told = String::from_utf8(report.stdout).unwrap();
    let expected = format!("daemon: The daemon runs: process {}; 1 session at work.", daemon.pid());
    assert!(told.contains(&expected), "{told}");
    editor.ask("a", "abort", "{}");
    editor.event("turn/ended");
}
