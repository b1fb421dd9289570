//! Secrets stay where they belong. The test plants a canary wherever a secret can enter, does everything that
//! could carry one out, and searches every readable place for each of them.

#![allow(clippy::print_stdout, reason = "the report of what was searched")]

use crate::support;

use std::collections::BTreeMap;

use support::server::{Answer, Server};
use support::{Bridge, Setup, at, data, end_of_turn, files, is_event};
/// The entrance of a secret, and its canary.
const CANARIES: [(&str, &str); 15] = [
    ("a key in the environment", "canary-environment-0001"),
    ("a key in a variable that the configuration names", "canary-variable-0002"),
    ("what a :key-command prints", "canary-command-0003"),
    ("what a failing :key-command prints", "canary-failing-0004"),
    ("a line of :headers", "canary-header-0005"),
    ("a key that is pasted", "canary-pasted-0006"),
    ("a token of a login", "canary-access-0007"),
    ("what a token is renewed with", "canary-refresh-0008"),
    ("a login's client secret", "canary-client-0009"),
    ("a device's own code", "canary-device-0010"),
    ("the answer to a typed question for a secret", "canary-question-0011"),
    ("the query of a :base-url", "canary-query-0012"),
    ("the user of a :base-url", "canary-user-0013"),
    ("the password of a :base-url", "canary-phrase-0014"),
    ("a :base-url that cannot be read", "canary-unreadable-0015"),
];

fn canary(entry: &str) -> &'static str {
    CANARIES.iter().find(|(known, _)| known.contains(entry)).unwrap().1
}

/// Asks a provider's model for something.
fn ask(bridge: &mut Bridge, provider: &str) {
    bridge.ask("model", "set_model", &format!("{{:provider {provider:?} :model-id \"m\"}}"));
    bridge.ask("prompt", "prompt", "{:message \"hi\"}");
    end_of_turn(bridge);
}

/// The findings by place: the number of searched bytes, and the canaries that were found.
#[derive(Default)]
struct Report(BTreeMap<String, (usize, Vec<String>)>);

impl Report {
    fn search(&mut self, place: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let entry = self.0.entry(place.to_owned()).or_default();
        entry.0 += bytes.len();
        for (what, canary) in CANARIES {
            if text.contains(canary) {
                entry.1.push(what.to_owned());
            }
        }
    }

    fn check(&self) {
        println!("{:>9}  place", "bytes");
        for (place, (bytes, found)) in &self.0 {
            println!(
                "{bytes:>9}  {place}{}",
                if found.is_empty() { String::new() } else { format!(": {found:?}") }
            );
        }
        println!("{} canaries were planted.", CANARIES.len());
        let told: Vec<_> =
            self.0.iter().filter(|(_, (_, found))| !found.is_empty()).map(|(place, _)| place).collect();
        assert!(told.is_empty(), "secrets in {told:?}");
    }
}

