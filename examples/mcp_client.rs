//! A client for the conformance suite of the Model Context Protocol: `tests/make/peers.sh` starts it with a server's
//! address as its last argument. It does what a session does with a server: uses all that it offers, answers its
//! questions, logs in where it must.

#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::sync::Arc;
use std::time::Duration;

use edn_bridge::auth::Credentials;
use edn_bridge::clock::SystemClock;
use edn_bridge::environment::Environment;
use edn_bridge::event::{Body, Event, FileEdit, ToolCall};
use edn_bridge::files::FileRead;
use edn_bridge::http::header::LOCATION;
use edn_bridge::http::{Http, Url};
use edn_bridge::mcp::{
    Answerer, Answering, Ask, ElicitReply, Question, Sampled, ServerContext, Servers, Settings, State,
};
use edn_bridge::peer::Source;
use edn_bridge::tool::output::Outputs;
use edn_bridge::tool::{CallError, Context, EditorChange, OpenFiles, Outcome, Site, Tool};
use edn_bridge::value::{Map, Value};
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Agrees to everything, and leaves forms as they are.
struct Agrees;

impl Answerer for Agrees {
    fn ask(&self, ask: Ask) -> Answering<'_> {
        let answer = match ask.question {
            Question::Form { .. } => ElicitReply::Form(Map::new()),
            Question::Page { .. } => ElicitReply::Agreed,
            Question::Sample(_) => ElicitReply::Sampled(Sampled {
                model: "test/model".to_owned(),
                text: "hello".to_owned(),
                is_cut: false,
            }),
        };
        Box::pin(std::future::ready(answer))
    }
}

struct Nothing;

impl OpenFiles for Nothing {
    fn is_asked(&self, _: &std::path::Path) -> bool {
        false
    }

    fn text(
        &self,
        _: &std::path::Path,
        _: Option<&FileRead>,
    ) -> std::result::Result<Option<Arc<str>>, String> {
        Ok(None)
    }

    fn change(&self, _: &std::path::Path, _: &Arc<str>, _: &str) -> EditorChange {
        EditorChange::Closed
    }
}

