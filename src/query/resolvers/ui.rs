//! `:psi.ui/*` and `:psi.extension/*`: the content of frontends apart from the conversation.
//!
//! Workflows show widgets and status texts. Files extend a session: prompt templates and skills are slash
//! commands in addition to the program's own.

use crate::projection;
use crate::query::graph::Resolver;
use crate::query::plan::Cost;
use crate::query::table::{out, table, texts};
use crate::query::world::Shown;

table! {
    SHOWN of Shown {
        "psi.ui/statuses" "The session's status texts: {:extension-id :text}."
            => |shown| projection::statuses(&shown.statuses).into_owned();
        "psi.ui/widgets" "The session's widgets, with the keys of `ui/widgets-updated`."
            => |shown| projection::widgets(&shown.widgets).into_owned();
        "psi.ui/widget-specs" "The definitions of the widgets, with the keys of `ui/widget-specs-updated`."
            => |shown| projection::widget_specs(&shown.widget_specs).into_owned();
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::session("psi.ui/shown", SHOWN.outputs, |_, session| Ok(SHOWN.answer(&session.shown()))),
    Resolver::session(
        "psi.ui/extensions",
        &[out(
            "psi.extension/command-names",
            "The names, without the slash, of the additional slash commands: the prompt templates and skills of the project and the user.",
        )],
        |_, session| Ok(vec![("psi.extension/command-names", texts(session.added_commands()).into())]),
    )
    .costing(Cost::Slow),
];
