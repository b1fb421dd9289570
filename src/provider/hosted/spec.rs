//! The servers and how to reach them: those of the program, and those of a configuration. Sends no request.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::protocol::Protocol;
use crate::auth::{KeySource, Login};
use crate::edn;
use crate::http::header::{HeaderName, HeaderValue};
use crate::http::{self, Url};
use crate::limits::HTTP_IDLE;
use crate::provider::takes::{self, Fact, Takes};
use crate::similar;
use crate::value::{Map, Value};

/// The program's own list.
const BUILT_IN: &str = include_str!("providers.edn");

/// A model server.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The provider's name in the configuration and on the wire.
    pub id: Arc<str>,
    /// The name for people.
    pub name: Arc<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its base address.
    pub base: Url,
    /// Header lines of every call.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How long the connection may be silent before it counts as lost.
    pub patience: Duration,
    /// Whether it gives no reason at the end of an answer, so that `[DONE]` alone ends one.
    pub ends_without_reason: bool,
    /// Facts about its requests, from the configuration.
    pub takes: Arc<[Fact]>,
    /// The source of its key.
    pub key: KeySource,
    /// Its preferred families of models, the best first.
    pub families: Arc<[String]>,
}

/// What is wrong with a provider of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the provider {provider:?} {what}")]
pub struct SpecProblem {
    /// Its name.
    pub provider: String,
    /// The key that is wrong, if one is.
    pub key: Option<Value<'static>>,
    /// What is wrong, as a sentence without its subject.
    pub what: String,
}

