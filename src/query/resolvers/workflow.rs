//! `:psi.workflow/*` and `:psi.workflow-run/*`: the available workflows, and the journalled runs of a
//! session. Runs none.

use std::sync::Arc;

use crate::query::graph::{Input, Resolver};
use crate::query::table::{join, rest, table, text, texts};
use crate::query::world::SessionView;
use crate::store::EntryBody;
use crate::store::record::RunEvent;
use crate::value::{Map, Value};
use crate::workflow::{Next, Stage, Step, Workflow};

table! {
    /// A stage with the group that it belongs to, and where the group goes on.
    STAGE of (Arc<Stage>, Option<Arc<str>>, Next) {
        "psi.workflow-stage/id" "The stage's name." => |(stage, ..)| text(&stage.id);
        "psi.workflow-stage/group" "Its parallel group, or nil." => |(_, group, _)| group.as_deref().map(text);
        "psi.workflow-stage/body" "Its prompt, with unfilled placeholders." => |(stage, ..)| text(&stage.body);
        "psi.workflow-stage/tools" "The tools that need no grant." => |(stage, ..)| texts(&stage.tools);
        "psi.workflow-stage/turn-cap" "The maximum of model calls per attempt." => |(stage, ..)| stage.turn_cap;
        "psi.workflow-stage/max-attempts" "The maximum of attempts." => |(stage, ..)| stage.attempts;
        "psi.workflow-stage/outcomes" "Its outcomes, in addition to done." => |(stage, ..)| texts(&stage.outcomes);
        "psi.workflow-stage/completion" "The keys of its result, with their types."
            => |(stage, ..)| pairs(stage.completion.iter().map(|(key, kind)| (&**key, Value::keyword(kind.as_str()))));
        "psi.workflow-stage/next"
            "The next step after it or its group: by outcome, and :otherwise for any other outcome except failed and skipped."
            => |(.., next)| {
                let otherwise = next.otherwise.iter().map(|target| ("otherwise", text(target)));
                pairs(next.by_outcome.iter().map(|(outcome, target)| (&**outcome, text(target))).chain(otherwise))
            };
    }
}

table! {
    WORKFLOW of (String, Result<Arc<Workflow>, String>) {
        "psi.workflow/name" "The name for `/workflow`." => |(name, _)| text(name);
        "psi.workflow/doc" "Its purpose, or nil if it is unusable." => |(_, read)| read.as_ref().ok().map(|flow| text(&flow.doc));
        "psi.workflow/problem" "Why it is unusable, with the place, or nil." => |(_, read)| read.as_ref().err().map(|why| text(why));
        "psi.workflow/stages" "Its stages, in the order of the file." [STAGE]
            => |(_, read)| STAGE.entities(&read.iter().flat_map(|flow| &flow.stages).flat_map(stages).collect::<Vec<_>>());
    }
}

table! {
    STEP of StepFacts {
        "psi.workflow-step/id" "The name of the stage or group." => |step| step.id.clone();
        "psi.workflow-step/status" "running, or its outcome; nil if the run was cut off in it." => |step| step.status.clone();
        "psi.workflow-step/result" "Its result, or nil." => |step| step.result.clone();
        "psi.workflow-step/attempts" "The number of its attempts, or nil while it runs." => |step| step.attempts;
        "psi.workflow-step/why" "Why it failed or was skipped, or nil." => |step| step.why.clone();
        "psi.workflow-step/started-at" "When it began, RFC 3339 in UTC; nil for a stage of a group." => |step| step.started.as_deref().map(text);
        "psi.workflow-step/ended-at" "When it ended, RFC 3339 in UTC, or nil." => |step| step.ended.as_deref().map(text);
    }
}

table! {
    RUN of RunFacts {
        "psi.workflow-run/id" "The run's id." => |run| text(&run.id);
        "psi.workflow/name" => |run| text(&run.workflow);
        "psi.workflow-run/arguments" "Its arguments." => |run| run.arguments.clone();
        "psi.workflow-run/status" "running, interrupted, aborted, or its outcome, such as done." => |run| run.status.clone();
        "psi.workflow-run/why" "Why it failed or was skipped, or nil." => |run| run.why.clone();
        "psi.workflow-run/resumes" "The id of the run that it resumes, or nil." => |run| run.resumes.clone();
        "psi.workflow-run/started-at" "When it began, RFC 3339 in UTC." => |run| text(&run.started);
        "psi.workflow-run/ended-at" "When it ended, RFC 3339 in UTC, or nil." => |run| run.ended.as_deref().map(text);
        "psi.workflow-run/steps" "Its steps, in order; the last one may be running." [STEP] => |run| STEP.entities(&run.steps);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.workflow/list",
        &[],
        &[join(
            "psi.workflow/list",
            "The workflows of the query's session by name, including unusable ones.",
            WORKFLOW.outputs,
        )],
        |env, _| WORKFLOW.list("psi.workflow/list", &env.world.workflows()),
    ),
    Resolver::batch(
        "psi.workflow/by-name",
        &[Input::Required("psi.workflow/name")],
        rest(WORKFLOW.outputs),
        |env, inputs| WORKFLOW.lookup(inputs, &env.world.workflows()),
    ),
    Resolver::session(
        "psi.agent-session/workflow-runs",
        &[join(
            "psi.agent-session/workflow-runs",
            "The runs of workflows on the current branch, oldest first; :limit selects the newest. Each leads to its workflow.",
            RUN.outputs,
        )],
        |env, session| {
            let runs = runs_of(session.as_ref());
            let older = runs.len().saturating_sub(env.count("limit")?.unwrap_or(usize::MAX));
            RUN.list("psi.agent-session/workflow-runs", runs.iter().skip(older))
        },
    ),
    // Searches in the query's session.
    Resolver::batch(
        "psi.workflow-run/by-id",
        &[Input::Required("psi.workflow-run/id")],
        rest(RUN.outputs),
        |env, inputs| {
            let session = env.world.session(env.world.focus().as_str());
            RUN.lookup(inputs, &session.map(|session| runs_of(session.as_ref())).unwrap_or_default())
        },
    ),
];

