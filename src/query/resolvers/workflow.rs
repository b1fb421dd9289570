//! `:psi.workflow/*` and `:psi.workflow-run/*`: the available workflows, and the journalled runs of a
//! session.

use std::collections::HashMap;

use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run, SESSION};
use crate::query::resolvers::{answers, join, out};
use crate::query::world::{EntryView, SessionView};
use crate::value::{Map, Value};

const WORKFLOW: &[&str] =
    &["psi.workflow/name", "psi.workflow/doc", "psi.workflow/problem", "psi.workflow/stages"];

const STAGE: &[&str] = &[
    "psi.workflow-stage/id",
    "psi.workflow-stage/group",
    "psi.workflow-stage/body",
    "psi.workflow-stage/tools",
    "psi.workflow-stage/turn-cap",
    "psi.workflow-stage/max-attempts",
    "psi.workflow-stage/outcomes",
    "psi.workflow-stage/completion",
    "psi.workflow-stage/next",
];

const RUN: &[&str] = &[
    "psi.workflow-run/id",
    "psi.workflow/name",
    "psi.workflow-run/arguments",
    "psi.workflow-run/status",
    "psi.workflow-run/why",
    "psi.workflow-run/resumes",
    "psi.workflow-run/started-at",
    "psi.workflow-run/ended-at",
    "psi.workflow-run/steps",
];

const STEP: &[&str] = &[
    "psi.workflow-step/id",
    "psi.workflow-step/status",
    "psi.workflow-step/result",
    "psi.workflow-step/attempts",
    "psi.workflow-step/why",
    "psi.workflow-step/started-at",
    "psi.workflow-step/ended-at",
];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.workflow/list", "The workflows of the query's session by name, including unusable ones."),
        ("psi.workflow/name", "The name for `/workflow`."),
        ("psi.workflow/doc", "Its purpose, or nil if it is unusable."),
        ("psi.workflow/problem", "Why it is unusable, with the place, or nil."),
        ("psi.workflow/stages", "Its stages, in the order of the file."),
        ("psi.workflow-stage/id", "The stage's name."),
        ("psi.workflow-stage/group", "Its parallel group, or nil."),
        ("psi.workflow-stage/body", "Its prompt, with unfilled placeholders."),
        ("psi.workflow-stage/tools", "The tools that need no grant."),
        ("psi.workflow-stage/turn-cap", "The maximum of model calls per attempt."),
        ("psi.workflow-stage/max-attempts", "The maximum of attempts."),
        ("psi.workflow-stage/outcomes", "Its outcomes, in addition to done."),
        ("psi.workflow-stage/completion", "The keys of its result, with their types."),
        (
            "psi.workflow-stage/next",
            "The next step after it or its group: by outcome, and :otherwise for any other outcome except failed and skipped.",
        ),
        (
            "psi.agent-session/workflow-runs",
            "The runs of workflows on the current branch, oldest first; :limit selects the newest. Each leads to its workflow.",
        ),
        ("psi.workflow-run/id", "The run's id."),
        ("psi.workflow-run/arguments", "Its arguments."),
        ("psi.workflow-run/status", "running, interrupted, aborted, or its outcome, such as done."),
        ("psi.workflow-run/why", "Why it failed or was skipped, or nil."),
        ("psi.workflow-run/resumes", "The id of the run that it resumes, or nil."),
        ("psi.workflow-run/started-at", "When it began, RFC 3339 in UTC."),
        ("psi.workflow-run/ended-at", "When it ended, RFC 3339 in UTC, or nil."),
        ("psi.workflow-run/steps", "Its steps, in order; the last one may be running."),
        ("psi.workflow-step/id", "The name of the stage or group."),
        ("psi.workflow-step/status", "running, or its outcome; nil if the run was cut off in it."),
        ("psi.workflow-step/result", "Its result, or nil."),
        ("psi.workflow-step/attempts", "The number of its attempts, or nil while it runs."),
        ("psi.workflow-step/why", "Why it failed or was skipped, or nil."),
        ("psi.workflow-step/started-at", "When it began, RFC 3339 in UTC; nil for a stage of a group."),
        ("psi.workflow-step/ended-at", "When it ended, RFC 3339 in UTC, or nil."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.workflow/list",
            input: &[],
            output: &[join("psi.workflow/list", WORKFLOW)],
            cost: Cost::Ready,
            run: Run::One(list),
        },
        Resolver {
            name: "psi.workflow/by-name",
            input: &[Input::Required("psi.workflow/name")],
            output: &[
                out("psi.workflow/doc"),
                out("psi.workflow/problem"),
                join("psi.workflow/stages", STAGE),
            ],
            cost: Cost::Ready,
            run: Run::Batch(by_name),
        },
        Resolver {
            name: "psi.agent-session/workflow-runs",
            input: &[Input::Required(SESSION)],
            output: &[join("psi.agent-session/workflow-runs", RUN)],
            cost: Cost::Ready,
            run: Run::One(runs),
        },
        Resolver {
            name: "psi.workflow-run/by-id",
            input: &[Input::Required("psi.workflow-run/id")],
            output: &[
                out("psi.workflow/name"),
                out("psi.workflow-run/arguments"),
                out("psi.workflow-run/status"),
                out("psi.workflow-run/why"),
                out("psi.workflow-run/resumes"),
                out("psi.workflow-run/started-at"),
                out("psi.workflow-run/ended-at"),
                join("psi.workflow-run/steps", STEP),
            ],
            cost: Cost::Ready,
            run: Run::Batch(run_by_id),
        },
    ],
    mutations: &[],
};

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    Ok(vec![("psi.workflow/list", Value::vector(env.world.workflows()).into())])
}

