//! `:psi.job/*`: what runs in the background.

use crate::query::graph::{Answer, Cost, Env, Failure, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::out;
use crate::value::Value;

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.job/list", "The background jobs, each as `inspect_background_job` shows it."),
        ("psi.job/count", "How many background jobs there are."),
    ],
    resolvers: &[Resolver {
        name: "psi.job/list",
        input: &[],
        output: &[out("psi.job/list"), out("psi.job/count")],
        cost: Cost::Slow,
        run: Run::One(list),
    }],
    mutations: &[],
};

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let jobs = env.world.jobs();
    Ok(vec![("psi.job/count", jobs.len().into()), ("psi.job/list", Value::vector(jobs).into())])
}
