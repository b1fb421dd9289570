//! Workflows: reads and checks a file of stages before anything runs.
//!
//! Knows the file's shape ([`read`]), templates ([`render`]) and the place of an error. Does not know
//! sessions; the engine runs stages.

use std::sync::Arc;
use std::time::Duration;

use crate::edn;
use crate::limits::{
    EXPANSION_BYTES, HOOK_MAX_MS, STAGE_ATTEMPTS, STAGE_TEMPLATE_BYTES, STAGE_TURNS, WORKFLOW_BYTES,
    WORKFLOW_CHECK_MS, WORKFLOW_SIBLINGS, WORKFLOW_STAGES,
};
use crate::value::{Map, Value};

mod source_position;

use source_position::PathStep;

/// The target that ends a workflow.
pub const END: &str = "end";

/// The outcome of a stage that ended and named no other outcome.
pub const DONE: &str = "done";

/// The outcome of a stage whose assertions failed in every attempt.
pub const FAILED: &str = "failed";

/// The outcome of a stage whose gate failed.
pub const SKIPPED: &str = "skipped";

/// A workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Its name: the file's, without its extension.
    pub name: Arc<str>,
    /// Its purpose.
    pub doc: String,
    /// Its stages. The first one runs first.
    pub stages: Vec<Step>,
}

/// One step of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A stage.
    Stage(Arc<Stage>),
    /// Parallel stages, and optionally one that joins their results.
    Parallel {
        /// The group's name.
        id: Arc<str>,
        /// The parallel stages.
        siblings: Vec<Arc<Stage>>,
        /// The stage that runs once all have succeeded.
        join: Option<Arc<Stage>>,
        /// The next step.
        next: Next,
    },
}

/// A stage: one turn of a model with its own tools.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Its name.
    pub id: Arc<str>,
    /// Its prompt, with the placeholders `{{args}}`, `{{gate}}`, `{{results}}` and `{{results.stage}}`.
    pub body: String,
    /// The tools that need no grant.
    pub tools: Vec<String>,
    /// The maximum of model calls per attempt.
    pub turn_cap: u32,
    /// The checks before it starts.
    pub gate: Vec<Check>,
    /// The keys of its result, with their types.
    pub completion: Vec<(Arc<str>, Type)>,
    /// Its outcomes, in addition to `done`.
    pub outcomes: Vec<Arc<str>>,
    /// The checks after it.
    pub asserts: Vec<Check>,
    /// The maximum of attempts.
    pub attempts: u32,
    /// How long its questions stay open; `None` for no limit.
    pub patience: Option<Duration>,
    /// The next step.
    pub next: Next,
}

/// A check of a gate or an assertion.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// A command for `bash -c` that must exit with status 0. It reads the stage's facts as EDN.
    Command {
        /// The command.
        command: String,
        /// Its time-out.
        timeout: Duration,
    },
    /// The result has these values.
    Result(Map<'static>),
    /// The stage has that outcome.
    Outcome(Arc<str>),
    /// The person confirms.
    Confirm(String),
}

/// The type of a key of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A list of texts.
    Strings,
    /// A list of anything.
    List,
    /// A map.
    Map,
}

impl Type {
    const ALL: [(&'static str, Self); 6] = [
        ("string", Self::String),
        ("integer", Self::Integer),
        ("boolean", Self::Boolean),
        ("strings", Self::Strings),
        ("list", Self::List),
        ("map", Self::Map),
    ];

    /// The name in a file.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Whether a value has this type.
    pub fn fits(self, value: &Value<'_>) -> bool {
        match self {
            Self::String => value.as_str().is_some(),
            Self::Integer => value.as_i64().is_some(),
            Self::Boolean => value.as_bool().is_some(),
            Self::Strings => {
                value.as_slice().is_some_and(|items| items.iter().all(|item| item.as_str().is_some()))
            }
            Self::List => value.as_slice().is_some(),
            Self::Map => value.as_map().is_some(),
        }
    }
}

/// The step after a stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Next {
    /// By outcome.
    pub by_outcome: Vec<(Arc<str>, Arc<str>)>,
    /// For any other outcome, except `failed` and `skipped`, which end the workflow unless they are named.
    pub otherwise: Option<Arc<str>>,
}

