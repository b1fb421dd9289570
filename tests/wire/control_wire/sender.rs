//! `edn-bridge control`, against a receiver that does as a test says.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use edn_bridge::edn;
use edn_bridge::interaction::audit;
use edn_bridge::sha256;
use serde_json::{Value as Json, json};

use crate::support::Setup;

/// What a receiver does with a request.
enum Act {
    Answer(Json),
    /// Says nothing, and keeps the connection.
    Nothing,
    HangUp,
    /// Writes these bytes.
    Write(&'static [u8]),
}

/// A receiver, for as long as its test runs.
struct Receiver {
    path: PathBuf,
    /// The requests, without those for capabilities.
    seen: Arc<Mutex<Vec<Json>>>,
}

type Acts = Arc<dyn Fn(&Json, usize) -> Act + Send + Sync>;

impl Receiver {
    fn new(setup: &Setup, act: impl Fn(&Json, usize) -> Act + Send + Sync + 'static) -> Self {
        let folder = setup.state().join("control");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self::at(&setup.dir.path().join("receiver.sock"), offer(&folder), act)
    }

    fn at(path: &Path, offer: Json, act: impl Fn(&Json, usize) -> Act + Send + Sync + 'static) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let seen: Arc<Mutex<Vec<Json>>> = Arc::default();
        let (mine, act): (_, Acts) = (seen.clone(), Arc::new(act));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, act, offer) = (mine.clone(), act.clone(), offer.clone());
                std::thread::spawn(move || serve(&stream.unwrap(), &offer, &seen, &act));
            }
        });
        Self { path: path.to_owned(), seen }
    }

    fn seen(&self) -> Vec<Json> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(stream: &UnixStream, offer: &Json, seen: &Mutex<Vec<Json>>, act: &Acts) {
    let mut out = stream;
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let request: Json = serde_json::from_str(&line).unwrap();
        let act = if request["type"] == "control.capabilities.request" {
            Act::Answer(offer.clone())
        } else {
            let place = {
                let mut seen = seen.lock().unwrap();
                seen.push(request.clone());
                seen.len()
            };
            act(&request, place)
        };
        match act {
            Act::Answer(answer) => writeln!(out, "{answer}").unwrap(),
            Act::Nothing => {}
            Act::HangUp => return,
            Act::Write(bytes) => out.write_all(bytes).unwrap(),
        }
    }
}

fn offer(folder: &Path) -> Json {
    json!({
        "type": "control.capabilities.ack", "v": 1,
        "types": ["control.stdin.request", "control.interrupt.request"],
        "soft_limit_bytes": 100, "hard_limit_bytes": 1000, "file_limit_bytes": 5000,
        "content_folders": ["/none", folder], "max_age_ms": 300_000, "max_skew_ms": 60_000, "dedupe_ms": 600_000,
        "ack_timeout_ms": 2000, "durable": true
    })
}

fn ack(request: &Json, result: &str) -> Json {
    let mut ack = json!({
        "type": request["type"].as_str().unwrap().replace("request", "ack"), "v": 1, "acked_at": "2026-01-01T00:00:00.000Z",
        "result": result, "duplicate": false, "detail": "a detail"
    });
    for key in ["request_id", "team", "session_id", "agent_id"] {
        ack[key] = request[key].clone();
    }
    ack
}

/// How the program ended.
#[derive(Debug)]
struct Ended {
    status: i32,
    out: String,
    err: String,
}

