//! The tools of a session: what its model gets, and what runs a call.
//!
//! Besides the program's own, tools are brought and taken back while the session lives, by clients; and a turn takes in
//! those of servers between its rounds. Knows neither clients nor servers.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use super::{ASK_USER, DELEGATE, Tool, bash, edit, fetch, find, job, one_line, read, search, spec, write};
use crate::limits::{BROUGHT_TOOLS, OFFERED_TOOLS};
use crate::provider::ToolSpec;
use crate::value::Value;

/// Who has brought a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The client of that connection.
    Client(u64),
}

/// A tool that was brought.
#[derive(Clone)]
struct Brought {
    source: Source,
    name: Arc<str>,
    tool: Arc<dyn Tool>,
}

/// A tool of a server, with its name.
type OfServer = (Arc<str>, Arc<dyn Tool>);

/// Tools by name, in the order in which a model gets them. A copy shares them, with those that are brought later.
#[derive(Clone)]
pub struct Toolbox {
    own: Arc<[Arc<dyn Tool>]>,
    /// In the order in which they came. The list is replaced, so that a call holds no lock.
    brought: Arc<RwLock<Arc<[Brought]>>>,
    /// Whose tool it is where several have brought one of the same name. Without one, that of the first.
    preferred: Option<Source>,
    /// Those of servers. They stay as they are in a copy, whatever becomes of their servers.
    of_servers: Arc<[OfServer]>,
}

/// Why tools cannot be brought.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BringError {
    /// The program has a tool of that name.
    #[error("there is a tool {0:?} already")]
    Own(String),
    /// Two of them have one name.
    #[error("there are two tools {0:?}")]
    Twice(String),
    /// The session would have too many.
    #[error("a session has at most {BROUGHT_TOOLS} tools of clients")]
    TooMany,
}

