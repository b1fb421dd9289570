//! Logins over the real wire, against an authorisation server on loopback: a page with PKCE and a callback, a
//! pasted code, a device code, a pasted key; renewal and logout.

use crate::support;

use std::io::{BufRead, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

use base64::Engine as _;
use edn_bridge::value::{Owned, Value};
use sha2::Digest as _;
use support::server::{Answer, Asked, End, Server};
use support::{Bridge, Setup, at, code, is_event, server, text};

/// A bridge with a provider `p` that is logged in at by `login`, an EDN map without its braces.
fn setup(models: &Server, login: &str) -> Setup {
    let setup = Setup::new().arg("--provider").arg("p").arg("--model").arg("m");
    let config = setup.dir.path().join("config.edn");
    let text = format!(
        "{{:providers {{\"p\" {{:name \"Example\" :base-url \"{}\" :login {{:client-id \"my-client\" {login}}}}}
                        \"k\" {{:name \"Keyed\" :base-url \"{}\" :key-variables [\"NO_SUCH_KEY\"] :key-url \"https://k.example/keys\"}}}}}}",
        models.url(),
        models.url()
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap().to_owned();
    setup.arg("--config").arg(&config)
}

fn data<'v>(frame: &'v Owned, key: &str) -> &'v str {
    at(frame, &["data", key]).and_then(|value| value.as_str()).unwrap_or("")
}

fn flag(frame: &Owned, key: &str) -> Option<bool> {
    at(frame, &["data", key]).and_then(Value::as_bool)
}

/// Parameters of an address or a form.
fn pairs(text: &str) -> Vec<(String, String)> {
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    edn_bridge::http::Url::parse(&format!("http://x/?{query}"))
        .unwrap()
        .query_pairs()
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect()
}

fn pair(pairs: &[(String, String)], key: &str) -> String {
    pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone()).unwrap_or_default()
}

fn form(asked: &Asked) -> Vec<(String, String)> {
    pairs(&format!("?{}", asked.body))
}

