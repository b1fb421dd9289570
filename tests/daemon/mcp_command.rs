//! `edn-bridge mcp`: the user's configuration, and this program as a server, line by line in both eras. The official
//! Python client is in `tests/mcp_command/python_client.py`, which `make test` runs.

use crate::support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use edn_bridge::edn;
use edn_bridge::value::Value;
use serde_json::{Value as Json, json};
use support::{PATIENCE, Setup};

/// A setup with a configuration file of the user, and that file.
fn configured(text: &str) -> (Setup, PathBuf) {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"said\"}]}] :then :cycle}");
    let path = setup.dir.path().join("user.edn");
    std::fs::write(&path, text).unwrap();
    let setup = setup.arg("--config").arg(path.to_str().unwrap());
    (setup, path)
}

fn run(setup: &Setup, arguments: &[&str]) -> Output {
    setup.command().arg("mcp").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn server_is_added_and_removed_and_the_rest_stays() {
    const BEFORE: &str =
        "; mine\n{:mode :ask ; careful\n :mcp {\"old\" {:command [\"o\"]} ; it\n       }\n #_ {:x 1}}\n";
    let (setup, path) = configured(BEFORE);
    let added =
        run(&setup, &["add", "files", "--env", "TOKEN", "--env", "A=b c", "--", "npx", "-y", "server", "."]);
    assert!(added.status.success(), "{}", told(&added));
    let text = std::fs::read_to_string(&path).unwrap();
    for kept in ["; mine\n", "; careful\n", "; it\n", "#_ {:x 1}"] {
        assert!(text.contains(kept), "{text}");
    }
    let value = edn::read_one(text.as_bytes()).unwrap();
    let files = value.get("mcp").and_then(|all| all.as_map()?.get(&Value::from("files"))).unwrap();
    let expected = r#"{:command ["npx" "-y" "server" "."] :env {"TOKEN" {:variable "TOKEN"} "A" "b c"}}"#;
    assert_eq!(*files, edn::read_one(expected.as_bytes()).unwrap());
    // A name is there once, and what nothing would start is not written.
    for (arguments, expected) in [
        (&["add", "files", "--", "x"][..], "it has \"files\" already"),
        (&["add", "a__b", "--", "x"], "cannot be the name of a server"),
        (&["add", "empty"], "either a :command or a :url"),
        (&["add", "web", "--url", "ftp://h"], "https://"),
        (&["remove", "none"], "There is no server \"none\""),
    ] {
        let output = run(&setup, arguments);
        assert!(!output.status.success() && told(&output).contains(expected), "{}", told(&output));
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let header = [
        "add",
        "files",
        "--replace",
        "--url",
        "https://h.example/mcp",
        "--header",
        "Authorization=Bearer $T",
    ];
    assert!(run(&setup, &header).status.success());
    let replaced = std::fs::read_to_string(&path).unwrap();
    assert!(replaced.contains(r#"{"Authorization" {:variable "T" :prefix "Bearer "}}"#), "{replaced}");
    assert!(run(&setup, &["remove", "files"]).status.success());
    let left = std::fs::read_to_string(&path).unwrap();
    assert_eq!(edn::read_one(left.as_bytes()).unwrap(), edn::read_one(BEFORE.as_bytes()).unwrap());
    // A link stays a link, and the file keeps its mode.
    let link = setup.dir.path().join("link.edn");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let linked = Setup::new().arg("--config").arg(link.to_str().unwrap());
    assert!(run(&linked, &["add", "l", "--", "x"]).status.success());
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"l\" {:command [\"x\"]}"));
    // Where there is no file, it is made.
    let new = setup.dir.path().join("a/b/new.edn");
    let fresh = Setup::new().arg("--config").arg(new.to_str().unwrap());
    assert!(run(&fresh, &["add", "n", "--", "x"]).status.success());
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "{:mcp {\"n\" {:command [\"x\"]}}}\n");
    // What cannot be changed safely is left alone.
    for text in ["#:a{:b 1}", "{:mcp", "[]", "{:mcp nil}"] {
        let (setup, path) = configured(text);
        assert!(!run(&setup, &["add", "n", "--", "x"]).status.success(), "{text}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

/// The program as a server.
struct Served {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    next: u64,
    /// What every request of the newer era says of its client.
    meta: Option<Json>,
}

impl Served {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, input, lines, next: 0, meta: None }
    }

    fn send(&mut self, message: &Json) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn answer(&self) -> Json {
        let line = self.lines.recv_timeout(PATIENCE).expect("no answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn ask(&mut self, method: &str, mut params: Json) -> Json {
        self.next += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        let answer = self.answer();
        assert_eq!(answer["id"], self.next, "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: &Json) -> Json {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

/// A server that speaks the older era, or the newer one.
fn served(setup: &Setup, is_new: bool, arguments: &[&str]) -> Served {
    let mut served = Served::start(setup.command().args(["mcp", "serve"]).args(arguments));
    let client = json!({"name": "t", "version": "1"});
    if is_new {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": client,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        served.meta = Some(meta);
        let found = served.ask("server/discover", json!({}));
        assert!(found["result"]["supportedVersions"].to_string().contains("2026-07-28"), "{found}");
        return served;
    }
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let begun = served.ask("initialize", params);
    assert_eq!(begun["result"]["protocolVersion"], "2025-11-25", "{begun}");
    assert_eq!(begun["result"]["serverInfo"]["name"], "edn-bridge");
    served.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    served
}

#[test]
fn sessions_are_served_in_both_eras() {
    for is_new in [false, true] {
        let (setup, _) = configured("{}");
        let mut server = served(&setup, is_new, &["--prompt"]);
        let tools = server.ask("tools/list", json!({}));
        let named = |tools: &Json| {
            let tools = tools["result"]["tools"].as_array().unwrap_or_else(|| panic!("{tools}")).clone();
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(named(&tools), ["query_eql", "list_sessions", "get_messages", "prompt"]);
        let said = server.call("prompt", &json!({"message": "Hi"}));
        let session = said["result"]["structuredContent"]["session"]
            .as_str()
            .unwrap_or_else(|| panic!("{said}"))
            .to_owned();
        assert_eq!(said["result"]["structuredContent"]["text"], "said", "{said}");
        let messages = server.call("get_messages", &json!({"session": session}));
        let texts: Vec<_> = messages["result"]["structuredContent"]["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["text"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(texts, ["Hi", "said"]);
        let query = server
            .call("query_eql", &json!({"query": "[:psi.agent-session/session-id]", "session": session}));
        assert!(query["result"]["content"][0]["text"].as_str().unwrap().contains(&session), "{query}");
        for (tool, arguments, expected) in [
            ("query_eql", json!({"query": "[:psi"}), "request/"),
            ("get_messages", json!({"session": "../../etc/passwd"}), "There is no session"),
            ("get_messages", json!({}), "session is missing"),
            ("prompt", json!({"message": 1}), "message must be a string"),
        ] {
            let answer = server.call(tool, &arguments);
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains(expected), "{answer}");
        }
        assert_eq!(server.call("bash", &json!({}))["error"]["code"], -32602);
        let uri = format!("edn-bridge://session/{session}");
        let resources = server.ask("resources/list", json!({}));
        assert!(resources["result"]["resources"].to_string().contains(&uri), "{resources}");
        let read = server.ask("resources/read", json!({"uri": uri}));
        assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("said"), "{read}");
        // What is listed can be read: also the empty session that the program begins with is none.
        for resource in resources["result"]["resources"].as_array().unwrap() {
            let read = server.ask("resources/read", json!({"uri": resource["uri"]}));
            assert!(read["result"]["contents"][0]["text"].is_string(), "{resource}: {read}");
        }
        for uri in ["edn-bridge://session/none", "file:///etc/passwd", "edn-bridge://session/../x"] {
            let missing = server.ask("resources/read", json!({"uri": uri}));
            assert!(missing["error"]["message"].as_str().unwrap().contains("no resource"), "{missing}");
        }
        server.end();
        // Without the option nothing is run, and the sessions are there for the next one.
        let mut server = served(&setup, is_new, &[]);
        assert_eq!(
            named(&server.ask("tools/list", json!({}))),
            ["query_eql", "list_sessions", "get_messages"]
        );
        assert_eq!(server.call("prompt", &json!({"message": "Hi"}))["error"]["code"], -32602);
        let listed = server.call("list_sessions", &json!({}));
        assert!(listed["result"]["structuredContent"]["sessions"].to_string().contains(&session), "{listed}");
        server.end();
    }
}

#[test]
fn served_garbage_costs_nothing_else() {
    let (setup, _) = configured("{}");
    let mut server = served(&setup, false, &[]);
    for line in ["", "nonsense", "{}", "[1]", "{\"jsonrpc\":\"2.0\",\"id\":null}", "\u{0}\u{1}"] {
        writeln!(server.input, "{line}").unwrap();
    }
    writeln!(server.input, "{}", "x".repeat(1024 * 1024)).unwrap();
    // Whatever it says to those, it answers what can be read.
    server.send(&json!({"jsonrpc": "2.0", "id": "last", "method": "ping"}));
    while server.answer()["id"] != "last" {}
    server.end();
    // A client that leaves at once wanted nothing.
    Served::start(setup.command().args(["mcp", "serve"])).end();
}

#[test]
fn servers_are_listed_and_tested() {
    let server = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("emacs/test/scripts/mcp-server.py");
    let config = format!(
        "{{:mcp {{\"probe\" {{:command [\"python3\" {:?}]}} \"gone\" {{:command [\"/no/such/program\"]}}
                  \"off\" {{:command [\"x\"] :enabled false}}}}}}",
        server.to_str().unwrap()
    );
    let (setup, path) = configured(&config);
    let folder = setup.project().join(".edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:mcp {\"theirs\" {:command [\"touch\" \"started\"]}}}")
        .unwrap();
    let listed = run(&setup, &["list"]);
    let text = String::from_utf8(listed.stdout.clone()).unwrap();
    assert!(listed.status.success(), "{}", told(&listed));
    for expected in ["probe ", "idle", "stdio", "gone ", "off ", &format!("from {}", path.display())] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // What a project names is told, and not used before it is trusted.
    assert!(text.contains("the project is not trusted") && !text.contains("theirs "), "{text}");
    let tested = run(&setup, &["test", "probe"]);
    let text = String::from_utf8(tested.stdout.clone()).unwrap();
    assert!(tested.status.success(), "{text}{}", told(&tested));
    for expected in
        ["probe: ready, probe 1, 2025-11-25", "look  Looks.", "/mcp__probe__ask  Asks.", "@probe:file:///a"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let gone = run(&setup, &["test", "gone"]);
    let why = told(&gone);
    assert!(!gone.status.success() && why.contains("/no/such/program: there is no such program"), "{why}");
    for name in ["none", "theirs"] {
        let none = run(&setup, &["test", name]);
        assert!(!none.status.success() && told(&none).contains(name), "{}", told(&none));
    }
    assert!(!setup.project().join("started").exists());
}

/// A server that wants a login, with its issuer.
struct Issuer {
    child: Child,
    port: u16,
    lines: Receiver<String>,
}

impl Issuer {
    /// Whose access tokens last so many seconds.
    fn new(lasts: &str) -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_command/issuer.py");
        let mut command = Command::new("python3");
        let mut child = command.arg(program).arg(lasts).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let (sender, told) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, port, lines: told }
    }

    /// What it was asked since, one line each. It tells of a request before it answers.
    fn told(&self) -> String {
        self.lines.try_iter().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Logs in as a person would whose browser agrees to everything, by the command.
fn log_in(setup: &Setup) {
    let mut command = setup.command();
    command.args(["login", "mcp:guarded"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_page = |line: &String| line.trim_start().starts_with("http");
    let page = lines.by_ref().map_while(Result::ok).find(is_page).expect("no page is named");
    let moved = support::server::get(page.trim());
    let back =
        moved.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap_or_else(|| panic!("{moved}"));
    // A guess of somebody else on this machine is not taken.
    let (address, _) = back.split_once('?').unwrap();
    assert!(support::server::get(&format!("{address}?code=evil&state=other")).contains("400"));
    assert!(support::server::get(back).starts_with("HTTP/1.1 200"), "{back}");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("You are logged in at mcp:guarded"), "{said}");
}

#[test]
fn login_at_a_server_is_found_kept_renewed_and_forgotten() {
    let issuer = Issuer::new("0");
    let url = format!("http://127.0.0.1:{}/mcp", issuer.port);
    let (setup, _) = configured(&format!("{{:mode :yolo :mcp {{\"guarded\" {{:url {url:?}}}}}}}"));
    let setup = setup.script(
        "{:turns [{:steps [{:tool-call {:name \"mcp__guarded__secret\" :arguments {}}}]} {:steps [{:delta \"end\"}]}] \
         :then :cycle}",
    );
    let wants = run(&setup, &["test", "guarded"]);
    assert!(!wants.status.success() && told(&wants).contains("/login mcp:guarded"), "{}", told(&wants));
    issuer.told();
    log_in(&setup);
    let asked = issuer.told();
    for expected in [
        "\"/.well-known/oauth-protected-resource/mcp\"",
        "\"/.well-known/oauth-authorization-server\"",
        "\"client_name\": \"edn-bridge\"",
        "\"grant\": \"authorization_code\"",
        // The first one has run out when it comes.
        "\"grant\": \"refresh_token\"",
        "\"is_in\": true",
    ] {
        assert!(asked.contains(expected), "{expected}: {asked}");
    }
    let file = setup.state().join("credentials.edn");
    let kept = || std::fs::read_to_string(&file).unwrap();
    assert!(kept().contains(&format!("mcp:{url}")) && kept().contains("refresh-canary"), "{}", kept());
    // Another process has the login. Its tokens are in no output.
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let result = bridge.event("tool/result");
    assert_eq!(support::data(&result, "result-text"), "your token is [secret]", "{result}");
    support::end_of_turn(&mut bridge);
    let servers = bridge.ask("l", "list_mcp", "{}");
    assert!(
        !bridge.told().contains("canary") && !servers.to_string().contains("canary"),
        "{}",
        bridge.told()
    );
    drop(bridge);
    let logout = || setup.command().args(["logout", "mcp:guarded"]).output().unwrap();
    let out = logout();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("Logged out of mcp:guarded"), "{said} {}", told(&out));
    assert!(!kept().contains("canary"), "{}", kept());
    assert!(told(&logout()).contains("There was no login"));
    let wants = run(&setup, &["test", "guarded"]);
    assert!(!wants.status.success() && told(&wants).contains("/login mcp:guarded"), "{}", told(&wants));
}

#[test]
fn login_starts_no_other_server() {
    let issuer = Issuer::new("3600");
    let url = format!("http://127.0.0.1:{}/mcp", issuer.port);
    let (setup, path) = configured("");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_engine/server.py");
    let started = setup.project().join("started");
    let other = format!("{{:command [\"python3\" {program:?}] :env {{\"STARTED\" {started:?}}}}}");
    std::fs::write(&path, format!("{{:mcp {{\"guarded\" {{:url {url:?}}} \"other\" {other}}}}}")).unwrap();
    log_in(&setup);
    let out = setup.command().args(["logout", "mcp:guarded"]).output().unwrap();
    assert!(out.status.success(), "{}", told(&out));
    assert!(!started.exists(), "a login starts the server that it is for");
}

#[test]
fn server_that_fails_its_test_has_the_last_word() {
    let program = "import os, sys; print('first\\n' * 30 + 'no module foo', os.environ['TOKEN'], file=sys.stderr); sys.exit(1)";
    let server = format!("{{:command [\"python3\" \"-c\" {program:?}] :env {{\"TOKEN\" \"canary-5512\"}}}}");
    let (setup, _) = configured(&format!("{{:mcp {{\"bad\" {server}}}}}"));
    let failed = run(&setup, &["test", "bad"]);
    let said = told(&failed);
    assert!(!failed.status.success() && said.contains("its program has ended"), "{said}");
    assert!(said.contains("\n  no module foo [secret]") && !said.contains("canary"), "{said}");
    assert_eq!(said.matches("\n  first").count(), 11, "{said}");
}

#[test]
fn served_prompt_answers_slash_commands() {
    let (setup, _) = configured("{}");
    let mut server = served(&setup, false, &["--prompt"]);
    // More than the calls that run at once.
    for _ in 0..9 {
        let told = server.call("prompt", &json!({"message": "/status"}));
        let text = told["result"]["structuredContent"]["text"].as_str().unwrap_or_else(|| panic!("{told}"));
        assert!(!text.is_empty(), "{told}");
    }
    // What decides what runs unasked, and who may read, is a person's to say.
    for message in ["/mode yolo", "/trust", "/remember x", "/mcp on s", "/export /tmp/x", "/login"] {
        let told = server.call("prompt", &json!({"message": message}));
        let text = told["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{told}"));
        assert!(told["result"]["isError"] == true && text.contains("Only a person may give /"), "{told}");
    }
    let failed = server.call("prompt", &json!({"message": "/nonesuch"}));
    assert!(failed["result"]["isError"] == true || failed["error"].is_object(), "{failed}");
    let said = server.call("prompt", &json!({"message": "Hi"}));
    assert_eq!(said["result"]["structuredContent"]["text"], "said", "{said}");
    let wrong = server.call("prompt", &json!({"message": "x", "session_id": "s-none"}));
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
    let text = wrong["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("no argument \"session_id\""), "{wrong}");
    writeln!(server.input, "{{\"jsonrpc\": ").unwrap();
    let answer = server.answer();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32700), &Json::Null), "{answer}");
    server.end();
}

#[test]
fn served_line_beyond_the_bound_is_answered() {
    let (setup, _) = configured("{}");
    let mut server = served(&setup, false, &[]);
    let ping = json!({"jsonrpc": "2.0", "id": "last", "method": "ping"}).to_string();
    let padded = |bytes: usize| format!("{ping}{}", " ".repeat(bytes - ping.len()));
    writeln!(server.input, "{}", padded(16 * 1024 * 1024 + 1)).unwrap();
    let answer = server.answer();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Json::Null), "{answer}");
    // The longest line, and the next one.
    writeln!(server.input, "{}", padded(16 * 1024 * 1024)).unwrap();
    let answer = server.answer();
    assert!(answer["id"] == "last" && answer["result"].is_object(), "{answer}");
    writeln!(server.input, "{ping}").unwrap();
    let answer = server.answer();
    assert!(answer["id"] == "last" && answer["result"].is_object(), "{answer}");
    server.end();
}

