//! The graph: attributes, resolvers and mutations.
//!
//! A resolver declares its inputs and outputs; the graph consists of nothing else. It replaces names by
//! numbers, so that planning and running compare no text. Knows nothing of what a resolver does.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::catalogue::Op;
use crate::message::Message;
use crate::query::compile::Level;
use crate::query::parse;
use crate::query::plan::Plan;
use crate::query::world::{EntryView, SessionView, World};
use crate::session::{ApiError, Call, Reply, SessionApi};
use crate::value::{Map, Value};

/// A part of the graph: the declarations of one file of resolvers.
#[derive(Debug, Clone, Copy)]
pub struct Namespace {
    /// The attributes: name and description.
    pub attributes: &'static [(&'static str, &'static str)],
    /// The resolvers that provide them.
    pub resolvers: &'static [Resolver],
    /// The mutations.
    pub mutations: &'static [Mutation],
}

/// A way from known attributes to others.
#[derive(Debug, Clone, Copy)]
pub struct Resolver {
    /// Its symbol.
    pub name: &'static str,
    /// Its inputs.
    pub input: &'static [Input],
    /// Its outputs.
    pub output: &'static [Output],
    /// How much a planner should avoid it.
    pub cost: Cost,
    /// How it is run.
    pub run: Run,
}

/// How much a planner should avoid a resolver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Reads data in memory.
    Ready,
    /// Answers for the query's session, whatever the entity is. Used only if the entity itself leads nowhere.
    Seed,
    /// Reads the disk. Such a query does not run on the connection's thread.
    Slow,
}

/// An input of a resolver.
#[derive(Debug, Clone, Copy)]
pub enum Input {
    /// The resolver cannot run without it.
    Required(&'static str),
    /// The resolver gets it if it can be found.
    Optional(&'static str),
    /// The answer of a query of the attribute, as for a join.
    Nested(&'static str, &'static str),
}

impl Input {
    /// The attribute.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Required(name) | Self::Optional(name) | Self::Nested(name, _) => name,
        }
    }
}

/// An output of a resolver.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// The attribute.
    pub name: &'static str,
    /// The known attributes of the entities, if it leads to entities.
    pub sub: &'static [&'static str],
}

/// How to run a resolver.
#[derive(Clone, Copy)]
pub enum Run {
    /// Once per entity.
    One(fn(&Env<'_>, &Inputs<'_>) -> Found),
    /// Once for a list of entities. Returns one answer per entity, in order.
    Batch(fn(&Env<'_>, &[Inputs<'_>]) -> Vec<Found>),
    /// Once per requested output, given its place. The only input is a handle.
    Fields(fn(&Handle, usize) -> Value<'static>),
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One(_) => "One",
            Self::Batch(_) => "Batch",
            Self::Fields(_) => "Fields",
        })
    }
}

/// The environment of every resolver.
pub struct Env<'a> {
    /// The state of the process.
    pub world: &'a dyn World,
    /// The graph itself.
    pub graph: &'a Graph,
    /// The params of the ask.
    pub params: &'a Map<'static>,
}

impl Env<'_> {
    /// A count among the params.
    ///
    /// # Errors
    /// If the param has another type.
    pub fn count(&self, name: &'static str) -> Result<Option<usize>, Failure> {
        match self.params.get_keyword(name) {
            None | Some(Value::Nil) => Ok(None),
            Some(value) => match value.as_i64().and_then(|count| usize::try_from(count).ok()) {
                Some(count) => Ok(Some(count)),
                None => Err(Failure::new(format!("The param :{name} must be an integer of 0 or more."))),
            },
        }
    }

    /// A string among the params.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.params.get_keyword(name).and_then(Value::as_str)
    }
}

/// The inputs of one entity.
pub struct Inputs<'a> {
    pub(super) values: Vec<(&'static str, Given<'a>)>,
}