/// All usable servers in the order of the program's list, those that only the configuration names last; and what is wrong with
/// the configured ones.
pub fn all(configured: &[(String, Value<'static>)]) -> (Vec<Spec>, Vec<SpecProblem>) {
    let mut providers: Vec<(String, Map<'static>)> = Vec::new();
    let built_in = edn::read_one(BUILT_IN.as_bytes()).ok().map(Value::into_owned);
    let built_in = built_in.as_ref().and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let built_in = built_in.filter_map(|(id, provider)| Some((id.as_str()?.to_owned(), provider.clone())));
    let mut problems = Vec::new();
    for (id, value) in built_in.chain(configured.iter().cloned()) {
        let Value::Map(map) = value else {
            let what = format!("must be a map, not a {}", value.kind_name());
            problems.push(SpecProblem { provider: id, key: None, what });
            continue;
        };
        match providers.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => known.extend(map),
            None => providers.push((id, map)),
        }
    }
    let mut specs = Vec::new();
    for (id, map) in providers {
        match read(&id, &map) {
            Ok(spec) => {
                let key = Some(Value::keyword("base-url"));
                problems.extend(spec.exposes().map(|what| SpecProblem { provider: id, key, what }));
                specs.push(spec);
            }
            Err((key, what)) => problems.push(SpecProblem { provider: id, key, what }),
        }
    }
    (specs, problems)
}

const KEYS: [&str; 13] = [
    "name",
    "api",
    "base-url",
    "headers",
    "idle-timeout-ms",
    "ends-without-reason",
    "takes",
    "key-variables",
    "key-command",
    "key-store",
    "key-url",
    "login",
    "families",
];

/// Reads a provider. The error is the key that is wrong, and a sentence without its subject: a warning for a person, who
/// mends the configuration.
fn read(id: &str, map: &Map<'static>) -> Result<Spec, (Option<Value<'static>>, String)> {
    if let Some((key, _)) =
        map.iter().find(|(key, _)| !key.as_keyword().is_some_and(|key| KEYS.contains(&key)))
    {
        let name = key.as_keyword().or_else(|| key.as_str()).unwrap_or_default();
        let what = match similar::names(name, KEYS).first() {
            Some(near) => format!("has no {key}; did you mean :{near}?"),
            None => {
                let known = KEYS.map(|key| format!(":{key}")).join(" ");
                format!("has no {key}; it may have {known}")
            }
        };
        return Err((Some(key.clone()), what));
    }
    read_known(id, map).map_err(|what| {
        // Every sentence about a key names it.
        let key = KEYS.iter().find(|key| what.contains(&format!(":{key}")) && map.get_keyword(key).is_some());
        (key.map(|key| Value::keyword(*key)), what)
    })
}

/// Reads a provider that has no other keys.
fn read_known(id: &str, map: &Map<'static>) -> Result<Spec, String> {
    let text = |key: &str| match map.get_keyword(key) {
        None | Some(Value::Nil) => Ok(None),
        Some(value) => match value.as_str().filter(|text| !text.trim().is_empty()) {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(format!("needs a text at :{key}")),
        },
    };
    let texts = |key: &str| match map.get_keyword(key) {
        None | Some(Value::Nil) => Ok(Vec::new()),
        Some(value) => {
            let items =
                value.as_slice().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
            items
                .and_then(Iterator::collect::<Option<Vec<_>>>)
                .ok_or_else(|| format!("needs a vector of texts at :{key}"))
        }
    };
    let api = map
        .get_keyword("api")
        .map_or("openai", |api| api.as_keyword().or_else(|| api.as_str()).unwrap_or(""));
    let protocol = Protocol::parse(api)
        .ok_or("needs :api to be one of :anthropic :openai :openai-responses :gemini".to_owned())?;
    let base = text("base-url")?.ok_or("needs a :base-url")?;
    // Without one, the host itself is taken for the scheme (localhost:8080). The address is not repeated: its query may
    // have a key.
    if !base.contains("://") {
        return Err(
            "has a :base-url without a scheme; write http:// or https:// before the host's name".to_owned()
        );
    }
    let base = Url::parse(&base).map_err(|error| format!("has no usable :base-url: {error}"))?;
    if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
        return Err("needs a :base-url that begins with http:// or https://".to_owned());
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err("must not have a key in its :base-url; use :key-command or :key-variables".to_owned());
    }
    let flag = |key: &str| match map.get_keyword(key) {
        None | Some(Value::Nil | Value::Bool(false)) => Ok(false),
        Some(Value::Bool(true)) => Ok(true),
        Some(_) => Err(format!("needs true or false at :{key}")),
    };
    let patience = match map.get_keyword("idle-timeout-ms") {
        None | Some(Value::Nil) => HTTP_IDLE,
        Some(millis) => match millis.as_i64().and_then(|millis| u64::try_from(millis).ok()) {
            Some(millis @ 1..) => Duration::from_millis(millis),
            _ => return Err("needs a count of milliseconds at :idle-timeout-ms".to_owned()),
        },
    };
    let command = texts("key-command")?;
    Ok(Spec {
        id: id.into(),
        name: text("name")?.unwrap_or_else(|| id.to_owned()).into(),
        protocol,
        headers: headers(map.get_keyword("headers"))?,
        base,
        patience,
        ends_without_reason: flag("ends-without-reason")?,
        takes: takes::configured(map.get_keyword("takes"))
            .map_err(|what| format!("has a :takes that {what}"))?,
        key: KeySource {
            variables: texts("key-variables")?,
            command: (!command.is_empty()).then_some(command),
            seal: Default::default(),
            store: flag("key-store")?,
            url: match text("key-url")? {
                Some(url) if http::page(&url).is_none() => {
                    return Err(
                        "needs an address that begins with http:// or https:// at :key-url".to_owned()
                    );
                }
                url => url,
            },
            login: match map.get_keyword("login") {
                None | Some(Value::Nil) => None,
                Some(login) => Some(Login::read(login).map_err(|error| error.to_string())?),
            },
            environment: Default::default(),
        },
        families: texts("families")?.into(),
    })
}

fn headers(value: Option<&Value<'_>>) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    const SHAPE: &str = "needs a map of texts at :headers";
    let Some(value) = value.filter(|value| !value.is_nil()) else { return Ok(Vec::new()) };
    let lines = value.as_map().ok_or(SHAPE)?.iter().map(|(name, value)| {
        let name = name.as_str().or_else(|| name.as_keyword()).ok_or(SHAPE)?;
        let value = value.as_str().ok_or(SHAPE)?;
        let wrong = |_| format!("has a line {name:?} in :headers that is none");
        let name_read = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(()))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong(()))?;
        value.set_sensitive(true);
        Ok((name_read, value))
    });
    lines.collect()
}

