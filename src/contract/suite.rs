//! The checks, as data: reads the files of `checks/`.
//!
//! A file is a map. `:define` names steps and values that checks share, each with its params. `:checks` are the
//! checks in the order in which they run. `:tables` are named values. Knows the shape of these files; a
//! [`Player`](crate::player::Player) plays the steps.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use edn_codec::value::Map;
use edn_codec::{self as edn, Value};

use crate::catalogue::Catalogue;
use crate::expression::{Form, operation};
use crate::pattern_check;
use crate::wire::Wire;

/// The files of checks, in the order in which they run, after those that only define something.
const FILES: &[(&str, &str)] = &[
    ("catalogue", include_str!("catalogue.edn")),
    ("tables", include_str!("checks/tables.edn")),
    ("common", include_str!("checks/common.edn")),
    ("framing", include_str!("checks/framing.edn")),
    ("envelope", include_str!("checks/envelope.edn")),
    ("events", include_str!("checks/events.edn")),
    ("sessions", include_str!("checks/sessions.edn")),
    ("query", include_str!("checks/query.edn")),
    ("turns", include_str!("checks/turns.edn")),
    ("models", include_str!("checks/models.edn")),
    ("commands", include_str!("checks/commands.edn")),
    ("tools", include_str!("checks/tools.edn")),
    ("questions", include_str!("checks/questions.edn")),
    ("grants", include_str!("checks/grants.edn")),
    ("hooks", include_str!("checks/hooks.edn")),
    ("subagents", include_str!("checks/subagents.edn")),
    ("workflows", include_str!("checks/workflows.edn")),
    ("logins", include_str!("checks/logins.edn")),
    ("control", include_str!("checks/control.edn")),
    ("client-tools", include_str!("checks/client-tools.edn")),
    ("agents", include_str!("checks/agents.edn")),
    ("mcp", include_str!("checks/mcp.edn")),
    ("guests", include_str!("checks/guests.edn")),
    ("plists", include_str!("checks/plists.edn")),
    ("persistence", include_str!("checks/persistence.edn")),
];

/// The same for the UI protocol.
const UI_FILES: &[(&str, &str)] = &[
    ("ui-catalogue", include_str!("ui-catalogue.edn")),
    ("common", include_str!("checks/common.edn")),
    ("ui-common", include_str!("checks/ui-common.edn")),
    ("ui-lines", include_str!("checks/ui-lines.edn")),
    ("ui-runs", include_str!("checks/ui-runs.edn")),
    ("ui-questions", include_str!("checks/ui-questions.edn")),
    ("ui-sessions", include_str!("checks/ui-sessions.edn")),
    ("ui-commands", include_str!("checks/ui-commands.edn")),
    ("ui-tools", include_str!("checks/ui-tools.edn")),
];

/// Why the files cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// A file is not EDN.
    #[error("{file}.edn: {error}")]
    Unreadable {
        /// The file.
        file: &'static str,
        /// The error.
        error: edn::Error,
    },
    /// A part of a file has another shape.
    #[error("{file}.edn: {what}")]
    Misshapen {
        /// The file.
        file: &'static str,
        /// What is wrong.
        what: String,
    },
}

/// One check.
#[derive(Debug, Clone)]
pub struct Check {
    /// Its name, to which obligations are bound: `room.what-is-tried`.
    pub name: String,
    /// What holds if it passes.
    pub about: String,
    /// Its requirements; without them it does not apply.
    pub needs: BTreeSet<Need>,
    /// How the server is started before the first step; nil to start none.
    pub open: Form,
    /// What it does.
    pub steps: Vec<Form>,
}

/// A requirement of a check, to the server or the command line. The cheapest to find out come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The check sets the model's answers.
    Script,
    /// The check sets the state folder.
    State,
    /// The check sets the user's configuration.
    Config,
    /// The server supports the op.
    Op(String),
    /// The server grants the feature.
    Feature(String),
    /// The server accepts further clients, in addition to the one on its pipes.
    Guests,
}

/// Steps or a value that checks share.
#[derive(Debug)]
pub struct Definition {
    /// Its variables that the caller gives.
    pub params: Vec<Form>,
    /// What it does.
    pub steps: Vec<Form>,
    /// Its value, after the steps.
    pub result: Form,
}

/// All checks, and what they share.
#[derive(Debug)]
pub struct Suite {
    wire: Wire,
    checks: Vec<Check>,
    definitions: BTreeMap<String, Definition>,
    tables: Form,
    catalogue: Rc<Catalogue>,
}

/// The ops that the contract requires of every server.
const CORE: [&str; 4] = ["handshake", "ping", "subscribe", "unsubscribe"];

impl Suite {
    /// The checks of the EDN wire.
    ///
    /// # Errors
    /// If a file cannot be read. A test rules that out.
    pub fn built_in() -> Result<Self, SuiteError> {
        Self::of(Wire::Edn)
    }

    /// The checks of a wire.
    ///
    /// # Errors
    /// If a file cannot be read. A test rules that out.
    pub fn of(wire: Wire) -> Result<Self, SuiteError> {
        Self::read(wire, if wire == Wire::Edn { FILES } else { UI_FILES })
    }