pub(super) enum Given<'a> {
    Datum(&'a Datum),
    Nested(Value<'static>),
}

impl Inputs<'_> {
    /// A plain value.
    pub fn value(&self, name: &str) -> Option<&Value<'static>> {
        match self.values.iter().find(|(given, _)| *given == name) {
            Some((_, Given::Datum(Datum::Value(value)))) => Some(value),
            Some((_, Given::Nested(value))) => Some(value),
            _ => None,
        }
    }

    /// A string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str()
    }

    /// The session, for resolvers with a session handle as input.
    pub fn session(&self) -> Option<&Arc<dyn SessionView>> {
        self.values.iter().find_map(|(_, given)| match given {
            Given::Datum(Datum::Node(Handle::Session(session))) => Some(session),
            _ => None,
        })
    }

    /// The entry, for resolvers with an entry handle as input.
    pub fn entry(&self) -> Option<&Arc<EntryView>> {
        self.values.iter().find_map(|(_, given)| match given {
            Given::Datum(Datum::Node(Handle::Entry(entry))) => Some(entry),
            _ => None,
        })
    }
}

/// The outputs of a resolver, by name. A missing output was not found.
pub type Answer = Vec<(&'static str, Datum)>;

/// The outputs of a resolver, or its failure.
pub type Found = Result<Answer, Failure>;

/// Why a resolver failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The cause, and what to do about it.
    pub message: String,
}

impl Failure {
    /// A failure with that message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// The value of an attribute.
#[derive(Clone)]
pub enum Datum {
    /// Plain data. A map, or a list of maps, can be joined; its keys are then known attributes.
    Value(Value<'static>),
    /// An entity.
    Node(Handle),
    /// Entities.
    Nodes(Vec<Handle>),
}

impl<T: Into<Value<'static>>> From<T> for Datum {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

/// An entity whose attributes need no further lookup.
#[derive(Clone)]
pub enum Handle {
    /// A live session.
    Session(Arc<dyn SessionView>),
    /// A message.
    Message(Arc<Message>),
    /// A journal entry.
    Entry(Arc<EntryView>),
}

impl Handle {
    /// The attribute that holds the handle. A query cannot ask for it.
    pub fn attribute(&self) -> &'static str {
        match self {
            Self::Session(_) => SESSION,
            Self::Message(_) => MESSAGE,
            Self::Entry(_) => ENTRY,
        }
    }

    /// The value of an entity that is requested without a sub-query.
    pub fn to_value(&self) -> Value<'static> {
        match self {
            Self::Session(session) => {
                let mut map = Map::new();
                map.put("psi.agent-session/session-id", session.id().to_value());
                Value::from(map)
            }
            Self::Message(message) => message.to_value(),
            Self::Entry(entry) => {
                let mut map = entry.data.clone();
                map.put("id", entry.id.to_value());
                map.put("parent-id", entry.parent.as_ref().map(|id| id.to_value()));
                map.put("ts", entry.ts.to_string());
                map.put("type", Value::Keyword(entry.kind.clone()));
                if let Some(message) = &entry.message {
                    map.put("message", message.to_value());
                }
                Value::from(map)
            }
        }
    }
}

/// The handle of a session.
pub const SESSION: &str = "handle/session";
/// The handle of a message.
pub const MESSAGE: &str = "handle/message";
/// The handle of an entry.
pub const ENTRY: &str = "handle/entry";

const HANDLES: [(&str, &str); 3] = [
    (SESSION, "A live session, inside the engine."),
    (MESSAGE, "A message, inside the engine."),
    (ENTRY, "A journal entry, inside the engine."),
];

/// A change through the session API.
#[derive(Clone, Copy)]
pub struct Mutation {
    /// Its symbol.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// The op that checks its params.
    pub op: Op,
    /// Converts the mutation's params to the op's, for those that differ in name.
    pub params: fn(&Map<'static>) -> Map<'static>,
    /// The attributes of the result.
    pub output: &'static [&'static str],
    /// The call.
    pub run: fn(&dyn SessionApi, Call, &Map<'static>, Reply<Map<'static>>),
}

impl std::fmt::Debug for Mutation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Mutation {
    /// Checks the params like the op, then calls it. `reply` gets the answer.
    pub fn call(&self, api: &dyn SessionApi, call: Call, params: &Map<'static>, reply: Reply<Map<'static>>) {
        let params = (self.params)(params);
        if let Err(invalid) = self.op.spec().check(&Value::from(params.clone())) {
            return reply
                .fail(ApiError::invalid_param(invalid.key.trim_start_matches(':'), &invalid.expected));
        }
        (self.run)(api, call, &params, reply);
    }
}