impl Next {
    /// The step after an outcome, or [`END`].
    pub fn after(&self, outcome: &str) -> &str {
        let named = self.by_outcome.iter().find(|(name, _)| **name == *outcome).map(|(_, target)| target);
        let otherwise = self.otherwise.as_ref().filter(|_| !matches!(outcome, FAILED | SKIPPED));
        named.or(otherwise).map_or(END, |target| target)
    }
}

impl Step {
    /// Its name.
    pub fn id(&self) -> &Arc<str> {
        match self {
            Self::Stage(stage) => &stage.id,
            Self::Parallel { id, .. } => id,
        }
    }

    /// Its next step.
    pub fn next(&self) -> &Next {
        match self {
            Self::Stage(stage) => &stage.next,
            Self::Parallel { next, .. } => next,
        }
    }
}

impl Workflow {
    /// The step of that name.
    pub fn step(&self, id: &str) -> Option<&Step> {
        self.stages.iter().find(|step| **step.id() == *id)
    }
}

/// An error in a file, and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {wrong}")]
pub struct WorkflowError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The error.
    pub wrong: String,
}

/// An error, and the path to it.
struct Wrong {
    way: Vec<PathStep>,
    wrong: String,
}

/// Reads a file.
///
/// # Errors
/// The first error, with its line and column.
pub fn read(name: &str, text: &[u8]) -> Result<Workflow, WorkflowError> {
    if text.len() > WORKFLOW_BYTES {
        let wrong = format!("the file has {} bytes; the maximum is {WORKFLOW_BYTES}", text.len());
        return Err(WorkflowError { line: 1, column: 1, wrong });
    }
    let value = edn::read_one(text).map_err(|error| WorkflowError {
        line: error.line(),
        column: error.column(),
        wrong: format!("the file is not EDN: {error}"),
    })?;
    workflow(name, &value).map_err(|Wrong { way, wrong }| {
        let (line, column) = source_position::locate(text, &way);
        WorkflowError { line, column, wrong }
    })
}

/// A map of the file, and the path to it.
struct MapReader<'v> {
    map: &'v Map<'v>,
    way: Vec<PathStep>,
    what: &'static str,
}

impl<'v> MapReader<'v> {
    fn of(
        value: &'v Value<'v>,
        way: Vec<PathStep>,
        what: &'static str,
        keys: &[&str],
    ) -> Result<Self, Wrong> {
        let Some(map) = value.as_map() else {
            return Err(Wrong { way, wrong: format!("{what} is a map, not a {}", value.kind_name()) });
        };
        let reader = Self { map, way, what };
        for (key, _) in map.iter() {
            let name = key.as_keyword().unwrap_or_default();
            if !keys.contains(&name) {
                let known: Vec<String> = keys.iter().map(|key| format!(":{key}")).collect();
                let wrong = format!("{what} has no {key}; it may have {}", known.join(" "));
                return Err(Wrong { way: reader.to(name), wrong });
            }
        }
        Ok(reader)
    }

    fn to(&self, key: &str) -> Vec<PathStep> {
        let mut way = self.way.clone();
        way.push(PathStep::Key(key.to_owned()));
        way
    }

    fn wrong<T>(&self, key: &str, expected: &str) -> Result<T, Wrong> {
        let wrong = match self.map.get_keyword(key) {
            Some(_) => format!(":{key} of {} must be {expected}", self.what),
            None => format!("{} needs :{key}, {expected}", self.what),
        };
        // If the key is missing, the map is at fault.
        let way = if self.map.get_keyword(key).is_some() { self.to(key) } else { self.way.clone() };
        Err(Wrong { way, wrong })
    }

    fn get(&self, key: &str) -> Option<&'v Value<'v>> {
        self.map.get_keyword(key)
    }

