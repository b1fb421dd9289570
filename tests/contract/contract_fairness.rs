//! The contract runner is fair: a server that does only what the seed requires of every server, and reports
//! that, passes. Checks for what it does not offer do not apply.
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use edn_bridge::edn;
use edn_bridge::limits::{MAX_DEPTH, MAX_LINE_BYTES};
use edn_bridge::value::Value;
use edn_bridge_contract::{Launch, Link, Options, Server, Status, Suite, Wish};

/// The smallest server: it shakes hands, answers pings and keeps subscriptions of three topics, without ever
/// sending an event. Its errors have only the seed's keys.
const OPS: [&str; 4] = ["handshake", "ping", "subscribe", "unsubscribe"];
const TOPICS: [&str; 3] = ["session/updated", "assistant/delta", "assistant/message"];

struct Smallest;

impl Launch for Smallest {
    fn launch(&self, _: Wish<'_>) -> std::io::Result<Link> {
        let (ours, theirs) = UnixStream::pair()?;
        let serving = std::thread::spawn(move || serve(&theirs));
        Ok(Link {
            input: Box::new(Half(ours.try_clone()?)),
            output: Box::new(ours),
            server: Box::new(Thread(Some(serving))),
        })
    }

    fn takes_script(&self) -> bool {
        false
    }

    fn takes_state(&self) -> bool {
        false
    }
}

/// The writing half: dropping it ends the server's input, as closing a pipe does.
struct Half(UnixStream);

impl Write for Half {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}

struct Thread(Option<std::thread::JoinHandle<()>>);

impl Server for Thread {
    fn wait(&mut self, _: Instant) -> std::io::Result<Option<i32>> {
        self.0.take().unwrap().join().unwrap();
        Ok(Some(0))
    }
    fn kill(&mut self) {}
    fn complaint(&self) -> String {
        String::new()
    }
}

fn serve(stream: &UnixStream) {
    let mut input = BufReader::new(stream);
    let mut ready = false;
    let mut topics = BTreeSet::new();
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line).unwrap_or(0);
        if read == 0 {
            return;
        }
        if line.pop_if(|byte| *byte == b'\n').is_none() {
            let mut rest = Vec::new();
            input.read_until(b'\n', &mut rest).unwrap();
            line.clear();
        }
        let answer = answer(&line, &mut ready, &mut topics);
        if writeln!(&mut (&*stream), "{answer}").is_err() {
            return;
        }
    }
}

fn answer(line: &[u8], ready: &mut bool, topics: &mut BTreeSet<String>) -> String {
    let options = edn::Options { max_depth: MAX_DEPTH, max_bytes: MAX_LINE_BYTES, ..edn::Options::default() };
    let Ok(form) = edn::read_one_with(line, options) else {
        return error(None, None, "transport/invalid-frame", " :data {:reason \"unreadable\" :offset 0}");
    };
    let text = |key: &str| form.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (id, op) = (text("id"), text("op"));
    let Some(map) = form.as_map() else { return error(None, None, "protocol/invalid-envelope", "") };
    let known =
        |key: &Value<'_>| key.as_keyword().is_some_and(|key| ["id", "kind", "op", "params"].contains(&key));
    if form.get("kind").and_then(Value::as_keyword) != Some("request")
        || form.get("id").is_none()
        || form.get("op").is_none()
        || !map.iter().all(|(key, _)| known(key))
    {
        return error(id, op, "protocol/invalid-envelope", "");
    }
    let Some(id) = id else { return error(None, op, "request/invalid-id", "") };
    let Some(op) = op else { return error(Some(id), None, "request/invalid-op", "") };
    if !*ready && op != "handshake" {
        return error(Some(id), Some(op), "transport/not-ready", "");
    }
    if !OPS.contains(&op) {
        return error(
            Some(id),
            Some(op),
            "request/op-not-supported",
            &format!(" :data {{:supported-ops {OPS:?}}}"),
        );
    }
    let empty = Value::from(edn_bridge::value::Map::new());
    let params = form.get("params").filter(|params| !params.is_nil()).unwrap_or(&empty);
    let invalid = |key: &str| {
        error(Some(id), Some(op), "request/invalid-params", "").replace("no", &format!("{key} does not fit"))
    };
    if params.as_map().is_none() {
        return invalid("params");
    }
    let data = match op {
        "handshake" => {
            let info = |key| params.get("client-info").and_then(|info| info.get(key));
            let features = info("features");
            let version = info("protocol-version").and_then(Value::as_str);
            let (Some(version), Some(_), true) =
                (version, info("name"), features.is_none_or(|features| features.as_slice().is_some()))
            else {
                return invalid("client-info");
            };
            if !version.starts_with("1.") {
                return error(
                    Some(id),
                    Some(op),
                    "protocol/unsupported-version",
                    " :data {:supported-versions [\"1.0\"]}",
                );
            }
            *ready = true;
            "{:server-info {:protocol-version \"1.0\" :features []}}".to_owned()
        }
        "ping" => "{:pong true :protocol-version \"1.0\"}".to_owned(),
        _ => {
            let named = match params.get("topics").map(|topics| topics.as_slice()) {
                None => Vec::new(),
                Some(Some(names)) if names.iter().all(|name| name.as_str().is_some()) => names.to_vec(),
                Some(_) => return invalid("topics"),
            };
            if params.get("since").is_some_and(|since| since.as_map().is_none()) {
                return invalid("since");
            }
            let all = named.is_empty();
            for topic in
                TOPICS.iter().filter(|topic| all || named.iter().any(|name| name.as_str() == Some(topic)))
            {
                if op == "subscribe" {
                    topics.insert((*topic).to_owned());
                } else {
                    topics.remove(*topic);
                }
            }
            format!("{{:subscribed {topics:?}}}")
                .replace("{\"", "[\"")
                .replace("\"}", "\"]")
                .replace("{}", "[]")
        }
    };
    format!("{{:id {} :kind :response :op {op:?} :ok true :data {data}}}", edn::to_string(&Value::from(id)))
}

fn error(id: Option<&str>, op: Option<&str>, code: &str, data: &str) -> String {
    let key = |key: &str, text: Option<&str>| {
        text.map(|text| format!(" :{key} {}", edn::to_string(&Value::from(text)))).unwrap_or_default()
    };
    format!(
        "{{:kind :error{}{} :error-code {code:?} :error-message \"no\"{data}}}",
        key("id", id),
        key("op", op)
    )
}

#[test]
fn smallest_conforming_server_passes() {
    let options = Options { patience: Duration::from_secs(10), ..Options::default() };
    let report = edn_bridge_contract::run(&Suite::built_in().unwrap(), &Smallest, &options);
    let failed: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| matches!(finding.status, Status::Failed(_)))
        .map(|finding| format!("{}: {:?}\n  {}", finding.name, finding.status, finding.frames.join("\n  ")))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let passed = report.findings.iter().filter(|finding| finding.status == Status::Passed).count();
    assert!(passed > 40, "only {passed} checks and rules had something to say");
    assert!(!report.notes.is_empty() || report.findings.iter().any(|finding| !finding.notes.is_empty()));
}
