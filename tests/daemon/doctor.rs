//! `edn-bridge doctor`, with the real binary.

#[cfg(feature = "postgres")]
use crate::promises;
#[cfg(feature = "postgres")]
use crate::server;
use crate::support;

use edn_bridge::edn;
use edn_bridge::value::Owned;
use support::{Setup, text};

fn run(setup: &Setup, arguments: &[&str]) -> (Option<i32>, String) {
    let output = setup.command().args(arguments).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{told}");
    (output.status.code(), told)
}

fn report(setup: &Setup) -> (Option<i32>, Owned) {
    let (status, told) = run(setup, &["doctor", "--format", "edn"]);
    (status, edn::read_one(told.as_bytes()).unwrap().into_owned())
}

/// State and message of the findings of an area.
fn findings(report: &Owned, area: &str) -> Vec<(String, String)> {
    let findings = report.get("findings").unwrap().as_slice().unwrap().iter();
    findings
        .filter(|finding| finding.get("area").unwrap().as_keyword() == Some(area))
        .map(|finding| {
            let state = finding.get("state").unwrap().as_keyword().unwrap().to_owned();
            assert_eq!(
                finding.get("advice").is_some(),
                state != "ok",
                "what to do is said where it is needed"
            );
            (state, text(finding, "message").to_owned())
        })
        .collect()
}

#[test]
fn it_says_what_holds_and_where_it_came_from() {
    let setup = Setup::new().script("{:turns [{:steps []}]}").env("EDN_BRIDGE_DURABILITY", "relaxed");
    let setup = setup.env("EDN_BRIDGE_LOG_FORMAT", "json");
    let config = setup.dir.path().join("user.edn");
    std::fs::write(&config, "{:mode :accept-edits :provider \"scripted\" :model \"m\"}").unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap()).env("OPENAI_API_KEY", "canary-7f3a");
    std::fs::create_dir_all(setup.project().join(".edn-bridge")).unwrap();
    std::fs::write(setup.project().join(".edn-bridge/config.edn"), "{:mode :yolo}").unwrap();
    let output = setup.command().args(["doctor", "--log", "error", "--format", "edn"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(!told.contains("canary"), "a key's value is told");
    let report = edn::read_one(told.as_bytes()).unwrap().into_owned();
    assert_eq!(report.get("healthy").unwrap().as_bool(), Some(true));
    let held = report.get("configuration").unwrap().as_slice().unwrap().to_vec();
    let of = |key: &str| {
        let one = held.iter().find(|one| one.get("key").unwrap().as_keyword() == Some(key)).unwrap();
        (text(one, "value").to_owned(), text(one, "source").to_owned())
    };
    let file = config.to_str().unwrap().to_owned();
    assert_eq!(of("mode"), ("accept-edits".to_owned(), file.clone()));
    assert_eq!(of("model"), ("m".to_owned(), file));
    assert_eq!(of("provider"), ("scripted".to_owned(), "the option --script".to_owned()));
    assert_eq!(of("durability"), ("relaxed".to_owned(), "the variable EDN_BRIDGE_DURABILITY".to_owned()));
    assert_eq!(of("log"), ("error".to_owned(), "the option --log".to_owned()));
    assert_eq!(of("log-format"), ("json".to_owned(), "the variable EDN_BRIDGE_LOG_FORMAT".to_owned()));
    assert_eq!(of("state-dir").1, "the option --state-dir");
    assert_eq!(findings(&report, "durability")[0].0, "note");
    assert!(findings(&report, "keys")[0].1.contains("OPENAI_API_KEY"));
    assert_eq!(findings(&report, "trust")[0].0, "note");
    assert!(
        findings(&report, "configuration")
            .iter()
            .any(|(state, what)| state == "note" && what.contains(":mode"))
    );
    let sandbox = edn_bridge::runner::sandbox::state() == edn_bridge::runner::sandbox::SandboxState::Enforced;
    assert_eq!(findings(&report, "sandbox")[0].0, if sandbox { "ok" } else { "note" });
    for area in ["state", "sessions", "index", "model", "socket", "emacs", "context"] {
        assert!(!findings(&report, area).is_empty(), "{area}: {told}");
    }
}

#[test]
fn what_is_broken_is_said_with_what_to_do_and_fails() {
    let setup = Setup::new().script("{:turns [{:steps []}]}");
    let (status, told) = run(&setup, &["doctor"]);
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains("Nothing is broken.") && told.contains("(the option --state-dir)"), "{told}");
    // A session that no version reads.
    let sessions = setup.state().join("sessions/p");
    std::fs::create_dir_all(&sessions).unwrap();
    std::fs::write(sessions.join("s-1.edn"), "nonsense\n").unwrap();
    let (status, told) = report(&setup);
    assert_eq!(status, Some(1), "{told}");
    assert!(findings(&told, "sessions").iter().any(|(state, _)| state == "broken"), "{told}");

    let setup = Setup::new();
    std::fs::write(setup.state(), "in the way").unwrap();
    let (status, told) = report(&setup);
    assert_eq!((status, findings(&told, "state")[0].0.as_str()), (Some(1), "broken"), "{told}");

    // Nothing can answer: the model's file is not there, or the build has no such model.
    for arguments in [&[][..], &["--model-file", "/nowhere.gguf"]] {
        let setup = arguments.iter().fold(Setup::new(), |setup, argument| setup.arg(argument));
        let (status, told) = report(&setup);
        assert_eq!((status, findings(&told, "model")[0].0.as_str()), (Some(1), "broken"), "{told}");
    }

    let setup = Setup::new();
    let config = setup.dir.path().join("user.edn");
    std::fs::write(&config, "{:mode").unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let (status, told) = report(&setup);
    let (state, what) = findings(&told, "configuration").remove(0);
    assert_eq!((status, state.as_str()), (Some(1), "broken"));
    assert!(what.contains("user.edn"), "{what}");
}

