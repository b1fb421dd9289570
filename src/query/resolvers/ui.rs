//! `:psi.ui/*` and `:psi.extension/*`: what frontends show beside the conversation.
//!
//! Workflows show widgets and status texts. Nothing in the process adds slash commands of its own.

use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run, SESSION};
use crate::query::resolvers::out;
use crate::value::Value;

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.ui/statuses", "The status texts that the session shows: {:extension-id :text}."),
        ("psi.ui/widgets", "The widgets that the session shows, as `ui/widgets-updated` lists them."),
        ("psi.ui/widget-specs", "What the widgets are, as `ui/widget-specs-updated` lists them."),
        ("psi.extension/command-names", "The names of the slash commands that extensions add."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.ui/shown",
            input: &[Input::Required(SESSION)],
            output: &[out("psi.ui/statuses"), out("psi.ui/widgets"), out("psi.ui/widget-specs")],
            cost: Cost::Ready,
            run: Run::One(shown),
        },
        Resolver {
            name: "psi.ui/extensions",
            input: &[],
            output: &[out("psi.extension/command-names")],
            cost: Cost::Ready,
            run: Run::One(none),
        },
    ],
    mutations: &[],
};

fn shown(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let shown = session.shown();
    Ok(vec![
        ("psi.ui/statuses", Value::vector(shown.statuses).into()),
        ("psi.ui/widgets", Value::vector(shown.widgets).into()),
        ("psi.ui/widget-specs", Value::vector(shown.widget_specs).into()),
    ])
}

fn none(_: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let none = Value::vector(std::iter::empty::<Value<'static>>());
    Ok(vec![("psi.extension/command-names", none.into())])
}
