//! The query REPL: forms in, answers out, over a connection to a bridge.
//!
//! A client like any other: it knows the wire, not the engine behind it. [`show`] lays values out for people, and `terminal` is the interactive part. This module interprets the
//! forms, for a terminal and for a pipe.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::client::{Client, Refused};
use crate::edn;
use crate::value::{Map, Owned, Value};

pub mod message_line;
pub mod show;
pub mod terminal;

/// Prints output that no form requested: events, and changes of a watched query.
pub type Aside = Arc<dyn Fn(&str) + Send + Sync>;

/// The outcome of an input.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Output to print; empty for none.
    Text(String),
    /// An error to print.
    Refused(String),
    /// The person quits.
    Quit,
}

/// A REPL on a connection.
pub struct Repl {
    client: Arc<Client>,
    layout: show::Layout,
    session: Option<String>,
    watch: Arc<Mutex<Option<Watched>>>,
    changes: Sender<()>,
    /// Shows the changes of a watched query; started with the first one.
    watcher: Option<(Receiver<()>, Aside)>,
}

struct Watched {
    query: String,
    params: Owned,
    last: Option<Owned>,
}

/// A name for completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionName {
    /// The name: `:psi.turn/text`, `prompt`.
    pub name: String,
    /// Its description.
    pub doc: String,
}

/// The topics whose events are shown until `:events` changes that.
const QUIET: &[&str] = &["assistant/message", "command-result", "ui/notification", "diagnostic", "error"];

/// The topics after whose events a watched query may have another answer.
const CHANGES: &[&str] = &[
    "session/updated",
    "session/resumed",
    "context/updated",
    "footer/updated",
    "assistant/message",
    "tool/result",
    "job/updated",
];

