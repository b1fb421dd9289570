//! The boundary between the bridge and the programs that it starts: what they cannot reach, and that none of
//! them lives on.
#![cfg(target_os = "linux")]

use crate::support;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use edn_bridge::runner::sandbox;
use support::guest::{Guest, socket};
use support::{Bridge, Setup, accept, at, data, end_of_turn, wait_until};

/// Ways to leave a process behind: `sleep SECONDS` lives on if nobody ends it.
const LEAVING: &[&str] = &[
    "sleep SECONDS & echo left",
    "setsid sleep SECONDS & echo left",
    "set -m; sleep SECONDS & echo left",
    "(setsid sleep SECONDS >/dev/null 2>&1 &) ; echo left",
    "(trap '' TERM HUP; (sleep SECONDS &) &) >/dev/null 2>&1; echo left",
];

/// A number of seconds to sleep that nobody else sleeps.
fn seconds() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:04}", 1_000_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The processes that sleep so long.
fn sleeping(seconds: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let wanted = format!("sleep\0{seconds}\0");
    numbers
        .filter(|process| {
            let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line == wanted.as_bytes()
        })
        .collect()
}

fn is_gone(seconds: &str, how: &str) {
    wait_until(&format!("left running: {how}"), || sleeping(seconds).is_empty());
}

/// A model that calls `bash` with a command, then says that it is done.
fn calling(command: &str, more: &str) -> Setup {
    let call = format!("{{:tool-call {{:name \"bash\" :arguments {{:command {command:?} {more}}}}}}}");
    Setup::new().script(&format!("{{:turns [{{:steps [{call}]}} {{:steps [{{:delta \"end\"}}]}}]}}"))
}

fn go(setup: &Setup) -> Bridge {
    let mut bridge = setup.interactor();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge
}

/// What a command prints that the model calls: in the sandbox after one consent, or in the mode `yolo`.
fn printed(setup: Setup, is_sandboxed: bool) -> String {
    let setup = if is_sandboxed { setup } else { setup.arg("--yolo") };
    let mut bridge = go(&setup);
    if is_sandboxed {
        let question = bridge.event("interaction/requested");
        accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"once\"}");
    }
    let result = bridge.event("tool/result");
    data(&result, "result-text").to_owned()
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("NOT TRIED: {program} is not installed");
    }
    found
}

#[test]
fn command_leaves_nothing_behind_its_call() {
    for script in LEAVING {
        let seconds = seconds();
        let mut bridge = go(&calling(&script.replace("SECONDS", &seconds), "").arg("--yolo"));
        let result = bridge.event("tool/result");
        assert!(data(&result, "result-text").contains("left"), "{result}");
        assert_eq!(sleeping(&seconds), [0u32; 0], "{script}");
        let own = format!("{{:command {:?}}}", script.replace("SECONDS", &seconds));
        bridge.ask("b", "bash", &own);
        assert_eq!(sleeping(&seconds), [0u32; 0], "op bash: {script}");
    }
}

/// The processes that have a text among their arguments.
fn named(name: &str) -> usize {
    let lines = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| std::fs::read(entry.path().join("cmdline")));
    lines.flatten().filter(|line| line.split(|byte| *byte == 0).any(|word| word == name.as_bytes())).count()
}

#[test]
fn processes_that_never_stay_are_ended_with_the_call() {
    if !has("perl") {
        return;
    }
    for (chains, leaves) in [(1, ""), (3, ""), (1, "setpgrp;"), (3, "setpgrp;")] {
        let name = format!("chain-{}", seconds());
        // Each starts the next one and ends: whoever looks for it finds it gone.
        let chain = format!("for (;;) {{ exit if time > $end || fork; {leaves} }}");
        let script = format!(
            "$SIG{{TERM}} = q(IGNORE); my $end = time + 20; for (1..{chains}) {{ next if fork; {chain} }} sleep 1; print q(left)"
        );
        let command = format!("perl -e '{script}' {name}");
        let mut bridge = go(&calling(&command, "").arg("--yolo"));
        let result = bridge.event("tool/result");
        assert!(data(&result, "result-text").contains("left"), "{result}");
        // One that is there is seen at some time.
        let left: usize = (0..20).map(|_| named(&name)).sum();
        assert_eq!(left, 0, "{script}");
    }
}

#[test]
fn killed_bridge_leaves_no_process() {
    for script in LEAVING {
        for background in ["", ":background true"] {
            let seconds = seconds();
            let script = format!("{}; exec sleep {seconds}", script.replace("SECONDS", &seconds));
            let mut bridge = go(&calling(&script, background).arg("--yolo"));
            wait_until("it was not started", || sleeping(&seconds).len() == 2);
            bridge.kill();
            is_gone(&seconds, &script);
        }
    }
}

