//! Checks of logins: starting, completing and removing them, and questions for a device code or a secret. A
//! secret must not appear anywhere afterwards.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::check::{Check, Need, Stop, ensure, text};
use super::super::launch::Config;
use super::super::peer::{Answer, payload};
use super::questions::respond;
use super::sessions::state;
use crate::value::Value;

const LOGINS: &[Need] = &[
    Need::Script,
    Need::Config,
    Need::Op("command"),
    Need::Op("interaction_respond"),
    Need::Op("get_state"),
    Need::Feature("interactor"),
];

const ANY: &str = "{:turns [{:steps [{:delta \"ok\"}]}] :then :repeat-last}";

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "login.none-pending",
        about: "`login_complete` without a pending login is request/no-pending-login.",
        needs: &[Need::Op("login_complete")],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.ask_error("login_complete", "{:input \"code\"}", "request/no-pending-login").map(|_| ())
        },
    },
    Check {
        name: "login.begin",
        about: "`login_begin` returns the provider and the page, or the reason for a failure.",
        needs: &[Need::Op("login_begin")],
        run: |probe| {
            let mut peer = probe.ready()?;
            match peer.ask("login_begin", "{:provider \"no-such-provider\"}")? {
                Answer::Ok(data) => ensure(data.get("pending-login") == Some(&Value::Bool(true)), || {
                    ":pending-login is not true".to_owned()
                }),
                Answer::Error(error) => {
                    let fair = ["request/invalid-params", "runtime/failed", "request/not-found"]
                        .contains(&error.code.as_str());
                    ensure(fair, || format!("{} came", error.code))
                }
            }
        },
    },
    Check {
        name: "logout.answer",
        about: "`logout` returns whether there were credentials.",
        needs: &[Need::Op("logout")],
        run: |probe| {
            let mut peer = probe.ready()?;
            let data = peer.ask_ok("logout", "{:provider \"no-such-provider\"}")?;
            ensure(data.get("logged-out").and_then(Value::as_bool).is_some(), || {
                ":logged-out is not a boolean".to_owned()
            })
        },
    },
    Check {
        name: "login.completed",
        about: "`login_begin` returns the page, `login_complete` completes the login once, and `logout` deletes it.",
        needs: &[
            Need::Script,
            Need::Config,
            Need::Op("login_begin"),
            Need::Op("login_complete"),
            Need::Op("logout"),
        ],
        run: |probe| {
            let mut peer = probe.configured(ANY, &keyed(), &[])?;
            let begun = peer.ask_ok("login_begin", "{:provider \"k\"}")?;
            let provider = begun.get("provider").cloned().unwrap_or(Value::Nil);
            ensure(text(&provider, "id") == "k" && text(&provider, "name") == "Keyed", || {
                format!("the provider is told as {}", crate::edn::to_string(&provider))
            })?;
            ensure(text(&begun, "url") == "https://k.example/keys", || "the address is another".to_owned())?;
            ensure(begun.get("pending-login") == Some(&Value::Bool(true)), || {
                ":pending-login is not true".to_owned()
            })?;
            peer.ask_error("login_complete", "{:input \"\"}", "request/invalid-params")?;
            let done = peer.ask_ok("login_complete", "{:input \"sk-contract\"}")?;
            ensure(done.get("logged-in") == Some(&Value::Bool(true)), || {
                ":logged-in is not true".to_owned()
            })?;
            peer.ask_error("login_complete", "{:input \"sk-contract\"}", "request/no-pending-login")?;
            for due in [true, false] {
                let data = peer.ask_ok("logout", "{:provider \"k\"}")?;
                ensure(data.get("logged-out") == Some(&Value::Bool(due)), || {
                    format!(":logged-out is not {due}")
                })?;
            }
            Ok(())
        },
    },
    Check {
        name: "login.device-code",
        about: "A device login shows page, code and expiry; the login continues once the code was entered.",
        needs: LOGINS,
        run: |probe| {
            let server = Server::start()?;
            let config = Config {
                text: format!(
                    "{{:providers {{\"p\" {{:name \"Example\" :base-url \"{0}/v1\" \
                      :login {{:client-id \"c\" :device-url \"{0}/device\" :token-url \"{0}/token\"}}}}}}}}",
                    server.url
                ),
                ..Config::default()
            };
            let mut peer = probe.configured(ANY, &config, &["interactor"])?;
            peer.ask_ok("command", "{:text \"/login p\"}")?;
            let question = peer.topic("interaction/requested")?;
            let asked = payload(&question);
            ensure(text(asked, "kind") == "auth.device-code", || {
                format!("the kind is {:?}", text(asked, "kind"))
            })?;
            let shown = asked.get("payload").cloned().unwrap_or(Value::Nil);
            ensure(text(&shown, "code") == "WDJB-MJHT", || "the code is not shown".to_owned())?;
            ensure(text(&shown, "url").starts_with("https://"), || "the address is not shown".to_owned())?;
            ensure(!text(&shown, "expires-at").is_empty(), || "its end is not shown".to_owned())?;
            let id = text(asked, "interaction-id").to_owned();
            let wrong = format!("{{:interaction-id {id:?} :status \"accepted\" :value {{:done \"yes\"}}}}");
            peer.ask_error("interaction_respond", &wrong, "request/invalid-params")?;
            respond(&mut peer, &question, "accepted", "{:done true}")?;
            server.entered.store(true, Ordering::Release);
            peer.event("command-result that says logged in", |topic, payload| {
                topic == "command-result" && text(payload, "type") == "text"
            })?;
            let told = peer.topic("interaction/answered")?;
            ensure(payload(&told).get("value").is_none(), || "the answer is told to everybody".to_owned())
        },
    },
    Check {
        name: "login.password",
        about: "A secret has its own kind of question; no frame and no session contains the answer.",
        needs: LOGINS,
        run: |probe| {
            let mut peer = probe.configured(ANY, &keyed(), &["interactor"])?;
            peer.ask_ok("command", "{:text \"/login k\"}")?;
            let question = peer.topic("interaction/requested")?;
            let asked = payload(&question);
            ensure(text(asked, "kind") == "auth.password", || {
                format!("the kind is {:?}", text(asked, "kind"))
            })?;
            let id = text(asked, "interaction-id").to_owned();
            let wrong = format!("{{:interaction-id {id:?} :status \"accepted\" :value {{:text \"no\"}}}}");
            peer.ask_error("interaction_respond", &wrong, "request/invalid-params")?;
            let secret = format!("sk-contract-{}", std::process::id());
            respond(&mut peer, &question, "accepted", &format!("{{:secret {secret:?}}}"))?;
            peer.event("command-result that says logged in", |topic, payload| {
                topic == "command-result" && text(payload, "type") == "text"
            })?;
            let told = peer.topic("interaction/answered")?;
            ensure(payload(&told).get("value").is_none(), || "the answer is told to everybody".to_owned())?;
            peer.ask_ok("prompt", "{:message \"hello\"}")?;
            peer.topic("assistant/message")?;
            super::sessions::idle(&mut peer)?;
            let kept = peer.ask_ok("get_messages", "{}")?;
            let events = peer.take_events();
            let mut seen = events.iter().chain([&told, &kept]).map(crate::edn::to_string);
            ensure(!seen.any(|seen| seen.contains(&secret)), || "the secret stands in a frame".to_owned())?;
            let file = text(&state(&mut peer)?, "session-file").to_owned();
            let journal = std::fs::read_to_string(&file).unwrap_or_default();
            ensure(!journal.contains(&secret), || format!("the secret stands in {file}"))?;
            ensure(!events.is_empty(), || "nothing came that could hold it".to_owned())
        },
    },
];

