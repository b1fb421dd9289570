//! `:psi.config/*`: the configuration in force. Does not read the files.

use crate::message::count;
use crate::query::graph::{Input, Resolver};
use crate::query::plan::Cost;
use crate::query::table::{join, rest, table, text};
use crate::query::world::{Reading, Setting};
use crate::value::Value;

table! {
    READING of Reading {
        "psi.config/revision" "The revision of the configuration in force: 1 at the start, one more after each /reload."
            => |reading| count(reading.revision);
        "psi.config/read-at" "When the configuration was read, RFC 3339 in UTC." => |reading| text(&reading.read_at);
    }
}

table! {
    SETTING of Setting {
        "psi.config/key" "The value's name." => |setting| Value::keyword(setting.key.to_string());
        "psi.config/value" "What it is." => |setting| setting.value.clone();
        "psi.config/source" "Its source: a file, an environment variable, a command line option, or the default."
            => |setting| text(&setting.source);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one("psi.config/reading", &[], READING.outputs, |env, _| {
        Ok(READING.answer(&env.world.reading()))
    }),
    Resolver::one(
        "psi.config/settings",
        &[],
        &[join("psi.config/settings", "The configuration's values. Never a secret.", SETTING.outputs)],
        |env, _| SETTING.list("psi.config/settings", &env.world.settings()),
    )
    .costing(Cost::Slow),
    Resolver::batch(
        "psi.config/by-key",
        &[Input::Required("psi.config/key")],
        rest(SETTING.outputs),
        |env, inputs| SETTING.lookup(inputs, &env.world.settings()),
    )
    .costing(Cost::Slow),
];