#[test]
fn cancelled_job_leaves_no_process() {
    for script in LEAVING {
        let seconds = seconds();
        let script = format!("{}; exec sleep {seconds}", script.replace("SECONDS", &seconds));
        let mut bridge = go(&calling(&script, ":background true").arg("--yolo"));
        let result = bridge.event("tool/result");
        let job = at(&result, &["data", "details", "job-id"]).unwrap().as_str().unwrap().to_owned();
        wait_until("it was not started", || sleeping(&seconds).len() == 2);
        bridge.ask("c", "cancel_background_job", &format!("{{:job-id {job:?}}}"));
        is_gone(&seconds, &script);
        assert!(bridge.ask("x", "ping", "{}").to_string().contains(":pong true"));
    }
}

#[test]
fn ended_session_leaves_no_process() {
    for script in LEAVING {
        let seconds = seconds();
        let script = format!("{}; exec sleep {seconds}", script.replace("SECONDS", &seconds));
        let bridge = go(&calling(&script, ":background true").arg("--yolo"));
        wait_until("it was not started", || sleeping(&seconds).len() == 2);
        assert!(bridge.finish().0.success());
        is_gone(&seconds, &script);
    }
}

#[test]
fn hook_leaves_no_process() {
    for script in LEAVING {
        let seconds = seconds();
        let script = format!("({}) >/dev/null; echo '{{}}'", script.replace("SECONDS", &seconds));
        let setup = Setup::new().script("{:turns [{:steps [{:delta \"end\"}]}]}");
        let config = setup.dir.path().join("config.edn");
        let hook = format!(
            "{{:hooks [{{:id \"h\" :stage :receive-input :point :pre :kind :guard :command [\"bash\" \"-c\" {script:?}]}}]}}"
        );
        std::fs::write(&config, hook).unwrap();
        let setup = setup.arg("--config").arg(config.to_str().unwrap());
        let mut bridge = go(&setup);
        end_of_turn(&mut bridge);
        assert_eq!(sleeping(&seconds), [0u32; 0], "{script}\n{}", bridge.told());
    }
}

#[test]
fn processes_of_a_killed_runner_are_ended() {
    let seconds = seconds();
    let script = format!("setsid sleep {seconds} & sleep {seconds} & kill -9 $PPID; sleep {seconds}");
    let mut bridge = go(&calling(&script, "").arg("--yolo"));
    let result = bridge.event("tool/result");
    // The runner may be killed before it has said that the command runs.
    let told = data(&result, "result-text");
    assert!(told.contains("signal 9") || told.contains("its runner ended"), "{result}");
    is_gone(&seconds, &script);
    assert!(bridge.ask("x", "ping", "{}").to_string().contains(":pong true"));
}

/// Connects to every socket in the folder that is its first argument and prints the first line of the answer
/// to a request.
const CONNECT: &str = r#"
import glob, os, socket, sys
for path in glob.glob(sys.argv[1] + "/*.sock"):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    try:
        s.sendall(b'{:id "1" :kind :request :op "ping" :params {}}\n')
    except OSError:
        pass
    s.settimeout(30)
    print("got", s.makefile("rb").readline().decode())
"#;

#[test]
fn bridge_refuses_what_it_has_started() {
    if !has("python3") {
        return;
    }
    let ways =
        ["{}", "setsid -w {}", "(setsid {} > out 2>&1 &) ; while [ ! -s out ]; do sleep 0.01; done; cat out"];
    for is_sandboxed in [true, false] {
        for way in ways {
            let setup = Setup::new();
            let state = setup.state();
            std::fs::write(setup.project().join("connect.py"), CONNECT).unwrap();
            let connect = format!("python3 connect.py {}/run", state.display());
            let command = way.replace("{}", &connect);
            let call = format!("{{:tool-call {{:name \"bash\" :arguments {{:command {command:?}}}}}}}");
            let setup =
                setup.script(&format!("{{:turns [{{:steps [{call}]}} {{:steps [{{:delta \"end\"}}]}}]}}"));
            let setup = if is_sandboxed { setup } else { setup.arg("--yolo") };
            let mut bridge = setup.interactor();
            let path = socket(&state);
            bridge.ask("p", "prompt", "{:message \"go\"}");
            if is_sandboxed {
                let question = bridge.event("interaction/requested");
                accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"once\"}");
            }
            let result = bridge.event("tool/result");
            let text = data(&result, "result-text");
            // In the sandbox the folder cannot be read in the first place, where the kernel restricts it.
            assert!(!text.contains(":pong"), "{command}: {text}");
            assert!(is_sandboxed || text.contains("may not connect"), "{command}: {text}");
            // By its path, which a program may know.
            let by_path = format!(
                "python3 connect.py {0}; python3 -c 'import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nprint(s.makefile().readline())' {1}",
                "none",
                path.display()
            );
            let own = bridge.ask("b", "bash", &format!("{{:command {by_path:?}}}"));
            assert!(data(&own, "output").contains("may not connect"), "{own}");
            // Who comes from outside is served.
            assert!(Guest::at(&path).ask("x", "ping", "{}").to_string().contains(":pong true"));
        }
    }
}

