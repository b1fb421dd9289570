//! What a configuration says of servers: `:mcp {"name" {:command […] | :url "…" …}}`.
//!
//! Starts nothing and looks nothing up: keys and variables are named here and read when a server is started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::edn;
use crate::files::Seal;
use crate::http::{self, Url};
use crate::limits::{MCP_CALL_LONGEST, MCP_CALL_TIME, MCP_SERVER_NAME_BYTES, MCP_SERVERS};
use crate::peer::{Read, Source, Unfit, Variable, at_home, command_line, is_name, of_text, unknown_key};
use crate::sha256;
use crate::value::Value;

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTransport {
    /// A program of this machine, over its standard input and output: the program and its arguments.
    Command(Vec<String>),
    /// Streamable HTTP.
    Http(Url),
}

/// How this program is registered at the server of a login, where that is not to be found out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    /// The id of the registration.
    pub id: Option<String>,
    /// The command that prints its secret.
    pub secret_command: Option<Vec<String>>,
    /// Where the browser is sent, if the registration fixes it.
    pub redirect: Option<Url>,
    /// The scopes to ask for, instead of those that the server names.
    pub scopes: Vec<String>,
}

/// A server as it is configured.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name: letters, digits, `-` and `_`, without `__`, at most 32 bytes.
    pub name: Arc<str>,
    /// Where it was configured.
    pub source: Source,
    /// How it is reached.
    pub way: ServerTransport,
    /// The folder that its program runs in, instead of the project's.
    pub cwd: Option<PathBuf>,
    /// Variables of its program, in addition to those that every server gets.
    pub environment: Vec<(String, Variable)>,
    /// Headers of its requests.
    pub headers: Vec<(String, Variable)>,
    /// Whether it may ask for answers of the session's model.
    pub sampling: bool,
    /// How long a call may take without progress.
    pub timeout: Duration,
    /// Whether it is used.
    pub enabled: bool,
    /// Tools at the server that are offered; `None` for all.
    pub only: Option<Vec<String>>,
    /// Tools at the server that are not offered.
    pub without: Vec<String>,
    /// Folders that its program may write to, in addition to those of commands.
    pub writable: Vec<PathBuf>,
    /// Whether its program runs in the sandbox, where there is one. `false` counts only in the user's own file.
    pub sandbox: bool,
    /// Its registration for logins.
    pub client: Client,
    /// The files that its commands name, as they must be when these run. Whoever reads the configuration fills it in.
    pub seal: Seal,
    /// What the user's own server of that name runs or asks, if this one stands in its place: see [`Server::identity`].
    pub users_own: Option<Arc<str>>,
}

/// Why what is written of a server cannot be used, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The whole is no map of names.
    #[error(
        ":mcp must be a map of servers, each a map under its name, such as {{\"files\" {{:command [\"…\"]}}}}."
    )]
    NoMap,
    /// A name cannot be one.
    #[error(
        "{0:?} cannot be the name of a server: use at most {MCP_SERVER_NAME_BYTES} letters, digits, - and single _, a \
         letter or digit first and last."
    )]
    Name(String),
    /// A key or a value.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// It says both, or neither.
    #[error("The server {0:?} needs either a :command or a :url.")]
    Way(String),
    /// There are too many.
    #[error("The server {0:?} is left out: at most {MCP_SERVERS} servers are used.")]
    TooMany(String),
    /// A layer switches a server that no layer describes.
    #[error("There is no server {0:?} to switch on or off.")]
    NoServer(String),
}

/// The keys of a server.
const KEYS: [&str; 19] = [
    "command",
    "url",
    "cwd",
    "env",
    "headers",
    "sampling",
    "timeout-ms",
    "enabled",
    "tools",
    "without-tools",
    "writable",
    "sandbox",
    "client-id",
    "client-secret-command",
    "redirect-url",
    "scopes",
    "type",
    "description",
    "watch",
];

/// The servers of a project: what all layers of its configuration say together.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The servers, in the order in which they were first named.
    pub servers: Vec<Server>,
    /// What was left out, with its source and why, for a person.
    pub problems: Vec<String>,
}

