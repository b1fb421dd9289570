//! The graph: attributes, resolvers and mutations.
//!
//! A resolver declares its inputs and outputs; the graph consists of nothing else. It replaces names by
//! numbers, so that planning and running compare no text. Knows nothing of what a resolver does.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::catalogue::Op;
use crate::limits::QUERY_CACHE;
use crate::query::compile::{Direct, Field, Level};
use crate::query::datum::{Datum, HANDLES, KnownEntity, SESSION};
use crate::query::number::{Attr, Bits, MOST, ResolverId};
use crate::query::parse;
use crate::query::plan::{Cost, Plan, PlannedResolver};
use crate::query::world::{ResolverFailure, SessionView, World};
use crate::session::{ApiError, Call, Reply, SessionApi};
use crate::store::Entry;
use crate::value::{Map, Value};

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
    pub run: Resolve,
}

impl Resolver {
    /// A resolver of data in memory.
    pub const fn new(
        name: &'static str,
        input: &'static [Input],
        output: &'static [Output],
        run: Resolve,
    ) -> Self {
        Self { name, input, output, cost: Cost::Ready, run }
    }

    /// A resolver that runs once per entity.
    pub const fn one(
        name: &'static str,
        input: &'static [Input],
        output: &'static [Output],
        run: fn(&Env<'_>, &Inputs<'_>) -> ResolverResult,
    ) -> Self {
        Self::new(name, input, output, Resolve::One(run))
    }

    /// A resolver that runs once for a list of entities.
    pub const fn batch(
        name: &'static str,
        input: &'static [Input],
        output: &'static [Output],
        run: fn(&Env<'_>, &[Inputs<'_>]) -> Vec<ResolverResult>,
    ) -> Self {
        Self::new(name, input, output, Resolve::Batch(run))
    }

    /// A resolver that runs once per live session.
    pub const fn session(
        name: &'static str,
        output: &'static [Output],
        run: fn(&Env<'_>, &Arc<dyn SessionView>) -> ResolverResult,
    ) -> Self {
        Self::new(name, &[Input::Required(SESSION)], output, Resolve::Session(run))
    }

    /// The same resolver, avoided for that cost.
    #[must_use]
    pub const fn costing(self, cost: Cost) -> Self {
        Self { cost, ..self }
    }
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

/// An output of a resolver: an attribute.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Its name.
    pub name: &'static str,
    /// Its description; empty if another output describes it.
    pub doc: &'static str,
    /// The known attributes of the entities, if it leads to entities.
    pub sub: &'static [Output],
}