#[test]
fn sandboxed_command_is_refused_by_path() {
    if !has("python3") {
        return;
    }
    let setup = Setup::new();
    let state = setup.state();
    let code = "import glob,os,socket\ns=socket.socket(socket.AF_UNIX)\ns.connect(open('path').read())\nprint(s.makefile().readline())";
    std::fs::write(setup.project().join("connect.py"), code).unwrap();
    let call = "{:tool-call {:name \"bash\" :arguments {:command \"python3 connect.py\"}}}";
    let setup = setup.script(&format!("{{:turns [{{:steps [{call}]}} {{:steps [{{:delta \"end\"}}]}}]}}"));
    let mut bridge = setup.interactor();
    std::fs::write(setup.project().join("path"), socket(&state).to_str().unwrap()).unwrap();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"once\"}");
    let result = bridge.event("tool/result");
    assert!(data(&result, "result-text").contains("may not connect"), "{result}");
}

#[test]
fn orphan_of_a_killed_runner_is_refused() {
    if !has("python3") {
        return;
    }
    let setup = Setup::new();
    let (state, project) = (setup.state(), setup.project());
    // Detached, its runner dead, it falls to the bridge. It asks until it is ended, or served.
    let code = CONNECT.replace("import glob", "import time, glob").replace(
        "for path",
        "first = os.getppid()\nos.kill(int(sys.argv[2]), 9)\nwhile os.getppid() == first: pass\nfor path",
    );
    std::fs::write(setup.project().join("connect.py"), code).unwrap();
    let seconds = seconds();
    let script = format!(
        "(setsid python3 connect.py {}/run $PPID > out 2>&1; sleep {seconds}) & wait",
        state.display()
    );
    let mut bridge = setup.arg("--yolo").interactor();
    let path = socket(&state);
    bridge.ask("b", "bash", &format!("{{:command {script:?}}}"));
    assert!(Guest::at(&path).ask("x", "ping", "{}").to_string().contains(":pong true"));
    is_gone(&seconds, &script);
    bridge.kill();
    let said = std::fs::read_to_string(project.join("out")).unwrap_or_default();
    assert!(!said.contains(":pong"), "{said}");
}

#[test]
fn sandboxed_command_reaches_neither_state_nor_configuration() {
    if sandbox::state() != sandbox::SandboxState::Enforced {
        eprintln!("NOT TRIED: this kernel has no Landlock");
        return;
    }
    let setup = Setup::new();
    // The workspace holds both, as a home folder does.
    let home = setup.dir.path().to_owned();
    let config = home.join("config/edn-bridge");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.edn"), "{}").unwrap();
    std::fs::write(home.join("notes"), "x").unwrap();
    let script = "for f in state/sessions/x state/run/x state/rules.edn state/new config/edn-bridge/config.edn config/edn-bridge/new; do \
                  if echo x 2>/dev/null > $f; then echo wrote $f; fi; done; \
                  for f in $(find state -type f) config/edn-bridge/config.edn; do if cat $f >/dev/null 2>&1; then echo read $f; fi; done; \
                  echo y > notes && echo y > project/new && cat notes project/new && echo done";
    let call = format!("{{:tool-call {{:name \"bash\" :arguments {{:command {script:?}}}}}}}");
    let setup = setup.script(&format!("{{:turns [{{:steps [{call}]}} {{:steps [{{:delta \"end\"}}]}}]}}"));
    let own = setup.command();
    let arguments: Vec<_> = own.get_args().collect();
    let cwd = arguments.iter().position(|word| *word == "--cwd").unwrap();
    let mut command = Command::new(own.get_program());
    command.args(&arguments[..=cwd]).arg(&home).args(&arguments[cwd + 2..]).arg("serve");
    let mut bridge = Bridge::start(command.env("XDG_CONFIG_HOME", home.join("config")));
    let hello = r#"{:client-info {:name "t" :version "1" :protocol-version "1.0" :features ["interactor"]}}"#;
    bridge.ask("h", "handshake", hello);
    bridge.ask("all", "subscribe", "{}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"once\"}");
    let result = bridge.event("tool/result");
    assert_eq!(data(&result, "result-text"), "y\ny\ndone\n", "{result}");
    let mut doctor = Command::new(own.get_program());
    doctor.args(&arguments[..=cwd]).arg(&home).args(&arguments[cwd + 2..]).arg("doctor");
    let told = doctor.env("XDG_CONFIG_HOME", home.join("config")).output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("state, which is kept from commands"), "{told}");
}