/// The stages of a step: those of a group with the group's name, and where the group goes on.
fn stages(step: &Step) -> Vec<(Arc<Stage>, Option<Arc<str>>, Next)> {
    match step {
        Step::Stage(one) => vec![(one.clone(), None, one.next.clone())],
        Step::Parallel { id, siblings, join, next } => {
            let all = siblings.iter().chain(join);
            all.map(|one| (one.clone(), Some(id.clone()), next.clone())).collect()
        }
    }
}

fn pairs<'p>(pairs: impl Iterator<Item = (&'p str, Value<'static>)>) -> Map<'static> {
    pairs.map(|(key, value)| (Value::keyword(key.to_owned()), value)).collect()
}

/// A journalled run.
struct RunFacts {
    id: String,
    workflow: String,
    arguments: Option<String>,
    resumes: Option<String>,
    status: Option<String>,
    why: Option<String>,
    started: Arc<str>,
    ended: Option<Arc<str>>,
    steps: Vec<StepFacts>,
}

/// A step of it.
#[derive(Default)]
struct StepFacts {
    id: Option<String>,
    status: Option<String>,
    result: Option<Value<'static>>,
    attempts: Option<u32>,
    why: Option<String>,
    started: Option<Arc<str>>,
    ended: Option<Arc<str>>,
}

/// The status of a running workflow or step.
const RUNNING: &str = "running";

impl StepFacts {
    fn new(id: &Option<String>, started: Option<Arc<str>>) -> Self {
        Self { id: id.clone(), status: Some(RUNNING.to_owned()), started, ..Self::default() }
    }

    fn is_open(&self) -> bool {
        self.status.as_deref() == Some(RUNNING)
    }
}

/// The runs of the session itself. Runs that a fork copied did not happen in it.
fn runs_of(session: &dyn SessionView) -> Vec<RunFacts> {
    let mut runs: Vec<RunFacts> = Vec::new();
    for entry in session.entries() {
        let EntryBody::Workflow(record) = &entry.body else { continue };
        if record.session_id != *session.id() {
            continue;
        }
        let at = Some(entry.ts.clone());
        if record.event == RunEvent::Started {
            runs.push(RunFacts {
                id: record.run_id.clone(),
                workflow: record.workflow.clone(),
                arguments: record.arguments.clone(),
                resumes: record.resumes.clone(),
                status: Some(RUNNING.to_owned()),
                why: None,
                started: entry.ts.clone(),
                ended: None,
                steps: Vec::new(),
            });
            continue;
        }
        let Some(run) = runs.iter_mut().rev().find(|run| run.id == record.run_id) else { continue };
        match record.event {
            RunEvent::Started | RunEvent::HandedOver => {}
            RunEvent::StageStarted => run.steps.push(StepFacts::new(&record.stage, at)),
            RunEvent::StageEnded => {
                let is_its = |step: &StepFacts| step.id == record.stage && step.is_open();
                if !run.steps.iter().any(is_its) {
                    run.steps.push(StepFacts::new(&record.stage, None));
                }
                let Some(step) = run.steps.iter_mut().rev().find(|step| is_its(step)) else { continue };
                step.status.clone_from(&record.outcome);
                step.result.clone_from(&record.result);
                step.attempts = record.attempts;
                step.why.clone_from(&record.why);
                step.ended = at;
            }
            RunEvent::Ended | RunEvent::Interrupted => {
                run.status = match record.event {
                    RunEvent::Ended => record.outcome.clone(),
                    event => Some(event.as_str().to_owned()),
                };
                run.why.clone_from(&record.why);
                run.ended = at;
                run.steps.iter_mut().filter(|step| step.is_open()).for_each(|step| step.status = None);
            }
        }
    }
    runs
}
