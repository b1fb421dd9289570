//! `:psi.stage/*` and `:psi.hook/*`: the stages of a turn and the user's hooks. Runs no hook.

use crate::hook::{Hook, Stage};
use crate::query::graph::{Input, Resolver};
use crate::query::table::{join, table, text, texts};
use crate::value::Value;

table! {
    STAGE of (Stage, u32) {
        "psi.stage/name" "The stage's name." => |(stage, _)| Value::keyword(stage.as_str());
        "psi.stage/place" "Its position in a turn, from 1." => |(_, place)| *place;
    }
}

table! {
    HOOK of Hook {
        "psi.hook/id" "The hook's name in events." => |hook| text(&hook.id);
        "psi.stage/name" => |hook| Value::keyword(hook.stage.as_str());
        "psi.hook/point" "Its point: :pre or :post." => |hook| Value::keyword(hook.point.as_str());
        "psi.hook/kind" "Its kind: :guard, :transform or :observer." => |hook| Value::keyword(hook.kind.as_str());
        "psi.hook/command" "Its program and arguments." => |hook| texts(&hook.command);
        "psi.hook/timeout-ms" "Its time-out, in milliseconds." => |hook| u64::try_from(hook.timeout.as_millis()).ok();
        "psi.hook/tools" "The tools for whose calls it runs, or nil for all." => |hook| hook.tools.as_ref().map(texts);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.stage/list",
        &[],
        &[join("psi.stage/list", "The stages of a turn, in order.", STAGE.outputs)],
        |_, _| STAGE.list("psi.stage/list", &Stage::ALL.into_iter().zip(1u32..).collect::<Vec<_>>()),
    ),
    Resolver::one(
        "psi.hook/list",
        &[],
        &[join(
            "psi.hook/list",
            "The hooks of the query's session, in the order of the configuration; each leads to its stage.",
            HOOK.outputs,
        )],
        |env, _| HOOK.list("psi.hook/list", &env.world.hooks()),
    ),
    Resolver::one(
        "psi.stage/hooks",
        &[Input::Required("psi.stage/name")],
        &[join(
            "psi.stage/hooks",
            "The hooks at that stage, in the order of the configuration.",
            HOOK.outputs,
        )],
        |env, inputs| {
            let stage = inputs.value("psi.stage/name").and_then(Value::as_keyword);
            let hooks = env.world.hooks();
            HOOK.list("psi.stage/hooks", hooks.iter().filter(|hook| Some(hook.stage.as_str()) == stage))
        },
    ),
];
