//! `edn-bridge mcp`: the MCP servers of a project, in the configuration and at work; and this program as such a
//! server. Knows the session API's ops as any client does, and the text of the user's file.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use edn_bridge::client::{Client, Refused};
use edn_bridge::config::Settings;
use edn_bridge::limits::MCP_LAST_LINES;
use edn_bridge::mcp;
use edn_bridge::peer::Source;
use edn_bridge::value::{Map, Owned, Value};
use edn_bridge::visible;

mod serve;

use super::engine_client::hello;
use super::failure::{Exit, FAILED, Failure};
use super::options::Options;
use super::out;
use super::served::Own;

#[derive(Subcommand)]
pub(super) enum McpCommand {
    /// Lists the servers that sessions of this folder use, and where each is configured. Starts none.
    List,
    /// Adds a server to your configuration; everything else in the file stays as it is.
    ///
    /// For a program: edn-bridge mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
    Add {
        /// Its name: letters, digits, - and single _.
        name: String,
        /// The address of a server over HTTP, instead of a program.
        #[arg(long, value_name = "URL", conflicts_with = "command")]
        url: Option<String>,
        /// A variable of the program: NAME=VALUE, or NAME for the value that the variable has when it is started.
        #[arg(long, value_name = "NAME[=VALUE]", conflicts_with = "url")]
        env: Vec<String>,
        /// A header of each request: NAME=VALUE, or NAME=$VARIABLE for the value of a variable.
        #[arg(long, value_name = "NAME=VALUE", requires = "url")]
        header: Vec<String>,
        /// The folder that the program runs in, instead of the project's.
        #[arg(long, value_name = "DIR", conflicts_with = "url")]
        folder: Option<PathBuf>,
        /// In place of one of that name.
        #[arg(long)]
        replace: bool,
        /// The program and its arguments.
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Takes a server out of your configuration.
    Remove {
        /// Its name.
        name: String,
    },
    /// Starts a server and shows what it offers, or why it cannot be used.
    Test {
        /// Its name.
        name: String,
    },
    /// Serves the sessions of this folder to another agent, on standard input and output.
    Serve {
        /// Also let it give tasks to the agent here.
        #[arg(long)]
        prompt: bool,
    },
}

pub(super) fn run(options: &Options, command: Option<McpCommand>) -> Exit {
    match command.unwrap_or(McpCommand::List) {
        McpCommand::List => list(options),
        McpCommand::Add { name, url, env, header, folder, replace, command } => {
            let value = server(url, &command, &env, &header, folder)?;
            add(options, &name, &value, replace)
        }
        McpCommand::Remove { name } => remove(options, &name),
        McpCommand::Test { name } => test(options, &name),
        McpCommand::Serve { prompt } => serve::run(options, prompt),
    }
}

/// A server as the configuration has it.
fn server(
    url: Option<String>,
    command: &[String],
    env: &[String],
    header: &[String],
    folder: Option<PathBuf>,
) -> Result<Value<'static>, Failure> {
    let variable = |name: &str| Value::from(Map::new().with("variable", name.to_owned()));
    let mut map = Map::new();
    if !command.is_empty() {
        map.put("command", Value::vector(command.iter().cloned()));
    }
    map.put_some("url", url);
    let mut variables = Map::new();
    for text in env {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Value::from(value.to_owned())),
            None => (text.as_str(), variable(text)),
        };
        variables.insert(Value::from(name.to_owned()), value);
    }
    if !variables.is_empty() {
        map.put("env", Value::from(variables));
    }
    let mut headers = Map::new();
    for text in header {
        // A name has neither sign; the value may have both. The error does not repeat it, for it may be a key.
        let pair = text.split_once(['=', ':']).filter(|(name, _)| !name.trim().is_empty());
        let (name, value) =
            pair.ok_or_else(|| Failure::Failed("--header: write NAME=VALUE or NAME: VALUE.".to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        let value = match value.rsplit_once('$') {
            Some((prefix, name)) if is_variable(name) && (prefix.is_empty() || prefix.ends_with(' ')) => {
                let map = Map::new().with("variable", name.to_owned());
                Value::from(if prefix.is_empty() { map } else { map.with("prefix", prefix.to_owned()) })
            }
            _ => Value::from(value.to_owned()),
        };
        headers.insert(Value::from(name.to_owned()), value);
    }
    if !headers.is_empty() {
        map.put("headers", Value::from(headers));
    }
    if let Some(folder) = folder {
        let folder = folder.canonicalize().map_err(Failure::io(format!("--folder {}", folder.display())))?;
        let text =
            folder.to_str().ok_or_else(|| Failure::Failed("--folder: its path is no text.".to_owned()))?;
        map.put("cwd", text.to_owned());
    }
    Ok(Value::from(map))
}

fn is_variable(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The user's own file.
fn user_file(settings: &Settings) -> Result<PathBuf, Failure> {
    let none =
        || Failure::Failed("There is no folder for a configuration: name a file with --config.".to_owned());
    settings.files.user.clone().ok_or_else(none)
}

fn add(options: &Options, name: &str, value: &Value<'static>, replace: bool) -> Exit {
    let settings = options.settings_to_write()?;
    let path = user_file(&settings)?;
    // What nothing would start is not written.
    let named = Value::map([(name.to_owned(), value.clone())]);
    let read = mcp::Settings::read([(Source::User(path.clone()), &named)]);
    if let Some(problem) = read.problems.first() {
        return Err(Failure::Failed(problem.clone()));
    }
    settings.files.put_server(name, value, replace)?;
    out::print(&format!("{name} is in {}. edn-bridge mcp test {name} starts it.\n", path.display()))
}

fn remove(options: &Options, name: &str) -> Exit {
    let settings = options.settings()?;
    let path = user_file(&settings)?;
    if settings.files.take_server_out(name)? {
        return out::print(&format!("{name} is out of {}.\n", path.display()));
    }
    Err(Failure::Failed(format!("There is no server {name:?} in {}.", path.display())))
}

/// Asks an engine of our own: it reads the configuration as it is now, and its servers end with it.
fn ask(settings: Settings, options: &Options, op: &str, params: Map<'static>) -> Result<Owned, Failure> {
    let server = params.get_keyword("server").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (own, stream) = Own::start(settings, options.durability())?;
    let answer = Client::connect(stream, &hello("edn-bridge mcp"))
        .and_then(|(client, _)| client.ask(op, Value::from(params)));
    let words = if answer.is_err() { own.engine().server_words(&server) } else { String::new() };
    own.end();
    answer.map_err(|refused: Refused| Failure::Failed(format!("{}{}", refused.message, last(&words))))
}

/// The last lines of what a program said, below a sentence.
fn last(words: &str) -> String {
    let lines: Vec<&str> = words.lines().collect();
    let from = lines.len().saturating_sub(MCP_LAST_LINES);
    let shown = lines.iter().skip(from).map(|line| format!("\n  {}", visible::line(line)));
    let shown: String = shown.collect();
    if shown.is_empty() { shown } else { format!("\nIt wrote last to its standard error:{shown}") }
}

fn text<'v>(value: &'v Value<'_>, key: &str) -> &'v str {
    value.get(key).map_or("", |value| value.as_str().or_else(|| value.as_keyword()).unwrap_or_default())
}

fn all<'v>(value: &'v Value<'v>, key: &str) -> &'v [Value<'v>] {
    value.get(key).and_then(Value::as_slice).unwrap_or_default()
}

fn list(options: &Options) -> Exit {
    let settings = options.settings()?;
    let layers = settings.files.read()?;
    let (user, project) = (settings.files.user.clone(), settings.files.project.clone());
    let shown = |path: Option<PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
    let (user, project) = (shown(user), shown(project));
    let answer = ask(settings, options, "list_mcp", Map::new())?;
    let mut told = String::new();
    for server in all(&answer, "servers") {
        let from = match text(server, "source") {
            "user" => user.as_str(),
            "project" => project.as_str(),
            other => other,
        };
        let _ = writeln!(
            told,
            "{:<16} {:<12} {:<6} {}\n{:16} from {from}",
            text(server, "name"),
            text(server, "state"),
            text(server, "transport"),
            text(server, "target"),
            "",
        );
        let why = text(server, "last-error");
        if !why.is_empty() {
            let _ = writeln!(told, "{:16} {why}", "");
        }
        for problem in all(server, "problems").iter().filter_map(Value::as_str) {
            let _ = writeln!(told, "{:16} {problem}", "");
        }
    }
    // What of a project is not used until it is trusted.
    for passed_over in layers.passed_over.iter().filter(|why| why.contains(":mcp")) {
        let _ = writeln!(told, "{passed_over} (/trust shows it)");
    }
    if told.is_empty() {
        told.push_str("There are none. edn-bridge mcp add NAME -- COMMAND adds one.\n");
    }
    out::print(&told)
}

fn test(options: &Options, name: &str) -> Exit {
    let answer =
        ask(options.settings()?, options, "restart_mcp", Map::new().with("server", name.to_owned()))?;
    let server = answer.get("server").unwrap_or(&Value::Nil);
    let state = text(server, "state");
    let mut told = format!("{name}: {state}");
    for part in
        ["title", "protocol-version"].map(|key| text(server, key)).into_iter().filter(|part| !part.is_empty())
    {
        let _ = write!(told, ", {part}");
    }
    told.push('\n');
    let mut part = |title: &str, key: &str, line: &dyn Fn(&Value<'_>) -> String| {
        let items = all(server, key);
        if !items.is_empty() {
            let _ = writeln!(told, "\n{title}");
            for item in items {
                let _ = writeln!(told, "  {}", line(item).trim_end());
            }
        }
    };
    let described =
        |item: &Value<'_>, name: &str| format!("{}  {}", text(item, name), text(item, "description"));
    part("Tools", "tools", &|tool| described(tool, "tool"));
    part("Prompts", "prompts", &|prompt| format!("/{}", described(prompt, "name")));
    part("Resources", "resources", &|resource| format!("@{name}:{}", described(resource, "uri")));
    part("Not offered", "problems", &|problem| problem.as_str().unwrap_or_default().to_owned());
    let why = text(server, "last-error");
    if !why.is_empty() {
        let _ = writeln!(told, "{why}");
    }
    out::print(&told)?;
    Ok(if state == "ready" { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