impl Settings {
    /// Reads the `:mcp` maps of layers, the weakest first. A server of a later layer replaces one of the same name; a
    /// map with `:enabled` alone switches that of an earlier layer. What cannot be used is left out and reported.
    pub fn read<'v>(layers: impl IntoIterator<Item = (Source, &'v Value<'v>)>) -> Self {
        let mut settings = Self::default();
        for (source, value) in layers {
            let Some(map) = value.as_map() else {
                settings.problems.push(format!("{source}: {}", ServerError::NoMap));
                continue;
            };
            for (name, value) in map.iter() {
                if let Err(error) = settings.take(&source, name, value) {
                    settings.problems.push(format!("{source}: {error}"));
                }
            }
        }
        settings
    }

    fn take(&mut self, source: &Source, name: &Value<'_>, value: &Value<'_>) -> Result<(), ServerError> {
        let text = name.as_str().or_else(|| name.as_keyword());
        let text = text.ok_or_else(|| ServerError::Name(name.to_string()))?;
        let place = self.servers.iter().position(|server| *server.name == *text);
        if let Some(map) = value.as_map()
            && map.len() == 1
            && let Some(enabled) = map.get_keyword("enabled").and_then(Value::as_bool)
        {
            let known = place.and_then(|place| self.servers.get_mut(place));
            let known = known.ok_or_else(|| ServerError::NoServer(text.to_owned()))?;
            let is_users = |source: &Source| matches!(source, Source::User(_));
            if enabled && !known.enabled && is_users(&known.source) && !is_users(source) {
                return Err(users_only(text, ":enabled true"));
            }
            known.enabled = enabled;
            return Ok(());
        }
        let mut server = Server::read(text, value, source.clone())?;
        if let Some(known) = place.and_then(|place| self.servers.get_mut(place)) {
            server.stands_for(known);
            *known = server;
        } else if self.servers.len() < MCP_SERVERS {
            self.servers.push(server);
        } else {
            return Err(ServerError::TooMany(text.to_owned()));
        }
        Ok(())
    }
}

fn users_only(name: &str, key: &'static str) -> ServerError {
    Unfit::UserOnly { what: SERVER, name: name.to_owned(), key }.into()
}

/// What a server is called in an error.
const SERVER: &str = "server";