impl Toolbox {
    /// A toolbox of those tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self {
            own: tools.into(),
            brought: Arc::new(RwLock::new(Arc::from([]))),
            preferred: None,
            of_servers: Arc::from([]),
        }
    }

    /// The program's own tools.
    pub fn builtin() -> Self {
        Self::new(vec![
            Arc::new(read::Read),
            Arc::new(write::Write),
            Arc::new(edit::Edit),
            Arc::new(bash::Bash),
            Arc::new(job::Job),
            Arc::new(search::Search),
            Arc::new(find::Find),
            Arc::new(fetch::Fetch),
        ])
    }

    /// The same toolbox with the tools of one source before others of the same name.
    #[must_use]
    pub fn preferring(&self, source: Option<Source>) -> Self {
        Self { preferred: source, ..self.clone() }
    }

    /// The same toolbox with these tools of servers, in place of those that it has. One whose name another tool has is
    /// left out, and so are those for which there is no room.
    #[must_use]
    pub fn with_servers(&self, tools: Vec<Arc<dyn Tool>>) -> Self {
        let mut names: HashSet<String> = self.own_specs().into_iter().map(|spec| spec.name).collect();
        let named = tools.into_iter().filter_map(|tool| {
            let name = tool.spec().name;
            names.insert(name.clone()).then(|| (Arc::from(name), tool))
        });
        Self { of_servers: named.collect(), ..self.clone() }
    }

    /// The tools of servers that are offered beside those that were brought.
    fn of_servers(&self, brought: &[Brought]) -> impl Iterator<Item = &OfServer> {
        let others = self.own_specs().len().saturating_add(brought.len());
        let is_free = |name: &str| !brought.iter().any(|other| *other.name == *name);
        let free = self.of_servers.iter().filter(move |(name, _)| is_free(name));
        free.take(OFFERED_TOOLS.saturating_sub(others))
    }

    /// Puts a source's tools in place of those that it brought before. Returns the names that another source has
    /// brought too.
    ///
    /// # Errors
    /// See [`BringError`]; nothing has changed then.
    pub fn bring(&self, source: &Source, tools: Vec<Arc<dyn Tool>>) -> Result<Vec<String>, BringError> {
        let own: HashSet<String> = self.own_specs().into_iter().map(|spec| spec.name).collect();
        let mut names = HashSet::new();
        let mut new = Vec::with_capacity(tools.len());
        for tool in tools {
            let name = tool.spec().name;
            if own.contains(&name) {
                return Err(BringError::Own(name));
            }
            if !names.insert(name.clone()) {
                return Err(BringError::Twice(name));
            }
            new.push(Brought { source: source.clone(), name: name.into(), tool });
        }
        let mut brought = self.brought.write().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Brought> = brought.iter().filter(|tool| tool.source != *source).cloned().collect();
        let shadowed = all.iter().map(|tool| tool.name.to_string()).filter(|name| names.contains(name));
        let shadowed: Vec<String> = shadowed.collect();
        all.append(&mut new);
        if all.len() > BROUGHT_TOOLS {
            return Err(BringError::TooMany);
        }
        *brought = all.into();
        Ok(shadowed)
    }

    /// Takes back the tools of a source.
    pub fn take_back(&self, source: &Source) {
        let mut brought = self.brought.write().unwrap_or_else(PoisonError::into_inner);
        if brought.iter().any(|tool| tool.source == *source) {
            *brought = brought.iter().filter(|tool| tool.source != *source).cloned().collect();
        }
    }

    /// The tools that were brought, each name once.
    fn brought(&self) -> Vec<Brought> {
        let all = self.brought.read().unwrap_or_else(PoisonError::into_inner).clone();
        let is_preferred = |tool: &Brought| self.preferred.as_ref() == Some(&tool.source);
        let mut chosen: Vec<Brought> = Vec::with_capacity(all.len());
        for tool in all.iter() {
            match chosen.iter_mut().find(|known| known.name == tool.name) {
                Some(known) if is_preferred(tool) => *known = tool.clone(),
                Some(_) => {}
                None => chosen.push(tool.clone()),
            }
        }
        chosen
    }

    /// The tool of that name.
    pub fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let own = self.own.iter().find(|tool| tool.spec().name == name).cloned();
        let of_server = |brought: &[Brought]| {
            self.of_servers(brought).find(|(known, _)| **known == *name).map(|(_, tool)| tool.clone())
        };
        own.or_else(|| {
            let brought = self.brought();
            let known = brought.iter().find(|tool| *tool.name == *name).map(|tool| tool.tool.clone());
            known.or_else(|| of_server(&brought))
        })
    }

    /// What the model gets about every tool, with those that the engine answers.
    pub fn specs(&self) -> Vec<ToolSpec> {
        let mut specs = self.own_specs();
        let brought = self.brought();
        specs.extend(brought.iter().map(|brought| brought.tool.spec()));
        specs.extend(self.of_servers(&brought).map(|(_, tool)| tool.spec()));
        specs
    }

    /// What the model gets about the program's own tools.
    fn own_specs(&self) -> Vec<ToolSpec> {
        let mut specs: Vec<ToolSpec> = self.own.iter().map(|tool| tool.spec()).collect();
        specs.push(spec(
            ASK_USER,
            "Asks the user a question and waits for the answer. Only for what the user alone can decide.",
            &[
                ("question", "string", "The question.", true),
                ("options", "strings", "Answers to choose from; without them the user writes one.", false),
            ],
        ));
        let mut delegate = spec(
            DELEGATE,
            "Gives a task to a subagent: a model with a conversation of its own and only the tools that you \
             name. It knows nothing of this conversation, so the task must say everything. Returns what it says \
             last. Several in one answer work side by side. The user is asked once before it starts.",
            &[
                ("task", "string", "What it is to do, and what it is to report.", true),
                ("tools", "strings", "Names of your tools that it may use: only those that it needs.", true),
                ("model", "string", "Another model, as provider/id; yours without it.", false),
            ],
        );
        // Where there are external agents, a request offers one more parameter.
        if let Some(schema) = delegate.parameters.as_map_mut() {
            schema.remove(&Value::keyword("additionalProperties"));
        }
        specs.push(delegate);
        specs
    }

    /// What a call does, in one line, whether or not there is such a tool.
    pub fn summary(&self, name: &str, arguments: &Value<'_>) -> String {
        let text = match self.find(name) {
            Some(tool) => tool.summary(arguments),
            None => match arguments.get("question").or(arguments.get("task")).and_then(Value::as_str) {
                Some(text) => format!("{name} {text}"),
                None => name.to_owned(),
            },
        };
        one_line(&text, 200)
    }
}

#[cfg(test)]
mod tests {
    use super::super::permission::Access;
    use super::super::{CallError, CallFuture, Context, Outcome, Plan, Site};
    use super::*;

    struct Named(&'static str, &'static str);

