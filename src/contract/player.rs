//! Plays the steps of a check against servers.
//!
//! A step is a vector: its name, then its arguments. README.md lists the steps. Knows the language of the checks and
//! one connection a name; knows nothing of what a check is about.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use edn_codec::{self as edn, Value};

use crate::expression::{Form, Host, Miss, Scope, Variables, brief, operation, variable};
use crate::json;
use crate::launch::Config;
use crate::login_server::LoginServer;
use crate::peer::Peer;
use crate::probe::Probe;
use crate::stop::Stop;
use crate::suite::Suite;
use crate::wire::{Wire, client_info};

/// How long a command of a check may take to create its file.
const COMMAND_PATIENCE: Duration = Duration::from_secs(20);

/// The pause between two looks for that file.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What follows a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// The next step.
    Next,
    /// The end of the innermost loop.
    Leave,
    /// The end of the check, which passes.
    Done,
}

/// A run of one check.
pub struct Player<'a> {
    suite: &'a Suite,
    probe: &'a Probe<'a>,
    variables: Variables,
    peers: BTreeMap<String, Peer>,
    current: String,
    folder: Folder,
    logins: Option<LoginServer>,
    begun: Instant,
}

/// Steps that contain steps; their failures are told by the inner step.
const BLOCKS: [&str; 7] = ["on", "each", "times", "loop", "when", "unless", "until"];

impl<'a> Player<'a> {
    /// Plays a check from its first step to its last.
    ///
    /// # Errors
    /// If a step fails, or the check does not apply to this server.
    pub fn play(suite: &'a Suite, probe: &'a Probe<'a>, open: &Form, steps: &[Form]) -> Result<(), Stop> {
        let mut player = Self {
            suite,
            probe,
            variables: Variables::new(),
            peers: BTreeMap::new(),
            current: "client".to_owned(),
            folder: Folder::default(),
            logins: None,
            begun: Instant::now(),
        };
        if !open.is_nil() {
            player.open(open)?;
        }
        player.all(steps).map(|_| ())
    }