impl Server {
    /// Reads what a configuration says of a server.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn read(name: &str, value: &Value<'_>, source: Source) -> Result<Self, ServerError> {
        if !is_name(name) {
            return Err(ServerError::Name(name.chars().take(80).collect()));
        }
        let map = value.as_map().ok_or_else(|| Unfit::Shape {
            what: SERVER,
            name: name.to_owned(),
            key: "its name".to_owned(),
            expected: "a map",
        })?;
        if let Some((key, near)) = unknown_key(map, &KEYS) {
            return Err(Unfit::Key { what: SERVER, name: name.to_owned(), key, near }.into());
        }
        let is_users = matches!(source, Source::User(_));
        let read = Read { what: SERVER, name, map };
        let shape = |key, expected| read.shape(key, expected);
        let command = read.command("command")?;
        let url = match read.text("url")? {
            None => None,
            Some(text) => {
                let url = Url::parse(text).ok().filter(|url| {
                    url.host_str().is_some()
                        && match url.scheme() {
                            "https" => true,
                            // Headers and tokens go there.
                            "http" => http::is_loopback(url),
                            _ => false,
                        }
                });
                Some(url.ok_or_else(|| {
                    shape("url", "an address that begins with https:// (http:// on this machine)")
                })?)
            }
        };
        let way = match (command, url) {
            (Some(command), None) => ServerTransport::Command(command),
            (None, Some(url)) => ServerTransport::Http(url),
            _ => return Err(ServerError::Way(name.to_owned())),
        };
        let timeout = match map.get_keyword("timeout-ms") {
            None => MCP_CALL_TIME,
            Some(millis) => {
                let millis = millis.as_i64().and_then(|millis| u64::try_from(millis).ok());
                let time = millis.map(Duration::from_millis);
                time.filter(|time| !time.is_zero() && *time <= MCP_CALL_LONGEST)
                    .ok_or_else(|| shape("timeout-ms", "1 to 3600000 milliseconds"))?
            }
        };
        let sandbox = read.truth("sandbox")?.unwrap_or(true);
        if !sandbox && !is_users {
            return Err(users_only(name, ":sandbox false"));
        }
        let writable = read.folders("writable")?;
        if !writable.is_empty() && !is_users {
            return Err(users_only(name, ":writable"));
        }
        let redirect = match read.text("redirect-url")? {
            None => None,
            Some(text) => {
                Some(http::page(text).ok_or_else(|| shape("redirect-url", "an address of the web"))?)
            }
        };
        let (environment, headers) = (read.variables("env")?, headers(&read)?);
        // The user's keys, and commands outside the sandbox.
        let takes_key =
            |all: &[(String, Variable)]| all.iter().any(|(_, value)| matches!(value, Variable::KeyOf { .. }));
        let secret_command = read.texts("client-secret-command")?;
        for (is_there, key) in [
            (takes_key(&environment), ":key-of at :env"),
            (takes_key(&headers), ":key-of at :headers"),
            (secret_command.is_some(), ":client-secret-command"),
        ] {
            if is_there && !is_users {
                return Err(users_only(name, key));
            }
        }
        Ok(Self {
            name: name.into(),
            source,
            way,
            cwd: read.text("cwd")?.map(at_home),
            environment,
            headers,
            sampling: read.truth("sampling")?.unwrap_or(false),
            timeout,
            enabled: read.truth("enabled")?.unwrap_or(true),
            only: read.texts("tools")?,
            without: read.texts("without-tools")?.unwrap_or_default(),
            writable,
            sandbox,
            client: Client {
                id: read.text("client-id")?.map(str::to_owned),
                secret_command,
                redirect,
                scopes: read.texts("scopes")?.unwrap_or_default(),
            },
            seal: Seal::default(),
            users_own: None,
        })
    }

    /// It stands in the place of another one of its name.
    pub fn stands_for(&mut self, other: &Self) {
        self.users_own = match (&self.source, &other.source) {
            (Source::User(_), _) => None,
            (_, Source::User(_)) => Some(other.identity()),
            _ => other.users_own.clone(),
        };
    }

    /// A digest of which program runs or which address is asked: what was allowed for the server's tools was allowed for
    /// this. Its keys are no part of it, unless they stand in the command line or the address.
    pub fn identity(&self) -> Arc<str> {
        let way = match &self.way {
            ServerTransport::Command(words) => {
                edn::to_string(&Value::vector(words.iter().map(String::as_str)))
            }
            ServerTransport::Http(url) => url.to_string(),
        };
        sha256::hex(format!("{way}\n{:?}", self.cwd)).into()
    }

    /// Whether it has the name of a server of the user's own file that runs or asks something else.
    pub fn borrows_name(&self) -> bool {
        self.users_own.as_ref().is_some_and(|own| *own != self.identity())
    }

    /// A digest of what decides which program runs or which server is asked, with what, and what it may ask: where it
    /// changes, what was trusted is another server. It is made of secrets too, so that it belongs into private files alone.
    pub fn digest(&self) -> String {
        let mut text = format!("{}\n", self.name);
        match &self.way {
            ServerTransport::Command(words) => {
                text.push_str(&edn::to_string(&Value::vector(words.iter().map(String::as_str))))
            }
            ServerTransport::Http(url) => text.push_str(url.as_str()),
        }
        text.push_str(&format!("\n{:?}\n", self.cwd));
        text.push_str(&of_text(self.environment.iter().chain(&self.headers)));
        text.push_str(&format!("{} {:?}\n", self.sampling, self.client));
        sha256::hex(text)
    }

    /// Whether a connection to this server is one to the other: only what is offered of it, or how long it may take, may
    /// differ.
    pub(super) fn connects_as(&self, other: &Self) -> bool {
        self.digest() == other.digest()
            && self.sandbox == other.sandbox
            && self.writable == other.writable
            && self.seal == other.seal
    }

    /// Its command line or address as it may be shown.
    pub fn shown(&self) -> String {
        match &self.way {
            ServerTransport::Command(words) => command_line(words),
            ServerTransport::Http(url) => http::shown(url).to_string(),
        }
    }
}