    fn text(&self, key: &str) -> Result<Option<String>, Wrong> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) if text.len() <= STAGE_TEMPLATE_BYTES => Ok(Some(text.to_owned())),
                _ => self.wrong(key, &format!("a string of at most {STAGE_TEMPLATE_BYTES} bytes")),
            },
        }
    }

    fn name(&self, key: &str) -> Result<Arc<str>, Wrong> {
        match self.get(key).and_then(|value| value.as_keyword()) {
            Some(name) if name != END => Ok(name.into()),
            _ => self.wrong(key, "a keyword other than :end"),
        }
    }

    fn number(&self, key: &str, default: u32, most: u32) -> Result<u32, Wrong> {
        let Some(value) = self.get(key) else { return Ok(default) };
        match value.as_i64().and_then(|number| u32::try_from(number).ok()) {
            Some(number) if (1..=most).contains(&number) => Ok(number),
            _ => self.wrong(key, &format!("an integer from 1 to {most}")),
        }
    }

    fn millis(&self, key: &str, default: Option<u64>) -> Result<Option<Duration>, Wrong> {
        let millis = match self.get(key) {
            None => return Ok(default.map(Duration::from_millis)),
            Some(value) => value.as_i64().and_then(|millis| u64::try_from(millis).ok()),
        };
        match millis {
            Some(millis) if (1..=HOOK_MAX_MS).contains(&millis) => Ok(Some(Duration::from_millis(millis))),
            _ => self.wrong(key, &format!("an integer from 1 to {HOOK_MAX_MS}")),
        }
    }

    fn list(&self, key: &str) -> Result<&'v [Value<'v>], Wrong> {
        match self.get(key) {
            None => Ok(&[]),
            Some(value) => match value.as_slice() {
                Some(items) => Ok(items),
                None => self.wrong(key, "a vector"),
            },
        }
    }
}

fn workflow(name: &str, value: &Value<'_>) -> Result<Workflow, Wrong> {
    let part = MapReader::of(value, Vec::new(), "a workflow", &["doc", "stages"])?;
    let doc = part.text("doc")?.unwrap_or_default();
    let values = part.list("stages")?;
    if values.is_empty() || values.len() > WORKFLOW_STAGES {
        return part.wrong("stages", &format!("a vector of 1 to {WORKFLOW_STAGES} stages"));
    }
    let mut stages = Vec::with_capacity(values.len());
    let mut names: Vec<Arc<str>> = Vec::new();
    for (place, value) in values.iter().enumerate() {
        let mut way = part.to("stages");
        way.push(PathStep::Place(place));
        let following = values.get(place.saturating_add(1)).and_then(|next| next.get("id")?.as_keyword());
        let step = step(value, way.clone(), following)?;
        let mut own = vec![step.id().clone()];
        if let Step::Parallel { siblings, join, .. } = &step {
            own.extend(siblings.iter().chain(join).map(|stage| stage.id.clone()));
        }
        for name in own {
            if names.contains(&name) {
                return Err(Wrong { way, wrong: format!("there are two stages :{name}") });
            }
            names.push(name);
        }
        stages.push(step);
    }
    let workflow = Workflow { name: name.into(), doc, stages };
    for (place, step) in workflow.stages.iter().enumerate() {
        let targets = step.next().by_outcome.iter().map(|(_, target)| target).chain(&step.next().otherwise);
        for target in targets {
            if **target != *END && workflow.step(target).is_none() {
                let way = vec![
                    PathStep::Key("stages".to_owned()),
                    PathStep::Place(place),
                    PathStep::Key("next".to_owned()),
                ];
                return Err(Wrong {
                    way,
                    wrong: format!(":next names :{target}, and there is no such stage"),
                });
            }
        }
    }
    Ok(workflow)
}

fn step(value: &Value<'_>, way: Vec<PathStep>, following: Option<&str>) -> Result<Step, Wrong> {
    if value.get("parallel").is_none() {
        return Ok(Step::Stage(Arc::new(stage(value, way, true, following)?)));
    }
    let part = MapReader::of(value, way, "a parallel group", &["id", "parallel", "join", "next"])?;
    let id = part.name("id")?;
    let values = part.list("parallel")?;
    if values.len() < 2 || values.len() > WORKFLOW_SIBLINGS {
        return part.wrong("parallel", &format!("a vector of 2 to {WORKFLOW_SIBLINGS} stages"));
    }
    let mut siblings = Vec::with_capacity(values.len());
    for (place, value) in values.iter().enumerate() {
        let mut way = part.to("parallel");
        way.push(PathStep::Place(place));
        siblings.push(Arc::new(stage(value, way, false, None)?));
    }
    let join = match part.get("join") {
        None => None,
        Some(value) => Some(Arc::new(stage(value, part.to("join"), false, None)?)),
    };
    let outcomes = join.as_ref().map(|join| join.outcomes.clone()).unwrap_or_default();
    let next = next(&part, &outcomes, following)?;
    Ok(Step::Parallel { id, siblings, join, next })
}