    fn read(wire: Wire, files: &[(&'static str, &str)]) -> Result<Self, SuiteError> {
        let mut suite = Self {
            wire,
            checks: Vec::new(),
            definitions: BTreeMap::new(),
            tables: Value::Nil,
            catalogue: Rc::default(),
        };
        let mut tables = Map::new();
        let mut checks = Vec::new();
        for (file, text) in files {
            let form =
                edn::read_one(text.as_bytes()).map_err(|error| SuiteError::Unreadable { file, error })?;
            let form = form.into_owned();
            let misshapen = |what: String| SuiteError::Misshapen { file, what };
            for (name, definition) in
                form.get("define").and_then(Value::as_map).iter().flat_map(|map| map.iter())
            {
                let name = name.as_symbol().ok_or_else(|| misshapen(format!("{name} is no name")))?;
                let part = |key| definition.get(key).and_then(Value::as_slice).unwrap_or_default().to_vec();
                let definition = Definition {
                    params: part("params"),
                    steps: part("steps"),
                    result: definition.get("result").cloned().unwrap_or(Value::Nil),
                };
                if suite.definitions.insert(name.to_owned(), definition).is_some() {
                    return Err(misshapen(format!("{name} is defined twice")));
                }
            }
            tables.extend(form.get("tables").and_then(Value::as_map).cloned().into_iter().flatten());
            for check in form.get("checks").and_then(Value::as_slice).unwrap_or_default() {
                let check = Check::read(check).ok_or_else(|| misshapen(format!("{check} is no check")))?;
                checks.push(check);
            }
        }
        suite.look_at_patterns(&checks).map_err(|what| SuiteError::Misshapen { file: "checks", what })?;
        suite.tables = Value::from(tables);
        suite.catalogue = Rc::new(Catalogue::read(&suite.tables));
        for mut check in checks {
            let mut needs = std::mem::take(&mut check.needs);
            suite.add_needs(&check.open, &mut needs, &mut BTreeSet::new());
            suite.add_open(&check.open, &mut needs);
            check.steps.iter().for_each(|step| suite.add_needs(step, &mut needs, &mut BTreeSet::new()));
            check.needs = needs;
            suite.checks.push(check);
        }
        Ok(suite)
    }

    /// # Errors
    /// Names the first pattern that cannot say no.
    fn look_at_patterns(&self, checks: &[Check]) -> Result<(), String> {
        let params = |name: &str| self.definition(name).map(|definition| definition.params.len());
        let named = |name: &str, found: Result<(), String>| found.map_err(|why| format!("{name}: {why}"));
        for (name, definition) in &self.definitions {
            named(name, pattern_check::steps(&definition.steps, &params))?;
            named(name, pattern_check::expression(&definition.result))?;
        }
        checks.iter().try_for_each(|check| named(&check.name, pattern_check::steps(&check.steps, &params)))
    }

    /// The wire of the servers.
    pub const fn wire(&self) -> Wire {
        self.wire
    }

    /// All checks, in the order in which they run.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The names of the protocol.
    pub fn catalogue(&self) -> Rc<Catalogue> {
        self.catalogue.clone()
    }

    /// Whether something of that name is defined.
    pub fn defines(&self, name: &str) -> bool {
        self.definitions.contains_key(name)
    }

    /// Steps or a value that checks share.
    pub fn definition(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(name)
    }

    /// A value of the tables, below these keys; nil if there is none.
    pub fn table(&self, keys: &[Form]) -> Form {
        let found = keys.iter().try_fold(&self.tables, |value, key| value.as_map()?.get(key));
        found.cloned().unwrap_or(Value::Nil)
    }

    /// A check needs every op that its steps send, and what its servers are started with.
    fn add_needs(&self, form: &Form, needs: &mut BTreeSet<Need>, seen: &mut BTreeSet<String>) {
        if let Some((name, args)) = operation(form) {
            let sent = match name {
                "ask" | "refuse" | "reply" | "send" => args.first(),
                "send-as" => args.get(1),
                _ => None,
            };
            let sent = sent.and_then(Value::as_str).filter(|op| !CORE.contains(op) && self.is_op(op));
            needs.extend(sent.map(|op| Need::Op(op.to_owned())));
            match name {
                "open" => args.iter().for_each(|options| self.add_open(options, needs)),
                "join" => {
                    needs.extend([Need::Guests, Need::State]);
                    args.iter().for_each(|options| self.add_open(options, needs));
                }
                "configure" => {
                    needs.insert(Need::Config);
                }
                _ => {}
            }
            if let Some(definition) = self.definitions.get(name)
                && seen.insert(name.to_owned())
            {
                definition.steps.iter().for_each(|step| self.add_needs(step, needs, seen));
            }
        }
        match form {
            Value::Map(map) => map.iter().for_each(|(_, value)| self.add_needs(value, needs, seen)),
            form => {
                form.as_slice().unwrap_or_default().iter().for_each(|item| self.add_needs(item, needs, seen))
            }
        }
    }

    fn add_open(&self, options: &Form, needs: &mut BTreeSet<Need>) {
        let has = |key| options.get(key).is_some();
        needs.extend(has("script").then_some(Need::Script));
        needs.extend((has("config") || has("workflow")).then_some(Need::Config));
        if self.wire == Wire::Ui {
            // They are what the client can show.
            return;
        }
        let features = options.get("features").and_then(Value::as_slice).unwrap_or_default();
        needs.extend(features.iter().filter_map(Value::as_str).map(|name| Need::Feature(name.to_owned())));
    }

    fn is_op(&self, name: &str) -> bool {
        self.catalogue.ops.iter().any(|op| op.name == name)
    }
}

impl Check {
    fn read(form: &Form) -> Option<Self> {
        let text = |key| form.get(key).and_then(Value::as_str).map(str::to_owned);
        let need = |need: &Form| match (need.as_keyword(), need.as_str()) {
            (Some("script"), _) => Some(Need::Script),
            (Some("state"), _) => Some(Need::State),
            (Some("config"), _) => Some(Need::Config),
            (Some("guests"), _) => Some(Need::Guests),
            (Some(feature), _) => Some(Need::Feature(feature.to_owned())),
            (None, op) => op.map(|op| Need::Op(op.to_owned())),
        };
        let needs = form.get("needs").and_then(Value::as_slice).unwrap_or_default();
        Some(Self {
            name: text("name")?,
            about: text("about")?,
            needs: needs.iter().map(need).collect::<Option<_>>()?,
            open: form.get("open").cloned().unwrap_or_else(|| Value::from(Map::new())),
            steps: form.get("steps")?.as_slice()?.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_files_are_readable_and_names_unique() {
        for wire in [Wire::Edn, Wire::Ui] {
            let suite = Suite::of(wire).unwrap();
            let names: BTreeSet<_> = suite.checks().iter().map(|check| &check.name).collect();
            assert_eq!(names.len(), suite.checks().len());
        }
    }

    #[test]
    fn check_needs_what_its_steps_use() {
        let files = [
            ("tables", "{:tables {:ops [{:name \"prompt\"} {:name \"abort\"}]}}"),
            (
                "a",
                "{:define {go {:steps [[:ask \"prompt\"]]}}
                  :checks [{:name \"a.b\" :about \"x\" :open {:script {} :features [\"interactor\"]}
                            :steps [[:when 1 1 [:go]] [:ask \"ping\"] [:refuse \"no_such\"] [:on \"b\" [:join {}]]]}]}",
            ),
        ];
        let suite = Suite::read(Wire::Edn, &files).unwrap();
        let needs: Vec<_> = suite.checks().first().unwrap().needs.iter().cloned().collect();
        let due = [
            Need::Script,
            Need::State,
            Need::Op("prompt".to_owned()),
            Need::Feature("interactor".to_owned()),
            Need::Guests,
        ];
        assert_eq!(needs, due);
    }

    /// What a reader of a check needs to know stands in the README.
    #[test]
    fn steps_and_functions_of_the_checks_are_described() {
        fn steps(step: &Form, suite: &Suite, names: &mut BTreeSet<String>) {
            let (name, args) = operation(step).unwrap();
            if !suite.defines(name) {
                names.insert(format!("[:{name}"));
            }
            let inner = match name {
                "loop" => 0,
                "on" | "times" => 1,
                "each" | "when" | "unless" => 2,
                _ => args.len(),
            };
            args[inner..].iter().for_each(|step| steps(step, suite, names));
        }
        fn calls(form: &Form, suite: &Suite, names: &mut BTreeSet<String>) {
            if let Value::List(call) = form
                && let Some(name) = call.first().and_then(Value::as_symbol)
                && !suite.defines(name)
            {
                names.insert(format!("({name} "));
            }
            match form {
                Value::Map(map) => map.iter().for_each(|(_, value)| calls(value, suite, names)),
                form => form.as_slice().unwrap_or_default().iter().for_each(|item| calls(item, suite, names)),
            }
        }
        let mut names = BTreeSet::new();
        for suite in [Wire::Edn, Wire::Ui].map(|wire| Suite::of(wire).unwrap()) {
            let checks = suite.checks().iter().flat_map(|check| &check.steps);
            for step in checks.chain(suite.definitions.values().flat_map(|definition| &definition.steps)) {
                steps(step, &suite, &mut names);
                calls(step, &suite, &mut names);
            }
            suite.definitions.values().for_each(|definition| calls(&definition.result, &suite, &mut names));
        }
        assert!(names.len() > 60, "{names:?}");
        let readme = include_str!("README.md").replace(")`", " )`");
        names.retain(|name| !readme.contains(name.as_str()));
        assert!(names.is_empty(), "{names:?}");
    }

    #[test]
    fn misshapen_files_are_refused() {
        for text in ["{", "{:checks [{:name \"a\"}]}", "{:define {:a {}}}", "{:define {a {}}}\n;"] {
            assert!(Suite::read(Wire::Edn, &[("a", text), ("b", "{:define {a {}}}")]).is_err(), "{text}");
        }
    }
}