#[test]
fn planted_secret_is_found_nowhere() {
    // A server that sends every key back, in a refusal and in its stream.
    let echo = |n: usize, key: &str| {
        let words = format!("{key} {}", canary(":headers"));
        match n {
            0 => Answer::json(
                401,
                &format!(r#"{{"error":{{"message":"Incorrect API key provided: {words}"}}}}"#),
            ),
            1 => Answer::json(400, &format!("the head was: x-team: {words}")),
            _ => Answer::events(format!("data: {{\"error\":{{\"message\":\"{words}\"}}}}\n\n")),
        }
    };
    let hello = || {
        Answer::events(
            "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        )
    };
    let models = Server::new([hello()]);
    let auth = Server::new([
        Answer::json(
            200,
            &format!(
                r#"{{"device_code":"{}","user_code":"AB-CD","verification_uri":"https://p.example/device","expires_in":600,"interval":0}}"#,
                canary("device's own")
            ),
        ),
        Answer::json(
            200,
            &format!(
                r#"{{"access_token":"{}","token_type":"Bearer","expires_in":1,"refresh_token":"{}"}}"#,
                canary("token of a login"),
                canary("renewed with")
            ),
        ),
        Answer::json(
            400,
            &format!(
                r#"{{"error":"invalid_grant","error_description":"{} is old"}}"#,
                canary("renewed with")
            ),
        ),
    ]);
    let setup = Setup::new()
        .arg("--yolo")
        .arg("--log")
        .arg("trace")
        .arg("--provider")
        .arg("environment")
        .arg("--model")
        .arg("m")
        .env("CANARY_KEY", canary("variable that"))
        .env("OPENAI_API_KEY", canary("key in the environment"));
    let url = models.url();
    let config = setup.dir.path().join("config.edn");
    let provider = |name: &str, more: &str| {
        format!(
            "{name:?} {{:api :openai :base-url {url:?} :headers {{\"x-team\" \"{}\"}} {more}}}",
            canary(":headers")
        )
    };
    let providers = [
        provider("openai", ""),
        provider("environment", ":key-variables [\"CANARY_KEY\"]"),
        provider("command", &format!(":key-command [\"echo\" {:?}]", canary("a :key-command prints"))),
        provider(
            "failing",
            &format!(":key-command [\"sh\" \"-c\" \"echo {0}; echo {0} >&2; exit 1\"]", canary("failing")),
        ),
        provider("pasted", ":key-variables [\"NO_SUCH_KEY\"] :key-url \"https://k.example\""),
        provider("asked", ":key-variables [\"NO_SUCH_KEY\"] :key-url \"https://k.example\""),
        provider(
            "login",
            &format!(
                ":login {{:client-id \"id\" :client-secret-command [\"echo\" {:?}] :device-url \"{1}/device\" :token-url \"{1}/token\"}}",
                canary("client secret"),
                auth.url()
            ),
        ),
    ];
    let base = |base: String| provider("", "").replace(&format!("{url:?}"), &format!("{base:?}"));
    let bases = [
        base(format!("{url}/v1?key={}", canary("query of"))).replace("\"\" {", "\"query\" {"),
        base(format!(
            "https://{}:{}@h.example/v1?key={}",
            canary("user of"),
            canary("password of"),
            canary("query of")
        ))
        .replace("\"\" {", "\"refused\" {"),
        base(format!("https://{}@[::1/v1", canary("cannot be read"))).replace("\"\" {", "\"unreadable\" {"),
    ];
    let names = ["environment", "command", "failing", "pasted", "asked", "login", "query"];
    let listed: String =
        names.map(|name| format!("{{:provider {name:?} :id \"m\" :context-window 9000}}")).concat()
            + "{:provider \"openai\" :id \"m\" :context-window 9000}";
    let described = [providers.join("\n"), bases.join("\n")].join("\n");
    std::fs::write(&config, format!("{{:providers {{{described}}} :models [{listed}]}}")).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());

    let mut bridge = setup.serve();
    bridge.ask(
        "h",
        "handshake",
        "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}",
    );
    bridge.ask("s", "subscribe", "{}");
    // Secrets come in.
    bridge.ask("1", "login_begin", "{:provider \"pasted\"}");
    let pasted = format!("{{:input {:?}}}", canary("pasted"));
    bridge.ask("2", "login_complete", &pasted);
    bridge.ask("3", "command", "{:text \"/login asked\"}");
    let question = bridge.event("interaction/requested");
    let id = data(&question, "interaction-id").to_owned();
    let answer = format!(
        "{{:interaction-id {id:?} :status \"accepted\" :value {{:secret {:?}}}}}",
        canary("typed question")
    );
    bridge.ask("4", "interaction_respond", &answer);
    bridge.until(|frame| is_event(frame, "command-result") && data(frame, "type") == "text");
    bridge.ask("5", "login_begin", "{:provider \"login\"}");
    bridge.ask("6", "login_complete", "{}");
    // Each is used, and each is sent back.
    for (name, key) in [
        ("openai", "key in the environment"),
        ("environment", "variable that"),
        ("command", "a :key-command prints"),
        ("failing", "failing"),
        ("pasted", "pasted"),
        ("asked", "typed question"),
        ("query", "query of"),
    ] {
        ask(&mut bridge, name);
        if name == "failing" {
            // It never came as far as the server.
            continue;
        }
        for n in 0..3 {
            models.then([echo(n, canary(key))]);
            ask(&mut bridge, name);
        }
        models.then([hello()]);
    }
    // The login ends within the minute, and cannot be renewed: the server names what it was shown.
    ask(&mut bridge, "login");
    let used: String =
        models.all_asked().iter().map(|asked| format!("{} {:?}", asked.path, asked.head)).collect();
    for entry in [
        "key in the environment",
        "variable that",
        "a :key-command prints",
        ":headers",
        "pasted",
        "typed question",
        "query of",
    ] {
        assert!(used.contains(canary(entry)), "{entry} was not used");
    }
    let renewed: String =
        auth.all_asked().iter().map(|asked| format!("{:?} {}", asked.head, asked.body)).collect();
    assert!(
        renewed.contains(canary("renewed with")) && renewed.contains(canary("device's own")),
        "{renewed}"
    );
    // Whatever shows something is asked to show it.
    bridge.ask("7", "bash", "{:command \"env; cat /proc/self/environ\"}");
    bridge.ask("8", "command", "{:text \"/status\"}");
    bridge.ask("9", "command", "{:text \"/history\"}");
    for (n, op) in [
        "get_state",
        "get_messages",
        "get_session_stats",
        "get_available_models",
        "list_sessions",
        "get_commands",
    ]
    .iter()
    .enumerate()
    {
        bridge.ask(&format!("a{n}"), op, "{}");
    }
    // Every attribute, where it stands: many are found below a join alone.
    let asked = "{:query \"[{:psi.graph/attributes [:psi.attribute/example]}]\"}";
    let all = bridge.ask("q", "query_eql", asked);
    let all = at(&all, &["data", "result", "psi.graph/attributes"]).unwrap().as_slice().unwrap();
    assert!(all.len() > 220, "{}", all.len());
    for (n, attribute) in all.iter().enumerate() {
        let example = attribute.get("psi.attribute/example").unwrap();
        bridge.ask(&format!("e{n}"), "query_eql", &format!("{{:query {example}}}"));
    }
    let page = setup.project().join("page.html");
    bridge.ask("x", "export_html", &format!("{{:path {:?}}}", page.to_str().unwrap()));

    let mut report = Report::default();
    let transcript = std::mem::take(&mut bridge.transcript);
    let (status, rest, stderr) = bridge.finish();
    assert!(status.success());
    let received = transcript.iter().filter(|line| line.starts_with("< "));
    for line in received.chain(&rest) {
        report.search("standard output: every frame", line.as_bytes());
    }
    report.search("standard error, at the level trace", stderr.as_bytes());
    assert!(!stderr.is_empty());
    let credentials = setup.state().join("credentials.edn");
    for file in files(&setup.state()).into_iter().chain(files(&setup.project())) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        if file == credentials {
            // The one place where they belong, and only there.
            let kept = String::from_utf8_lossy(&bytes).into_owned();
            for entry in ["pasted", "typed question", "token of a login", "renewed with"] {
                assert!(kept.contains(canary(entry)), "{entry} is not kept: {kept}");
            }
            continue;
        }
        let name = file.strip_prefix(setup.dir.path()).unwrap().to_string_lossy().into_owned();
        let kind = match name.rsplit_once('.') {
            Some((_, "edn")) => "journals, the audit and other EDN files",
            Some((_, "html")) => "an exported page",
            _ => "the index, locks and other files",
        };
        report.search(kind, &bytes);
    }
    for arguments in [
        ["sessions", "list"].as_slice(),
        &["sessions", "list", "--json"],
        &["models", "list"],
        &["models", "list", "--json"],
        &["rules", "list", "--json"],
        &["audit", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["config", "check"],
        &["query", "[*]"],
        &["query", "[{:psi.config/settings [*]} {:psi.agent-session/providers [*]}]"],
        &["doctor"],
        &["doctor", "--format", "edn"],
    ] {
        let output = setup.command().args(arguments).output().unwrap();
        report.search("the command line's output", &[output.stdout, output.stderr].concat());
    }
    report.check();
}