/// An attribute, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attr(pub(super) u16);

/// A resolver, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResolverId(pub(super) u16);

impl Attr {
    pub(super) fn place(self) -> usize {
        usize::from(self.0)
    }
}

impl ResolverId {
    pub(super) fn place(self) -> usize {
        usize::from(self.0)
    }
}

/// The maximum of attributes and of resolvers in a graph.
const MOST: usize = 512;

/// A set of attributes or resolvers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bits([u64; MOST / 64]);

impl Bits {
    /// Whether it is in the set.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// Adds it; false if it is already in the set.
    pub fn add(&mut self, at: usize) -> bool {
        let bit = 1 << (at % 64);
        match self.0.get_mut(at / 64) {
            Some(word) => {
                let new = *word & bit == 0;
                *word |= bit;
                new
            }
            None => false,
        }
    }

    /// Removes it.
    pub fn remove(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }
}

/// Why declarations do not form a graph: a mistake in the program, which its first test finds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// An attribute is used that nothing declares.
    #[error("{resolver} uses {attribute}, which is not declared")]
    Undeclared {
        /// Its user.
        resolver: &'static str,
        /// The attribute.
        attribute: String,
    },
    /// Two declarations have the same name.
    #[error("{0} is declared twice")]
    Twice(&'static str),
    /// A resolver requires its own output.
    #[error("{resolver} needs {attribute}, which it gives itself")]
    Cycle {
        /// The resolver.
        resolver: &'static str,
        /// The attribute.
        attribute: &'static str,
    },
    /// A nested input is not a query.
    #[error("{0} has a nested input that is not a query")]
    Nested(&'static str),
    /// There are more than the engine's number range holds.
    #[error("there are more than {MOST} attributes or resolvers")]
    TooMany,
}

/// The graph.
#[derive(Debug)]
pub struct Graph {
    attributes: Vec<(&'static str, &'static str)>,
    names: HashMap<&'static str, Attr>,
    resolvers: Vec<Node>,
    providers: Vec<Vec<ResolverId>>,
    mutations: Vec<Mutation>,
    plans: RwLock<HashMap<Bits, Arc<Plan>>>,
    /// An example query per attribute, made on first use.
    examples: OnceLock<BTreeMap<Attr, String>>,
}

/// A resolver with numbers for names.
#[derive(Debug)]
pub struct Node {
    /// Its declaration.
    pub spec: Resolver,
    /// The inputs.
    pub input: Vec<NodeInput>,
    /// The outputs, in the order of the declaration.
    pub output: Vec<Attr>,
}

/// An input with numbers for names.
#[derive(Debug)]
pub struct NodeInput {
    /// The name.
    pub name: &'static str,
    /// The attribute.
    pub attr: Attr,
    /// Whether the resolver cannot run without it.
    pub required: bool,
    /// The query of a nested input.
    pub nested: Option<Level>,
}

impl Graph {
    /// An empty graph.
    pub fn empty() -> Self {
        Self {
            attributes: Vec::new(),
            names: HashMap::new(),
            resolvers: Vec::new(),
            providers: Vec::new(),
            mutations: Vec::new(),
            plans: RwLock::default(),
            examples: OnceLock::new(),
        }
    }

    /// Builds a graph from declarations.
    ///
    /// # Errors
    /// See [`GraphError`].
    pub fn new(parts: &[&Namespace]) -> Result<Self, GraphError> {
        let mut graph = Self::empty();
        for (name, doc) in HANDLES.iter().chain(parts.iter().flat_map(|part| part.attributes)) {
            let attr = Attr(u16::try_from(graph.attributes.len()).unwrap_or(u16::MAX));
            if graph.names.insert(name, attr).is_some() {
                return Err(GraphError::Twice(name));
            }
            graph.attributes.push((name, doc));
        }
        graph.providers.resize(graph.attributes.len(), Vec::new());
        for spec in parts.iter().flat_map(|part| part.resolvers) {
            graph.add(*spec)?;
        }
        graph.mutations = parts.iter().flat_map(|part| part.mutations).copied().collect();
        if graph.attributes.len() > MOST || graph.resolvers.len() > MOST {
            return Err(GraphError::TooMany);
        }
        Ok(graph)
    }

    fn add(&mut self, spec: Resolver) -> Result<(), GraphError> {
        let declared = |name: &'static str| {
            let undeclared = || GraphError::Undeclared { resolver: spec.name, attribute: name.to_owned() };
            self.names.get(name).copied().ok_or_else(undeclared)
        };
        let mut input = Vec::new();
        for needed in spec.input {
            let nested = match needed {
                Input::Nested(_, query) => {
                    Some(parse::parse(query).map_err(|_| GraphError::Nested(spec.name))?)
                }
                _ => None,
            };
            input.push(NodeInput {
                name: needed.name(),
                attr: declared(needed.name())?,
                required: !matches!(needed, Input::Optional(_)),
                nested: nested.map(|query| Level::new(&query, &|name| self.attr(name))),
            });
        }
        let mut output = Vec::new();
        for given in spec.output {
            let attr = declared(given.name)?;
            if input.iter().any(|needed| needed.required && needed.attr == attr) {
                return Err(GraphError::Cycle { resolver: spec.name, attribute: given.name });
            }
            for name in given.sub {
                declared(name)?;
            }
            output.push(attr);
        }
        if self.resolvers.iter().any(|node| node.spec.name == spec.name) {
            return Err(GraphError::Twice(spec.name));
        }
        let id = ResolverId(u16::try_from(self.resolvers.len()).unwrap_or(u16::MAX));
        for attr in &output {
            if let Some(providers) = self.providers.get_mut(attr.place()) {
                providers.push(id);
            }
        }
        self.resolvers.push(Node { spec, input, output });
        Ok(())
    }

    /// The attribute with that name, if a query can ask for it.
    pub fn attr(&self, name: &str) -> Option<Attr> {
        self.any_attr(name).filter(|attr| attr.place() >= HANDLES.len())
    }

    /// The attribute with that name, including handles.
    pub(super) fn any_attr(&self, name: &str) -> Option<Attr> {
        self.names.get(name).copied()
    }

    /// An attribute's name.
    pub fn name(&self, attr: Attr) -> &'static str {
        self.attributes.get(attr.place()).map_or("", |(name, _)| name)
    }

    /// All attributes of queries: name and description.
    pub fn attributes(&self) -> impl Iterator<Item = (Attr, &'static str, &'static str)> {
        let numbered = (0..).map(Attr).zip(&self.attributes).skip(HANDLES.len());
        numbered.map(|(attr, (name, doc))| (attr, *name, *doc))
    }

    /// All resolvers.
    pub fn resolvers(&self) -> impl Iterator<Item = (ResolverId, &Node)> {
        (0..).map(ResolverId).zip(&self.resolvers)
    }

    /// One resolver.
    pub fn resolver(&self, id: ResolverId) -> Option<&Node> {
        self.resolvers.get(id.place())
    }

    /// The resolvers that provide an attribute, in the order of their declaration.
    pub fn providers(&self, attr: Attr) -> &[ResolverId] {
        self.providers.get(attr.place()).map(Vec::as_slice).unwrap_or_default()
    }

    /// All mutations.
    pub fn mutations(&self) -> &[Mutation] {
        &self.mutations
    }

    /// An example query for each attribute that allows one, made once.
    pub(super) fn examples(&self, make: fn(&Self) -> BTreeMap<Attr, String>) -> &BTreeMap<Attr, String> {
        self.examples.get_or_init(|| make(self))
    }

    /// The ways from the known attributes, planned once per set.
    pub fn plan(&self, known: &Bits) -> Arc<Plan> {
        if let Some(plan) = self.plans.read().unwrap_or_else(PoisonError::into_inner).get(known) {
            return plan.clone();
        }
        let plan = Arc::new(Plan::new(self, known));
        let mut plans = self.plans.write().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= crate::limits::QUERY_CACHE {
            plans.clear();
        }
        plans.insert(*known, plan.clone());
        plan
    }
}
