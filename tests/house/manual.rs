//! The manual against the program: README.md, SECURITY.md and the chapters of `info edn-bridge`. Each command of
//! them is run, or stands in `NOT_RUN` with the reason; options, commands, attributes, configurations, requests and
//! dialogues are those of the program.
//! tests/house/tutorial.rs runs the tutorial.

#[cfg(feature = "postgres")]
use crate::server;
use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use edn_bridge::edn;
use support::{Bridge, PATIENCE, code, guest, is_answer};

/// What is run: the command as the manual has it, what stands for it where the manual leaves something open (else
/// nothing), and a text that it prints. They run in this order in one folder, as a person at a prompt would. Without a
/// command, a row prepares the next ones.
const RUN: &[(&str, &str, &str)] = &[
    // README.md
    ("edn-bridge --help", "", "Usage: edn-bridge"),
    ("edn-bridge serve", "printf '%s\\n' \"$HELLO\" | edn-bridge serve", ":ok true"),
    ("edn-bridge prompt 'Say hello.'", "", "Hello."),
    ("", "git init --quiet && echo x >a.txt && git add . && echo y >a.txt", ""),
    ("git diff | edn-bridge prompt -", "", "Hello."),
    (
        "edn-bridge query '[:psi.agent-session/session-id :psi.agent-session/model-id]'",
        "",
        ":psi.agent-session/session-id \"s-",
    ),
    ("edn-bridge repl", "echo '[:psi.agent-session/phase]' | edn-bridge repl", ":psi.agent-session/phase"),
    ("edn-bridge models", "", "anthropic"),
    ("edn-bridge models list", "", "claude-sonnet-4-5"),
    ("edn-bridge sessions list", "", "Say hello."),
    ("edn-bridge doctor", "", "configuration"),
    ("", "echo '{:b 1 :a 2}' >file.edn", ""),
    ("edn-bridge edn < file.edn", "", "{:a 2 :b 1}"),
    ("edn-bridge contract -- COMMAND…", "edn-bridge contract --only ping -- $SERVER", "ok "),
    // docs/command-line.md
    ("edn-bridge COMMAND --help", "edn-bridge prompt --help", "--max-turns"),
    ("git diff | edn-bridge prompt 'Write a commit message.'", "", "Hello."),
    ("edn-bridge prompt --continue 'And in French?'", "", "Hello."),
    (
        "",
        "edn-bridge sessions rename $(newest) plan-b && edn-bridge prompt x && edn-bridge sessions rename $(newest) other",
        "",
    ),
    ("edn-bridge prompt --session plan 'What is left?'", "", "Hello."),
    ("edn-bridge prompt --output json 'Say hello.'", "", "\"stop-reason\":\"end-turn\""),
    ("", "echo '{\"type\":\"object\",\"required\":[\"bugs\"]}' >shape.json", ""),
    (
        "edn-bridge prompt --schema shape.json 'List the bugs.'",
        "edn-bridge --script ../answer.edn prompt --schema shape.json 'List the bugs.'",
        "\"bugs\"",
    ),
    ("edn-bridge prompt --allow 'bash:npm test' 'Fix the test.'", "", "Hello."),
    ("edn-bridge sessions list [WORD…]", "edn-bridge sessions list hello", "Say hello."),
    ("edn-bridge sessions show plan", "", "What is left?"),
    ("edn-bridge sessions rename s-01a2 'Plan'", "edn-bridge sessions rename plan 'Plan'", "is named Plan"),
    (
        "edn-bridge sessions export ID --format html",
        "edn-bridge sessions export $(newest) --format html",
        "<!doctype html>",
    ),
    ("edn-bridge sessions archive plan", "edn-bridge sessions archive Plan", ""),
    ("", "edn-bridge sessions archive --undo Plan", ""),
    ("edn-bridge sessions delete plan", "echo y | edn-bridge sessions delete --yes Plan", ""),
    ("edn-bridge sessions prune --older-than 30d", "", ""),
    ("edn-bridge sessions verify", "", ""),
    ("edn-bridge sessions verify --repair", "", ""),
    ("edn-bridge rules", "", ""),
    ("edn-bridge rules remove ID", "edn-bridge rules remove r-0 || true", "r-0"),
    ("edn-bridge top", "", "sessions 1"),
    ("edn-bridge usage", "", "\nall  "),
    ("edn-bridge audit", "", ""),
    ("edn-bridge config check", "", "The configuration is valid."),
    ("edn-bridge config show", "", "mode"),
    ("edn-bridge config edit", "EDITOR=true edn-bridge config edit", ""),
    ("", "mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc ~/.config/fish/completions", ""),
    ("edn-bridge completion bash > ~/.local/share/bash-completion/completions/edn-bridge", "", ""),
    (
        "",
        "bash -c '. ~/.local/share/bash-completion/completions/edn-bridge; complete -p edn-bridge'",
        "edn-bridge",
    ),
    ("edn-bridge completion zsh > ~/.zfunc/_edn-bridge", "", ""),
    ("edn-bridge completion fish > ~/.config/fish/completions/edn-bridge.fish", "", ""),
    ("edn-bridge completion nushell > edn-bridge.nu", "", ""),
    ("edn-bridge man ~/.local/share/man/man1", "", ""),
    ("", "ls ~/.local/share/man/man1", "edn-bridge-prompt.1"),
    // docs/observing.md
    ("edn-bridge top --sort cost --every 5", "", "sessions 1"),
    ("edn-bridge top --once", "", "sessions 1"),
    ("edn-bridge top --json", "", "psi.session/live"),
    (
        "edn-bridge top --socket FILE",
        "edn-bridge top --socket $(ls ../state/run/*.sock | grep -v control)",
        "sessions 1",
    ),
    ("edn-bridge usage --by project", "", "/work  "),
    ("edn-bridge usage --json", "", "{\""),
    ("edn-bridge usage --html usage.html", "", ""),
    // docs/queries.md
    ("edn-bridge query '[{:psi.graph/attributes [*]}]'", "", ":psi.graph/attributes"),
    // docs/control.md; the live bridge has the page's configuration, and a session of this name.
    ("edn-bridge control capabilities", "", "control.stdin.request"),
    (
        "echo 'Look at the failing test.' | edn-bridge control stdin --team atm-dev --agent builder --sender arch-ctm",
        "",
        "\"result\":\"ok\"",
    ),
    (
        "edn-bridge control interrupt --team atm-dev --agent builder --sender arch-ctm",
        "",
        "\"result\":\"ok\"",
    ),
    // docs/mcp-serve.md, with a file of its own: the live bridge has the other one.
    (
        "",
        "printf '#!/bin/sh\\nexec edn-bridge mcp serve\\n' >../bin/search-server; chmod +x ../bin/search-server",
        "",
    ),
    ("", "export EDN_BRIDGE_CONFIG=$PWD/../mcp.edn SEARCH_KEY=x", ""),
    ("edn-bridge mcp add files -- npx -y @modelcontextprotocol/server-filesystem .", "", ""),
    ("edn-bridge mcp add search --env SEARCH_KEY -- search-server --stdio", "", ""),
    (
        "edn-bridge mcp add tickets --url https://tickets.example/mcp --header 'Authorization=Bearer $TICKETS_TOKEN'",
        "",
        "",
    ),
    ("edn-bridge mcp remove files", "", ""),
    ("edn-bridge mcp list", "", "https://tickets.example/mcp"),
    ("edn-bridge mcp test search", "", "list_sessions"),
    ("edn-bridge mcp test", "edn-bridge mcp test search", "ready"),
    ("edn-bridge mcp serve", "printf '%s\\n' \"$MCP_HELLO\" | edn-bridge mcp serve", "\"serverInfo\""),
    ("", "unset EDN_BRIDGE_CONFIG", ""),
    // docs/models.md
    ("edn-bridge logout PROVIDER", "edn-bridge logout anthropic || true", "no login at anthropic"),
    // docs/agents.md
    (
        "edn-bridge --agent NAME serve",
        "printf '%s\\n' \"$HELLO\" | edn-bridge --agent none serve || true",
        "none",
    ),
    // docs/ui-protocol.md
    (
        "edn-bridge serve --wire ui-protocol",
        "printf '%s\\n' \"$UI_HELLO\" | edn-bridge serve --wire ui-protocol",
        "protocol_version",
    ),
    (
        "edn-bridge serve --wire ui-protocol --approval-mode trusted",
        "printf '%s\\n' \"$UI_HELLO\" | edn-bridge serve --wire ui-protocol --approval-mode trusted",
        "protocol_version",
    ),
    (
        "edn-bridge contract --wire ui-protocol -- edn-bridge serve --wire ui-protocol --provider scripted --script {script} \
         --state-dir {state} --config {config}",
        "edn-bridge contract --wire ui-protocol --only ui-lines.blank -- edn-bridge serve --wire ui-protocol --provider \
         scripted --script {script} --state-dir {state} --config {config}",
        "ok ",
    ),
    (
        "edn-bridge contract --wire ui-protocol -- COMMAND…",
        "edn-bridge contract --wire ui-protocol --only ui-lines.blank -- $SERVER --wire ui-protocol",
        "ok ",
    ),
    // docs/acp.md
    ("edn-bridge acp", "printf '%s\\n' \"$ACP_HELLO\" | edn-bridge acp", "agentCapabilities"),
    // docs/daemon.md
    ("edn-bridge daemon status", "edn-bridge daemon status || echo $?", "3"),
];