const HELP: &str = "\
[:a {:b [:c]}]         a query; a keyword or a join alone is one, too
(op {:param 1})        an op of the protocol, such as (prompt {:message \"hello\"})
(psi.x/name {…})       a mutation
:doc NAME              what an attribute, an op or a mutation is
:apropos TEXT          names that hold the text
:plan QUERY            how a query would be answered
:watch QUERY           the query's answer, now and whenever it changes; :unwatch ends it
:session ID            asks that session from now on; without an id, the connection's
:events all|some|none  which events are shown
:quit                  ends";

impl Repl {
    /// A REPL; `aside` prints output that no form requested.
    pub fn new(client: Arc<Client>, events: Receiver<Owned>, layout: show::Layout, aside: Aside) -> Self {
        let (changes, changed) = channel();
        let watch = Arc::new(Mutex::new(None));
        let on_change = changes.clone();
        let (show, shown) = (aside.clone(), layout.clone());
        // Ends with the connection, which holds the other end.
        let _ = std::thread::Builder::new().name("events".to_owned()).spawn(move || {
            for event in events {
                let topic = event.get("event").and_then(Value::as_str).unwrap_or_default();
                if CHANGES.contains(&topic) {
                    let _ = on_change.send(());
                }
                show(&shown.event(&event));
            }
        });
        Self { client, layout, session: None, watch, changes, watcher: Some((changed, aside)) }
    }

    /// Subscribes to the topics that are shown at first.
    pub fn begin(&self) {
        let _ = self.client.ask("subscribe", params([("topics", texts(QUIET))]));
    }

    /// Sets the session of later forms.
    pub fn focus(&mut self, session: Option<String>) {
        self.session = session;
    }

    /// Whether an input is complete; otherwise it continues on the next line.
    pub fn is_whole(text: &str) -> bool {
        match edn::read_all(text.as_bytes()) {
            Err(error) => error.code() != edn::ErrorKind::UnexpectedEnd.code(),
            Ok(_) => true,
        }
    }

    /// Evaluates an input.
    pub fn evaluate(&mut self, text: &str) -> Outcome {
        let forms = match edn::read_all(text.as_bytes()) {
            Ok(forms) => forms,
            Err(error) => return Outcome::Refused(self.layout.text(error.to_string())),
        };
        let rest: Vec<Owned> = forms.into_iter().map(Value::into_owned).collect();
        let Some((first, arguments)) = rest.split_first() else { return Outcome::Text(String::new()) };
        let answer = match first.as_keyword() {
            Some("quit" | "exit") => return Outcome::Quit,
            Some("help") => Ok(HELP.to_owned()),
            Some("doc") => self.doc(arguments).map(|text| self.layout.text(text)),
            Some("apropos") => self.apropos(arguments).map(|text| self.layout.text(text)),
            Some("plan") => self.plan(arguments),
            Some("watch") => self.start_watch(arguments),
            Some("unwatch") => {
                *self.watched() = None;
                Ok(String::new())
            }
            Some("session") => {
                self.session = arguments.first().map(|id| id.as_str().map_or(id.to_string(), str::to_owned));
                Ok(String::new())
            }
            Some("events") => self.events(arguments),
            _ => {
                let mut shown = Vec::new();
                for form in &rest {
                    match self.form(form) {
                        Ok(text) => shown.push(text),
                        Err(refused) => {
                            shown.push(self.layout.text(refused.to_string()));
                            return Outcome::Refused(shown.join("\n"));
                        }
                    }
                }
                Ok(shown.join("\n"))
            }
        };
        answer.map_or_else(|refused| Outcome::Refused(self.layout.text(refused.to_string())), Outcome::Text)
    }

    /// A query, a mutation or an op.
    fn form(&self, form: &Owned) -> Result<String, Refused> {
        if let Value::List(items) = form
            && let Some(op) = items.first().and_then(Value::as_symbol)
            && !op.contains('/')
        {
            let mut params = match items.get(1) {
                None => Map::new(),
                Some(Value::Map(map)) => map.clone(),
                Some(other) => {
                    return Err(Refused::here(format!(
                        "An op's params are a map, not a {}.",
                        other.kind_name()
                    )));
                }
            };
            if let Some(session) =
                self.session.as_ref().filter(|_| params.get_keyword("session-id").is_none())
            {
                params.put("session-id", session.clone());
            }
            let data = self.client.ask(op, Value::from(params))?;
            return Ok(self.layout.value(&data));
        }
        let data = self.client.ask("query_eql", self.query(&as_query(form)))?;
        Ok(self.layout.answer(&data))
    }

    fn query(&self, query: &Owned) -> Owned {
        let mut map = Map::new();
        map.put("query", query.to_string());
        map.put_some("session-id", self.session.clone());
        Value::from(map)
    }

    fn result(&self, query: &Owned) -> Result<Owned, Refused> {
        let data = self.client.ask("query_eql", self.query(query))?;
        Ok(data.get("result").cloned().unwrap_or(Value::Nil))
    }

    /// All names: attributes, ops, mutations.
    ///
    /// # Errors
    /// If the server has no graph.
    pub fn names(&self) -> Result<Vec<CompletionName>, Refused> {
        let query = edn::read_one(
            b"[{:psi.graph/attributes [:psi.attribute/name :psi.attribute/doc]} \
               {:psi.catalog/ops [:psi.op/name :psi.op/doc]} {:psi.graph/nodes [:id :type :doc]}]",
        );
        let result = self.result(&query.map_err(|error| Refused::here(error.to_string()))?.into_owned())?;
        let list = |key: &str| result.get(key).and_then(Value::as_slice).unwrap_or_default();
        let known = |entry: &Owned, name: &str, doc: &str| {
            let name = entry.get(name)?;
            let doc = entry.get(doc).and_then(Value::as_str).unwrap_or_default().to_owned();
            Some(CompletionName { name: name.as_str().map_or(name.to_string(), str::to_owned), doc })
        };
        let attributes = list("psi.graph/attributes").iter();
        let ops = list("psi.catalog/ops").iter();
        let mutations = list("psi.graph/nodes")
            .iter()
            .filter(|node| node.get("type").and_then(Value::as_keyword) == Some("mutation"));
        Ok(attributes
            .filter_map(|entry| known(entry, "psi.attribute/name", "psi.attribute/doc"))
            .chain(ops.filter_map(|entry| known(entry, "psi.op/name", "psi.op/doc")))
            .chain(mutations.filter_map(|entry| known(entry, "id", "doc")))
            .collect())
    }

    fn doc(&self, arguments: &[Owned]) -> Result<String, Refused> {
        let Some(name) = arguments.first() else { return Err(Refused::here("Usage: :doc NAME")) };
        if let Some(attribute) = name.as_keyword() {
            let ident =
                Value::vector([Value::keyword("psi.attribute/name"), Value::keyword(attribute.to_owned())]);
            let all = ["psi.attribute/doc", "psi.attribute/example", "psi.attribute/resolvers"];
            let join = Value::map([(ident.clone(), Value::vector(all.map(Value::keyword)))]);
            let result = self.result(&Value::vector([join]))?;
            if let Some(found) = result
                .as_map()
                .and_then(|map| map.get(&ident))
                .filter(|found| found.get("psi.attribute/doc").is_some())
            {
                let text = |key: &str| found.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                let by = found.get("psi.attribute/resolvers").map(ToString::to_string).unwrap_or_default();
                return Ok(format!(
                    "{name}\n  {}\n  {}\n  by {by}",
                    text("psi.attribute/doc"),
                    text("psi.attribute/example")
                ));
            }
        }
        let wanted = name.as_str().map_or(name.to_string(), str::to_owned);
        let found = self.names()?.into_iter().find(|known| known.name == wanted);
        match found {
            Some(known) => Ok(format!("{}\n  {}", known.name, known.doc)),
            None => Err(Refused::here(format!("There is no {wanted}. Try :apropos with a part of it."))),
        }
    }

    fn apropos(&self, arguments: &[Owned]) -> Result<String, Refused> {
        let Some(part) = arguments.first() else { return Err(Refused::here("Usage: :apropos TEXT")) };
        let part = part.as_str().or(part.as_keyword()).map_or(part.to_string(), str::to_owned).to_lowercase();
        let names = self.names()?.into_iter();
        let found: Vec<_> = names
            .filter(|known| {
                known.name.to_lowercase().contains(&part) || known.doc.to_lowercase().contains(&part)
            })
            .collect();
        let width = found.iter().map(|known| known.name.chars().count()).max().unwrap_or(0);
        Ok(found
            .iter()
            .map(|known| format!("{:width$}  {}", known.name, known.doc))
            .collect::<Vec<_>>()
            .join("\n"))
    }

    fn plan(&self, arguments: &[Owned]) -> Result<String, Refused> {
        let Some(form) = arguments.first() else { return Err(Refused::here("Usage: :plan QUERY")) };
        let plan = self.result(&explaining(&as_query(form).to_string()))?;
        Ok(self.layout.value(plan.get("psi.query/plan").unwrap_or(&Value::Nil)))
    }

    fn events(&self, arguments: &[Owned]) -> Result<String, Refused> {
        let name = arguments.first().map(|name| name.to_string()).unwrap_or_default();
        let none = || params([]);
        match name.trim_start_matches(':') {
            "all" => self.client.ask("subscribe", none())?,
            "none" => self.client.ask("unsubscribe", none())?,
            "some" => {
                self.client.ask("unsubscribe", none())?;
                self.client.ask("subscribe", params([("topics", texts(QUIET))]))?
            }
            _ => return Err(Refused::here("Usage: :events all, :events some or :events none")),
        };
        Ok(String::new())
    }

    fn start_watch(&mut self, arguments: &[Owned]) -> Result<String, Refused> {
        let Some(form) = arguments.first() else { return Err(Refused::here("Usage: :watch QUERY")) };
        let query = as_query(form);
        let params_of_query = self.query(&query);
        let data = self.client.ask("query_eql", params_of_query.clone())?;
        let shown = self.layout.answer(&data);
        *self.watched() =
            Some(Watched { query: query.to_string(), params: params_of_query, last: Some(data) });
        self.client.ask("subscribe", params([("topics", texts(CHANGES))]))?;
        if let Some((changed, aside)) = self.watcher.take() {
            let (wire, watch, layout) = (self.client.clone(), self.watch.clone(), self.layout.clone());
            let started = std::thread::Builder::new()
                .name("watch".to_owned())
                .spawn(move || follow(&wire, &watch, &layout, &changed, &aside));
            started.map_err(|error| Refused::here(error.to_string()))?;
        }
        // Also catches a change between the answer and the subscription.
        let _ = self.changes.send(());
        Ok(shown)
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, Option<Watched>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Repeats the watched query after changes, and shows an answer that differs.
fn follow(
    client: &Client,
    watch: &Mutex<Option<Watched>>,
    layout: &show::Layout,
    changed: &Receiver<()>,
    aside: &Aside,
) {
    while changed.recv().is_ok() {
        // Changes that arrived together count once.
        while changed.try_recv().is_ok() {}
        let asked = {
            let watched = watch.lock().unwrap_or_else(PoisonError::into_inner);
            watched.as_ref().map(|watched| (watched.query.clone(), watched.params.clone()))
        };
        let Some((query, params)) = asked else { continue };
        let Ok(data) = client.ask("query_eql", params) else { return };
        let mut watched = watch.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = watched.as_mut().filter(|watched| watched.query == query)
            && watched.last.as_ref() != Some(&data)
        {
            aside(&layout.answer(&data));
            watched.last = Some(data);
        }
    }
}

/// A form as a query: a vector is one, anything else becomes its only element.
fn as_query(form: &Owned) -> Owned {
    if let Value::Vector(_) = form { form.clone() } else { Value::vector([form.clone()]) }
}

/// The query that explains another.
pub fn explaining(text: &str) -> Owned {
    let mut map = Map::new();
    map.put("query", text.to_owned());
    Value::vector([Value::list([Value::keyword("psi.query/plan"), Value::from(map)])])
}

fn params<const N: usize>(entries: [(&'static str, Owned); N]) -> Owned {
    Value::from(entries.into_iter().fold(Map::new(), |map, (key, value)| map.with(key, value)))
}

fn texts(names: &[&'static str]) -> Owned {
    Value::vector(names.iter().map(|name| Value::from(*name)))
}