/// A prompt whose command has begun in a bridge, and the server that waits for it.
fn begun(setup: &Setup) -> (support::Bridge, Served) {
    let mut bridge = setup.serve();
    bridge.handshake();
    let mut server = served(setup, false, &["--prompt"]);
    server.next += 1;
    let params = json!({"name": "prompt", "arguments": {"message": "go"}});
    server.send(&json!({"jsonrpc": "2.0", "id": server.next, "method": "tools/call", "params": params}));
    support::wait_until("the command runs", || support::has_content(&setup.project().join("ran")));
    (bridge, server)
}

const RUNS: &str = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "echo ran >> ran; sleep 600"}}}]}
                       {:steps [{:delta "said"}]}] :then :repeat-last}"#;

#[test]
fn served_prompt_runs_once_if_its_bridge_is_killed() {
    let setup = Setup::new().script(RUNS).arg("--yolo");
    let (mut bridge, mut server) = begun(&setup);
    bridge.kill();
    bridge.wait();
    let answer = server.answer();
    let told = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(answer["result"]["isError"] == true && told.contains("done is not known"), "{answer}");
    // What only reads is asked of another.
    let listed = server.call("list_sessions", &json!({}));
    assert!(listed["result"]["structuredContent"]["sessions"].is_array(), "{listed}");
    assert_eq!(std::fs::read_to_string(setup.project().join("ran")).unwrap(), "ran\n");
    server.end();
}

#[test]
fn served_calls_end_while_the_bridge_is_stopped() {
    let setup = Setup::new().script(RUNS).arg("--yolo");
    let (mut bridge, mut server) = begun(&setup);
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &bridge.pid().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let answer = server.answer();
    let told = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(answer["result"]["isError"] == true && told.contains("done is not known"), "{answer}");
    let listed = server.call("list_sessions", &json!({}));
    assert!(listed["result"]["structuredContent"]["sessions"].is_array(), "{listed}");
    assert_eq!(std::fs::read_to_string(setup.project().join("ran")).unwrap(), "ran\n");
    signal("-CONT");
    bridge.kill();
    bridge.wait();
    server.end();
}