/// What is not run here, and why.
const NOT_RUN: &[(&str, &str)] = &[
    (
        "edn-bridge prompt \"Fix the bug in cart.py\"",
        "needs a key: tests/daemon/model_choice.rs has one, and a server",
    ),
    (
        "edn-bridge prompt --timeout 20m '/workflow fix-test make check'",
        "needs a model that repairs: tests/daemon/prompt_command.rs follows a workflow",
    ),
    ("edn-bridge chat", "needs a terminal: tests/daemon/repl_terminal.rs has one"),
    ("edn-bridge login", "needs a person in a browser: tests/engine/logins.rs plays one"),
    ("edn-bridge login NAME", "needs a person in a browser: tests/engine/logins.rs plays one"),
    ("edn-bridge login PROVIDER", "needs a person in a browser: tests/engine/logins.rs plays one"),
    ("edn-bridge login anthropic", "needs a person in a browser: tests/engine/logins.rs plays one"),
    ("edn-bridge models fetch", "loads 98 MB: tests/engine/embedded_model.rs"),
    ("edn-bridge realm init", "needs a PostgreSQL server: commands_of_the_realm_work has one"),
    ("edn-bridge sessions list --realm", "needs a PostgreSQL server: commands_of_the_realm_work has one"),
    (
        "edn-bridge sessions take ID [FOLDER]",
        "needs a machine that is lost: tests/realm/federation.rs takes by the op",
    ),
    ("cargo install --locked --path .", "builds for minutes: make dist-check"),
    (
        "cargo install --locked --path . --no-default-features --features index",
        "builds for minutes: make dist-check",
    ),
    ("cargo package --workspace", "builds for minutes: make dist-check"),
    ("cargo publish --workspace --dry-run", "asks the registry, and builds for minutes"),
    ("nix build", "needs nixpkgs, which only the network has"),
    ("nix build .#small", "needs nixpkgs, which only the network has"),
    ("cargo build --release --features postgres", "builds for minutes: make features"),
    ("cargo bench --bench realm", "measures for minutes"),
    (
        "cargo nextest run --no-default-features --features index --test realm lease_is_found --no-capture",
        "is a test itself",
    ),
    ("cargo deny check advisories", "needs the network: make test"),
    ("cargo run", "is part of a rule"),
    ("cargo r", "is part of a rule"),
    ("export PATH=\"/path/to/edn-bridge/target/release:$PATH\"", "tests/house/tutorial.rs sets the variable"),
    ("apt install ./edn-bridge_*.deb", "needs root: make dist-check has a Debian of its own"),
    ("podman build -t edn-bridge target/dist", "needs root: make dist-check"),
    (
        "emacs -Q --batch -L emacs -l edn-bridge --eval '(setq edn-bridge-program \"…\")' --eval '(edn-bridge-batch \"Say hello.\")'",
        "needs Emacs: make run does this",
    ),
    (
        "EDN_BRIDGE_PROGRAM=target/debug/edn-bridge emacs -Q --batch -l emacs/test/run-tests.el",
        "needs Emacs: make test-emacs",
    ),
    ("emacs -Q --batch -L emacs -l emacs/bench/edn-bridge-bench.el", "needs Emacs: make bench-emacs"),
];