fn run(command: &mut Command, text: &[u8]) -> Ended {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(text);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// `control` with arguments for whoever is asked.
fn command(setup: &Setup, what: &str) -> Command {
    let mut command = setup.command();
    command.args(["control", what, "--team", "atm-dev", "--agent", "codex:abc123", "--sender", "arch-ctm"]);
    command
}

fn send(setup: &Setup, receiver: &Receiver, more: &[&str], text: &str) -> Ended {
    let mut command = command(setup, "stdin");
    command.arg("--socket").arg(&receiver.path);
    // More than a loaded machine needs, unless a test waits for it.
    let patience: &[&str] = if more.contains(&"--timeout-ms") { &[] } else { &["--timeout-ms", "60000"] };
    run(command.args(patience).args(more), text.as_bytes())
}

/// The records of the audit, as `NAME RETRY` with the result and whether it was a duplicate.
fn audited(setup: &Setup) -> Vec<String> {
    let path = audit::path(&setup.state());
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    if !text.is_empty() {
        assert_eq!(audit::verify(&path).unwrap(), text.lines().count());
    }
    let record = |line: &str| {
        let record = edn::read_one(line.as_bytes()).unwrap();
        for (key, value) in [("team", "atm-dev"), ("agent-id", "codex:abc123"), ("sender", "arch-ctm")] {
            assert_eq!(record.get(key).and_then(|value| value.as_str()), Some(value), "{line}");
        }
        for key in ["request-id", "session-id", "type", "at"] {
            assert!(record.get(key).and_then(|value| value.as_str()).is_some(), "{key}: {line}");
        }
        let name = record.get("kind").unwrap().as_str().unwrap().strip_prefix("control/").unwrap().to_owned();
        let result = record.get("result").and_then(|result| result.as_str());
        let duplicate = record.get("duplicate").and_then(|duplicate| duplicate.as_bool());
        let result = result.map(|result| format!(" {result} {}", duplicate.unwrap())).unwrap_or_default();
        format!("{name} {}{result}", record.get("retry-count").unwrap())
    };
    text.lines().map(record).collect()
}

fn parked(setup: &Setup) -> Vec<PathBuf> {
    std::fs::read_dir(setup.state().join("control")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn sender_prints_acknowledgement_and_exits_by_result() {
    let setup = Setup::new();
    for (result, status) in [
        ("ok", 0),
        ("not_live", 3),
        ("not_found", 4),
        ("busy", 5),
        ("timeout", 6),
        ("rejected", 7),
        ("internal_error", 8),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let receiver = Receiver::at(&path, offer(Path::new("/none")), move |request, _| {
            Act::Answer(ack(request, result))
        });
        let ended = send(&setup, &receiver, &["--retries", "0"], "hello");
        assert_eq!(ended.status, status, "{ended:?}");
        assert_eq!(ended.out, format!("{}\n", ack(&receiver.seen()[0], result)));
        let told = if result == "ok" { String::new() } else { format!("edn-bridge: {result}: a detail\n") };
        assert_eq!(ended.err, told);
    }
    let acked = |result| ["sent 0".to_owned(), format!("acked 0 {result} false")];
    let results = ["ok", "not_live", "not_found", "busy", "timeout", "rejected", "internal_error"];
    assert_eq!(audited(&setup), results.map(acked).concat());
}

#[test]
fn request_has_every_key_of_the_document() {
    let setup = Setup::new().fixed();
    let receiver = Receiver::new(&setup, |request, _| Act::Answer(ack(request, "ok")));
    let text = "two\nlines \u{1f600}\n";
    assert_eq!(send(&setup, &receiver, &["--interrupt", "--session", "s-1"], text).status, 0);
    let mut interrupt = command(&setup, "interrupt");
    interrupt.arg("--socket").arg(&receiver.path).args(["--request-id", "my id"]);
    assert_eq!(run(&mut interrupt, b"").status, 0);
    let common = json!({
        "v": 1, "team": "atm-dev", "agent_id": "codex:abc123", "sender": "arch-ctm",
        "sent_at": "2026-01-01T00:00:00.000Z", "meta": { "ui_source": "edn-bridge", "retry_count": 0 }
    });
    let with = |more: Json| {
        let mut all = common.as_object().unwrap().clone();
        all.extend(more.as_object().unwrap().clone());
        Json::Object(all)
    };
    assert_eq!(
        receiver.seen(),
        [
            with(json!({
                "type": "control.stdin.request", "request_id": "req_0001", "session_id": "s-1",
                "content": text, "content_encoding": "utf-8", "interrupt": true
            })),
            with(json!({
                "type": "control.interrupt.request", "request_id": "my id", "session_id": "", "signal": "interrupt"
            })),
        ]
    );
}

#[test]
fn unanswered_request_is_sent_again_as_the_same_one() {
    let setup = Setup::new();
    let receiver = Receiver::new(&setup, |request, place| match place {
        1 => Act::Nothing,
        _ => {
            let mut ack = ack(request, "ok");
            ack["duplicate"] = true.into();
            Act::Answer(ack)
        }
    });
    let ended = send(&setup, &receiver, &["--timeout-ms", "5000"], "hello");
    assert_eq!(ended.status, 0, "{ended:?}");
    let mut seen = receiver.seen();
    assert_eq!((&seen[0]["meta"]["retry_count"], &seen[1]["meta"]["retry_count"]), (&json!(0), &json!(1)));
    seen[1]["meta"]["retry_count"] = 0.into();
    assert_eq!(seen[0], seen[1]);
    assert_eq!(audited(&setup), ["sent 0", "timed-out 0", "retried 1", "acked 1 ok true"]);
}

#[test]
fn request_that_nobody_answers_ends_with_a_timeout() {
    let setup = Setup::new();
    let receiver = Receiver::new(&setup, |_, _| Act::Nothing);
    let ended = send(&setup, &receiver, &["--timeout-ms", "3000", "--retries", "2"], "hello");
    assert_eq!((ended.status, ended.out.as_str()), (6, ""), "{ended:?}");
    let id = receiver.seen()[0]["request_id"].as_str().unwrap().to_owned();
    assert!(ended.err.contains("may still be done") && ended.err.contains(&id), "{}", ended.err);
    assert_eq!(receiver.seen().len(), 3);
    assert_eq!(
        audited(&setup),
        ["sent 0", "timed-out 0", "retried 1", "timed-out 1", "retried 2", "timed-out 2"]
    );
}

#[test]
fn stalled_receiver_is_asked_again_what_it_serves() {
    let setup = Setup::new();
    let receiver = Receiver { path: setup.dir.path().join("stalled.sock"), seen: Arc::default() };
    let (listener, seen) = (UnixListener::bind(&receiver.path).unwrap(), receiver.seen.clone());
    let offer = offer(setup.dir.path());
    let serving = std::thread::spawn(move || {
        // It stays open and is not answered.
        let _first = listener.accept().unwrap();
        let act: Acts = Arc::new(|request, _| Act::Answer(ack(request, "ok")));
        serve(&listener.accept().unwrap().0, &offer, &seen, &act);
    });
    let ended = send(&setup, &receiver, &["--timeout-ms", "3000"], "hello");
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(audited(&setup), ["sent 0", "acked 0 ok false"]);
    serving.join().unwrap();
    let ended = send(&setup, &receiver, &["--retries", "0"], "hello");
    assert_eq!(ended.status, 1, "{ended:?}");
}

#[test]
fn busy_receiver_and_lost_connection_are_tried_again() {
    let setup = Setup::new();
    let receiver = Receiver::new(&setup, |request, place| match place {
        1 => Act::Answer(ack(request, "busy")),
        2 => Act::HangUp,
        3 => Act::Answer(ack(request, "timeout")),
        _ => Act::Answer(ack(request, "ok")),
    });
    assert_eq!(send(&setup, &receiver, &["--retries", "3"], "hello").status, 0);
    assert_eq!(
        audited(&setup),
        [
            "sent 0",
            "acked 0 busy false",
            "retried 1",
            "failed 1",
            "retried 2",
            "acked 2 timeout false",
            "retried 3",
            "acked 3 ok false"
        ]
    );
}

#[test]
fn answer_to_another_request_is_not_taken() {
    let setup = Setup::new();
    for (act, status) in [
        (Act::Write(b"{\n"), 6),
        (Act::Write(b"[]\n"), 6),
        (Act::Write(b"\xff\n"), 6),
        (Act::Answer(json!({ "type": "control.stdin.ack", "request_id": "another", "result": "ok" })), 6),
        (Act::Answer(json!({ "type": "control.interrupt.ack", "request_id": "r", "result": "ok" })), 6),
        (Act::Answer(json!({ "type": "control.stdin.ack", "request_id": "r", "result": "fine" })), 6),
        (
            Act::Answer(json!({
                "version": 1, "request_id": "unknown", "status": "error",
                "error": { "code": "INVALID_REQUEST", "message": "y".repeat(100_000) }
            })),
            1,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let act = Mutex::new(Some(act));
        let receiver = Receiver::at(&folder.path().join("s"), offer(Path::new("/none")), move |_, _| {
            act.lock().unwrap().take().unwrap()
        });
        let ended = send(&setup, &receiver, &["--request-id", "r"], "hello");
        assert_eq!((ended.status, ended.out.as_str()), (status, ""), "{ended:?}");
        assert_eq!(receiver.seen().len(), 1);
    }
    assert!(audited(&setup).iter().all(|record| record == "sent 0" || record == "failed 0"));
}

#[test]
fn what_is_not_offered_is_not_sent() {
    let setup = Setup::new();
    let mut only_interrupt = offer(Path::new("/none"));
    only_interrupt["types"] = json!(["control.interrupt.request"]);
    // The daemon of agent-team-mail, and other programs, tell nothing of what they serve.
    let error = json!({
        "version": 1, "request_id": "unknown", "status": "error",
        "error": { "code": "INVALID_REQUEST", "message": "Failed to parse request" }
    });
    for (offer, status, reason) in [
        (only_interrupt, 9, "does not serve control.stdin.request"),
        (error, 1, "INVALID_REQUEST"),
        (json!({}), 1, "cannot be read"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let receiver =
            Receiver::at(&folder.path().join("s"), offer, |request, _| Act::Answer(ack(request, "ok")));
        let ended = send(&setup, &receiver, &[], "hello");
        assert_eq!((ended.status, ended.out.as_str()), (status, ""), "{ended:?}");
        assert!(ended.err.contains(reason), "{}", ended.err);
        assert!(receiver.seen().is_empty());
    }
    assert_eq!(audited(&setup), ["failed 0"; 3]);
}

#[test]
fn text_that_cannot_be_sent_is_not_sent() {
    let setup = Setup::new();
    let receiver = Receiver::new(&setup, |request, _| Act::Answer(ack(request, "ok")));
    for (text, reason) in [(&b""[..], "no text"), (b" \n\t", "no text"), (b"\xff", "not UTF-8")] {
        let ended = run(command(&setup, "stdin").arg("--socket").arg(&receiver.path), text);
        assert_eq!(ended.status, 1, "{ended:?}");
        assert!(ended.err.contains(reason), "{}", ended.err);
    }
    let long = "x".repeat(257);
    for arguments in
        [["--session", long.as_str()], ["--request-id", " "], ["--retries", "11"], ["--timeout-ms", "0"]]
    {
        assert_eq!(send(&setup, &receiver, &arguments, "hello").status, 2, "{arguments:?}");
    }
    let ended = send(&setup, &receiver, &[], &"x".repeat(5001));
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.err.contains("at most 5000"), "{}", ended.err);
    assert!(receiver.seen().is_empty());
}

#[test]
fn large_text_goes_through_a_private_file() {
    let setup = Setup::new().fixed();
    let text = "\u{e4}".repeat(1000);
    let expected = text.clone();
    let receiver = Receiver::new(&setup, move |request, _| {
        let reference = &request["content_ref"];
        let path = Path::new(reference["path"].as_str().unwrap());
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
        Act::Answer(ack(request, "ok"))
    });
    let ended = send(&setup, &receiver, &[], &text);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.err.contains("2000 bytes; receivers recommend 100 at most"), "{}", ended.err);
    let folder = setup.state().join("control").canonicalize().unwrap();
    let request = &receiver.seen()[0];
    let path = request["content_ref"]["path"].as_str().unwrap();
    assert!(path.starts_with(folder.join("req_0001-").to_str().unwrap()), "{path}");
    assert_eq!(
        request["content_ref"],
        json!({
            "path": path, "size_bytes": 2000, "sha256": sha256::hex(text),
            "mime": "text/plain; charset=utf-8", "expires_at": "2026-01-01T00:05:00.000Z"
        })
    );
    assert_eq!(
        (&request["content"], &request["meta"]["oversize_strategy"]),
        (&Json::Null, &json!("content_ref"))
    );
    assert_eq!(parked(&setup), [""; 0].map(PathBuf::from));
}

#[test]
fn bounds_of_the_receiver_decide_the_form_of_a_text() {
    let setup = Setup::new();
    let receiver = Receiver::new(&setup, |request, _| Act::Answer(ack(request, "ok")));
    for (bytes, is_warned, is_file) in
        [(100, false, false), (101, true, false), (1000, true, false), (1001, true, true), (5000, true, true)]
    {
        let ended = send(&setup, &receiver, &[], &"x".repeat(bytes));
        assert_eq!((ended.status, !ended.err.is_empty()), (0, is_warned), "{bytes}: {ended:?}");
        let request = receiver.seen().pop().unwrap();
        assert_eq!(
            (request["content"].is_null(), request["content_ref"].is_object()),
            (is_file, is_file),
            "{bytes}"
        );
    }
}

#[test]
fn file_of_an_unanswered_request_stays_until_it_is_old() {
    let setup = Setup::new();
    let receiver = Receiver::new(&setup, |request, place| match place {
        1 => Act::Nothing,
        _ => Act::Answer(ack(request, "rejected")),
    });
    let large = "x".repeat(2000);
    let ended = send(
        &setup,
        &receiver,
        &["--timeout-ms", "3000", "--retries", "0", "--request-id", "../a b"],
        &large,
    );
    assert_eq!(ended.status, 6, "{ended:?}");
    let kept = parked(&setup);
    let [kept] = kept.as_slice() else { panic!("{kept:?}") };
    let name = kept.file_stem().unwrap().to_str().unwrap();
    assert_eq!(
        name.split('-').next().unwrap().len(),
        64,
        "an id that is no plain name does not name the file"
    );
    // The same request again has a file of its own, and leaves the other one: its receiver may still read it.
    assert_eq!(send(&setup, &receiver, &["--request-id", "../a b"], &large).status, 7);
    assert_eq!(parked(&setup), std::slice::from_ref(kept));
    let (old, new) = (kept.clone(), setup.state().join("control/new.txt"));
    std::fs::write(&new, "left").unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 3600);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    send(&setup, &receiver, &[], "hello");
    assert_eq!(parked(&setup), [new]);
}

#[test]
fn file_is_not_written_where_the_receiver_takes_none() {
    let setup = Setup::new();
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::at(&folder.path().join("s"), offer(folder.path()), |request, _| {
        Act::Answer(ack(request, "ok"))
    });
    let ended = send(&setup, &receiver, &[], &"x".repeat(2000));
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.err.contains("takes none from"), "{}", ended.err);
    assert!(receiver.seen().is_empty() && parked(&setup).is_empty());
}

#[test]
fn next_receiver_is_asked_if_one_has_not_the_session() {
    let setup = Setup::new();
    let run_folder = setup.state().join("run");
    std::fs::create_dir_all(&run_folder).unwrap();
    let receiver = |name: &str, result: &'static str| {
        Receiver::at(&run_folder.join(name), offer(Path::new("/none")), move |request, _| {
            Act::Answer(ack(request, result))
        })
    };
    let none = run(&mut command(&setup, "stdin"), b"hello");
    assert_eq!(none.status, 1, "{none:?}");
    assert!(none.err.contains("no bridge with a control socket runs"), "{}", none.err);
    let missing = receiver("000000000001-1.control.sock", "not_found");
    let asleep = receiver("000000000002-2.control.sock", "not_live");
    // One of the other wire, which is not asked, and a dead one.
    let wrong = receiver("000000000004-4.sock", "ok");
    let dead = run_folder.join("000000000005-5.control.sock");
    drop(UnixListener::bind(&dead).unwrap());
    let patience = ["--timeout-ms", "60000"];
    let ended = run(command(&setup, "stdin").args(patience), b"hello");
    assert_eq!(ended.status, 3, "the result that says more: {ended:?}");
    assert!(!dead.exists());
    let live = receiver("000000000003-3.control.sock", "ok");
    let ended = run(command(&setup, "stdin").args(patience).args(["--request-id", "r"]), b"hello");
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(ended.out.lines().count(), 1);
    assert_eq!(live.seen()[0]["request_id"], "r");
    assert!(wrong.seen().is_empty());
    assert!(!missing.seen().is_empty() && !asleep.seen().is_empty());
}