/// A server with fields of its own in a protocol that others share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// OpenAI's own, which has another name for the maximum answer.
    OpenAi,
    /// OpenRouter's, which reports the cost on request.
    OpenRouter,
    /// Any other.
    Other,
}

impl Spec {
    /// The facts about its requests for a model.
    pub fn takes(&self, model: &str, facts: &[Fact]) -> Takes {
        let at = [&*self.id, self.base.host_str().unwrap_or_default()];
        Takes::of(self.protocol.as_str(), at, model, [&self.takes, facts])
    }

    /// Which server it is.
    pub fn server(&self) -> Server {
        match self.base.host_str() {
            Some("api.openai.com") => Server::OpenAi,
            Some("openrouter.ai") => Server::OpenRouter,
            _ => Server::Other,
        }
    }

    /// The address of a path below the base.
    ///
    /// # Errors
    /// If the model's id does not form an address.
    pub fn url(&self, path: &str) -> Result<Url, <Url as FromStr>::Err> {
        let base = http::shown(&self.base);
        let base = base.as_str().trim_end_matches('/');
        let mut url = Url::parse(&format!("{base}/{path}"))?;
        // What every call has in its query stands behind the path's own.
        if let Some(query) = self.base.query() {
            let own = url.query().map(|own| format!("{own}&")).unwrap_or_default();
            url.set_query(Some(&format!("{own}{query}")));
        }
        Ok(url)
    }