fn tokens(access: &str, more: &str) -> Answer {
    Answer::json(200, &format!(r#"{{"access_token":"{access}","token_type":"Bearer"{more}}}"#))
}

fn hello() -> Answer {
    Answer::events(
        "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    )
}

/// Asks the model and returns what it was shown as a key.
fn shown_key(bridge: &mut Bridge, models: &Server) -> String {
    bridge.ask("hi", "prompt", "{:message \"hi\"}");
    let last = bridge.event("assistant/message");
    assert_eq!(data(&last, "text"), "hello", "{last}\n{}", bridge.told());
    models.asked().line("authorization").to_owned()
}

#[test]
fn browser_login_returns_with_code() {
    let (models, auth) = (
        Server::new([hello()]),
        Server::new([tokens("at-1", ",\"expires_in\":3600,\"refresh_token\":\"rt-1\"")]),
    );
    let login = format!(
        ":authorize-url \"{0}/authorize?x=1\" :token-url \"{0}/token\" :scopes [\"models:use\" \"offline\"] :extra {{\"audience\" \"a\"}}",
        auth.url()
    );
    let setup = setup(&models, &login);
    let mut bridge = setup.ready();
    let none = bridge.ask("0", "login_complete", "{}");
    assert_eq!(code(&none), "request/no-pending-login");
    let begun = bridge.ask("1", "login_begin", "{:provider \"p\"}");
    assert_eq!(
        (flag(&begun, "uses-callback-server"), flag(&begun, "pending-login")),
        (Some(true), Some(true)),
        "{begun}"
    );
    assert_eq!(at(&begun, &["data", "provider", "name"]).and_then(Value::as_str), Some("Example"));
    let page = pairs(data(&begun, "url"));
    assert_eq!(
        ["x", "response_type", "client_id", "scope", "audience", "code_challenge_method"]
            .map(|key| pair(&page, key)),
        ["1", "code", "my-client", "models:use offline", "a", "S256"]
    );
    // The completion waits for the browser; another's code is not taken.
    bridge.request("2", "login_complete", "{}");
    let back = pair(&page, "redirect_uri");
    assert!(back.starts_with("http://127.0.0.1:"), "{back}");
    assert!(server::get(&format!("{back}?code=evil&state=other")).contains("400"));
    assert!(auth.all_asked().is_empty());
    let seen = server::get(&format!("{back}?code=the-code&state={}", pair(&page, "state")));
    assert!(seen.starts_with("HTTP/1.1 200") && !seen.contains("the-code"), "{seen}");
    let done = bridge.answer("2");
    assert_eq!(flag(&done, "logged-in"), Some(true), "{done}");
    let asked = auth.asked();
    let sent = form(&asked);
    assert_eq!(asked.path, "/token");
    assert_eq!(
        ["grant_type", "code", "client_id", "redirect_uri"].map(|key| pair(&sent, key)),
        ["authorization_code", "the-code", "my-client", back.as_str()]
    );
    let proof = sha2::Sha256::digest(pair(&sent, "code_verifier"));
    let proof = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(proof);
    assert_eq!(proof, pair(&page, "code_challenge"));
    let file = setup.state().join("credentials.edn");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(shown_key(&mut bridge, &models), "Bearer at-1");
    // Completed once.
    assert_eq!(code(&bridge.ask("3", "login_complete", "{}")), "request/no-pending-login");
    assert_eq!(flag(&bridge.ask("4", "logout", "{:provider \"p\"}"), "logged-out"), Some(true));
    assert_eq!(flag(&bridge.ask("5", "logout", "{:provider \"p\"}"), "logged-out"), Some(false));
    assert!(!std::fs::read_to_string(&file).unwrap().contains("at-1"));
}

#[test]
fn login_code_can_be_pasted() {
    let (models, auth) = (Server::new([hello()]), Server::new([tokens("at-2", "")]));
    let login = format!(
        ":authorize-url \"{0}/authorize\" :token-url \"{0}/token\" :redirect-url \"https://p.example/shown\"",
        auth.url()
    );
    let mut bridge = setup(&models, &login).ready();
    let begun = bridge.ask("1", "login_begin", "{}");
    assert_eq!(flag(&begun, "uses-callback-server"), Some(false), "{begun}");
    let state = pair(&pairs(data(&begun, "url")), "state");
    for (input, expected) in [
        ("{}", "request/invalid-params"),
        ("{:input \"\"}", "request/invalid-params"),
        ("{:input \"two words\"}", "request/invalid-params"),
        ("{:input \"code#other-state\"}", "request/invalid-params"),
    ] {
        assert_eq!(code(&bridge.ask("2", "login_complete", input)), expected, "{input}");
    }
    let done = bridge.ask(
        "3",
        "login_complete",
        &format!("{{:input \"https://p.example/shown?code=abc&state={state}\"}}"),
    );
    assert_eq!(flag(&done, "logged-in"), Some(true), "{done}");
    assert_eq!(pair(&form(&auth.asked()), "code"), "abc");
    assert_eq!(shown_key(&mut bridge, &models), "Bearer at-2");
}

#[test]
fn device_login_shows_code_and_waits() {
    let (models, auth) = (
        Server::new([hello()]),
        Server::new([
            Answer::json(
                200,
                r#"{"device_code":"dc-secret","user_code":"WDJB-MJHT","verification_uri":"https://p.example/device","expires_in":600,"interval":0}"#,
            ),
            Answer::json(400, r#"{"error":"authorization_pending"}"#),
            tokens("at-3", ""),
        ]),
    );
    let login = format!(":device-url \"{0}/device\" :token-url \"{0}/token\"", auth.url());
    let mut bridge = setup(&models, &login).ready();
    let begun = bridge.ask("1", "login_begin", "{:provider :p}");
    assert_eq!(
        (data(&begun, "url"), data(&begun, "user-code")),
        ("https://p.example/device", "WDJB-MJHT"),
        "{begun}"
    );
    assert!(!data(&begun, "expires-at").is_empty() && !begun.to_string().contains("dc-secret"), "{begun}");
    let done = bridge.ask("2", "login_complete", "{}");
    assert_eq!(flag(&done, "logged-in"), Some(true), "{done}");
    assert_eq!(shown_key(&mut bridge, &models), "Bearer at-3");
    assert_eq!(auth.all_asked().len(), 3);
}

#[test]
fn login_command_completes_login() {
    let (models, auth) = (Server::new([hello()]), Server::new([tokens("at-4", "")]));
    let login = format!(":authorize-url \"{0}/authorize\" :token-url \"{0}/token\"", auth.url());
    let mut bridge = setup(&models, &login).ready();
    bridge.ask("1", "command", "{:text \"/login p\"}");
    let told = bridge.event("command-result");
    assert_eq!(data(&told, "type"), "login_start", "{told}");
    let url = data(&told, "message").split(' ').find(|word| word.starts_with("http")).unwrap().to_owned();
    let page = pairs(&url);
    server::get(&format!("{}?code=c&state={}", pair(&page, "redirect_uri"), pair(&page, "state")));
    assert_eq!(data(&bridge.event("command-result"), "message"), "You are logged in at Example.");
    assert_eq!(shown_key(&mut bridge, &models), "Bearer at-4");
    bridge.ask("2", "command", "{:text \"/logout p\"}");
    assert_eq!(data(&bridge.event("command-result"), "message"), "Logged out.");
}

#[test]
fn abort_gives_up_login_that_is_asked_about() {
    let models = Server::new([]);
    let setup = setup(&models, "");
    let mut bridge = setup.serve();
    bridge.ask(
        "h",
        "handshake",
        "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}",
    );
    bridge.ask("s", "subscribe", "{}");
    bridge.ask("1", "command", "{:text \"/login k\"}");
    bridge.event("interaction/requested");
    bridge.ask("2", "abort", "{}");
    let told = bridge.until(|frame| is_event(frame, "command-result") && data(frame, "type") == "error");
    assert_eq!(data(&told, "message"), "The login was cancelled.");
    assert_eq!(code(&bridge.ask("3", "login_complete", "{:input \"sk-late\"}")), "request/no-pending-login");
}

/// While the login server is asked, nothing is pending yet that an abort could end.
#[test]
fn abort_gives_up_login_that_waits_for_its_server() {
    let (models, auth) = (Server::new([]), Server::new([Answer::json(200, DEVICE).end(End::Silent)]));
    let setup = setup(&models, &format!(":device-url \"{0}/device\" :token-url \"{0}/token\"", auth.url()));
    let mut bridge = setup.interactor();
    for (ask, abort) in [("1", "2"), ("3", "4")] {
        bridge.ask(ask, "command", "{:text \"/login p\"}");
        auth.asked();
        bridge.ask(abort, "abort", "{}");
        let (mut asked, mut told) = (false, String::new());
        while told.is_empty() {
            let frame = bridge.frame();
            asked |= is_event(&frame, "interaction/requested");
            if is_event(&frame, "command-result") {
                told = data(&frame, "message").to_owned();
            }
        }
        assert_eq!((told.as_str(), asked), ("The login was cancelled.", false));
        auth.then([Answer::json(200, DEVICE).end(End::Silent)]);
    }
}

/// The question for the provider is withdrawn too.
#[test]
fn abort_gives_up_login_whose_provider_is_asked_for() {
    let (_setup, _models, _auth, mut bridge) = device();
    bridge.ask("m", "set_model", "{:provider \"scripted\" :model-id \"scripted\"}");
    bridge.ask("1", "command", "{:text \"/login\"}");
    bridge.event("interaction/requested");
    bridge.ask("2", "abort", "{}");
    assert_eq!(outcome(&mut bridge).1, "The login was cancelled.");
}

#[test]
fn pasted_key_is_not_shown() {
    let models = Server::new([hello()]);
    let login = ":device-url \"https://p.example/d\" :token-url \"https://p.example/t\"";
    let setup = setup(&models, login);
    let mut bridge = setup.ready();
    let begun = bridge.ask("1", "login_begin", "{:provider \"k\"}");
    assert_eq!(data(&begun, "url"), "https://k.example/keys");
    assert_eq!(code(&bridge.ask("2", "login_complete", "{}")), "request/invalid-params");
    assert_eq!(flag(&bridge.ask("3", "login_complete", "{:input \" sk-pasted \"}"), "logged-in"), Some(true));
    bridge.ask("4", "set_model", "{:provider \"p\" :model-id \"m\"}");
    assert!(
        std::fs::read_to_string(setup.state().join("credentials.edn")).unwrap().contains("\"sk-pasted\"")
    );
    assert_eq!(flag(&bridge.ask("5", "logout", "{:provider \"k\"}"), "logged-out"), Some(true));

    // The command asks an interactor.
    let mut bridge = setup.serve();
    bridge.ask(
        "h",
        "handshake",
        "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}",
    );
    bridge.ask("s", "subscribe", "{}");
    bridge.ask("1", "command", "{:text \"/login k\"}");
    let asked = bridge.event("interaction/requested");
    assert_eq!(data(&asked, "kind"), "auth.password", "{asked}");
    let id = data(&asked, "interaction-id").to_owned();
    bridge.ask(
        "2",
        "interaction_respond",
        &format!("{{:interaction-id {id:?} :status \"accepted\" :value {{:secret \"sk-asked\"}}}}"),
    );
    let told = bridge.until(|frame| is_event(frame, "command-result") && data(frame, "type") == "text");
    assert_eq!(data(&told, "message"), "You are logged in at Keyed.");
    let sent_away =
        bridge.transcript.iter().filter(|line| line.starts_with("< ")).any(|line| line.contains("sk-asked"));
    assert!(!sent_away, "{}", bridge.told());
}

const DEVICE: &str = r#"{"device_code":"dc-secret","user_code":"WDJB-MJHT","verification_uri":"https://p.example/device","expires_in":600,"interval":0}"#;
const WAIT: &str = r#"{"error":"authorization_pending"}"#;

/// A bridge whose user answers typed questions, and a login by a device's code that waits until the test
/// lets it end.
fn device() -> (Setup, Server, Server, Bridge) {
    let (models, auth) =
        (Server::new([hello()]), Server::new([Answer::json(200, DEVICE), Answer::json(400, WAIT)]));
    let setup = setup(&models, &format!(":device-url \"{0}/device\" :token-url \"{0}/token\"", auth.url()));
    let bridge = setup.interactor();
    (setup, models, auth, bridge)
}

fn respond(bridge: &mut Bridge, question: &Owned, value: &str) -> Owned {
    let id = data(question, "interaction-id");
    let params = format!("{{:interaction-id {id:?} :status \"accepted\" :value {value}}}");
    bridge.ask("r", "interaction_respond", &params)
}

/// What the command came to.
fn outcome(bridge: &mut Bridge) -> (String, String) {
    let told =
        bridge.until(|frame| is_event(frame, "command-result") && data(frame, "type") != "login_start");
    (data(&told, "type").to_owned(), data(&told, "message").to_owned())
}

#[test]
fn device_code_is_a_typed_question() {
    let (_setup, models, auth, mut bridge) = device();
    bridge.ask("1", "command", "{:text \"/login p\"}");
    let asked = bridge.event("interaction/requested");
    assert_eq!(data(&asked, "kind"), "auth.device-code");
    let payload = |key| at(&asked, &["data", "payload", key]).and_then(Value::as_str).unwrap_or("");
    assert_eq!(
        [payload("provider"), payload("url"), payload("code")],
        ["Example", "https://p.example/device", "WDJB-MJHT"]
    );
    assert!(payload("expires-at").ends_with('Z') && !data(&asked, "correlation-id").is_empty(), "{asked}");
    let wrong = respond(&mut bridge, &asked, "{:done \"yes\"}");
    assert_eq!(code(&wrong), "request/invalid-params", "{wrong}");
    assert_eq!(flag(&respond(&mut bridge, &asked, "{:done true}"), "accepted"), Some(true));
    let answered = bridge.event("interaction/answered");
    assert_eq!(data(&answered, "status"), "accepted");
    assert!(at(&answered, &["data", "value"]).is_none(), "what is answered stays private: {answered}");
    // That the person is done is only said; the server's word counts.
    auth.then([tokens("at-5", "")]);
    assert_eq!(outcome(&mut bridge), ("text".to_owned(), "You are logged in at Example.".to_owned()));
    assert_eq!(shown_key(&mut bridge, &models), "Bearer at-5");
}

#[test]
fn login_command_lets_choose_a_provider() {
    let (_setup, _models, auth, mut bridge) = device();
    bridge.ask("m", "set_model", "{:provider \"scripted\" :model-id \"scripted\"}");
    bridge.ask("1", "command", "{:text \"/login\"}");
    let asked = bridge.event("interaction/requested");
    assert_eq!(data(&asked, "kind"), "select");
    let options = at(&asked, &["data", "payload", "options"]).and_then(Value::as_slice).unwrap();
    let label = |option: &Value<'_>| option.get("label").and_then(Value::as_str) == Some("p");
    let place = options.iter().position(label).unwrap();
    respond(&mut bridge, &asked, &format!("{{:index {place}}}"));
    let asked = bridge.event("interaction/requested");
    assert_eq!(data(&asked, "kind"), "auth.device-code");
    auth.then([tokens("at-9", "")]);
    respond(&mut bridge, &asked, "{:done true}");
    assert_eq!(outcome(&mut bridge).1, "You are logged in at Example.");
}

#[test]
fn device_code_question_ends_with_login() {
    let (setup, models, auth, mut bridge) = device();
    // The server says that it is done before the person does.
    bridge.ask("1", "command", "{:text \"/login p\"}");
    let asked = bridge.event("interaction/requested");
    auth.then([tokens("at-6", "")]);
    let answered = bridge.event("interaction/answered");
    assert_eq!((data(&answered, "status"), data(&answered, "ext-id")), ("cancelled", "core"));
    assert_eq!(outcome(&mut bridge).1, "You are logged in at Example.");
    assert_eq!(code(&respond(&mut bridge, &asked, "{:done true}")), "request/interaction-already-answered");
    assert_eq!(shown_key(&mut bridge, &models), "Bearer at-6");
    let audit = std::fs::read_to_string(setup.state().join("audit.edn")).unwrap();
    assert!(audit.contains(":kind \"auth.device-code\"") && !audit.contains("WDJB-MJHT"), "{audit}");
    // Who says that it will not be done ends it.
    for answer in ["{:done false}", ""] {
        // Servers of their own: a login that was ended may have asked once more.
        let (_setup, _models, _auth, mut bridge) = device();
        bridge.ask("2", "command", "{:text \"/login p\"}");
        let asked = bridge.event("interaction/requested");
        match answer {
            "" => {
                let id = data(&asked, "interaction-id");
                let params = format!("{{:interaction-id {id:?} :status \"cancelled\"}}");
                bridge.ask("c", "interaction_respond", &params);
            }
            answer => drop(respond(&mut bridge, &asked, answer)),
        }
        assert_eq!(outcome(&mut bridge), ("error".to_owned(), "The login was cancelled.".to_owned()));
        assert_eq!(code(&bridge.ask("3", "login_complete", "{}")), "request/no-pending-login");
    }
}

#[test]
fn dialog_connection_gets_device_code_but_no_password() {
    let (setup, models, auth, bridge) = device();
    bridge.finish();
    let mut bridge = setup.ready();
    bridge.ask("d", "subscribe", "{:topics [\"ui/dialog-requested\"]}");
    bridge.ask("1", "command", "{:text \"/login p\"}");
    let asked = bridge.event("ui/dialog-requested");
    assert_eq!((data(&asked, "kind"), data(&asked, "title")), ("confirm", "Log in to Example"));
    assert!(data(&asked, "message").contains("https://p.example/device"), "{asked}");
    assert!(data(&asked, "message").contains("WDJB-MJHT"), "{asked}");
    let id = data(&asked, "dialog-id").to_owned();
    let params = format!("{{:dialog-id {id:?} :result true}}");
    assert_eq!(flag(&bridge.ask("r", "resolve_dialog", &params), "accepted"), Some(true));
    auth.then([tokens("at-7", "")]);
    assert_eq!(outcome(&mut bridge).1, "You are logged in at Example.");
    assert_eq!(shown_key(&mut bridge, &models), "Bearer at-7");
    // A secret is not typed into a plain dialog: the login waits for login_complete.
    bridge.ask("2", "command", "{:text \"/login k\"}");
    bridge.until(|frame| is_event(frame, "command-result") && data(frame, "type") == "login_start");
    assert_eq!(flag(&bridge.ask("3", "login_complete", "{:input \"sk-later\"}"), "logged-in"), Some(true));
    let dialogs = bridge.transcript.iter().filter(|line| line.contains(":event \"ui/dialog-requested\""));
    assert_eq!(dialogs.count(), 1, "{}", bridge.told());
    let audit = std::fs::read_to_string(setup.state().join("audit.edn")).unwrap();
    assert!(audit.contains(":kind \"auth.password\"") && audit.contains(":outcome \"headless\""), "{audit}");
}

#[test]
fn password_reaches_no_client() {
    let models = Server::new([hello()]);
    let setup = setup(&models, ":device-url \"https://p.example/d\" :token-url \"https://p.example/t\"");
    let mut bridge = setup.interactor();
    let mut other = support::guest::Guest::interactor(&support::guest::socket(&setup.state()));
    bridge.ask("1", "command", "{:text \"/login k\"}");
    let asked = bridge.event("interaction/requested");
    assert_eq!(data(&asked, "kind"), "auth.password");
    assert!(at(&asked, &["data", "payload", "prompt"]).is_some(), "{asked}");
    // Both are asked; what the one answers the other is not told.
    let theirs = other.until(|frame| is_event(frame, "interaction/requested"));
    assert_eq!(data(&theirs, "interaction-id"), data(&asked, "interaction-id"));
    assert_eq!(code(&respond(&mut bridge, &asked, "{:secret 7}")), "request/invalid-params");
    respond(&mut bridge, &asked, "{:secret \"sk-hidden\"}");
    let answered = other.until(|frame| is_event(frame, "interaction/answered"));
    assert_eq!(data(&answered, "status"), "accepted");
    assert!(at(&answered, &["data", "value"]).is_none(), "{answered}");
    assert_eq!(outcome(&mut bridge).1, "You are logged in at Keyed.");
    for file in support::files(&setup.state()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let holds = String::from_utf8_lossy(&bytes).contains("sk-hidden");
        assert_eq!(holds, file.ends_with("credentials.edn"), "{}", file.display());
    }
}

#[test]
fn tokens_are_renewed_before_expiry_and_after_refusal() {
    let refused = Answer::json(401, r#"{"error":{"message":"expired"}}"#);
    let (models, auth) = (
        Server::new([hello(), refused, hello()]),
        Server::new([
            tokens("at-1", ",\"expires_in\":30,\"refresh_token\":\"rt-1\""),
            tokens("at-2", ",\"expires_in\":3600"),
            tokens("at-3", ",\"expires_in\":3600,\"refresh_token\":\"rt-3\""),
        ]),
    );
    let login = format!(":authorize-url \"{0}/authorize\" :token-url \"{0}/token\"", auth.url());
    let setup = setup(&models, &login);
    let mut bridge = setup.ready();
    let begun = bridge.ask("1", "login_begin", "{:provider \"p\"}");
    let page = pairs(data(&begun, "url"));
    bridge.ask("2", "login_complete", &format!("{{:input \"c#{}\"}}", pair(&page, "state")));
    // It ends within the minute: renewed before the call.
    assert_eq!(shown_key(&mut bridge, &models), "Bearer at-2");
    assert_eq!(shown_key(&mut bridge, &models), "Bearer at-2");
    assert_eq!(models.asked().line("authorization"), "Bearer at-3");
    auth.asked();
    let renewals = [auth.asked(), auth.asked()].map(|asked| {
        let sent = form(&asked);
        format!("{} {}", pair(&sent, "grant_type"), pair(&sent, "refresh_token"))
    });
    // The server gave no new one the first time, so that the old one stood.
    assert_eq!(renewals, ["refresh_token rt-1", "refresh_token rt-1"]);
    assert!(std::fs::read_to_string(setup.state().join("credentials.edn")).unwrap().contains("rt-3"));
}

#[test]
fn login_failures_are_reported() {
    let models = Server::new([]);
    let auth = Server::new([Answer::json(
        400,
        r#"{"error":"invalid_grant","error_description":"the code the-code is old"}"#,
    )]);
    let login = format!(":authorize-url \"{0}/authorize\" :token-url \"{0}/token\"", auth.url());
    let mut bridge = setup(&models, &login).ready();
    let refused = bridge.ask("1", "login_begin", "{:provider \"nobody\"}");
    assert_eq!(code(&refused), "request/invalid-params", "{refused}");
    bridge.ask("2", "login_begin", "{:provider \"p\"}");
    let failed = bridge.ask("3", "login_complete", "{:input \"the-code\"}");
    assert_eq!(code(&failed), "runtime/failed");
    let message = text(&failed, "error-message");
    assert!(message.contains("is old") && !message.contains("the-code"), "{message}");

    // The page's own refusal, through the browser.
    let begun = bridge.ask("4", "login_begin", "{:provider \"p\"}");
    let page = pairs(data(&begun, "url"));
    bridge.request("5", "login_complete", "{}");
    server::get(&format!(
        "{}?error=access_denied&state={}",
        pair(&page, "redirect_uri"),
        pair(&page, "state")
    ));
    assert!(text(&bridge.answer("5"), "error-message").contains("access_denied"));

    // A server that answers nonsense, or is not there.
    auth.then([Answer::json(200, "{\"access_token\": 7}"), Answer::json(200, "").end(End::Dropped)]);
    for expected in ["cannot be read", "failed"] {
        bridge.ask("6", "login_begin", "{:provider \"p\"}");
        let failed = bridge.ask("7", "login_complete", "{:input \"c\"}");
        assert!(text(&failed, "error-message").contains(expected), "{failed}");
    }
    // A login of another connection is not this one's, and a new one puts an end to the old.
    bridge.ask("8", "login_begin", "{:provider \"p\"}");
    bridge.request("9", "login_complete", "{}");
    bridge.ask("10", "login_begin", "{:provider \"k\"}");
    assert_eq!(code(&bridge.answer("9")), "request/no-pending-login");
    // Also where both are with the same provider: the new one waits on.
    bridge.ask("11", "login_begin", "{:provider \"p\"}");
    bridge.request("12", "login_complete", "{}");
    bridge.ask("13", "login_begin", "{:provider \"p\"}");
    assert_eq!(code(&bridge.answer("12")), "request/no-pending-login");
    let other = bridge.ask("14", "login_complete", "{:input \"c#of-another\"}");
    assert_eq!(code(&other), "request/invalid-params");
}

#[test]
fn device_login_at_no_page_of_the_web_is_refused() {
    for page in ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x"] {
        let (models, auth) = (
            Server::new([hello()]),
            Server::new([Answer::json(200, &DEVICE.replace("https://p.example/device", page))]),
        );
        let setup =
            setup(&models, &format!(":device-url \"{0}/device\" :token-url \"{0}/token\"", auth.url()));
        let mut bridge = setup.interactor();
        let answer = bridge.ask("1", "login_begin", "{:provider \"p\"}");
        assert_eq!(code(&answer), "runtime/failed", "{answer}");
        assert!(answer.to_string().contains("no page of the web"), "{answer}");
        assert!(!bridge.told().lines().any(|line| line.starts_with("< ") && line.contains(page)), "{page}");
    }
}

/// The program at work on a login, with its input and what it has said on standard error.
fn at_terminal(
    setup: &Setup,
    arguments: &[&str],
) -> (std::process::Child, std::io::BufReader<std::process::ChildStderr>) {
    let mut child = setup
        .command()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let told = std::io::BufReader::new(child.stderr.take().unwrap());
    (child, told)
}

/// The page that a login names.
fn page_of(told: &mut impl BufRead) -> String {
    loop {
        let mut line = String::new();
        assert!(told.read_line(&mut line).unwrap() > 0, "no page was named");
        if line.trim().starts_with("http") {
            return line.trim().to_owned();
        }
    }
}

fn end_of(child: std::process::Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn login_at_a_terminal_keeps_key_tokens_and_logs_out() {
    let (models, auth) = (Server::new([hello()]), Server::new([tokens("at-5", "")]));
    let login = format!(":authorize-url \"{0}/authorize\" :token-url \"{0}/token\"", auth.url());
    let setup = setup(&models, &login);
    let kept = || std::fs::read_to_string(setup.state().join("credentials.edn")).unwrap_or_default();
    // A key is pasted, after a line that is none.
    let (mut child, mut told) = at_terminal(&setup, &["login", "k"]);
    assert_eq!(page_of(&mut told), "https://k.example/keys");
    child.stdin.take().unwrap().write_all(b"two words\n\nsk-typed\n").unwrap();
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    assert_eq!(end_of(child), (true, "You are logged in at Keyed.\n".to_owned()), "{rest}");
    assert!(
        kept().contains("sk-typed") && !rest.contains("sk-typed") && rest.contains("must be the key"),
        "{rest}"
    );
    // The browser comes back, though the input has ended.
    let (mut child, mut told) = at_terminal(&setup, &["login", "p"]);
    drop(child.stdin.take());
    let page = pairs(&page_of(&mut told));
    server::get(&format!("{}?code=c&state={}", pair(&page, "redirect_uri"), pair(&page, "state")));
    assert_eq!(end_of(child), (true, "You are logged in at Example.\n".to_owned()));
    assert!(kept().contains("at-5"));
    // The bridge takes what was kept.
    assert_eq!(shown_key(&mut setup.ready(), &models), "Bearer at-5");
    for (provider, expected) in
        [("p", (true, "Logged out of p.\n".to_owned())), ("p", (false, String::new()))]
    {
        let (child, _told) = at_terminal(&setup, &["logout", provider]);
        assert_eq!(end_of(child), expected);
    }
    assert!(!kept().contains("at-5") && kept().contains("sk-typed"));
    // Nothing is pasted, and there is no such provider.
    for (provider, expected) in [("k", "Nothing was pasted."), ("x", "There is no provider")] {
        let (mut child, mut told) = at_terminal(&setup, &["login", provider]);
        drop(child.stdin.take());
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        assert!(!end_of(child).0 && rest.contains(expected), "{rest}");
    }
}