#[test]
fn capabilities_are_printed_as_the_receiver_tells_them() {
    let setup = Setup::new();
    let receiver = Receiver::new(&setup, |_, _| Act::Nothing);
    let mut command = setup.command();
    command.args(["control", "capabilities", "--socket"]).arg(&receiver.path);
    let ended = run(&mut command, b"");
    assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{ended:?}");
    assert_eq!(ended.out, format!("{}\n", offer(&setup.state().join("control"))));
    let ended = run(setup.command().args(["control", "capabilities"]), b"");
    assert_eq!((ended.status, ended.out.as_str()), (1, ""), "{ended:?}");
}

#[test]
fn text_is_in_no_record_and_no_output() {
    let setup = Setup::new();
    let canary = "canary-4711";
    let receiver = Receiver::new(&setup, |request, place| match place {
        1 => Act::HangUp,
        2 => Act::Write(b"{\"canary\":\n"),
        _ => Act::Answer(ack(request, "rejected")),
    });
    for text in [canary.to_owned(), format!("{canary}{}", "x".repeat(2000)), canary.to_owned()] {
        let ended = send(&setup, &receiver, &[], &text);
        assert!(!format!("{ended:?}").contains(canary), "{ended:?}");
    }
    assert!(!std::fs::read_to_string(audit::path(&setup.state())).unwrap().contains(canary));
}