/// How to run a resolver.
#[derive(Clone, Copy)]
pub enum Resolve {
    /// Once per entity.
    One(fn(&Env<'_>, &Inputs<'_>) -> ResolverResult),
    /// Once for a list of entities. Returns one answer per entity, in order.
    Batch(fn(&Env<'_>, &[Inputs<'_>]) -> Vec<ResolverResult>),
    /// Once per live session. The only input is its handle.
    Session(fn(&Env<'_>, &Arc<dyn SessionView>) -> ResolverResult),
    /// Once per requested output, given its place. The only input is a handle.
    Fields(fn(&KnownEntity, usize) -> Value<'static>),
}

impl std::fmt::Debug for Resolve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One(_) => "One",
            Self::Batch(_) => "Batch",
            Self::Session(_) => "Session",
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
    pub fn count(&self, name: &'static str) -> Result<Option<usize>, ResolverFailure> {
        match self.params.get_keyword(name) {
            None | Some(Value::Nil) => Ok(None),
            Some(value) => match value.as_i64().and_then(|count| usize::try_from(count).ok()) {
                Some(count) => Ok(Some(count)),
                None => {
                    Err(ResolverFailure::new(format!("The param :{name} must be an integer of 0 or more.")))
                }
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
    pub(super) values: Vec<(&'static str, InputValue<'a>)>,
}

pub(super) enum InputValue<'a> {
    Datum(&'a Datum),
    Nested(Value<'static>),
}

impl Inputs<'_> {
    /// A plain value.
    pub fn value(&self, name: &str) -> Option<&Value<'static>> {
        match self.values.iter().find(|(input, _)| *input == name) {
            Some((_, InputValue::Datum(Datum::Value(value)))) => Some(value),
            Some((_, InputValue::Nested(value))) => Some(value),
            _ => None,
        }
    }

    /// A string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str()
    }

    /// The session, for resolvers with a session handle as input.
    pub fn session(&self) -> Option<&Arc<dyn SessionView>> {
        self.values.iter().find_map(|(_, value)| match value {
            InputValue::Datum(Datum::Node(KnownEntity::Session(session))) => Some(session),
            _ => None,
        })
    }

    /// The entry, for resolvers with an entry handle as input.
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        self.values.iter().find_map(|(_, value)| match value {
            InputValue::Datum(Datum::Node(KnownEntity::Entry(entry))) => Some(entry),
            _ => None,
        })
    }
}

/// The outputs of a resolver, by name. A missing output was not found.
pub type ResolverOutput = Vec<(&'static str, Datum)>;

/// The outputs of a resolver, or its failure.
pub type ResolverResult = Result<ResolverOutput, ResolverFailure>;

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
    /// Two resolvers have the same name, or two descriptions of an attribute differ.
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
#[derive(Debug, Default)]
pub struct Graph {
    attributes: Vec<(&'static str, &'static str)>,
    names: HashMap<&'static str, Attr>,
    resolvers: Vec<Node>,
    steps: Vec<PlannedResolver>,
    providers: Vec<Vec<ResolverId>>,
    mutations: &'static [Mutation],
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
    /// Builds a graph from declarations.
    ///
    /// # Errors
    /// See [`GraphError`].
    pub fn new(
        resolvers: &[&'static [Resolver]],
        mutations: &'static [Mutation],
    ) -> Result<Self, GraphError> {
        let mut graph = Self { mutations, ..Self::default() };
        for (name, doc) in HANDLES {
            graph.describe(name, doc)?;
        }
        let specs = || resolvers.iter().copied().flatten();
        for spec in specs() {
            graph.describe_all(spec.output)?;
        }
        graph.providers.resize(graph.attributes.len(), Vec::new());
        for spec in specs() {
            graph.add(*spec)?;
        }
        if graph.attributes.len() > MOST || graph.resolvers.len() > MOST {
            return Err(GraphError::TooMany);
        }
        Ok(graph)
    }

    fn describe_all(&mut self, outputs: &'static [Output]) -> Result<(), GraphError> {
        for output in outputs {
            if !output.doc.is_empty() {
                self.describe(output.name, output.doc)?;
            }
            self.describe_all(output.sub)?;
        }
        Ok(())
    }

    /// Adds an attribute. The tables of several resolvers may describe it, but not differently.
    fn describe(&mut self, name: &'static str, doc: &'static str) -> Result<(), GraphError> {
        if let Some(attr) = self.names.get(name) {
            let same = self.attributes.get(attr.place()).is_some_and(|(_, known)| *known == doc);
            return if same { Ok(()) } else { Err(GraphError::Twice(name)) };
        }
        self.names.insert(name, Attr(u16::try_from(self.attributes.len()).unwrap_or(u16::MAX)));
        self.attributes.push((name, doc));
        Ok(())
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
        let needs: Vec<_> = input.iter().filter(|input| input.required).map(|input| input.attr).collect();
        let mut output = Vec::new();
        for own in spec.output {
            let attr = declared(own.name)?;
            if needs.contains(&attr) {
                return Err(GraphError::Cycle { resolver: spec.name, attribute: own.name });
            }
            for known in own.sub {
                declared(known.name)?;
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
        self.steps.push(PlannedResolver { cost: spec.cost, needs, gives: output.clone() });
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
    pub fn mutations(&self) -> &'static [Mutation] {
        self.mutations
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
        let plan = Arc::new(Plan::new(&self.steps, self.attributes.len(), known));
        let mut plans = self.plans.write().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= QUERY_CACHE {
            plans.clear();
        }
        plans.insert(*known, plan.clone());
        plan
    }

    /// The resolvers on the cheapest way from the known attributes to another, in the order in which they run.
    pub fn order(&self, known: &Bits, attr: Attr) -> Vec<ResolverId> {
        self.plan(known).order(&self.steps, known, attr)
    }

    /// The asks of a level that are fields of the handles of entities of that kind.
    pub(super) fn direct(&self, level: &Level, known: &Bits) -> Direct {
        level.direct(known, |attr| {
            let node = self.resolver(*self.plan(known).ways(attr).first()?)?;
            let (Resolve::Fields(read), [input]) = (node.spec.run, node.input.as_slice()) else {
                return None;
            };
            let place = node.output.iter().position(|output| *output == attr)?;
            known.has(input.attr.place()).then_some(Field { read, handle: input.attr, place })
        })
    }

    /// Whether a query may read the disk and should not run on a connection's thread.
    pub fn is_slow(&self, level: &Level) -> bool {
        let mut seen = Bits::default();
        level.any_attr(&mut |attr| self.leads_to_slow(attr, &mut seen))
    }

    /// Whether any way to the attribute reads the disk.
    fn leads_to_slow(&self, attr: Attr, seen: &mut Bits) -> bool {
        seen.add(attr.place())
            && self.providers(attr).iter().filter_map(|id| self.resolver(*id)).any(|node| {
                node.spec.cost == Cost::Slow
                    || node.input.iter().any(|input| self.leads_to_slow(input.attr, seen))
            })
    }
}