/// How often a login is tried. A server that is never content must not be asked for ever.
const LOGINS: usize = 3;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().next_back().ok_or("no address")?;
    let said: serde_json::Value = std::env::var("MCP_CONFORMANCE_CONTEXT")
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let folder = std::env::temp_dir().join(format!("mcp-client-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let text = |key: &str| said.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
    let id =
        text("client_id").unwrap_or_else(|| "https://conformance-test.local/client-metadata.json".to_owned());
    let mut more = format!(":client-id {id:?}");
    if let Some(secret) = text("client_secret") {
        more.push_str(&format!(" :client-secret-command [\"printf\" \"%s\" {secret:?}]"));
    }
    let written = format!("{{\"s\" {{:url {url:?} :sampling true :timeout-ms 20000 {more}}}}}");
    let value = edn_bridge::edn::read_one(written.as_bytes())?;
    let settings = Settings::read([(Source::User("config.edn".into()), &value)]);
    let place = ServerContext {
        root: folder.clone(),
        credentials: Credentials::new(&folder),
        state_dir: folder.clone(),
        environment: Environment::default(),
        confine: None,
        http: Arc::new(Http::default()),
        keys: Arc::new(|_| None),
        clock: Arc::new(SystemClock),
    };
    let servers = Servers::new(place, settings);
    let calls = said.get("toolCalls").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
    let done = use_all(&servers, &folder, &calls).await;
    servers.end().await;
    let _ = std::fs::remove_dir_all(&folder);
    done
}

async fn use_all(servers: &Servers, folder: &std::path::Path, calls: &[serde_json::Value]) -> Result<()> {
    let answerer: Arc<dyn Answerer> = Arc::new(Agrees);
    let mut logins = 0;
    if let Err(error) = servers.restart("s").await {
        println!("{error}");
        log_in(servers, &mut logins).await?;
    }
    let facts = servers.snapshot().into_iter().next().ok_or("no server")?;
    println!("{:?} {:?} {} tools", facts.state, facts.revision, facts.tools.len());
    let tools = servers.tools(&answerer);
    // What the suite wants to be called, or everything.
    for wanted in calls {
        let name = wanted.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
        let arguments = value_of(wanted.get("arguments").unwrap_or(&serde_json::Value::Null));
        let tool = tools.iter().find(|tool| tool.spec().name == edn_bridge::mcp::offered("s", name));
        println!("{}", call(tool.ok_or("no such tool")?.as_ref(), folder, arguments).await?.text);
    }
    let focal = tools.iter().map(|tool| tool.spec()).find(|spec| spec.name.contains("json_schema_2020"));
    for tool in tools.iter().filter(|_| calls.is_empty()) {
        let mut arguments = arguments(&tool.spec().parameters);
        if let (Some(focal), Some(map)) = (&focal, arguments.as_map_mut())
            && tool.spec().name.contains("schema_echo")
        {
            map.insert(Value::from("schema"), focal.parameters.clone());
        }
        let mut outcome = call(tool.as_ref(), folder, arguments.clone()).await?;
        // More rights may be wanted for a call than for the greeting.
        while outcome.is_error && state(servers) == Some(State::NeedsLogin) && logins < LOGINS {
            log_in(servers, &mut logins).await?;
            outcome = call(tool.as_ref(), folder, arguments.clone()).await?;
        }
        println!("{}: {} {}", tool.spec().name, outcome.is_error, outcome.text);
    }
    let stop = CancellationToken::new();
    for prompt in facts.prompts.iter() {
        let given: Vec<_> =
            prompt.arguments.iter().map(|argument| (argument.name.to_string(), "x".to_owned())).collect();
        println!("{:?}", servers.prompt("s", &prompt.name, &given, &answerer, &stop).await.is_ok());
    }
    for resource in facts.resources.iter() {
        println!("{:?}", servers.read_resource("s", &resource.uri, &answerer, &stop).await.is_ok());
    }
    Ok(())
}

fn state(servers: &Servers) -> Option<State> {
    servers.snapshot().first().map(|facts| facts.state)
}

/// Opens the page of a login as a browser would whose person agrees.
async fn log_in(servers: &Servers, logins: &mut usize) -> Result<()> {
    while state(servers) == Some(State::NeedsLogin) && *logins < LOGINS {
        *logins += 1;
        let redirect = Url::parse("http://127.0.0.1:3000/callback")?;
        let page = servers.begin_login("s", &redirect).await?;
        let answer = Http::default().client(&page)?.get(page).send().await?;
        let place = answer.headers().get(LOCATION).ok_or("the page sends nowhere")?.to_str()?.to_owned();
        if let Err(error) = servers.finish_login("s", &place).await {
            println!("{error}");
        }
    }
    match state(servers) {
        Some(State::Ready) => Ok(()),
        _ => Err("it is not ready".into()),
    }
}

/// Arguments that fit a schema.
fn arguments(schema: &Value<'_>) -> Value<'static> {
    let at = |value: &Value<'_>, key: &str| {
        value.as_map().and_then(|map| map.get(&Value::from(key.to_owned())).map(|v| v.clone().into_owned()))
    };
    let mut map = Map::new();
    if let Some(Value::Map(properties)) = at(schema, "properties") {
        for (key, property) in properties.iter() {
            let kind = at(property, "type");
            let value = match kind.as_ref().and_then(Value::as_str) {
                Some("number" | "integer") => Value::Int(5),
                Some("boolean") => Value::Bool(true),
                Some("array") => Value::vector(Vec::<Value<'static>>::new()),
                Some("object") => arguments(property),
                _ => Value::from("x"),
            };
            map.insert(key.clone().into_owned(), value);
        }
    }
    Value::from(map)
}

/// JSON as a value.
fn value_of(json: &serde_json::Value) -> Value<'static> {
    let text = json.to_string();
    edn_bridge::json::read(text.as_bytes()).map_or(Value::Nil, Value::into_owned)
}

async fn call(tool: &dyn Tool, folder: &std::path::Path, arguments: Value<'static>) -> Result<Outcome> {
    let text = Arc::<str>::from("c");
    let call = ToolCall {
        id: text.clone(),
        name: text.clone(),
        summary: text.clone(),
        arguments: text,
        parsed: arguments.clone().into(),
    };
    let context = Context {
        cwd: folder.into(),
        outputs: Outputs::new(folder, "s"),
        handle: format!("o-{}", std::process::id()),
        sandbox: None,
        environment: Environment::default(),
        variables: Vec::new(),
        lifeline: None,
        barred: Arc::default(),
        revision: None,
        stop: CancellationToken::new(),
        call: Arc::new(call),
        event: Arc::new(|_: Body, _: &mut dyn FnMut(&Event)| {}),
        progress: Arc::new(|_| {}),
        changing: Arc::new(|_: &FileEdit| Ok::<(), CallError>(())),
        open: Arc::new(Nothing),
        redirects: None,
    };
    let site = Site { cwd: &context.cwd, open: context.open.as_ref(), stop: &context.stop, judged: None };
    let plan = tool.plan(site, &arguments)?;
    Ok(tokio::time::timeout(Duration::from_secs(25), tool.run(&context, &plan, &arguments)).await?)
}
