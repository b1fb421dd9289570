//! `:psi.stage/*` and `:psi.hook/*`: the stages of a turn and the user's hooks.

use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{join, names, picked};
use crate::value::{Map, Value};

const STAGE: &[&str] = &["psi.stage/name", "psi.stage/place"];

/// The attributes of a hook, and their keys.
const HOOK: &[(&str, &str)] = &[
    ("psi.hook/id", "id"),
    ("psi.stage/name", "stage"),
    ("psi.hook/point", "point"),
    ("psi.hook/kind", "kind"),
    ("psi.hook/command", "command"),
    ("psi.hook/timeout-ms", "timeout-ms"),
    ("psi.hook/tools", "tools"),
];

const NAMES: &[&str] = &names::<{ HOOK.len() }>(HOOK);

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.stage/list", "The stages of a turn, in order."),
        ("psi.stage/name", "The stage's name."),
        ("psi.stage/place", "Its position in a turn, from 1."),
        ("psi.stage/hooks", "The hooks at that stage, in the order of the configuration."),
        (
            "psi.hook/list",
            "The hooks of the query's session, in the order of the configuration; each leads to its stage.",
        ),
        ("psi.hook/id", "The hook's name in events."),
        ("psi.hook/point", "Its point: :pre or :post."),
        ("psi.hook/kind", "Its kind: :guard, :transform or :observer."),
        ("psi.hook/command", "Its program and arguments."),
        ("psi.hook/timeout-ms", "Its time-out, in milliseconds."),
        ("psi.hook/tools", "The tools for whose calls it runs, or nil for all."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.stage/list",
            input: &[],
            output: &[join("psi.stage/list", STAGE)],
            cost: Cost::Ready,
            run: Run::One(list),
        },
        Resolver {
            name: "psi.hook/list",
            input: &[],
            output: &[join("psi.hook/list", NAMES)],
            cost: Cost::Ready,
            run: Run::One(hooks),
        },
        Resolver {
            name: "psi.stage/hooks",
            input: &[Input::Required("psi.stage/name")],
            output: &[join("psi.stage/hooks", NAMES)],
            cost: Cost::Ready,
            run: Run::One(at_stage),
        },
    ],
    mutations: &[],
};

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let stages = env.world.stages().into_iter().zip(1u32..).map(|(name, place)| {
        let mut map = Map::new();
        map.put("psi.stage/name", Value::keyword(name));
        map.put("psi.stage/place", place);
        Value::from(map)
    });
    Ok(vec![("psi.stage/list", Value::vector(stages).into())])
}

fn hooks(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let hooks = env.world.hooks();
    let hooks = hooks.iter().map(|hook| Value::from(picked(hook, HOOK)));
    Ok(vec![("psi.hook/list", Value::vector(hooks).into())])
}

fn at_stage(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let stage = inputs.value("psi.stage/name");
    let hooks = env.world.hooks();
    let here = hooks.iter().filter(|hook| hook.get("stage") == stage);
    let here = Value::vector(here.map(|hook| Value::from(picked(hook, HOOK))));
    Ok(vec![("psi.stage/hooks", here.into())])
}
