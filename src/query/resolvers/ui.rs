//! `:psi.ui/*` and `:psi.extension/*`: what extensions show and add.
//!
//! Nothing in the process has statuses or commands of its own yet; both lists are empty until it has.

use crate::query::graph::{Answer, Cost, Env, Failure, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::out;
use crate::value::Value;

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.ui/statuses", "The status texts that extensions show."),
        ("psi.extension/command-names", "The names of the slash commands that extensions add."),
    ],
    resolvers: &[Resolver {
        name: "psi.ui/extensions",
        input: &[],
        output: &[out("psi.ui/statuses"), out("psi.extension/command-names")],
        cost: Cost::Ready,
        run: Run::One(none),
    }],
    mutations: &[],
};

fn none(_: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let empty = || Value::vector(std::iter::empty::<Value<'static>>());
    Ok(vec![("psi.ui/statuses", empty().into()), ("psi.extension/command-names", empty().into())])
}
