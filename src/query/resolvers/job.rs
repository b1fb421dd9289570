//! `:psi.job/*`: the background jobs.

use crate::facts::JobFacts;
use crate::projection;
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{join, names, out, picked};
use crate::value::Map;
use crate::value::Value;

/// The attributes of a job, and their keys in `inspect_background_job`.
const JOB: &[(&str, &str)] = &[
    ("psi.job/id", "id"),
    ("psi.job/kind", "kind"),
    ("psi.job/command", "command"),
    ("psi.job/status", "status"),
    ("psi.job/started-at", "started-at"),
    ("psi.job/ended-at", "ended-at"),
    ("psi.job/exit-code", "exit-code"),
    ("psi.turn/id", "turn-id"),
    ("psi.job/output", "output"),
    ("psi.job/handle", "handle"),
];

const NAMES: &[&str] = &names::<{ JOB.len() }>(JOB);

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.agent-session/jobs", "The session's background jobs, newest first; each leads to its turn."),
        ("psi.job/list", "The background jobs of the query's session, newest first."),
        ("psi.job/count", "The number of background jobs of the query's session."),
        ("psi.job/id", "The job's id, for `cancel_background_job` and the mutation psi.job/cancel."),
        ("psi.job/kind", "What kind of job it is, such as bash."),
        ("psi.job/command", "Its command."),
        ("psi.job/status", "running, completed, failed or cancelled."),
        ("psi.job/started-at", "When it was started, RFC 3339 in UTC."),
        ("psi.job/ended-at", "When it ended, RFC 3339 in UTC, or nil."),
        ("psi.job/exit-code", "Its exit status, or nil."),
        ("psi.job/output", "The end of its output."),
        ("psi.job/handle", "The handle of its whole output for `read_output`, or nil."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.job/list",
            input: &[],
            output: &[join("psi.job/list", NAMES), out("psi.job/count")],
            cost: Cost::Slow,
            run: Run::One(list),
        },
        Resolver {
            name: "psi.agent-session/jobs",
            input: &[Input::Required("psi.agent-session/session-id")],
            output: &[join("psi.agent-session/jobs", NAMES)],
            cost: Cost::Slow,
            run: Run::One(of_session),
        },
        Resolver {
            name: "psi.job/by-id",
            input: &[Input::Required("psi.job/id")],
            output: &[
                out("psi.job/kind"),
                out("psi.job/command"),
                out("psi.job/status"),
                out("psi.job/started-at"),
                out("psi.job/ended-at"),
                out("psi.job/exit-code"),
                out("psi.turn/id"),
                out("psi.job/output"),
                out("psi.job/handle"),
            ],
            cost: Cost::Slow,
            run: Run::One(by_id),
        },
    ],
    mutations: &[],
};

fn entity(job: &JobFacts) -> Map<'static> {
    picked(&projection::job(job).into_owned().into(), JOB)
}

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let jobs = env.world.jobs(env.world.focus());
    let entities = jobs.iter().map(|job| Value::from(entity(job)));
    Ok(vec![("psi.job/count", jobs.len().into()), ("psi.job/list", Value::vector(entities).into())])
}

fn of_session(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let id = inputs.text("psi.agent-session/session-id").unwrap_or_default();
    let jobs = env.world.jobs(&id.into());
    let entities = jobs.iter().map(|job| Value::from(entity(job)));
    Ok(vec![("psi.agent-session/jobs", Value::vector(entities).into())])
}

/// Searches in the query's session.
fn by_id(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let id = inputs.text("psi.job/id");
    let jobs = env.world.jobs(env.world.focus());
    let job = jobs.iter().find(|job| id == Some(&*job.id));
    Ok(job.map(|job| super::answers(entity(job), NAMES)).unwrap_or_default())
}