/// The keys of a stage. A stage in a group has no `:next`; the group has it.
const STAGE_KEYS: [&str; 11] = [
    "id",
    "body",
    "tools",
    "turn-cap",
    "gate",
    "completion",
    "outcomes",
    "assert",
    "retry",
    "interaction-timeout-ms",
    "next",
];

fn stage(
    value: &Value<'_>,
    way: Vec<PathStep>,
    alone: bool,
    following: Option<&str>,
) -> Result<Stage, Wrong> {
    let keys = if alone {
        STAGE_KEYS.as_slice()
    } else {
        STAGE_KEYS.split_last().map_or([].as_slice(), |(_, keys)| keys)
    };
    let part = MapReader::of(value, way, "a stage", keys)?;
    let id = part.name("id")?;
    let body = match part.text("body")? {
        Some(body) if !body.trim().is_empty() => body,
        _ => return part.wrong("body", "the stage's prompt"),
    };
    if let Some(unknown) = unknown_place(&body) {
        let wrong = format!(
            "the body has a place {{{{{unknown}}}}}; there are args, gate, results and results.STAGE"
        );
        return Err(Wrong { way: part.to("body"), wrong });
    }
    let mut tools = Vec::new();
    for tool in part.list("tools")? {
        match tool.as_str() {
            Some(tool) => tools.push(tool.to_owned()),
            None => return part.wrong("tools", "a vector of strings"),
        }
    }
    let mut outcomes: Vec<Arc<str>> = Vec::new();
    for outcome in part.list("outcomes")? {
        match outcome.as_keyword() {
            Some(name) if !matches!(name, FAILED | SKIPPED) => outcomes.push(name.into()),
            _ => return part.wrong("outcomes", "a vector of keywords other than :failed and :skipped"),
        }
    }
    let mut completion = Vec::new();
    if let Some(schema) = part.get("completion") {
        let types: Vec<&str> = Type::ALL.iter().map(|(name, _)| *name).collect();
        let expected = format!("a map of keys to types: :{}", types.join(" :"));
        let Some(map) = schema.as_map() else { return part.wrong("completion", &expected) };
        for (key, kind) in map.iter() {
            let kind = kind.as_keyword().and_then(|name| Type::ALL.iter().find(|(known, _)| *known == name));
            match (key.as_keyword(), kind) {
                (Some(key), Some((_, kind))) => completion.push((key.into(), *kind)),
                _ => return part.wrong("completion", &expected),
            }
        }
    }
    let attempts =
        match part.get("retry") {
            None => 1,
            Some(value) => MapReader::of(value, part.to("retry"), "a retry policy", &["max-attempts"])?
                .number("max-attempts", 1, STAGE_ATTEMPTS)?,
        };
    let gate = checks(&part, "gate", &["command", "timeout-ms", "confirm"])?;
    let asserts = checks(&part, "assert", &["command", "timeout-ms", "result", "outcome"])?;
    let next = if alone { next(&part, &outcomes, following)? } else { Next::default() };
    Ok(Stage {
        id,
        body,
        tools,
        turn_cap: part.number("turn-cap", STAGE_TURNS, STAGE_TURNS)?,
        gate,
        completion,
        outcomes,
        asserts,
        attempts,
        patience: part.millis("interaction-timeout-ms", None)?,
        next,
    })
}