fn headers(read: &Read<'_>) -> Result<Vec<(String, Variable)>, Unfit> {
    let headers = read.variables("headers")?;
    for (name, value) in &headers {
        let is_name = http::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
        let is_value = match value {
            Variable::Text(text) => http::header::HeaderValue::from_str(text.expose()).is_ok(),
            _ => true,
        };
        if !is_name || !is_value {
            return Err(read.shape("headers", "names and values of HTTP headers"));
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Settings {
        let value = edn::read_one(text.as_bytes()).unwrap();
        Settings::read([(Source::User("/u".into()), &value)])
    }

    fn one(text: &str) -> Result<Server, ServerError> {
        let value = edn::read_one(text.as_bytes()).unwrap();
        Server::read("s", &value, Source::Project("/p".into()))
    }

    #[test]
    fn server_reads_with_what_it_says() {
        let settings = read(
            r#"{"files" {:command ["npx" "-y" "server"] :env {"A" "1" "B" {:variable "X"} "C" {:key-of "anthropic"}}
                         :timeout-ms 5000 :sampling true}
                :web {:url "https://h.example/mcp?key=k" :headers {"Authorization" {:variable "T" :prefix "Bearer "}}}}"#,
        );
        assert_eq!(settings.problems, [""; 0]);
        let [files, web] = settings.servers.as_slice() else { panic!("{settings:?}") };
        assert_eq!(files.way, ServerTransport::Command(vec!["npx".into(), "-y".into(), "server".into()]));
        assert!(files.sampling && files.enabled && files.timeout == Duration::from_secs(5));
        assert_eq!(files.environment.len(), 3);
        assert_eq!((&*web.name, web.shown().as_str()), ("web", "https://h.example/mcp"));
        assert!(matches!(&web.headers[0].1, Variable::Variable { prefix, .. } if prefix == "Bearer "));
    }

    #[test]
    fn server_that_cannot_be_used_says_why() {
        for (text, expected) in [
            ("{}", "either a :command or a :url"),
            (r#"{:command ["a"] :url "https://h.example"}"#, "either a :command or a :url"),
            (r#"{:commands ["a"]}"#, "Did you mean :command?"),
            (r#"{:command []}"#, "the program and its arguments at :command"),
            (r#"{:command "a"}"#, "a vector of texts at :command"),
            (r#"{:url "http://h.example"}"#, "https://"),
            (r#"{:url "file:///etc/passwd"}"#, "https://"),
            (r#"{:command ["a"] :env {"A=B" "1"}}"#, "names without ="),
            (r#"{:command ["a"] :env {"A" {:var "X"}}}"#, "{:variable \"NAME\"}"),
            (r#"{:command ["a"] :timeout-ms 0}"#, "1 to 3600000"),
            (
                r#"{:command ["a"] :sandbox false}"#,
                "only the user's own configuration may say :sandbox false",
            ),
            (
                r#"{:command ["a"] :env {"A" {:key-of "anthropic"}}}"#,
                "only the user's own configuration may say :key-of at :env",
            ),
            (
                r#"{:url "https://h.example" :headers {"A" {:key-of "anthropic" :prefix "Bearer "}}}"#,
                "only the user's own configuration may say :key-of at :headers",
            ),
            (
                r#"{:url "https://h.example" :client-secret-command ["cat" "x"]}"#,
                "only the user's own configuration may say :client-secret-command",
            ),
            (r#"{:command ["a"] :writable ["/"]}"#, "only the user's own configuration may say :writable"),
            ("{:url \"https://h.example\" :headers {\"a b\" \"1\"}}", "HTTP headers"),
        ] {
            let told = one(text).unwrap_err().to_string();
            assert!(told.contains(expected), "{text}: {told}");
        }
        for name in ["", "a__b", "a b", "-a", "a_", "ä", &"x".repeat(MCP_SERVER_NAME_BYTES + 1)] {
            let settings = read(&format!("{{{name:?} {{:command [\"a\"]}}}}"));
            assert!(settings.servers.is_empty() && settings.problems.len() == 1, "{name:?}");
        }
        assert_eq!(read("{a-b_c {}}").servers.len(), 0);
    }

    #[test]
    fn later_layer_replaces_or_switches_a_server() {
        let of = |text: &str| edn::read_one(text.as_bytes()).unwrap().into_owned();
        let user = of(r#"{"a" {:command ["1"]} "b" {:command ["2"]}}"#);
        let project = of(r#"{"a" {:command ["3"]} "b" {:enabled false} "c" {:enabled true}}"#);
        let layers = [(Source::User("/u".into()), &user), (Source::Project("/p".into()), &project)];
        let settings = Settings::read(layers);
        let shown: Vec<_> =
            settings.servers.iter().map(|s| (s.shown(), s.source.as_str(), s.enabled)).collect();
        assert_eq!(shown, [("3".to_owned(), "project", true), ("2".to_owned(), "user", false)]);
        assert!(settings.problems[0].contains("no server \"c\""), "{:?}", settings.problems);
        // A project's server stands in the place of the user's, unless it is the same.
        let names = |settings: &Settings| -> Vec<bool> {
            settings.servers.iter().map(Server::borrows_name).collect()
        };
        assert_eq!(names(&settings), [true, false]);
        let same = of(r#"{"a" {:command ["1"] :env {"K" "v"}} "d" {:command ["4"]}}"#);
        let project_source = || Source::Project("/p".into());
        let again = Settings::read([(Source::User("/u".into()), &user), (project_source(), &same)]);
        assert_eq!(names(&again), [false; 3]);
        // However many files stand in its place, and whoever names it for a session.
        let twice =
            [(Source::User("/u".into()), &user), (project_source(), &same), (project_source(), &project)];
        assert_eq!(names(&Settings::read(twice)), [true, false, false]);
        let mut own = Settings::read([(Source::Client("c".into()), &project)]).servers.remove(0);
        own.stands_for(&again.servers[0]);
        assert!(own.borrows_name());
        assert!(!names(&Settings::read([(project_source(), &same), (project_source(), &project)]))[0]);
        // What the user has switched off, no project switches on.
        let user = of(r#"{"a" {:command ["1"] :enabled false}}"#);
        let project = of(r#"{"a" {:enabled true}}"#);
        let layers = [(Source::User("/u".into()), &user), (Source::Project("/p".into()), &project)];
        let settings = Settings::read(layers);
        assert!(
            !settings.servers[0].enabled && settings.problems[0].contains(":enabled true"),
            "{settings:?}"
        );
        let layers = [(Source::User("/u".into()), &user), (Source::User("/v".into()), &project)];
        assert!(Settings::read(layers).servers[0].enabled);
    }

    #[test]
    fn digest_changes_with_what_runs() {
        let digest = |text: &str| one(text).unwrap().digest();
        let base = digest(r#"{:command ["a" "b"] :env {"A" "1"}}"#);
        assert_eq!(base, digest(r#"{:env {"A" "1"} :timeout-ms 5 :command ["a" "b"]}"#));
        for other in [
            r#"{:command ["a b"] :env {"A" "1"}}"#,
            r#"{:command ["a" "b"] :env {"A" "2"}}"#,
            r#"{:command ["a" "b"] :env {"A" {:variable "1"}}}"#,
            r#"{:command ["a" "b"] :cwd "/x" :env {"A" "1"}}"#,
            r#"{:command ["a" "b"] :env {"A" "1"} :sampling true}"#,
            r#"{:command ["a" "b"] :env {"A" "1"} :client-id "other"}"#,
        ] {
            assert_ne!(base, digest(other), "{other}");
        }
    }

    #[test]
    fn settings_show_no_secret() {
        let settings = read(
            r#"{"a" {:command ["a" "--token" "canary-12345"] :env {"K" "canary-12345"}}
                "b" {:url "https://u:canary-12345@h.example/?k=canary-12345" :headers {"x" "canary-12345"}}}"#,
        );
        let shown: String = settings.servers.iter().map(Server::shown).collect();
        let all = format!("{shown} {:?} {:?}", settings.servers[0].environment, settings.servers[1].headers);
        assert!(!all.contains("canary"), "{all}");
    }
}