/// Options of other programs, and of slash commands.
const OTHERS: &[&str] = &[
    "--acp",
    "--batch",
    "--bench",
    "--dry-run",
    "--eval",
    "--features",
    "--locked",
    "--no-capture",
    "--no-default-features",
    "--no-index",
    "--path",
    "--quiet",
    "--release",
    "--resume",
    "--stdio",
    "--test",
    "--workspace",
];

/// Requests, and what answers them, in blocks with lines after `> ` and `< `: the page, a text of the block, and the
/// command; without one, the socket of the control wire.
const DIALOGUES: &[(&str, &str, &[&str])] = &[
    ("README.md", ":op \"handshake\"", &["serve"]),
    ("docs/acp.md", "\"initialize\"", &["acp"]),
    ("docs/ui-protocol.md", "\"initialize\"", &["serve", "--wire", "ui-protocol"]),
    ("docs/control.md", "control.stdin.request", &[]),
    ("docs/control.md", "list-agents", &[]),
];

/// What looks like a configuration and is something else.
const NO_CONFIGURATION: &[(&str, &str)] = &[("docs/workflows.md", "{:doc"), ("docs/hooks.md", "{:payload")];

struct Block {
    page: String,
    line: usize,
    language: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<(String, String)> {
    let mut names = ["README.md", "SECURITY.md", "emacs/README.md"].map(str::to_owned).to_vec();
    names.extend(
        fs::read_dir(root().join("docs"))
            .unwrap()
            .map(|page| format!("docs/{}", page.unwrap().file_name().to_str().unwrap())),
    );
    names.sort();
    names.into_iter().map(|name| (name.clone(), fs::read_to_string(root().join(name)).unwrap())).collect()
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for (page, text) in pages() {
        let mut open: Option<Block> = None;
        for (number, line) in text.lines().enumerate() {
            match (line.strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    open = Some(Block {
                        page: page.clone(),
                        line: number + 1,
                        language: language.to_owned(),
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => block.text.extend([line, "\n"]),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{page}: a block has no end");
    }
    blocks
}

/// The spans of code outside blocks, and those in the comments of commands.
fn spans() -> Vec<(String, String)> {
    let mut spans = Vec::new();
    for (page, text) in pages() {
        let mut is_inside = false;
        let mut prose = String::new();
        for line in text.lines() {
            let is_fence = line.starts_with("```");
            is_inside ^= is_fence;
            let line =
                if is_inside { line.split_once("# ").map_or("", |(_, comment)| comment) } else { line };
            if !is_fence {
                prose.extend([line, " "]);
            }
        }
        spans.extend(prose.split('`').skip(1).step_by(2).map(|span| (page.clone(), span.to_owned())));
    }
    spans
}

/// The commands of a block for a shell, without comments.
fn commands_of(block: &Block) -> Vec<(String, String)> {
    let text = block.text.replace("\\\n", "");
    let lines = text.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let lines = lines.filter(|line| block.language == "sh" || block.text.contains(&format!("$ {line}\n")));
    lines
        .map(|line| {
            let (command, comment) = line.split_once(" # ").unwrap_or((line, ""));
            (command.split_whitespace().collect::<Vec<_>>().join(" "), comment.to_owned())
        })
        .filter(|(command, _)| !command.is_empty())
        .collect()
}

/// Every command of the manual, with its place.
fn commands() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for block in blocks().iter().filter(|block| ["sh", "console"].contains(&block.language.as_str())) {
        // tests/house/tutorial.rs runs those.
        if block.page == "docs/tutorial.md" && block.language == "console" {
            continue;
        }
        let place = format!("{}:{}", block.page, block.line);
        commands.extend(commands_of(block).into_iter().map(|(command, _)| (place.clone(), command)));
    }
    let is_command = |span: &str| {
        ["edn-bridge ", "make ", "cargo ", "podman ", "apt ", "nix "]
            .iter()
            .any(|begin| span.starts_with(begin))
            || span.contains("| edn-bridge ")
    };
    commands.extend(spans().into_iter().filter(|(_, span)| is_command(span)));
    commands
}

/// What `--help` tells of a command: its commands, and its options.
struct Help {
    commands: Vec<(String, Help)>,
    options: BTreeSet<String>,
}

impl Help {
    fn of(path: &[&str]) -> Self {
        let output =
            Command::new(env!("CARGO_BIN_EXE_edn-bridge")).args(path).arg("--help").output().unwrap();
        assert!(output.status.success(), "{path:?} --help");
        let text = String::from_utf8(output.stdout).unwrap();
        let listed =
            text.split_once("\nCommands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
        let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let commands =
            names.map(|line| line.split_whitespace().next().unwrap()).filter(|name| *name != "help");
        let commands = commands
            .map(|name| {
                let path: Vec<_> = path.iter().copied().chain([name]).collect();
                (name.to_owned(), Self::of(&path))
            })
            .collect();
        Self { commands, options: options(&text) }
    }

    fn command(&self, name: &str) -> Option<&Self> {
        self.commands.iter().find(|(known, _)| known == name).map(|(_, help)| help)
    }

    /// The options of the command and of those below it.
    fn all(&self) -> BTreeSet<String> {
        let below = self.commands.iter().flat_map(|(_, help)| help.all());
        self.options.iter().cloned().chain(below).collect()
    }

    /// What is wrong with the words of a command.
    fn mistake(&self, words: &[&str]) -> Option<String> {
        let mut help = self;
        for (at, word) in words.iter().enumerate() {
            let word = word.trim_end_matches([',', '`', ')', '.']);
            if word == "--" || word == "|" {
                return None;
            }
            if let Some(next) = help.command(word) {
                help = next;
            } else if let Some(option) = options(word).first() {
                if !help.options.contains(option) {
                    return Some(format!("{option} is no option of {:?}", &words[..at]));
                }
            } else if !help.commands.is_empty() && at > 0 && help.command(words[at - 1]).is_none() {
                // A value of the option before it, or a placeholder.
                let is_value = words[at - 1].starts_with("--");
                let is_name = !word.is_empty()
                    && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
                if is_name && !is_value {
                    return Some(format!("{word} is no command below {:?}", &words[..at]));
                }
            }
        }
        None
    }
}

/// The long options that a text names.
fn options(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("--") {
        let is_begin = !text[..at].ends_with(|before: char| before.is_ascii_alphanumeric() || before == '-');
        let name: String = text[at + 2..]
            .chars()
            .take_while(|letter| letter.is_ascii_lowercase() || *letter == '-')
            .collect();
        if is_begin && name.starts_with(|first: char| first.is_ascii_lowercase()) {
            found.insert(format!("--{}", name.trim_end_matches('-')));
        }
    }
    found
}

/// A person's home with a project, and a bridge that runs for it.
struct Place {
    dir: tempfile::TempDir,
    _bridge: Option<Bridge>,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap(), _bridge: None };
        for folder in ["bin", "work"] {
            fs::create_dir(place.dir.path().join(folder)).unwrap();
        }
        let file = |name: &str, text: &str| fs::write(place.dir.path().join(name), text).unwrap();
        file(
            "model.edn",
            "{:turns [{:steps [{:delta \"Hello.\"}] :usage {:input 900 :output 40}}] :then :cycle}",
        );
        file(
            "answer.edn",
            "{:turns [{:steps [{:tool-call {:name \"answer\" :arguments {:bugs []}}}]}] :then :cycle}",
        );
        place
    }

    /// With a bridge that has the configuration of docs/control.md.
    fn with_bridge() -> Self {
        let mut place = Self::new();
        let block = blocks()
            .into_iter()
            .find(|block| block.page == "docs/control.md" && block.text.contains(":control"));
        fs::create_dir_all(place.dir.path().join(".config/edn-bridge")).unwrap();
        fs::write(place.dir.path().join(".config/edn-bridge/config.edn"), block.unwrap().text).unwrap();
        let mut bridge = Bridge::start(place.command().arg("serve"));
        bridge.handshake();
        let named = bridge.ask("n", "set_session_name", "{:name \"builder\"}");
        assert_eq!(code(&named), "", "{}", bridge.told());
        guest::socket(&place.dir.path().join("state"));
        place._bridge = Some(bridge);
        place
    }

    /// Where the control wire listens.
    fn control(&self) -> PathBuf {
        let mut files =
            fs::read_dir(self.dir.path().join("state/run")).unwrap().flatten().map(|file| file.path());
        files.find(|path| path.to_string_lossy().ends_with(".control.sock")).unwrap()
    }

    fn set_up<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let path = |name: &str| self.dir.path().join(name).to_str().unwrap().to_owned();
        let program = Path::new(env!("CARGO_BIN_EXE_edn-bridge")).parent().unwrap();
        command.env_clear().current_dir(path("work")).envs([
            ("HOME", path("")),
            ("PATH", format!("{}:{}:{}", path("bin"), program.display(), std::env::var("PATH").unwrap())),
            ("EDN_BRIDGE_DAEMON", "never".to_owned()),
            ("EDN_BRIDGE_STATE_DIR", path("state")),
            ("EDN_BRIDGE_PROVIDER", "scripted".to_owned()),
            ("EDN_BRIDGE_SCRIPT", path("model.edn")),
            ("HELLO", HELLO.to_owned()),
            ("MCP_HELLO", MCP_HELLO.to_owned()),
            ("UI_HELLO", UI_HELLO.to_owned()),
            ("ACP_HELLO", ACP_HELLO.to_owned()),
            ("SERVER", SERVER.to_owned()),
        ])
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
        self.set_up(&mut command);
        command
    }

    /// Runs a command after those before it; returns whether it succeeded, and what it printed.
    fn run(&self, line: &str) -> (bool, String) {
        let script = format!(
            "exec 2>&1\n[ -e ~/.shell ] && . ~/.shell\n\
             newest() {{ edn-bridge sessions list --json | grep -o 's-[0-9a-f]*' | head -n 1; }}\n\
             {line}\nstatus=$?\nexport -p >~/.shell\nexit $status\n"
        );
        let mut bash = Command::new("bash");
        let output = self.set_up(&mut bash).args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

const HELLO: &str = r#"{:id "1" :kind :request :op "handshake" :params {:client-info {:name "x" :version "1" :protocol-version "1.0"}}}"#;
const MCP_HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
const UI_HELLO: &str = r#"{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocol_version":"0","client":{"name":"x","version":"1"},"ui_capabilities":{}}}"#;
const ACP_HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
const SERVER: &str =
    "edn-bridge serve --provider scripted --script {script} --state-dir {state} --config {config}";

#[test]
fn every_command_of_the_manual_is_run_or_has_a_reason() {
    let commands = commands();
    assert!(commands.len() > 80, "{} commands were found", commands.len());
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let mut strange = Vec::new();
    for (place, command) in &commands {
        // They build for minutes, and `make test` itself runs this.
        let target = command
            .strip_prefix("make ")
            .map(|rest| rest.split_whitespace().next().unwrap().trim_end_matches(','));
        if let Some(target) = target {
            let is_known = makefile.contains(&format!("\n#   make {target}"))
                || makefile.contains(&format!("\n{target}:"))
                || root().join(format!("tests/make/{target}.sh")).exists();
            if !is_known {
                strange.push(format!("{place}: make {target}: there is no such target"));
            }
        } else if !RUN.iter().any(|row| row.0 == command) && !NOT_RUN.iter().any(|row| row.0 == command) {
            strange.push(format!("{place}: {command}"));
        }
    }
    assert!(strange.is_empty(), "give each a row in RUN, or a reason in NOT_RUN:\n{}", strange.join("\n"));
    let rows =
        RUN.iter().map(|row| row.0).chain(NOT_RUN.iter().map(|row| row.0)).filter(|row| !row.is_empty());
    let old: Vec<_> = rows.filter(|row| !commands.iter().any(|(_, command)| command == row)).collect();
    assert!(old.is_empty(), "the manual has none of these: {old:#?}");

    let place = Place::with_bridge();
    let mut wrong = Vec::new();
    for (written, stands_for_it, wanted) in RUN {
        let line = if stands_for_it.is_empty() { written } else { stands_for_it };
        let (is_well, printed) = place.run(line);
        if !is_well || !printed.contains(wanted) {
            wrong.push(format!("{written}\n  $ {line}\n  is to print {wanted:?}; {is_well}:\n{printed}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[cfg(feature = "postgres")]
#[test]
fn commands_of_the_realm_work() {
    use server::Engine as _;

    let Some(server) = server::Server::start() else { return };
    let place = Place::new();
    let realm = format!("{{:realm {{:engine {:?} :host \"laptop\" :share :all}}}}", server.url().expose());
    fs::create_dir_all(place.dir.path().join(".config/edn-bridge")).unwrap();
    fs::write(place.dir.path().join(".config/edn-bridge/config.edn"), realm).unwrap();
    for (line, wanted) in [
        ("edn-bridge realm init", &["The realm is ready."][..]),
        ("edn-bridge realm check", &["PostgreSQL", "a round trip takes ", " ms, an append ", " ms\n"]),
        // It enters, and shares what it does.
        ("edn-bridge prompt 'Say hello.'", &["Hello."]),
        ("edn-bridge realm hosts", &["laptop (this one): ", ", sessions: 1, build "]),
        ("edn-bridge sessions list --realm", &["s-", "laptop", "/work", "Say hello."]),
    ] {
        let (is_well, printed) = place.run(line);
        let is_all = wanted.iter().all(|part| printed.contains(part));
        assert!(is_well && is_all, "{line}: {printed}");
    }
}

#[test]
fn commands_and_options_of_the_manual_exist() {
    let help = Help::of(&[]);
    let mut mistakes = Vec::new();
    let known: BTreeSet<String> =
        help.all().into_iter().chain(OTHERS.iter().map(|&name| name.to_owned())).collect();
    for (page, text) in pages() {
        mistakes
            .extend(options(&text).difference(&known).map(|option| format!("{page}: nothing has {option}")));
    }
    let mut looked = 0;
    let mut look = |place: &str, command: &str, mistakes: &mut Vec<String>| {
        let words: Vec<&str> = command.split("$(").next().unwrap().split_whitespace().collect();
        let begin = words.iter().position(|word| *word == "edn-bridge").map_or(0, |at| at + 1);
        let begin = if words.first() == Some(&"emacs") { return } else { begin };
        if begin > 0 || words.first().is_some_and(|first| words.len() > 1 && help.command(first).is_some()) {
            looked += 1;
            mistakes.extend(
                help.mistake(&words[begin..]).map(|mistake| format!("{place}: {command}: {mistake}")),
            );
        }
    };
    for (page, span) in spans() {
        look(&page, &span, &mut mistakes);
    }
    for block in blocks().iter().filter(|block| ["sh", "console"].contains(&block.language.as_str())) {
        for (command, comment) in commands_of(block) {
            let place = format!("{}:{}", block.page, block.line);
            look(&place, &command, &mut mistakes);
            // A comment names further options of its command.
            if command.starts_with("edn-bridge ") {
                for option in options(&comment) {
                    look(&place, &format!("{} {option}", command.replace(" -- ", " ")), &mut mistakes);
                }
            }
        }
    }
    assert!(looked > 100, "{looked} were looked at");
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn configurations_of_the_manual_are_accepted() {
    let place = Place::new();
    let blocks = blocks().into_iter().filter(|block| ["clojure", "edn"].contains(&block.language.as_str()));
    let texts = blocks.map(|block| (block.page, block.text)).chain(spans());
    let mut checked = 0;
    for (page, text) in texts {
        // One map of settings: their values are no texts of a request.
        let Ok(value) = edn::read_one(text.as_bytes()) else { continue };
        let Some(map) = value.as_map() else { continue };
        let is_request = value.get("kind").is_some();
        let is_block = text.ends_with('\n');
        let is_setting = is_block || map.iter().next().is_some_and(|(_, value)| value.as_map().is_some());
        let is_other = NO_CONFIGURATION.iter().any(|(at, begin)| *at == page && text.starts_with(begin));
        if is_request || !is_setting || is_other {
            continue;
        }
        checked += 1;
        fs::write(place.dir.path().join("checked.edn"), &text).unwrap();
        let output =
            place.command().args(["--config", "../checked.edn", "config", "check"]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}:\n{text}\n{printed}{told}");
    }
    assert!(checked > 12, "{checked} were checked");
}

#[test]
fn requests_of_the_manual_are_answered() {
    let place = Place::new();
    let mut bridge = Bridge::start(place.command().arg("serve"));
    bridge.handshake();
    let mut asked = 0;
    for block in blocks().iter().filter(|block| block.language == "clojure" && block.text.starts_with("{:id"))
    {
        for request in edn::read_all(block.text.as_bytes()).unwrap() {
            asked += 1;
            bridge.send(&edn::to_string(&request));
            let id = request.get("id").and_then(edn::Value::as_str).unwrap().to_owned();
            let answer = bridge.until(|frame| is_answer(frame, &id));
            // What the page's ids name is not there; all else is as the page says.
            assert!(["", "request/not-found"].contains(&code(&answer)), "{}\n{}", block.page, bridge.told());
        }
    }
    assert!(asked > 3, "{asked} were asked");
}

#[test]
fn attributes_of_the_manual_exist() {
    let place = Place::new();
    let (_, all) = place.run("edn-bridge query '[{:psi.graph/attributes [*]} {:psi.graph/mutations [*]}]'");
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-./?".contains(letter);
    let names = |text: &str| -> BTreeSet<String> {
        let found = text.match_indices(":psi.").map(|(at, _)| {
            let name: String = text[at + 1..].chars().take_while(|letter| is_name(*letter)).collect();
            name.trim_end_matches(['.', '/']).to_owned()
        });
        found.filter(|name| name.contains('/')).collect()
    };
    let known = names(&all);
    for (page, text) in pages() {
        let unknown: Vec<_> = names(&text).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{page}: {unknown:?}");
        for (at, _) in text.match_indices("[:psi.").chain(text.match_indices("[{:psi.")) {
            // Else it is an ident within a query.
            if text[..at].ends_with(['[', '{']) {
                continue;
            }
            let Some(query) = form(&text[at..]).filter(|query| !query.contains('…')) else { continue };
            let (is_well, printed) = place.run(&format!("edn-bridge query '{query}'"));
            assert!(is_well && !printed.contains(":psi.query/error"), "{page}: {query}\n{printed}");
        }
    }
}

/// The vector with which a text begins, if it has an end.
fn form(text: &str) -> Option<&str> {
    let mut depth = 0;
    let end = text.find(|letter| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        depth == 0
    });
    Some(&text[..=end?])
}

#[test]
fn dialogues_of_the_manual_are_what_the_program_says() {
    for (page, part, arguments) in DIALOGUES {
        let is_it =
            |block: &Block| block.page == *page && block.text.contains(part) && block.text.contains("\n< ");
        let block = blocks().into_iter().find(is_it).unwrap_or_else(|| panic!("{page} has no {part}"));
        let place = Place::with_bridge();
        if arguments.is_empty() {
            let mut stream = UnixStream::connect(place.control()).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            talk(&place, &block, |line| writeln!(stream, "{line}").unwrap(), || lines.next()?.ok());
        } else {
            let bridge = std::cell::RefCell::new(Bridge::start(place.command().args(*arguments)));
            talk(&place, &block, |line| bridge.borrow_mut().send(line), || bridge.borrow_mut().line_or_end());
        }
    }
    let said = DIALOGUES.len();
    let there = blocks().iter().filter(|block| block.text.contains("\n< ")).count();
    assert_eq!(said, there, "each block with `< ` has a row in DIALOGUES");
}

/// Says what a block says, and waits for each line that it shows.
fn talk(place: &Place, block: &Block, mut send: impl FnMut(&str), mut next: impl FnMut() -> Option<String>) {
    let now = jiff::Timestamp::now().to_string();
    let mut session = String::new();
    for line in block.text.lines() {
        if let Some(request) = line.strip_prefix("> ") {
            let request =
                request.replace("/home/me/project", place.dir.path().join("work").to_str().unwrap());
            send(&with_time(&request, &now).replace("s-…", &session));
        } else if let Some(wanted) = line.strip_prefix("< ") {
            let wanted = with_time(wanted, "…");
            let mut seen: Vec<String> = Vec::new();
            while !seen.last().is_some_and(|line| fits(&wanted, line)) {
                let line = next().unwrap_or_else(|| panic!("{}: {wanted}\n{}", block.page, seen.join("\n")));
                seen.push(line);
            }
            let id = seen.iter().find_map(|line| line.find("\"s-").map(|at| &line[at + 1..]));
            if let Some(id) = id.filter(|_| wanted.contains("\"s-…\"")) {
                session = id[..id.find('"').unwrap()].to_owned();
            }
        }
    }
}

/// The text with another one in place of each time of 2026-02-20.
fn with_time(text: &str, time: &str) -> String {
    let mut parts = text.split("\"2026-02-20T");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "\"" + time + &part[part.find('"').unwrap()..])
}

/// Whether a line is as the page has it: `…` stands for any text.
fn fits(wanted: &str, line: &str) -> bool {
    let parts: Vec<&str> = wanted.split('…').map(str::trim).collect();
    let Some((last, before)) = parts.split_last() else { return false };
    let mut rest = line;
    for (at, part) in before.iter().enumerate() {
        match rest.find(part) {
            Some(found) if at > 0 || found == 0 => rest = &rest[found + part.len()..],
            _ => return false,
        }
    }
    if before.is_empty() { rest == *last } else { rest.ends_with(last) }
}
