//! `:psi.ui/*` and `:psi.extension/*`: the content of frontends apart from the conversation.
//!
//! Workflows show widgets and status texts. Files extend a session: prompt templates and skills are slash
//! commands in addition to the program's own.

use crate::projection;
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run, SESSION};
use crate::query::resolvers::out;
use crate::value::Value;

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.ui/statuses", "The session's status texts: {:extension-id :text}."),
        ("psi.ui/widgets", "The session's widgets, with the keys of `ui/widgets-updated`."),
        (
            "psi.ui/widget-specs",
            "The definitions of the widgets, with the keys of `ui/widget-specs-updated`.",
        ),
        (
            "psi.extension/command-names",
            "The names, without the slash, of the additional slash commands: the prompt templates and skills of the project and the user.",
        ),
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
            input: &[Input::Required(SESSION)],
            output: &[out("psi.extension/command-names")],
            cost: Cost::Slow,
            run: Run::One(added_commands),
        },
    ],
    mutations: &[],
};

fn shown(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let shown = session.shown();
    Ok(vec![
        ("psi.ui/statuses", projection::statuses(&shown.statuses).into_owned().into()),
        ("psi.ui/widgets", projection::widgets(&shown.widgets).into_owned().into()),
        ("psi.ui/widget-specs", projection::widget_specs(&shown.widget_specs).into_owned().into()),
    ])
}

fn added_commands(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let names = Value::vector(session.added_commands().into_iter().map(Value::from));
    Ok(vec![("psi.extension/command-names", names.into())])
}