#[test]
fn a_state_folder_that_is_open_to_others_is_told_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let setup = Setup::new();
    std::fs::create_dir(setup.state()).unwrap();
    for (mode, expected) in [(0o700, None), (0o755, Some("look into")), (0o777, Some("may exchange"))] {
        std::fs::set_permissions(setup.state(), std::fs::Permissions::from_mode(mode)).unwrap();
        let (_, report) = report(&setup);
        let notes: Vec<String> = findings(&report, "state")
            .into_iter()
            .filter(|(state, _)| state == "note")
            .map(|(_, message)| message)
            .collect();
        assert_eq!(notes.len(), usize::from(expected.is_some()), "{mode:o}: {notes:?}");
        assert!(expected.is_none_or(|expected| notes[0].contains(expected)), "{mode:o}: {notes:?}");
    }
}

#[test]
fn key_over_plain_http_is_noted_and_logged() {
    let setup = Setup::new().script("{:turns [{:steps []}]}");
    let config = setup.dir.path().join("user.edn");
    std::fs::write(
        &config,
        "{:providers {\"far\" {:base-url \"http://llm.example/v1\" :key-variables [\"FAR_KEY\"]}
                      \"free\" {:base-url \"http://10.0.0.2:11434/v1\"}
                      \"near\" {:base-url \"http://127.0.0.1:1/v1\" :key-variables [\"NEAR_KEY\"]}}}",
    )
    .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let (status, report) = report(&setup);
    assert_eq!(status, Some(0));
    let found = findings(&report, "providers");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].0 == "note" && found[0].1.contains("\"far\" sends its key unencrypted to llm.example"),
        "{found:?}"
    );
    let (_, _, log) = setup.ready().finish();
    assert!(log.contains("WARN") && log.contains("sends its key unencrypted to llm.example"), "{log}");
}

/// A configuration, the area of the finding that says what is wrong, and parts of what it says.
const BROKEN: &[(&str, &str, &[&str])] = &[
    (
        "{:mode :ask\n :providers {\"a\" {}",
        "configuration",
        &["user.edn:2:", "the map that opens at 2:13 is not"],
    ),
    ("{:model \"x}", "configuration", &["user.edn:1:", "the string that opens at 1:9 is not closed"]),
    ("{:mode :ask\n  :mode :yolo}", "configuration", &["user.edn:2:3", "duplicate-key"]),
    ("[:mode]", "configuration", &["user.edn: the configuration must be a map"]),
    ("{:model \"m\"\n :mode :wild}", "configuration", &["user.edn:2:2: :mode must be ask,"]),
    (
        "{:provider \"work\" :model \"m\"\n :providers {\"work\" {:base-ulr \"https://a.example/v1\"}}}",
        "providers",
        &["New sessions have nobody to ask", "user.edn:2:22: ", "no :base-ulr; did you mean :base-url?"],
    ),
    (
        "{:provider \"work\"\n :providers {\"work\" {:base-url \"127.0.0.1:8899/v1\"}}}",
        "providers",
        &["user.edn:2:22: ", "a :base-url without a scheme; write http://"],
    ),
    ("{:provider \"antropic\"}", "providers", &["no provider \"antropic\". Did you mean \"anthropic\"?"]),
    (
        "{:provider \"work\" :providers {\"work\" {:base-url \"https://a.example/v1\" :key-variables [\"NO_KEY\"]}}}",
        "providers",
        &["There is no key for the provider work"],
    ),
    (
        "{:provider \"work\" :providers {\"work\" {:base-url \"http://127.0.0.1:9/v1\"}}}",
        "server",
        &["work at 127.0.0.1:9 cannot be reached"],
    ),
    (
        "{:mode :ask\n :modl \"m\"}",
        "configuration",
        &["user.edn:2:2: there is no setting :modl; did you mean :mode or :model?"],
    ),
    (
        "{:permissions {:rulez []}}",
        "configuration",
        &["user.edn:1:16: :permissions has no :rulez; did you mean :rules?"],
    ),
    (
        "{:permissions\n {:rules [{:decision :allow :tool \"edit\"}\n  {:decision :perhaps :tool \"bash\"}]}}",
        "configuration",
        &["user.edn:3:3: a rule allows, asks or denies; \"perhaps\" is neither"],
    ),
    ("\u{feff}{:mode :ask}", "configuration", &["user.edn: it begins with a byte order mark"]),
];

