//! A project with MCP servers, for tests.

#![allow(dead_code, reason = "each test program uses a part")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use edn_bridge::auth::Credentials;
use edn_bridge::clock::SystemClock;
use edn_bridge::edn;
use edn_bridge::environment::Environment;
use edn_bridge::event::ToolCall;
use edn_bridge::files::FileRead;
use edn_bridge::http::Http;
use edn_bridge::mcp::{
    Answerer, Answering, Ask, ElicitReply, ServerContext, ServerFacts, Servers, Settings, State,
};
use edn_bridge::peer::Source;
use edn_bridge::tool::output::Outputs;
use edn_bridge::tool::{Context, EditorChange, OpenFiles, Outcome, Site, Tool};
use edn_bridge::value::{Map, Value};
use tokio_util::sync::CancellationToken;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers questions as a test says, and keeps them.
#[derive(Default)]
pub struct Person {
    pub asked: Mutex<Vec<Ask>>,
    pub answers: Mutex<Vec<ElicitReply>>,
}

impl Answerer for Person {
    fn ask(&self, ask: Ask) -> Answering<'_> {
        self.asked.lock().unwrap().push(ask);
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.is_empty() { ElicitReply::Declined } else { answers.remove(0) };
        Box::pin(std::future::ready(answer))
    }
}

/// A project with servers, and a person.
pub struct Project {
    pub folder: tempfile::TempDir,
    pub servers: Servers,
    pub person: Arc<Person>,
    pub stop: CancellationToken,
    pub progress: Arc<Mutex<Vec<String>>>,
}

pub fn wicked() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_servers/wicked.py")
}

pub fn python_server(way: &str, more: &str) -> String {
    format!("{{:command [\"python3\" {:?} {way:?}] {more}}}", wicked().to_str().unwrap())
}

pub fn settings(text: &str) -> Settings {
    let value = edn::read_one(text.as_bytes()).unwrap();
    let settings = Settings::read([(Source::User("/u/config.edn".into()), &value)]);
    assert_eq!(settings.problems, [""; 0]);
    settings
}

impl Project {
    pub fn of(servers: &str) -> Self {
        Self::with(servers, Environment::default())
    }

    pub fn with(servers: &str, environment: Environment) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let state_dir = root.join("state");
        let place = ServerContext {
            root: root.clone(),
            credentials: Credentials::new(&state_dir),
            state_dir,
            environment,
            confine: None,
            http: Arc::new(Http::default()),
            keys: Arc::new(|_| None),
            clock: Arc::new(SystemClock),
        };
        let servers = Servers::new(place, settings(servers));
        let (person, stop) = (Arc::<Person>::default(), CancellationToken::new());
        Self { folder, servers, person, stop, progress: Arc::default() }
    }

    pub fn wicked(way: &str, more: &str) -> Self {
        Self::of(&format!("{{\"w\" {}}}", python_server(way, more)))
    }

    pub fn answerer(&self) -> Arc<dyn Answerer> {
        self.person.clone()
    }

    pub fn facts(&self) -> ServerFacts {
        self.servers.snapshot().remove(0)
    }

    pub async fn ready(&self) -> ServerFacts {
        self.reached(|facts| !matches!(facts.state, State::Idle | State::Starting)).await
    }

    /// Starts the servers, and waits for a state of the first.
    pub async fn reached(&self, is_there: impl Fn(&ServerFacts) -> bool) -> ServerFacts {
        let mut changes = self.servers.changes();
        self.servers.ready(PATIENCE).await;
        within(async {
            loop {
                let facts = self.facts();
                if is_there(&facts) {
                    return facts;
                }
                changes.changed().await.unwrap();
            }
        })
        .await
    }

    pub fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let tools = self.servers.tools(&self.answerer());
        let found = tools.into_iter().find(|tool| tool.spec().name == format!("mcp__w__{name}"));
        found.unwrap_or_else(|| panic!("no tool {name}: {:?}", self.facts()))
    }

    pub fn context(&self) -> Context {
        let text = Arc::<str>::from("call-1");
        let call = ToolCall {
            id: text.clone(),
            name: text.clone(),
            summary: text.clone(),
            arguments: text,
            parsed: Value::Nil.into(),
        };
        let progress = self.progress.clone();
        Context {
            cwd: self.folder.path().into(),
            outputs: Outputs::new(self.folder.path(), "s"),
            handle: "o-1".to_owned(),
            sandbox: None,
            environment: Environment::default(),
            variables: Vec::new(),
            lifeline: None,
            barred: Arc::default(),
            revision: None,
            stop: self.stop.clone(),
            call: Arc::new(call),
            event: Arc::new(|_, _| {}),
            progress: Arc::new(move |text| progress.lock().unwrap().push(text.to_owned())),
            changing: Arc::new(|_| Ok(())),
            open: Arc::new(Nothing),
            redirects: None,
        }
    }

    pub async fn call(&self, name: &str, arguments: &str) -> Outcome {
        self.call_tool(&self.tool(name), arguments).await
    }

    /// Calls a tool that was offered at some time.
    pub async fn call_tool(&self, tool: &Arc<dyn Tool>, arguments: &str) -> Outcome {
        let arguments = edn::read_one(arguments.as_bytes()).unwrap().into_owned();
        let context = self.context();
        let site = Site { cwd: &context.cwd, open: context.open.as_ref(), stop: &context.stop, judged: None };
        let plan = tool.plan(site, &arguments).unwrap();
        within(tool.run(&context, &plan, &arguments)).await
    }

    pub async fn text(&self, name: &str) -> String {
        let outcome = self.call(name, "{}").await;
        assert!(!outcome.is_error, "{name}: {}", outcome.text);
        outcome.text
    }

    pub async fn failure(&self, name: &str) -> String {
        let outcome = self.call(name, "{}").await;
        assert!(outcome.is_error, "{name}: {}", outcome.text);
        outcome.text
    }

    pub fn answers(&self, answers: Vec<ElicitReply>) {
        *self.person.answers.lock().unwrap() = answers;
    }

    pub fn asked(&self) -> Vec<Ask> {
        std::mem::take(&mut self.person.asked.lock().unwrap())
    }
}

/// No client has a file open.
struct Nothing;

impl OpenFiles for Nothing {
    fn is_asked(&self, _: &Path) -> bool {
        false
    }

    fn text(&self, _: &Path, _: Option<&FileRead>) -> Result<Option<Arc<str>>, String> {
        Ok(None)
    }

    fn change(&self, _: &Path, _: &Arc<str>, _: &str) -> EditorChange {
        EditorChange::Closed
    }
}

pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it took too long")
}

pub fn form(entries: &[(&str, Value<'static>)]) -> ElicitReply {
    let mut map = Map::new();
    for (key, value) in entries {
        map.insert(Value::from((*key).to_owned()), value.clone());
    }
    ElicitReply::Form(map)
}

/// Nothing is stopped.
pub static STOP: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

impl Project {
    pub fn folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }
}
