//! `:psi.job/*`: the background jobs. Starts and ends none.

use crate::facts::JobFacts;
use crate::message::TurnId;
use crate::query::graph::{Input, Resolver};
use crate::query::plan::Cost;
use crate::query::table::{join, out, rest, table, text};

table! {
    JOB of JobFacts {
        "psi.job/id" "The job's id, for `cancel_background_job` and the mutation psi.job/cancel." => |job| text(&job.id);
        "psi.job/kind" "What kind of job it is, such as bash." => |_| "bash";
        "psi.job/command" "Its command." => |job| text(&job.command);
        "psi.job/status" "running, completed, failed or cancelled." => |job| job.status.as_str();
        "psi.job/started-at" "When it was started, RFC 3339 in UTC." => |job| text(&job.started_at);
        "psi.job/ended-at" "When it ended, RFC 3339 in UTC, or nil." => |job| job.ended_at.as_deref().map(text);
        "psi.job/exit-code" "Its exit status, or nil." => |job| job.exit_code;
        "psi.turn/id" => |job| job.turn.as_ref().map(TurnId::to_value);
        "psi.job/output" "The end of its output." => |job| text(&job.output);
        "psi.job/handle" "The handle of its whole output for `read_output`, or nil." => |job| job.handle.as_deref().map(text);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.job/list",
        &[],
        &[
            join("psi.job/list", "The background jobs of the query's session, newest first.", JOB.outputs),
            out("psi.job/count", "The number of background jobs of the query's session."),
        ],
        |env, _| {
            let jobs = env.world.jobs(env.world.focus());
            let entities = JOB.entities(jobs.iter().map(|job| &**job));
            Ok(vec![("psi.job/count", jobs.len().into()), ("psi.job/list", entities.into())])
        },
    )
    .costing(Cost::Slow),
    Resolver::one(
        "psi.agent-session/jobs",
        &[Input::Required("psi.agent-session/session-id")],
        &[join(
            "psi.agent-session/jobs",
            "The session's background jobs, newest first; each leads to its turn.",
            JOB.outputs,
        )],
        |env, inputs| {
            let id = inputs.text("psi.agent-session/session-id").unwrap_or_default();
            JOB.list("psi.agent-session/jobs", env.world.jobs(&id.into()).iter().map(|job| &**job))
        },
    )
    .costing(Cost::Slow),
    // Searches in the query's session.
    Resolver::batch("psi.job/by-id", &[Input::Required("psi.job/id")], rest(JOB.outputs), |env, inputs| {
        JOB.lookup(inputs, env.world.jobs(env.world.focus()).iter().map(|job| &**job))
    })
    .costing(Cost::Slow),
];