    fn all(&mut self, steps: &[Form]) -> Result<Flow, Stop> {
        for step in steps {
            let Some((name, args)) = operation(step) else {
                return Err(Stop::failed(format!("{} is no step", brief(step))));
            };
            let flow = self.step(name, args).map_err(|stop| match stop {
                Stop::Failed(why) if !BLOCKS.contains(&name) && !self.suite.defines(name) => {
                    Stop::Failed(format!("{why}, at {}", brief(step)))
                }
                stop => stop,
            })?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn step(&mut self, name: &str, args: &[Form]) -> Result<Flow, Stop> {
        let anything = Value::symbol("_");
        let or_any = |place: usize| args.get(place).unwrap_or(&anything).clone();
        match name {
            "open" => self.open(args.first().unwrap_or(&Value::Nil))?,
            "join" => self.join(args.first().unwrap_or(&Value::Nil))?,
            "on" => {
                let (peer, steps) = args.split_first().ok_or_else(|| Stop::failed("no peer is named"))?;
                let peer = self.text(peer)?;
                let before = std::mem::replace(&mut self.current, peer);
                let flow = self.all(steps);
                self.current = before;
                return flow;
            }
            "leave" => drop(self.peers.remove(&self.current)),
            "kill" => self.peer()?.kill(),
            "close" => self.peer()?.close_input(),
            "exit" => {
                let status = self.peer()?.wait_exit()?;
                self.expect(&or_any(0), &Value::int(i64::from(status)), "the exit status")?;
            }
            "pause" => self.peer()?.pause_reading(),
            "resume" => self.peer()?.resume_reading(),
            "limit-files" => {
                let bytes = self.number(args, 0)?;
                self.peer()?.limit_files(u64::try_from(bytes).unwrap_or_default())?;
            }

            "ask" => {
                let (op, params) = self.request(args)?;
                let data = self.peer()?.ask_ok(&op, &params)?;
                self.expect(&or_any(2), &data, "the answer")?;
            }
            "refuse" => {
                let (op, params) = self.request(args)?;
                let code = self.text(args.get(2).unwrap_or(&Value::Nil))?;
                let error = self.peer()?.ask_error(&op, &params, &code)?;
                self.expect(&or_any(3), &error.frame, "the error")?;
            }
            "reply" => {
                let (op, params) = self.request(args)?;
                let answer = self.peer()?.ask(&op, &params)?.into_value();
                self.expect(&or_any(2), &answer, "the reply")?;
            }
            "send" => {
                let (op, params) = self.request(args)?;
                let id = self.peer()?.send(&op, &params);
                self.expect(&or_any(2), &Value::from(id), "the id")?;
            }
            "send-as" => {
                let id = self.text(args.first().unwrap_or(&Value::Nil))?;
                let (op, params) = self.request(args.get(1..).unwrap_or_default())?;
                self.peer()?.send_as(&id, &op, &params);
            }
            "batch" => self.batch(args)?,
            "answered" => {
                let id = self.text(args.first().unwrap_or(&Value::Nil))?;
                let data = self.peer()?.answer_ok(&id)?;
                self.expect(&or_any(1), &data, "the answer")?;
            }
            "refused" => {
                let id = self.text(args.first().unwrap_or(&Value::Nil))?;
                let code = self.text(args.get(1).unwrap_or(&Value::Nil))?;
                let error = self.peer()?.answer_error(&id, &code)?;
                self.expect(&or_any(2), &error.frame, "the error")?;
            }
            "replied" => {
                let id = self.text(args.first().unwrap_or(&Value::Nil))?;
                let answer = self.peer()?.answer(&id)?.into_value();
                self.expect(&or_any(1), &answer, "the reply")?;
            }
            // The answer with an id, or an error with a code and no id, whichever comes first.
            "either" => {
                let id = self.text(args.first().unwrap_or(&Value::Nil))?;
                let code = self.text(args.get(1).unwrap_or(&Value::Nil))?;
                let answer = self.peer()?.either(&id, &code)?.into_value();
                self.expect(&or_any(2), &answer, "the reply")?;
            }
            "stray" => {
                let code = self.text(args.first().unwrap_or(&Value::Nil))?;
                let error = self.peer()?.stray_error(&code)?;
                self.expect(&or_any(1), &error.frame, "the error")?;
            }
            "barrier" => self.peer()?.barrier()?,
            "answered-all" => {
                let left = self.peer()?.pending();
                self.expect(
                    &Value::int(0),
                    &Value::int(i64::try_from(left).unwrap_or(i64::MAX)),
                    "what is unanswered",
                )?;
            }

            "new-id" => {
                let id = self.peer()?.new_id();
                self.expect(&or_any(0), &Value::from(id), "the id")?;
            }
            "expects" => {
                let (id, op) = (self.text(&or_any(0))?, self.text(&or_any(1))?);
                self.peer()?.expects(&id, &op);
            }
            "line" => {
                let line = self.text(&or_any(0))?;
                self.peer()?.send_line(&line);
            }
            "text" => {
                let text = self.text(&or_any(0))?;
                self.peer()?.send_bytes(text.as_bytes());
            }
            "bytes" => {
                let bytes = self.value(&or_any(0))?;
                let bytes = bytes.as_slice().unwrap_or_default().iter();
                let bytes: Vec<u8> = bytes.filter_map(|byte| byte.as_i64()?.try_into().ok()).collect();
                self.peer()?.send_bytes(&bytes);
            }
            "read-line" => {
                let line = self.peer()?.raw_line()?;
                let form = self.suite.wire().read(&line);
                let form = form.map_err(|error| Stop::failed(format!("the line cannot be read: {error}")))?;
                self.expect(&or_any(0), &form, "the line")?;
            }

            // The next event of a topic, which must fit.
            "next" => self.event(args, &anything, &or_any(1), &or_any(2))?,
            // The next event of a topic that fits.
            "await" => self.event(args, &or_any(1), &anything, &or_any(2))?,
            "events" => {
                let events = Value::vector(self.peer()?.take_events());
                self.expect(&or_any(0), &events, "the events")?;
            }
            "forget" => {
                let topic = self.text(&or_any(0))?;
                self.peer()?.forget(&topic);
            }
            "none" => {
                let peer = self.peer()?;
                peer.barrier()?;
                let events = Value::vector(peer.kept_events().cloned());
                let frame =
                    Value::map([(Value::keyword("event"), or_any(0)), (Value::keyword("data"), or_any(1))]);
                self.expect(&Value::list([Value::symbol("none"), frame]), &events, "what came")?;
            }

            "expect" | "let" => {
                let (value, pattern) = if name == "let" { (1, 0) } else { (0, 1) };
                let value = self.value(&or_any(value))?;
                let what = match args.get(2) {
                    Some(what) => self.text(what)?,
                    None => "it".to_owned(),
                };
                self.expect(&or_any(pattern), &value, &what)?;
            }
            "set" => {
                let value = self.value(&or_any(1))?;
                let name = variable(&or_any(0)).unwrap_or_default().to_owned();
                match self.variables.iter_mut().rev().find(|(known, _)| *known == name) {
                    Some((_, old)) => *old = value,
                    None => self.variables.push((name, value)),
                }
            }
            "each" => {
                let items = self.value(&Value::list([Value::symbol("cat"), or_any(1)]))?;
                let items = items.as_slice().unwrap_or_default().iter();
                return self.rounds(items, &or_any(0), args.get(2..).unwrap_or_default());
            }
            "times" => {
                let times = usize::try_from(self.number(args, 0)?).unwrap_or_default();
                let rounds = std::iter::repeat_n(&Value::Nil, times);
                return self.rounds(rounds, &anything, args.get(1..).unwrap_or_default());
            }
            "loop" => return self.rounds(std::iter::repeat(&Value::Nil), &anything, args),
            "when" | "unless" | "until" => {
                let value = self.value(&or_any(0))?;
                let mut found = Variables::new();
                let fits = match self.scope().unify(&or_any(1), Some(&value), &mut found) {
                    Ok(()) => true,
                    Err(Miss::Differs(_)) => false,
                    Err(Miss::Stopped(stop)) => return Err(stop),
                };
                if name == "until" {
                    return Ok(if fits { Flow::Leave } else { Flow::Next });
                }
                if fits == (name == "when") {
                    if fits {
                        self.variables.extend(found);
                    }
                    return self.all(args.get(2..).unwrap_or_default());
                }
            }
            "done" => return Ok(Flow::Done),
            "note" => {
                let note = self.text(&or_any(0))?;
                self.probe.note(note);
            }
            "skip" => return Err(Stop::NotApplicable(self.text(&or_any(0))?)),
            "fail" => return Err(Stop::Failed(self.text(&or_any(0))?)),

            "configure" => {
                let config = config(&self.value(&or_any(0))?);
                self.probe.configure(&config)?;
            }
            "make" => {
                let (name, content) =
                    (self.text(&or_any(0))?, self.text(args.get(1).unwrap_or(&Value::str("")))?);
                self.folder.write(&name, &content)?;
            }
            "append" => {
                let (path, text) = (self.text(&or_any(0))?, self.text(&or_any(1))?);
                append(&path, &text)?;
            }
            "remove" => {
                let name = self.text(&or_any(0))?;
                self.folder.remove(&name)?;
            }
            "wait-for" => {
                let name = self.text(&or_any(0))?;
                self.folder.wait_for(&name)?;
            }
            // The content of a file of the check; nil if there is none.
            "holds" => {
                let name = self.text(&or_any(0))?;
                let content = Value::from(self.folder.read(&name)?);
                self.expect(&or_any(1), &content, &format!("the file {name}"))?;
            }
            "login-server" => {
                let server = LoginServer::start()?;
                let url = Value::from(server.url().to_owned());
                self.logins = Some(server);
                self.expect(&or_any(0), &url, "the address")?;
            }
            "code-entered" => {
                if let Some(server) = &self.logins {
                    server.enter();
                }
            }
            defined => return self.defined(defined, args),
        }
        Ok(Flow::Next)
    }

    /// Plays steps for each item, which must fit; the variables of a round end with it.
    fn rounds<'v>(
        &mut self,
        items: impl Iterator<Item = &'v Form>,
        pattern: &Form,
        steps: &[Form],
    ) -> Result<Flow, Stop> {
        for item in items {
            let before = self.variables.len();
            self.expect(pattern, item, "an item")?;
            let flow = self.all(steps)?;
            self.variables.truncate(before);
            match flow {
                Flow::Next => {}
                Flow::Leave => break,
                Flow::Done => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    /// The steps of a definition, with its params as its only variables.
    fn defined(&mut self, name: &str, args: &[Form]) -> Result<Flow, Stop> {
        let suite = self.suite;
        let Some(definition) = suite.definition(name) else {
            return Err(Stop::failed(format!("there is no step {name:?}")));
        };
        let (inputs, output) = args.split_at(definition.params.len().min(args.len()));
        let values = inputs.iter().map(|term| self.value(term)).collect::<Result<Vec<_>, _>>()?;
        let values = values.into_iter().chain(std::iter::repeat(Value::Nil));
        let names = definition.params.iter().filter_map(variable).map(str::to_owned);
        let outer = std::mem::replace(&mut self.variables, names.zip(values).collect());
        let played = self.all(&definition.steps).and_then(|_| self.value(&definition.result));
        self.variables = outer;
        let result = played?;
        if let Some(pattern) = output.first() {
            self.expect(pattern, &result, name)?;
        }
        Ok(Flow::Next)
    }

    /// Waits for an event: of these topics, which `fits`; then compares it with `due` and its frame with `frame`.
    fn event(&mut self, args: &[Form], fits: &Form, due: &Form, frame: &Form) -> Result<(), Stop> {
        let topics = self.value(args.first().unwrap_or(&Value::Nil))?;
        let topics: Vec<String> = match &topics {
            Value::Vector(topics) => topics.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            topic => topic.as_str().map(str::to_owned).into_iter().collect(),
        };
        let what = format!("{} {}", topics.join(" or "), brief(fits));
        let current = self.current.clone();
        let mut peer = self.peers.remove(&current).ok_or_else(no_server)?;
        let fault = RefCell::new(None);
        let event = {
            let scope = self.scope();
            peer.event(&what, |topic, payload| {
                (topics.is_empty() || topics.iter().any(|name| name == topic))
                    && match scope.unify(fits, Some(payload), &mut Variables::new()) {
                        Ok(()) => true,
                        Err(Miss::Differs(_)) => false,
                        Err(Miss::Stopped(stop)) => {
                            fault.replace(Some(stop));
                            false
                        }
                    }
            })
        };
        self.peers.insert(current, peer);
        let event = match (event, fault.take()) {
            (_, Some(fault)) => return Err(fault),
            (event, None) => event?,
        };
        let payload = event.get("data").cloned().unwrap_or(Value::Nil);
        self.expect(fits, &payload, "it")?;
        self.expect(due, &payload, "it")?;
        self.expect(frame, &event, "its frame")
    }

    /// Sends requests in one piece.
    fn batch(&mut self, args: &[Form]) -> Result<(), Stop> {
        let requests = self.value(args.first().unwrap_or(&Value::Nil))?;
        let peer = self.peer()?;
        let (mut lines, mut ids) = (String::new(), Vec::new());
        for item in requests.as_slice().unwrap_or_default() {
            let [op, params] = item.as_slice().unwrap_or_default() else {
                return Err(Stop::failed(format!("{} is no request", brief(item))));
            };
            let op = op.as_str().unwrap_or_default();
            let id = peer.new_id();
            peer.expects(&id, op);
            lines.push_str(&peer.line_of(&id, op, &edn::to_string(params)));
            lines.push('\n');
            ids.push(Value::from(id));
        }
        peer.send_bytes(lines.as_bytes());
        self.expect(args.get(1).unwrap_or(&Value::symbol("_")), &Value::vector(ids), "the ids")
    }

    /// Starts a server for the current name; an earlier one ends first.
    fn open(&mut self, options: &Form) -> Result<(), Stop> {
        self.peers.remove(&self.current);
        let options = self.value(options)?;
        let script = options.get("script").map(edn::to_string);
        let config = match options.get("config").is_some() || options.get("workflow").is_some() {
            true => Some(config(&options)),
            false => None,
        };
        let peer = self.probe.start(script.as_deref(), config.as_ref())?;
        self.greet(peer, &options)
    }

    fn join(&mut self, options: &Form) -> Result<(), Stop> {
        let options = self.value(options)?;
        let peer = self.probe.guest()?;
        self.greet(peer, &options)
    }

    /// Shakes hands and subscribes as the options of `open` and `join` say.
    fn greet(&mut self, peer: Peer, options: &Form) -> Result<(), Stop> {
        self.peers.insert(self.current.clone(), peer);
        if options.get("handshake") == Some(&Value::Bool(false)) {
            return Ok(());
        }
        let features = options.get("features").cloned().unwrap_or_else(|| Value::vector([] as [Form; 0]));
        let (op, params) = self.suite.wire().greeting(features);
        self.peer()?.ask_ok(op, &edn::to_string(&params))?;
        if self.suite.wire() == Wire::Ui {
            return Ok(());
        }
        let params = match options.get("subscribe") {
            None => return Ok(()),
            Some(topics @ Value::Vector(_)) => format!("{{:topics {}}}", edn::to_string(topics)),
            Some(_) => "{}".to_owned(),
        };
        self.peer()?.ask_ok("subscribe", &params).map(|_| ())
    }

    fn peer(&mut self) -> Result<&mut Peer, Stop> {
        self.peers.get_mut(&self.current).ok_or_else(no_server)
    }

    fn request(&self, args: &[Form]) -> Result<(String, String), Stop> {
        let op = self.text(args.first().unwrap_or(&Value::Nil))?;
        let params = match args.get(1) {
            Some(params) => self.value(params)?,
            None => Value::from(edn::value::Map::new()),
        };
        Ok((op, edn::to_string(&params)))
    }

    fn scope(&self) -> Scope<'_> {
        Scope::new(self, &self.variables)
    }

    fn value(&self, term: &Form) -> Result<Form, Stop> {
        self.scope().eval(term)
    }

    fn text(&self, term: &Form) -> Result<String, Stop> {
        let value = self.value(term)?;
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| Stop::failed(format!("{} is no string", brief(&value))))
    }

    fn number(&self, args: &[Form], place: usize) -> Result<i64, Stop> {
        let value = self.value(args.get(place).unwrap_or(&Value::Nil))?;
        value.as_i64().ok_or_else(|| Stop::failed(format!("{} is no number", brief(&value))))
    }

    /// Compares a value with a pattern and takes the pattern's variables.
    fn expect(&mut self, pattern: &Form, value: &Form, what: &str) -> Result<(), Stop> {
        let mut found = Variables::new();
        match self.scope().unify(pattern, Some(value), &mut found) {
            Ok(()) => {
                self.variables.extend(found);
                Ok(())
            }
            Err(Miss::Differs(why)) => Err(Stop::failed(format!("{what}: {why}"))),
            Err(Miss::Stopped(stop)) => Err(stop),
        }
    }
}

impl Host for Player<'_> {
    fn call(&self, name: &str, args: &[Form]) -> Result<Option<Form>, Stop> {
        let text = |place: usize| args.get(place).and_then(Value::as_str).unwrap_or_default();
        Ok(Some(match name {
            // A path in the check's own folder, which tools and commands may change.
            "file" => Value::from(self.folder.path(text(0))?.to_string_lossy().into_owned()),
            "json" => Value::from(json::write(args.first().unwrap_or(&Value::Nil))),
            "content" => Value::from(std::fs::read_to_string(text(0)).ok()),
            "table" => self.suite.table(args),
            "supported" => {
                Value::vector(self.probe.abilities()?.ops.iter().map(|op| Value::from(op.clone())))
            }
            "client-info" => client_info(text(0), args.get(1).cloned().unwrap_or(Value::Nil)),
            "milliseconds" => Value::int(i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX)),
            _ => return Ok(None),
        }))
    }

