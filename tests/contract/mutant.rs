//! Servers with one fault each, and whether the contract runner catches them.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use edn_bridge::edn;
use edn_bridge::value::Value;
use edn_bridge_contract::{CommandLine, Config, Launch, Link, Options, Report, Status, Suite, Wire, Wish};

use serde_json::Value as Json;

use crate::{open, server};

/// Changes one line into the lines that replace it.
pub type Change = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// A change of EDN frames.
pub fn frames(change: impl Fn(&Value<'static>) -> Vec<String> + Send + Sync + 'static) -> Change {
    Arc::new(move |line| change(&edn::read_one(line.as_bytes()).unwrap().into_owned()))
}

/// A change of JSON lines.
pub fn messages(change: impl Fn(&Json) -> Vec<Json> + Send + Sync + 'static) -> Change {
    Arc::new(move |line| match serde_json::from_str(line) {
        Ok(message) => change(&message).iter().map(Json::to_string).collect(),
        // What a check sends may be no JSON.
        Err(_) => vec![line.to_owned()],
    })
}

/// The lines as they are.
pub fn unchanged() -> Change {
    Arc::new(|line| vec![line.to_owned()])
}

/// The real server with modified output, or one that takes its input for something else.
pub struct Wrong {
    real: CommandLine,
    change: Change,
    hears: Option<Change>,
}

impl Launch for Wrong {
    fn launch(&self, wish: Wish<'_>) -> std::io::Result<Link> {
        self.changed(self.real.launch(wish)?)
    }

    fn takes_config(&self) -> bool {
        true
    }

    fn configure(&self, state: &str, config: &Config) -> std::io::Result<()> {
        self.real.configure(state, config)
    }

    fn join(&self, state: &str, deadline: Instant) -> std::io::Result<Option<Link>> {
        self.real.join(state, deadline)?.map(|link| self.changed(link)).transpose()
    }

    fn takes_script(&self) -> bool {
        true
    }

    fn takes_state(&self) -> bool {
        true
    }
}

impl Wrong {
    fn changed(&self, link: Link) -> std::io::Result<Link> {
        let Link { input, output, server } = link;
        let (reader, writer) = std::io::pipe()?;
        pass(output, writer, self.change.clone());
        let input = match &self.hears {
            None => input,
            Some(change) => {
                let (reader, writer) = std::io::pipe()?;
                pass(reader, input, change.clone());
                Box::new(writer)
            }
        };
        Ok(Link { input, output: Box::new(reader), server })
    }
}

/// Passes changed lines on to the end.
fn pass(from: impl Read + Send + 'static, mut to: impl Write + Send + 'static, change: Change) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { return };
            let lines = match std::str::from_utf8(&line) {
                Ok(text) => change(text).into_iter().map(String::into_bytes).collect(),
                Err(_) => vec![line],
            };
            for mut line in lines {
                line.push(b'\n');
                if to.write_all(&line).and_then(|()| to.flush()).is_err() {
                    return;
                }
            }
        }
    });
}

pub fn run(wire: Wire, [change, hears]: [Change; 2], checks: &[&str], patience: Duration) -> Report {
    let only = checks.iter().map(|check| (*check).to_owned()).collect();
    let wrong =
        Wrong { real: server::command_line(wire), change, hears: (wire == Wire::Ui).then_some(hears) };
    thread_local!(static SUITES: [Suite; 2] = [Wire::Edn, Wire::Ui].map(|wire| Suite::of(wire).unwrap()));
    let options = Options { only, patience };
    SUITES.with(|[edn, ui]| {
        edn_bridge_contract::run(if wire == Wire::Edn { edn } else { ui }, &wrong, &options)
    })
}

pub fn is_open(check: &str) -> bool {
    open::OPEN.iter().any(|(name, _)| *name == check)
}

/// One fault of a server, and the check or rule that should catch it. A rule also needs a check that makes
/// the server send frames.
pub struct Mutant {
    wire: Wire,
    name: String,
    caught_by: &'static str,
    beside: &'static str,
    change: Change,
    hears: Change,
}