/// Goes through the workflows once for all requested ones.
fn by_name(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let workflows = env.world.workflows();
    let answer = |inputs: &Inputs<'_>| {
        let name = inputs.text("psi.workflow/name");
        let is = |one: &&Value<'_>| one.get("psi.workflow/name").and_then(Value::as_str) == name;
        let found = workflows.iter().find(is).and_then(Value::as_map);
        Ok(found.map(|found| answers(found.clone(), WORKFLOW)).unwrap_or_default())
    };
    inputs.iter().map(answer).collect()
}

fn runs(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let mut runs = runs_of(session.as_ref());
    runs.drain(..runs.len().saturating_sub(env.count("limit")?.unwrap_or(usize::MAX)));
    let runs = runs.into_iter().map(|run| Value::from(run.entity()));
    Ok(vec![("psi.agent-session/workflow-runs", Value::vector(runs).into())])
}

/// Searches in the query's session, once for all requested runs.
fn run_by_id(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let session = env.world.session(env.world.focus().as_str());
    let runs = session.map(|session| runs_of(session.as_ref())).unwrap_or_default();
    let entities: HashMap<_, _> = runs.into_iter().map(|run| (run.id.clone(), run.entity())).collect();
    let answer = |inputs: &Inputs<'_>| {
        let found = inputs.text("psi.workflow-run/id").and_then(|id| entities.get(id));
        Ok(found.map(|entity| answers(entity.clone(), RUN)).unwrap_or_default())
    };
    inputs.iter().map(answer).collect()
}

/// A journalled run.
struct Told {
    id: String,
    workflow: String,
    arguments: Value<'static>,
    resumes: Value<'static>,
    status: Value<'static>,
    why: Value<'static>,
    started: Value<'static>,
    ended: Value<'static>,
    steps: Vec<Map<'static>>,
}

/// The runs of the session itself. Runs that a fork copied did not happen in it.
fn runs_of(session: &dyn SessionView) -> Vec<Told> {
    let mut runs: Vec<Told> = Vec::new();
    for EntryView { kind, data, ts, .. } in session.entries() {
        let text = |key: &str| data.get_keyword(key).and_then(Value::as_str).unwrap_or_default();
        if kind != "workflow" || text("session-id") != session.id().as_str() {
            continue;
        }
        let part = |key: &str| Value::from(data.get_keyword(key).cloned());
        let at = Value::from(ts.to_string());
        if text("event") == "started" {
            runs.push(Told {
                id: text("run-id").to_owned(),
                workflow: text("workflow").to_owned(),
                arguments: part("arguments"),
                resumes: part("resumes"),
                status: Value::from(RUNNING),
                why: Value::Nil,
                started: at,
                ended: Value::Nil,
                steps: Vec::new(),
            });
            continue;
        }
        let Some(run) = runs.iter_mut().rev().find(|run| run.id == text("run-id")) else { continue };
        match text("event") {
            "stage-started" => run.step(part("stage"), at),
            "stage-ended" => {
                if !run.steps.iter().any(|step| is_open(step, &part("stage"))) {
                    run.step(part("stage"), Value::Nil);
                }
                let step = run.steps.iter_mut().rev().find(|step| is_open(step, &part("stage")));
                let Some(step) = step else { continue };
                step.put("psi.workflow-step/status", part("outcome"));
                step.put("psi.workflow-step/result", part("result"));
                step.put("psi.workflow-step/attempts", part("attempts"));
                step.put("psi.workflow-step/why", part("why"));
                step.put("psi.workflow-step/ended-at", at);
            }
            event @ ("ended" | "interrupted") => {
                run.status = if event == "ended" { part("outcome") } else { Value::from("interrupted") };
                run.why = part("why");
                run.ended = at;
                for step in &mut run.steps {
                    if step.get_keyword("psi.workflow-step/status").and_then(Value::as_str) == Some(RUNNING) {
                        step.put("psi.workflow-step/status", Value::Nil);
                    }
                }
            }
            _ => {}
        }
    }
    runs
}

/// The status of a running workflow or step.
const RUNNING: &str = "running";

fn is_open(step: &Map<'static>, id: &Value<'static>) -> bool {
    let status = step.get_keyword("psi.workflow-step/status").and_then(Value::as_str);
    step.get_keyword("psi.workflow-step/id") == Some(id) && status == Some(RUNNING)
}

impl Told {
    fn step(&mut self, id: Value<'static>, started: Value<'static>) {
        let mut step = Map::new();
        step.put("psi.workflow-step/id", id);
        step.put("psi.workflow-step/status", RUNNING);
        step.put("psi.workflow-step/result", Value::Nil);
        step.put("psi.workflow-step/attempts", Value::Nil);
        step.put("psi.workflow-step/why", Value::Nil);
        step.put("psi.workflow-step/started-at", started);
        step.put("psi.workflow-step/ended-at", Value::Nil);
        self.steps.push(step);
    }

    fn entity(self) -> Map<'static> {
        let mut map = Map::new();
        map.put("psi.workflow-run/id", self.id);
        map.put("psi.workflow/name", self.workflow);
        map.put("psi.workflow-run/arguments", self.arguments);
        map.put("psi.workflow-run/status", self.status);
        map.put("psi.workflow-run/why", self.why);
        map.put("psi.workflow-run/resumes", self.resumes);
        map.put("psi.workflow-run/started-at", self.started);
        map.put("psi.workflow-run/ended-at", self.ended);
        map.put("psi.workflow-run/steps", Value::vector(self.steps.into_iter().map(Value::from)));
        map
    }
}
