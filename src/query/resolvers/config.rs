//! `:psi.config/*`: the configuration in force.

use crate::message::count;
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{join, out};
use crate::query::world::Setting;
use crate::value::{Map, Value};

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        (
            "psi.config/revision",
            "The revision of the configuration in force: 1 at the start, one more after each /reload.",
        ),
        ("psi.config/read-at", "When the configuration was read, RFC 3339 in UTC."),
        ("psi.config/settings", "The configuration's values. Never a secret."),
        ("psi.config/key", "The value's name."),
        ("psi.config/value", "What it is."),
        (
            "psi.config/source",
            "Its source: a file, an environment variable, a command line option, or the default.",
        ),
    ],
    resolvers: &[
        Resolver {
            name: "psi.config/reading",
            input: &[],
            output: &[out("psi.config/revision"), out("psi.config/read-at")],
            cost: Cost::Ready,
            run: Run::One(reading),
        },
        Resolver {
            name: "psi.config/settings",
            input: &[],
            output: &[join(
                "psi.config/settings",
                &["psi.config/key", "psi.config/value", "psi.config/source"],
            )],
            cost: Cost::Slow,
            run: Run::One(settings),
        },
        Resolver {
            name: "psi.config/by-key",
            input: &[Input::Required("psi.config/key")],
            output: &[out("psi.config/value"), out("psi.config/source")],
            cost: Cost::Slow,
            run: Run::One(by_key),
        },
    ],
    mutations: &[],
};

fn reading(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let reading = env.world.reading();
    Ok(vec![
        ("psi.config/revision", count(reading.revision).into()),
        ("psi.config/read-at", reading.read_at.into()),
    ])
}

fn settings(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let map = |setting: Setting| {
        let mut map = Map::new();
        map.put("psi.config/key", Value::keyword(setting.key.to_string()));
        map.put("psi.config/value", setting.value);
        map.put("psi.config/source", setting.source.to_string());
        Value::from(map)
    };
    Ok(vec![("psi.config/settings", Value::vector(env.world.settings().into_iter().map(map)).into())])
}

fn by_key(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let key = inputs.value("psi.config/key").and_then(|key| key.as_keyword().or_else(|| key.as_str()));
    let setting = env.world.settings().into_iter().find(|setting| Some(&*setting.key) == key);
    Ok(setting
        .map(|setting| {
            vec![
                ("psi.config/value", setting.value.into()),
                ("psi.config/source", setting.source.to_string().into()),
            ]
        })
        .unwrap_or_default())
}