    fn function(&self, name: &str) -> Option<(&[Form], &Form)> {
        self.suite.definition(name).map(|definition| (definition.params.as_slice(), &definition.result))
    }
}

fn no_server() -> Stop {
    Stop::failed("no server is connected under this name")
}

/// The user's configuration: a map, and a workflow with the name `contract`.
fn config(options: &Form) -> Config {
    let text = options.get("config").map(edn::to_string).unwrap_or_default();
    let workflows = options.get("workflow").map(|workflow| match workflow.as_str() {
        Some(text) => ("contract".to_owned(), text.to_owned()),
        None => ("contract".to_owned(), edn::to_string(workflow)),
    });
    Config { text, workflows: workflows.into_iter().collect() }
}

fn append(path: &str, text: &str) -> Result<(), Stop> {
    use std::io::Write as _;
    let write = || std::fs::OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes());
    write().map_err(|error| Stop::failed(format!("{path}: {error}")))
}

/// The folder of a check, for the files of tools and commands. Created when first used.
#[derive(Default)]
struct Folder(std::cell::OnceCell<PathBuf>);

impl Folder {
    fn path(&self, name: &str) -> Result<PathBuf, Stop> {
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let folder = self.0.get_or_init(|| {
            let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
            std::env::temp_dir().join(format!("edn-bridge-contract-files-{}-{number}", std::process::id()))
        });
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        Ok(if name.is_empty() { folder.clone() } else { folder.join(name) })
    }

    fn read(&self, name: &str) -> Result<Option<String>, Stop> {
        Ok(std::fs::read_to_string(self.path(name)?).ok())
    }

    fn write(&self, name: &str, content: &str) -> Result<(), Stop> {
        let path = self.path(name)?;
        std::fs::write(&path, content).map_err(|error| failed(&path, &error))
    }

    fn remove(&self, name: &str) -> Result<(), Stop> {
        let path = self.path(name)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&path, &error)),
            _ => Ok(()),
        }
    }

    fn wait_for(&self, name: &str) -> Result<(), Stop> {
        let path = self.path(name)?;
        let begun = Instant::now();
        while !path.exists() {
            if begun.elapsed() >= COMMAND_PATIENCE {
                return Err(Stop::failed(format!("{name} was not made")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = self.0.get() {
            // A file that stays behind in a temporary folder is harmless.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Stop {
    Stop::failed(format!("{}: {error}", path.display()))
}