    impl Tool for Named {
        fn spec(&self) -> ToolSpec {
            ToolSpec { name: self.0.to_owned(), description: self.1.to_owned(), parameters: Value::Nil }
        }
        fn summary(&self, _: &Value<'_>) -> String {
            self.0.to_owned()
        }
        fn plan(&self, _: Site<'_>, _: &Value<'_>) -> Result<Plan, CallError> {
            Ok(Plan { access: Access::Nothing, diff: None })
        }
        fn run<'a>(&'a self, _: &'a Context, _: &'a Plan, _: &'a Value<'static>) -> CallFuture<'a> {
            Box::pin(async { Outcome::ok("done") })
        }
    }

    fn tools(names: &[&'static str], of: &'static str) -> Vec<Arc<dyn Tool>> {
        names.iter().map(|name| Arc::new(Named(name, of)) as Arc<dyn Tool>).collect()
    }

    #[test]
    fn brought_tools_are_of_the_preferred_or_first_source() {
        let toolbox = Toolbox::builtin();
        let [one, two] = [Source::Client(1), Source::Client(2)];
        let of = |toolbox: &Toolbox, name: &str| toolbox.find(name).map(|tool| tool.spec().description);
        assert_eq!(toolbox.bring(&one, tools(&["a", "b"], "one")), Ok(vec![]));
        assert_eq!(toolbox.bring(&two, tools(&["b", "c"], "two")), Ok(vec!["b".to_owned()]));
        assert_eq!(of(&toolbox, "b").as_deref(), Some("one"));
        let preferring = toolbox.preferring(Some(two.clone()));
        assert_eq!(of(&preferring, "b").as_deref(), Some("two"));
        let names = |toolbox: &Toolbox| {
            toolbox
                .specs()
                .into_iter()
                .map(|spec| spec.name)
                .filter(|name| name.len() == 1)
                .collect::<String>()
        };
        assert_eq!((names(&toolbox), names(&preferring)), ("abc".to_owned(), "abc".to_owned()));
        toolbox.take_back(&one);
        assert_eq!((names(&toolbox), of(&toolbox, "b").as_deref()), ("bc".to_owned(), Some("two")));
        // Its new tools replace its earlier ones.
        assert_eq!(toolbox.bring(&two, tools(&["d"], "two")), Ok(vec![]));
        assert_eq!(names(&preferring), "d");
    }

    #[test]
    fn tools_of_servers_stand_behind_others_and_are_bounded() {
        let toolbox = Toolbox::builtin();
        let own = toolbox.specs().len();
        let names: Vec<&'static str> = (0..OFFERED_TOOLS).map(|n| &*format!("mcp__s__{n}").leak()).collect();
        let full = toolbox.with_servers(tools(&names, "server"));
        assert_eq!(full.specs().len(), OFFERED_TOOLS);
        let last = names[OFFERED_TOOLS - own - 1];
        assert!(full.find(last).is_some() && full.find(names[OFFERED_TOOLS - own]).is_none());
        // A tool that a client brings takes the place of the last one, and its name.
        toolbox.bring(&Source::Client(1), tools(&["mcp__s__1", "mine"], "client")).unwrap();
        assert_eq!(full.specs().len(), OFFERED_TOOLS);
        assert_eq!(full.find("mcp__s__1").unwrap().spec().description, "client");
        assert!(full.find("mine").is_some() && full.find(last).is_none());
        // Nothing of a server takes the place of one of the program's own.
        let toolbox = Toolbox::builtin().with_servers(tools(&["bash", "delegate", "x", "x"], "server"));
        assert_eq!(toolbox.specs().len(), own + 1);
        assert_ne!(toolbox.find("bash").unwrap().spec().description, "server");
    }

    #[test]
    fn bringing_refuses_own_double_and_too_many_names() {
        let toolbox = Toolbox::builtin();
        let source = Source::Client(1);
        for (names, expected) in [
            (&["a", "read"][..], BringError::Own("read".to_owned())),
            (&["delegate"], BringError::Own("delegate".to_owned())),
            (&["a", "a"], BringError::Twice("a".to_owned())),
        ] {
            assert_eq!(toolbox.bring(&source, tools(names, "")), Err(expected));
        }
        let many: Vec<&'static str> = (0..=BROUGHT_TOOLS).map(|n| &*format!("t{n}").leak()).collect();
        assert_eq!(toolbox.bring(&source, tools(&many, "")), Err(BringError::TooMany));
        assert!(toolbox.find("t0").is_none(), "all or none");
    }
}