    /// What its calls tell everybody on the way, for a person; `None` where they are encrypted, stay on this
    /// machine, or have nothing to hide. A sentence without its subject.
    fn exposes(&self) -> Option<String> {
        let KeySource { variables, command, store, url, login, environment: _, seal: _ } = &self.key;
        let has_key =
            !variables.is_empty() || command.is_some() || *store || url.is_some() || login.is_some();
        let has_key = has_key || !self.headers.is_empty() || self.base.query().is_some();
        let plain = self.base.scheme() == "http" && !http::is_loopback(&self.base);
        (has_key && plain).then(|| {
            let host = self.base.host_str().unwrap_or_default();
            format!("sends its key unencrypted to {host}; use https:// in its :base-url")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(text: &str) -> (Vec<Spec>, Vec<String>) {
        let value = edn::read_one(text.as_bytes()).unwrap().into_owned();
        let entries = value.as_map().unwrap().iter();
        let entries: Vec<_> =
            entries.map(|(id, value)| (id.as_str().unwrap().to_owned(), value.clone())).collect();
        let (specs, problems) = all(&entries);
        (specs, problems.iter().map(SpecProblem::to_string).collect())
    }

    #[test]
    fn built_in_list_is_valid() {
        let (specs, problems) = all(&[]);
        assert_eq!(problems, Vec::new());
        assert!(specs.len() >= 11);
        assert!(
            specs.iter().all(|spec| spec.base.scheme() == "https" || crate::http::is_loopback(&spec.base))
        );
        let (models, _) = crate::provider::models::Models::new(&[]);
        for model in models.iter().filter(|model| !matches!(&*model.provider, "embedded" | "scripted")) {
            assert!(specs.iter().any(|spec| spec.id == model.provider), "{}", model.provider);
        }
        // The order is that of the file.
        assert_eq!(
            specs.iter().map(|spec| &*spec.id).take(3).collect::<Vec<_>>(),
            ["anthropic", "openai", "gemini"]
        );
        for spec in specs.iter().filter(|spec| !spec.families.is_empty()) {
            let usual = models.usual(&spec.id, &spec.families).map(|model| model.id.to_string());
            let first = spec.families[0].split('-').next().unwrap();
            assert!(usual.as_ref().is_some_and(|usual| usual.starts_with(first)), "{}: {usual:?}", spec.id);
        }
    }

    #[test]
    fn configuration_adds_and_changes_servers() {
        let (specs, problems) = configured(
            r#"{"ollama" {:base-url "http://10.0.0.2:11434/v1/" :idle-timeout-ms 500}
                "work" {:base-url "https://llm.example.com/v1" :headers {"x-team" "a"} :key-command ["pass" "k"]}}"#,
        );
        assert_eq!(problems, Vec::<String>::new());
        let find = |id: &str| specs.iter().find(|spec| &*spec.id == id).unwrap();
        assert_eq!(
            find("ollama").url("chat/completions").unwrap().as_str(),
            "http://10.0.0.2:11434/v1/chat/completions"
        );
        assert_eq!((&*find("ollama").name, find("ollama").patience), ("Ollama", Duration::from_millis(500)));
        assert_eq!((find("work").protocol, find("work").headers.len()), (Protocol::OpenAi, 1));
    }

    #[test]
    fn query_of_a_base_url_stands_behind_each_path() {
        let (specs, _) = configured(r#"{"x" {:base-url "https://a/v1/?key=k"}}"#);
        let spec = specs.iter().find(|spec| &*spec.id == "x").unwrap();
        assert_eq!(spec.url("chat").unwrap().as_str(), "https://a/v1/chat?key=k");
        assert_eq!(spec.url("m:go?alt=sse").unwrap().as_str(), "https://a/v1/m:go?alt=sse&key=k");
    }

    #[test]
    fn server_error_names_its_provider() {
        for (provider, expected) in [
            (r#"{"x" 1}"#, r#"the provider "x" must be a map"#),
            (r#"{"x" {}}"#, "needs a :base-url"),
            (r#"{"x" {:base-url "ftp://a"}}"#, "http:// or https://"),
            (r#"{"x" {:base-url "nonsense"}}"#, "without a scheme; write http://"),
            (r#"{"x" {:base-url "127.0.0.1:8899/v1?key=sk-1"}}"#, "without a scheme; write http://"),
            (r#"{"x" {:base-url "localhost:8080"}}"#, "without a scheme; write http://"),
            (r#"{"x" {:base-url "http://"}}"#, "no usable :base-url"),
            (r#"{"x" {:base-ulr "http://a"}}"#, "has no :base-ulr; did you mean :base-url?"),
            (r#"{"x" {:base-url "https://k@a"}}"#, "must not have a key"),
            (r#"{"x" {:base-url "https://a" :key-url "javascript:x"}}"#, "at :key-url"),
            (r#"{"x" {:base-url "http://a" :key-variables ["K"]}}"#, "sends its key unencrypted to a;"),
            (r#"{"x" {:base-url "http://10.0.0.2:1/v1" :headers {"a" "b"}}}"#, "unencrypted to 10.0.0.2;"),
            (r#"{"x" {:base-url "http://a/v1?key=sk-1"}}"#, "unencrypted to a;"),
            (r#"{"x" {:base-url "http://a" :api :soap}}"#, "needs :api to be one of"),
            (r#"{"x" {:base-url "http://a" :secret-of-mine "sk-1"}}"#, "has no :secret-of-mine; it may have"),
            (r#"{"x" {:base-url "http://a" :key-command "pass"}}"#, "a vector of texts at :key-command"),
            (r#"{"x" {:base-url "http://a" :headers {"a b" "c"}}}"#, ":headers"),
            (r#"{"x" {:base-url "http://a" :idle-timeout-ms 0}}"#, ":idle-timeout-ms"),
            (r#"{"x" {:base-url "http://a" :login {}}}"#, ":client-id"),
            (r#"{"x" {:base-url "http://a" :takes {:images 1}}}"#, "has a :takes that needs :none"),
            (
                r#"{"x" {:base-url "http://a" :ends-without-reason 1}}"#,
                "true or false at :ends-without-reason",
            ),
        ] {
            let (_, problems) = configured(provider);
            assert_eq!(problems.len(), 1, "{provider}");
            assert!(problems[0].contains(expected), "{provider}: {problems:?}");
            assert!(!problems[0].contains("sk-1"));
        }
    }
}