pub fn mutant(
    name: impl Into<String>,
    caught_by: &'static str,
    change: impl Fn(&Value<'static>) -> Vec<String> + Send + Sync + 'static,
) -> Mutant {
    let (name, change, hears) = (name.into(), frames(change), unchanged());
    Mutant { wire: Wire::Edn, name, caught_by, beside: caught_by, change, hears }
}

/// The same for the UI protocol, where a line is JSON.
pub fn ui_mutant(
    name: impl Into<String>,
    caught_by: &'static str,
    change: impl Fn(&Json) -> Vec<Json> + Send + Sync + 'static,
) -> Mutant {
    let (name, change, hears) = (name.into(), messages(change), unchanged());
    Mutant { wire: Wire::Ui, name, caught_by, beside: caught_by, change, hears }
}

/// A server of the UI protocol that takes what it hears for something else.
pub fn ui_mishearing(
    name: impl Into<String>,
    caught_by: &'static str,
    hears: impl Fn(&Json) -> Vec<Json> + Send + Sync + 'static,
) -> Mutant {
    let (name, change, hears) = (name.into(), unchanged(), messages(hears));
    Mutant { wire: Wire::Ui, name, caught_by, beside: caught_by, change, hears }
}

impl Mutant {
    /// What it hears passes through this.
    pub fn hearing(self, hears: impl Fn(&Json) -> Vec<Json> + Send + Sync + 'static) -> Self {
        Self { hears: messages(hears), ..self }
    }

    /// The check that makes the server send frames.
    pub fn beside(self, beside: &'static str) -> Self {
        Self { beside, ..self }
    }
}

/// Tries every mutant and fails with all that were not caught. Mutants whose check does not pass yet are
/// counted, and fail if the check is not known to be open.
pub fn try_all(mutants: Vec<Mutant>) {
    let mut problems = Vec::new();
    let (mut caught, mut open) = (0, 0);
    for Mutant { wire, name, caught_by, beside, change, hears } in mutants {
        let checks = [caught_by, beside];
        if checks.iter().any(|check| is_open(check)) {
            open += 1;
            continue;
        }
        let right = run(wire, [unchanged(), unchanged()], &checks, Duration::from_secs(20));
        // A rule about frames that must not arrive does not apply if all is right.
        if !matches!(
            right.finding(caught_by).map(|f| &f.status),
            Some(Status::Passed | Status::NotApplicable(_))
        ) {
            problems.push(format!(
                "{name}: {caught_by} does not pass without it: {:?}",
                right.finding(caught_by)
            ));
            continue;
        }
        let wrong = run(wire, [change, hears], &checks, Duration::from_secs(2));
        match wrong.finding(caught_by).map(|finding| &finding.status) {
            Some(Status::Failed(_)) => caught += 1,
            other => problems.push(format!("{name}: not caught by {caught_by}: {other:?}")),
        }
    }
    println!("{caught} mutants caught, {} not, {open} wait for checks that are open", problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

pub fn same(frame: &Value<'static>) -> Vec<String> {
    vec![edn::to_string(frame)]
}

pub fn kind(frame: &Value<'_>) -> String {
    frame.get("kind").and_then(Value::as_keyword).unwrap_or_default().to_owned()
}

pub fn text(frame: &Value<'_>, key: &str) -> String {
    frame.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The frame with a key set or removed.
pub fn with(frame: &Value<'static>, key: &'static str, value: Option<Value<'static>>) -> Value<'static> {
    let mut map = frame.as_map().unwrap().clone();
    map.remove(&Value::keyword(key));
    if let Some(value) = value {
        map.insert(Value::keyword(key), value);
    }
    Value::from(map)
}

/// The frame with a key of its `:data` set or removed.
pub fn with_data(frame: &Value<'static>, key: &'static str, value: Option<Value<'static>>) -> Value<'static> {
    let data = frame.get("data").cloned().unwrap_or_else(|| Value::from(edn_bridge::value::Map::new()));
    with(frame, "data", Some(with(&data, key, value)))
}

/// Changes the frames of a kind, and of an op or topic if given; the others stay.
pub fn where_(
    wanted: &'static str,
    named: &'static str,
    change: impl Fn(&Value<'static>) -> Value<'static> + Send + Sync + 'static,
) -> impl Fn(&Value<'static>) -> Vec<String> + Send + Sync + 'static {
    move |frame| {
        let name = if wanted == "event" { text(frame, "event") } else { text(frame, "op") };
        if kind(frame) == wanted && (named.is_empty() || name == named) {
            same(&change(frame))
        } else {
            same(frame)
        }
    }
}

/// A change of a frame's `:data`: sets or removes a key.
pub fn data(
    key: &'static str,
    value: Option<Value<'static>>,
) -> impl Fn(&Value<'static>) -> Value<'static> + Send + Sync + 'static {
    move |frame| with_data(frame, key, value.clone())
}

/// Answers an op with an empty list under a key.
pub fn emptied(
    op: &'static str,
    key: &'static str,
) -> impl Fn(&Value<'static>) -> Vec<String> + Send + Sync + 'static {
    where_("response", op, data(key, Some(Value::vector([] as [Value<'static>; 0]))))
}

/// Sends each event of a topic three times.
pub fn thrice(topic: &'static str) -> impl Fn(&Value<'static>) -> Vec<String> + Send + Sync + 'static {
    move |frame| {
        if text(frame, "event") == topic {
            [same(frame), same(frame), same(frame)].concat()
        } else {
            same(frame)
        }
    }
}

/// The frame with a key of its `:data`'s `:payload` set or removed.
pub fn with_asked(
    frame: &Value<'static>,
    key: &'static str,
    value: Option<Value<'static>>,
) -> Value<'static> {
    let asked = frame.get("data").and_then(|data| data.get("payload")).unwrap();
    with_data(frame, "payload", Some(with(asked, key, value)))
}

/// Drops the events of a topic.
pub fn without(topic: &'static str) -> impl Fn(&Value<'static>) -> Vec<String> + Send + Sync + 'static {
    move |frame| if text(frame, "event") == topic { Vec::new() } else { same(frame) }
}

/// Answers with a response instead of the expected error.
pub fn taken(code: &'static str) -> impl Fn(&Value<'static>) -> Vec<String> + Send + Sync + 'static {
    move |frame| {
        if text(frame, "error-code") != code {
            return same(frame);
        }
        let (id, op) = (text(frame, "id"), text(frame, "op"));
        vec![format!("{{:id {id:?} :kind :response :op {op:?} :ok true :data {{:accepted true}}}}")]
    }
}