#[test]
fn workspace_exchanged_for_a_link_is_not_used() {
    let calls = [
        r#"{:name "bash" :arguments {:command "echo x > by-command"}}"#,
        r#"{:name "write" :arguments {:path "written" :content "x"}}"#,
        r#"{:name "read" :arguments {:path "secret"}}"#,
    ];
    let turns = calls.map(|call| format!("{{:steps [{{:tool-call {call}}}]}}")).concat();
    let setup =
        Setup::new().script(&format!("{{:turns [{turns} {{:steps [{{:delta \"end\"}}]}}] :then :cycle}}"));
    let (project, outside) = (setup.project(), setup.dir.path().join("outside"));
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    let mut bridge = setup.interactor();
    bridge.ask("m", "set_mode", "{:mode \"accept-edits\"}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    // As a command can where the folder above is writable to it.
    std::fs::rename(&project, setup.dir.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(&outside, &project).unwrap();
    accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"once\"}");
    for call in calls {
        let result = bridge.event("tool/result");
        assert!(data(&result, "result-text").contains("leads to"), "{call}: {result}");
    }
    end_of_turn(&mut bridge);
    let told = bridge.ask("q", "prompt", "{:message \"look at @secret\"}");
    let message = bridge.event("user/message");
    assert!(!message.to_string().contains("<file path=\"secret\">"), "{told} {message}");
    let mut found: Vec<_> =
        std::fs::read_dir(&outside).unwrap().flatten().map(|entry| entry.file_name()).collect();
    found.sort();
    assert_eq!(found, ["secret"]);
}

#[test]
fn sandboxed_command_cannot_signal_the_bridge() {
    if sandbox::state() != sandbox::SandboxState::Enforced {
        eprintln!("NOT TRIED: this kernel has no Landlock");
        return;
    }
    let script = "kill -0 $PPID && echo reached the runner; \
                  kill -0 $(cut -d' ' -f4 /proc/$PPID/stat) && echo reached the bridge; \
                  sleep 1000 & kill $! && echo its own";
    let text = printed(calling(script, ""), true);
    assert!(text.contains("its own"), "{text}");
    if kernel_is_before(6, 12) {
        eprintln!("NOT TRIED: this kernel does not scope signals");
        return;
    }
    assert!(!text.contains("reached"), "{text}");
}

#[test]
fn sandboxed_command_cannot_limit_the_bridge() {
    if sandbox::state() != sandbox::SandboxState::Enforced || !has("prlimit") {
        eprintln!("NOT TRIED: no Landlock, or no prlimit");
        return;
    }
    let script = "bridge=$(cut -d' ' -f4 /proc/$PPID/stat); \
                  prlimit --pid $bridge --nofile=40:40 && echo limited the bridge; \
                  prlimit --pid $PPID --nofile=40:40 && echo limited the runner; \
                  prlimit --pid $bridge --nofile --output SOFT --noheadings >/dev/null && echo reads; \
                  ulimit -n 50 && prlimit --nofile=40:40 true && echo its own";
    let text = printed(calling(script, ""), true);
    assert!(text.contains("reads") && text.contains("its own"), "{text}");
    assert!(!text.contains("limited"), "{text}");
}

fn kernel_is_before(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).filter_map(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap(), numbers.next().unwrap()) < (major, minor)
}