/// Broken configurations with the area of the finding, and a part of what it says helps.
const MENDS: &[(&str, &str, &str)] = &[
    (
        "{:hooks [{:id \"h\" :stage :tool-call :point :pre :kind :guard :command [\"/nosuch/check\"]}]}",
        "hooks",
        "correct its :command under :hooks; a guard that cannot run denies each call",
    ),
    (
        "{:hooks [{:stage :render :point :post :kind :observer :command [\"no-such-program-here\"]}]}",
        "hooks",
        "Install it",
    ),
    ("{:mcp {\"m\" {:command [\"/nosuch/server\"]}}}", "mcp", "correct its :command or :cwd under :mcp"),
    ("{:mcp {\"m\" {:command [\"sh\"] :cwd \"/nosuch\"}}}", "mcp", "correct its :command or :cwd under :mcp"),
    (
        "{:provider \"work\" :model \"m\" :providers {\"work\" {:base-url \"http://127.0.0.1:9/v1\"}}}",
        "server",
        "Start the server, or correct the port",
    ),
    (
        "{:provider \"work\" :model \"m\" :providers {\"work\" {:base-url \"https://no-such-host.invalid/v1\"}}}",
        "server",
        "Correct the host in the address",
    ),
];

#[test]
fn broken_configuration_is_told_with_cause_and_status() {
    let setup = Setup::new();
    let config = setup.dir.path().join("user.edn");
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let check = |text: &str, area: &str, parts: &[&str]| {
        std::fs::write(&config, text).unwrap();
        let (status, told) = report(&setup);
        let found = findings(&told, area);
        let broken = found.iter().find(|(state, _)| state == "broken");
        let (_, what) = broken.unwrap_or_else(|| panic!("{text}: {told}"));
        assert!(parts.iter().all(|part| what.contains(part)), "{text}: {what}");
        assert_eq!(status, Some(1), "{text}");
    };
    for (text, area, parts) in BROKEN {
        check(text, area, parts);
    }
    // What listens there speaks no TLS, and no HTTP.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in other.incoming() {
            let mut stream = stream.unwrap();
            let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-x\r\n");
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
        }
    });
    let server = |url: &str| {
        format!("{{:provider \"work\" :model \"m\" :providers {{\"work\" {{:base-url {url:?}}}}}}}")
    };
    let secure = server(&format!("https://127.0.0.1:{port}/v1"));
    let plain = server(&format!("http://127.0.0.1:{port}/v1"));
    let of_server = [(secure.as_str(), "server", "Write http://"), (&plain, "server", "Correct the port")];
    for (text, area, advice) in MENDS.iter().copied().chain(of_server) {
        std::fs::write(&config, text).unwrap();
        let (_, told) = report(&setup);
        let all = told.get("findings").unwrap().as_slice().unwrap().to_vec();
        let of_area = |finding: &Owned| {
            finding.get("area").unwrap().as_keyword() == Some(area)
                && finding.get("state").unwrap().as_keyword() == Some("broken")
        };
        let found = all.iter().find(|finding| of_area(finding));
        let found = found.unwrap_or_else(|| panic!("{text}: {told}"));
        assert!(found.get("advice").unwrap().as_str().unwrap().contains(advice), "{text}: {found}");
        assert!(!found.get("message").unwrap().as_str().unwrap().contains(advice), "said once: {found}");
    }
    // What a server says: a list without the model, and no to the key.
    let list = support::server::Answer::json(200, r#"{"data":[{"id":"large"},{"id":"other-model"}]}"#);
    let refusal = support::server::Answer::json(401, r#"{"error":{"message":"bad key sk-canary"}}"#);
    let server = support::server::Server::new([list.clone(), refusal]);
    let of = |model: &str| {
        format!(
            "{{:provider \"work\" :model \"{model}\" :providers {{\"work\" {{:base-url \"{}\" :key-command [\"echo\" \"sk-canary\"]}}}}}}",
            server.url()
        )
    };
    check(&of("largest"), "server", &["does not list the model largest among its 2. Did you mean large?"]);
    let asked = server.asked();
    assert_eq!((asked.path.as_str(), asked.line("authorization")), ("/models", "Bearer sk-canary"));
    check(&of("large"), "server", &["work did not accept the key (HTTP 401)"]);
    server.then([list]);
    std::fs::write(&config, of("large")).unwrap();
    let (status, told) = report(&setup);
    assert_eq!((status, findings(&told, "server")[0].0.as_str()), (Some(0), "ok"), "{told}");
    assert!(!told.to_string().contains("canary"), "{told}");
    // A file that is named and not there is no empty one.
    std::fs::remove_file(&config).unwrap();
    let (status, told) = report(&setup);
    let (state, what) = findings(&told, "configuration").remove(0);
    assert_eq!((status, state.as_str()), (Some(1), "broken"));
    assert!(what.contains("There is no file") && what.contains("which the option --config names"), "{what}");
    let output = setup.command().args(["prompt", "hi"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("There is no file"), "{output:?}");
}

#[test]
fn mistake_of_a_configuration_is_told_once_and_plainly() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"Hi.\"}]}]}");
    let config = setup.dir.path().join("user.edn");
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let rules = "{:permissions {:rules [{:decision :perhaps}]}\n :modl \"m\"}";
    std::fs::write(&config, rules).unwrap();
    let output = setup.command().args(["prompt", "hi"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hi.\n");
    let told = String::from_utf8(output.stderr).unwrap();
    let place = config.display();
    assert_eq!(
        told.lines().collect::<Vec<_>>(),
        [
            format!("edn-bridge: {place}:2:2: there is no setting :modl; did you mean :mode or :model?"),
            format!(
                "edn-bridge: {place}:1:24: a rule is left out: a rule allows, asks or denies; \"perhaps\" is neither: \
                 {{:decision :perhaps}}"
            ),
        ],
        "{told}"
    );
    // What a project says is passed over until it is trusted: that breaks nothing.
    std::fs::write(&config, "{}").unwrap();
    std::fs::create_dir_all(setup.project().join(".edn-bridge")).unwrap();
    std::fs::write(setup.project().join(".edn-bridge/config.edn"), "{:modl \"m\"}").unwrap();
    let (status, told) = report(&setup);
    let found = findings(&told, "configuration");
    assert!(
        found.iter().any(|(state, what)| state == "note" && what.contains("no setting :modl")),
        "{found:?}"
    );
    assert_eq!(status, Some(0));
    assert_eq!(findings(&told, "daemon")[0].1, "No daemon runs; the first editor starts it.");
    // What the user says is in force or wrong, wherever the user's file stands.
    let beside = setup.project().join(".edn-bridge/config.edn.mine");
    std::fs::write(&beside, "{:colour :red}").unwrap();
    let mut mine = Setup { dir: setup.dir.clone(), script: setup.script.clone(), ..Setup::new() };
    mine = mine.arg("--config").arg(beside.to_str().unwrap());
    let (status, told) = report(&mine);
    let found = findings(&told, "configuration");
    let of = |name: &str| found.iter().find(|(_, what)| what.contains(name)).unwrap().0.as_str();
    assert_eq!((of("no setting :colour"), of("no setting :modl"), status), ("broken", "note", Some(1)));
}

#[test]
fn unreadable_configuration_accuses_no_model() {
    let setup = Setup::new();
    let config = setup.dir.path().join("user.edn");
    std::fs::write(&config, "{:provider \"anthropic\" :model").unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let (status, told) = report(&setup);
    let model = findings(&told, "model");
    assert_eq!((status, model.len(), model[0].0.as_str()), (Some(1), 1, "note"), "{told}");
    assert!(model[0].1.contains("the configuration cannot be read"), "{model:?}");
}

#[test]
fn configuration_beside_the_workspace_restricts_nothing_there() {
    let setup = Setup::new().script("{:turns [{:steps []}]}");
    std::fs::write(setup.dir.path().join("user.edn"), "{}").unwrap();
    std::fs::write(setup.project().join("user.edn"), "{}").unwrap();
    let told = |config: &str| {
        let mut command = setup.command();
        command.args(["doctor", "--config", config]).current_dir(setup.project());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let beside = setup.project().join("../user.edn");
    assert!(!told(beside.to_str().unwrap()).contains("The workspace contains"), "{}", beside.display());
    // The sandbox is not on every system.
    let inside = told("user.edn");
    assert_eq!(inside.contains("The workspace contains"), inside.contains("(Landlock) keeps"), "{inside}");
}

#[test]
fn last_word_of_a_failed_prompt_names_the_cause() {
    let setup = Setup::new();
    let config = setup.dir.path().join("user.edn");
    std::fs::write(&config, BROKEN[5].0).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let output = setup.command().args(["prompt", "hi"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let last = told.lines().last().unwrap();
    assert!(
        last.starts_with("edn-bridge: ") && last.contains(":base-ulr; did you mean :base-url?"),
        "{told}"
    );
    assert!(last.contains("user.edn:2:22: "), "{told}");
}

#[test]
fn agents_that_can_be_started_and_their_rights_are_told() {
    let setup = Setup::new().script("{:turns [{:steps []}]}");
    let config = setup.dir.path().join("user.edn");
    std::fs::write(
        &config,
        "{:agents {\"here\" {:command [\"sh\" \"--token\" \"sk-canary-0123456789abcdef0123\"]}
                   \"gone\" {:command [\"/no/such/program\"]}
                   \"free\" {:command [\"sh\"] :sandbox false}}}",
    )
    .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    std::fs::create_dir_all(setup.project().join(".edn-bridge")).unwrap();
    let theirs = "{:agents {\"theirs\" {:command [\"touch\" \"started\"]}}}";
    std::fs::write(setup.project().join(".edn-bridge/config.edn"), theirs).unwrap();
    let setup = setup.arg("--log").arg("error");
    let (status, told) = report(&setup);
    let found = findings(&told, "agents");
    let has =
        |state: &str, message: &str| found.iter().any(|(is, told)| is == state && told.contains(message));
    assert!(has("ok", "The agent here can be started: sh"), "{found:?}");
    assert!(
        has("note", "The agent gone cannot be started: /no/such/program: there is no such program."),
        "{found:?}"
    );
    assert!(has("note", "The agent free runs with your rights"), "{found:?}");
    assert!(!has("note", "The agent here runs with your rights"), "{found:?}");
    assert!(has("note", "The agent theirs of the project is not started"), "{found:?}");
    assert!(!format!("{found:?}").contains("canary"), "{found:?}");
    assert_eq!(status, Some(0), "{found:?}");
    assert!(!setup.project().join("started").exists());
    // What new sessions are to have must be there.
    for (name, message) in [("gone", "cannot be started"), ("none", "which is not configured")] {
        let output = setup.command().args(["--agent", name, "doctor", "--format", "edn"]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success() && told.contains(message), "{name}: {told}");
    }
}

#[cfg(feature = "postgres")]
#[test]
fn realm_that_may_lose_or_show_something_is_noted() {
    use server::Engine as _;

    let Some(mut server) = server::Server::start() else { return };
    let setup = Setup::new().script("{:turns [{:steps []}]}");
    let config = setup.dir.path().join("user.edn");
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let realm = |url: &str| std::fs::write(&config, format!("{{:realm {{:engine {url:?} :host \"h\"}}}}"));
    realm(server.url().expose()).unwrap();
    let (_, told) = report(&setup);
    let [(well, facts), standby, role] = &findings(&told, "realm")[..] else { panic!("{told}") };
    assert!(well == "ok" && facts.contains("PostgreSQL 1") && facts.contains("an append "), "{facts}");
    assert!(!facts.contains("standby"), "{facts}");
    assert!(standby.0 == "note" && standby.1.starts_with("No standby is synchronous"), "{standby:?}");
    assert!(role.0 == "note" && role.1.starts_with("This role is not bound"), "{role:?}");

    // A role that row security binds.
    server.sql("CREATE ROLE ann LOGIN");
    promises::run(async { edn_bridge::realm::init(&server.url(), &["ann"]).await }).unwrap();
    realm(&server.url().expose().replace("edn@", "ann@")).unwrap();
    let (_, told) = report(&setup);
    let states: Vec<String> = findings(&told, "realm").into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["ok", "note"], "{told}");

    server.kill();
    let (status, told) = report(&setup);
    let [(state, what)] = &findings(&told, "realm")[..] else { panic!("{told}") };
    assert_eq!((status, state.as_str()), (Some(1), "broken"), "{told}");
    assert!(what.contains("cannot be reached") && what.ends_with('.'), "{what}");
}