fn checks(part: &MapReader<'_>, key: &str, keys: &[&str]) -> Result<Vec<Check>, Wrong> {
    let mut checks = Vec::new();
    for (place, value) in part.list(key)?.iter().enumerate() {
        let mut way = part.to(key);
        way.push(PathStep::Place(place));
        let one = MapReader::of(value, way.clone(), "a check", keys)?;
        let timeout = one.millis("timeout-ms", Some(WORKFLOW_CHECK_MS))?.unwrap_or_default();
        let check = match (one.text("command")?, one.text("confirm")?, one.get("result"), one.get("outcome"))
        {
            (Some(command), None, None, None) if !command.contains('\0') => {
                Check::Command { command, timeout }
            }
            (None, Some(question), None, None) => Check::Confirm(question),
            (None, None, Some(result), None) => match result.as_map() {
                Some(map) => Check::Result(map.clone().into_owned()),
                None => return one.wrong("result", "a map of what the result must hold"),
            },
            (None, None, None, Some(outcome)) => match outcome.as_keyword() {
                Some(outcome) => Check::Outcome(outcome.into()),
                None => return one.wrong("outcome", "a keyword"),
            },
            _ => {
                let kinds: Vec<String> =
                    keys.iter().filter(|key| **key != "timeout-ms").map(|key| format!(":{key}")).collect();
                return Err(Wrong { way, wrong: format!("a check has exactly one of {}", kinds.join(" ")) });
            }
        };
        checks.push(check);
    }
    Ok(checks)
}

fn next(part: &MapReader<'_>, outcomes: &[Arc<str>], following: Option<&str>) -> Result<Next, Wrong> {
    let Some(value) = part.get("next") else {
        return Ok(Next { by_outcome: Vec::new(), otherwise: following.map(Arc::from) });
    };
    if let Some(target) = value.as_keyword() {
        return Ok(Next { by_outcome: Vec::new(), otherwise: Some(target.into()) });
    }
    let Some(map) = value.as_map() else {
        return part.wrong("next", "a stage's name, or a map of outcomes to names");
    };
    let mut by_outcome = Vec::new();
    for (outcome, target) in map.iter() {
        let (Some(outcome), Some(target)) = (outcome.as_keyword(), target.as_keyword()) else {
            return part.wrong("next", "a stage's name, or a map of outcomes to names");
        };
        let known =
            matches!(outcome, DONE | FAILED | SKIPPED) || outcomes.iter().any(|name| **name == *outcome);
        if !known {
            let mut way = part.to("next");
            way.push(PathStep::Key(outcome.to_owned()));
            return Err(Wrong { way, wrong: format!(":{outcome} is none of the stage's :outcomes") });
        }
        by_outcome.push((outcome.into(), target.into()));
    }
    Ok(Next { by_outcome, otherwise: None })
}

/// The placeholders of a template: the text between two pairs of braces.
fn places(template: &str) -> impl Iterator<Item = &str> {
    template.split("{{").skip(1).filter_map(|rest| rest.split_once("}}").map(|(place, _)| place.trim()))
}

fn unknown_place(template: &str) -> Option<&str> {
    places(template).find(|place| {
        !matches!(*place, "args" | "gate" | "results")
            && place.strip_prefix("results.").is_none_or(str::is_empty)
    })
}