/// A provider with a pasted key.
pub(super) fn keyed() -> Config {
    let text = "{:providers {\"k\" {:name \"Keyed\" :base-url \"http://127.0.0.1:9/v1\" \
                :key-variables [\"NO_SUCH_KEY\"] :key-url \"https://k.example/keys\"}}}";
    Config { text: text.to_owned(), ..Config::default() }
}

/// A login server on loopback. It issues a code, and a token after the code was entered.
struct Server {
    url: String,
    entered: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Result<Self, Stop> {
        let failed = |error: std::io::Error| Stop::failed(format!("no server of logins can be had: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let url = format!("http://{}", listener.local_addr().map_err(failed)?);
        let entered = Arc::new(AtomicBool::new(false));
        let seen = entered.clone();
        // It ends with the runner; a failed connection is the tested server's problem.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &seen);
            }
        });
        Ok(Self { url, entered })
    }
}

fn answer(mut stream: TcpStream, entered: &AtomicBool) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    let (status, body) = match (head.contains(" /device "), entered.load(Ordering::Acquire)) {
        (true, _) => (
            "200 OK",
            r#"{"device_code":"d","user_code":"WDJB-MJHT","verification_uri":"https://p.example/device","expires_in":600,"interval":0}"#,
        ),
        (false, false) => ("400 Bad Request", r#"{"error":"authorization_pending"}"#),
        (false, true) => ("200 OK", r#"{"access_token":"at","token_type":"Bearer","expires_in":3600}"#),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