#[test]
fn bridge_and_runner_are_closed_to_their_own_user() {
    if !has("setpriv") {
        return;
    }
    // Root may read everything: another user tries, as which the bridge runs too.
    const USER: u32 = 12345;
    let setup = Setup::new();
    let program = setup.dir.path().join("edn-bridge");
    let is_root = setup.dir.path().metadata().unwrap().uid() == 0;
    if !is_root {
        eprintln!("NOT TRIED: only root can run the bridge as another user");
        return;
    }
    std::fs::copy(env!("CARGO_BIN_EXE_edn-bridge"), &program).unwrap();
    let own = setup.command();
    for path in [setup.dir.path(), setup.project().as_path(), program.as_path()] {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.env("EDN_BRIDGE_DAEMON", "never");
    command.args(["--reuid", "12345", "--regid", "12345", "--clear-groups"]).arg(&program);
    command.args(own.get_args()).args(["--yolo", "serve"]);
    command.env("ANTHROPIC_API_KEY", "canary-5512").env("XDG_CONFIG_HOME", setup.dir.path());
    command.env("HOME", setup.dir.path()).current_dir(setup.project());
    let mut bridge = Bridge::start(&mut command);
    bridge.handshake();
    let pid = bridge.pid();
    assert_eq!(Path::new(&format!("/proc/{pid}/environ")).metadata().unwrap().uid(), 0, "it can be dumped");
    let script = format!(
        "id -u; cat /proc/{pid}/environ; cat /proc/{pid}/maps; ls /proc/{pid}/fd; head -c1 /proc/{pid}/mem; \
         cat /proc/$PPID/environ /proc/$PPID/maps; ls /proc/$PPID/fd; echo end"
    );
    let own = bridge.ask("b", "bash", &format!("{{:command {script:?}}}"));
    let output = data(&own, "output");
    assert!(output.starts_with("12345\n") && output.ends_with("end\n"), "{output}");
    assert_eq!(output.matches("Permission denied").count(), 7, "{output}");
    assert!(!output.contains("canary"), "{output}");
}

#[test]
fn command_has_no_terminal_to_type_into() {
    if !has("python3") || !has("setsid") {
        return;
    }
    const TYPE: &str = "import fcntl, glob, os, termios\n\
        for name in ['/dev/tty'] + glob.glob('/dev/pts/[0-9]*'):\n  \
          try:\n    \
            fd = os.open(name, os.O_RDONLY | os.O_NOCTTY)\n    \
            if name != '/dev/tty' and os.ttyname(fd) != os.environ['OURS']: continue\n    \
            [fcntl.ioctl(fd, termios.TIOCSTI, bytes([c])) for c in b'typed']\n    \
            print('typed into', name)\n  \
          except OSError as error: print(name, error.strerror)\n";
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&keys).unwrap();
    unlockpt(&keys).unwrap();
    let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
    for is_yolo in [false, true] {
        let command =
            "(: < /dev/tty) 2>&1 | grep -o 'No such device.*'; python3 type.py; echo x > $OURS; echo end";
        let call = format!("{{:tool-call {{:name \"bash\" :arguments {{:command {command:?}}}}}}}");
        let script = format!("{{:turns [{{:steps [{call}]}} {{:steps [{{:delta \"end\"}}]}}]}}");
        let setup = Setup::new().script(&script);
        std::fs::write(setup.project().join("type.py"), TYPE).unwrap();
        let config = setup.dir.path().join("config.edn");
        std::fs::write(&config, "{:permissions {:rules [{:decision :allow :tool \"bash\"}]}}").unwrap();
        let setup = setup.arg("--config").arg(config.to_str().unwrap()).env("OURS", &name);
        let setup = if is_yolo { setup.arg("--yolo") } else { setup };
        let own = setup.command();
        let side = || std::fs::File::options().read(true).write(true).open(&name).unwrap();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(own.get_program()).args(own.get_args()).args(["prompt", "go"]);
        for (name, value) in own.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let out = command.stdin(Stdio::from(side())).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = out.output().unwrap();
        let files = support::files(&setup.state().join("sessions"));
        let journal: String =
            files.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default()).collect();
        assert!(journal.contains("No such device or address"), "{output:?}\n{journal}");
        assert!(!journal.contains("typed into /dev/tty"), "{journal}");
        // Root may type into any terminal: the sandbox does not let it.
        let is_restricted = !is_yolo && sandbox::state() == sandbox::SandboxState::Enforced;
        assert!(!is_restricted || !journal.contains("typed into"), "{journal}");
        assert!(!is_restricted || journal.contains("Permission denied"), "{journal}");
    }
}

#[test]
fn models_fetch_runs_no_module_of_the_folder() {
    if !has("python3") {
        return;
    }
    let setup = Setup::new();
    let made = setup.dir.path().join("PWNED");
    for module in ["pip", "shutil", "zipfile", "os"] {
        let code = format!("open({:?}, 'a').write({module:?})\n", made.to_str().unwrap());
        std::fs::write(setup.project().join(format!("{module}.py")), code).unwrap();
    }
    let mut command = setup.command();
    command.current_dir(setup.project()).env("PIP_NO_INDEX", "1").env("PYTHONPATH", setup.project());
    let output = command.args(["models", "fetch"]).output().unwrap();
    assert!(!output.status.success(), "there is nothing to fetch it from");
    assert!(!made.exists(), "{:?}", std::fs::read_to_string(&made));
}