/// Fills in the placeholders of a template. Does not search the filled-in text again. What makes it longer than
/// [`EXPANSION_BYTES`] is left out, and the text says so.
pub fn render(template: &str, fill: impl Fn(&str) -> String) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("}}") {
            Some((place, rest)) => {
                let filled = fill(place.trim());
                match text.len().saturating_add(filled.len()) <= EXPANSION_BYTES {
                    true => text.push_str(&filled),
                    false => {
                        text.push_str(&format!("[… {} was left out: the text is too long …]", place.trim()))
                    }
                }
                text.push_str(rest);
            }
            None => {
                text.push_str("{{");
                text.push_str(part);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
{:doc "What it is for."
 :stages
 [{:id :look :body "Look at {{args}}." :tools ["read"] :turn-cap 3
   :gate [{:command "test -d ."} {:confirm "Go?"}]
   :completion {:summary :string :passed :boolean}
   :outcomes [:fine :bad]
   :assert [{:command "true" :timeout-ms 5} {:result {:passed true}} {:outcome :fine}]
   :retry {:max-attempts 3} :interaction-timeout-ms 1000
   :next {:fine :read, :bad :end, :failed :last}}
  {:id :read
   :parallel [{:id :a :body "A"} {:id :b :body "B {{results.look}}"}]
   :join {:id :both :body "{{results}}"}}
  {:id :last :body "Say it."}]}"#;

    #[test]
    fn placeholders_beyond_the_bound_are_left_out_and_said() {
        let half = "x".repeat(EXPANSION_BYTES / 2);
        let text = render("{{a}} {{a}} {{a}} end", |_| half.clone());
        assert!(text.len() < EXPANSION_BYTES + 200, "{} bytes", text.len());
        assert!(text.ends_with("[… a was left out: the text is too long …] end"));
        assert_eq!(render("{{a}}{{a}}", |_| half.clone()).len(), EXPANSION_BYTES);
    }

    #[test]
    fn workflow_file_is_read() {
        let workflow = read("w", WHOLE.as_bytes()).unwrap();
        assert_eq!((&*workflow.name, workflow.stages.len()), ("w", 3));
        let Step::Stage(look) = &workflow.stages[0] else { panic!() };
        assert_eq!((look.turn_cap, look.attempts, look.gate.len(), look.asserts.len()), (3, 3, 2, 3));
        assert_eq!(look.patience, Some(Duration::from_secs(1)));
        for (outcome, target) in
            [("fine", "read"), ("bad", END), ("failed", "last"), ("done", END), ("skipped", END)]
        {
            assert_eq!(look.next.after(outcome), target, "{outcome}");
        }
        let Step::Parallel { siblings, join, next, .. } = &workflow.stages[1] else { panic!() };
        assert_eq!((siblings.len(), join.is_some(), next.after(DONE)), (2, true, "last"));
        assert_eq!(next.after(FAILED), END);
        assert_eq!(workflow.stages[2].next().after(DONE), END);
    }

    #[test]
    fn workflow_error_names_its_place() {
        for (text, expected) in [
            ("{:stages\n  [}", "2:4: the file is not EDN"),
            ("[]", "1:1: a workflow is a map"),
            ("{:doc \"x\"}", "1:1: a workflow needs :stages"),
            ("{:stages []}", "1:10: :stages of a workflow must be"),
            ("{:stages\n [7]}", "2:3: a stage is a map"),
            ("{:stages\n [{:id :a :body \"x\"}\n  {:id :a :body \"x\"}]}", "3:3: there are two stages :a"),
            ("{:stages [{:id :a}]}", "1:11: a stage needs :body"),
            ("{:stages [{:id \"a\" :body \"x\"}]}", "1:16: :id of a stage must be"),
            ("{:stages [{:id :end :body \"x\"}]}", "1:16: :id of a stage must be"),
            ("{:stages [{:id :a :body \"x\"\n  :tool []}]}", "2:9: a stage has no :tool"),
            ("{:stages [{:id :a :body \"x {{arg}}\"}]}", "1:25: the body has a place {{arg}}"),
            ("{:stages [{:id :a :body \"x\" :tools [:read]}]}", "1:36: :tools of a stage must be"),
            ("{:stages [{:id :a :body \"x\" :turn-cap 0}]}", "1:39: :turn-cap of a stage must be"),
            ("{:stages [{:id :a :body \"x\" :next :b}]}", "1:35: :next names :b"),
            ("{:stages [{:id :a :body \"x\" :next {:ok :end}}]}", "1:40: :ok is none of"),
            (
                "{:stages [{:id :a :body \"x\" :assert [{:command \"a\" :outcome :b}]}]}",
                "1:38: a check has exactly",
            ),
            ("{:stages [{:id :a :body \"x\" ; note\n :retry {:max-attempts 99}}]}", "2:24: :max-attempts of"),
            ("{:stages [{:id :g :parallel [{:id :a :body \"x\"}]}]}", "1:29: :parallel of a parallel group"),
            (
                "{:stages [{:id :g :parallel [{:id :a :body \"x\" :next :g} {:id :b :body \"x\"}]}]}",
                "1:54: a stage has no :next",
            ),
            ("{:stages [{:id :a :body \"x\" :completion {:n :number}}]}", "1:41: :completion of a stage"),
        ] {
            let error = read("w", text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}\n{error}");
        }
    }

    #[test]
    fn template_is_filled_in_once() {
        let fill = |place: &str| if place == "args" { "{{results}}".to_owned() } else { "R".to_owned() };
        assert_eq!(render("a {{args}} {{ results.x }} {{", fill), "a {{results}} R {{");
    }
}
