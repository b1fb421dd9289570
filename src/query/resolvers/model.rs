//! `:psi.model/*` and `:psi.provider/*`: the models of the catalogue and their providers.
//!
//! Never shows a key. The only fact about credentials is whether a provider is usable.

use std::collections::BTreeMap;

use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{answers, join, names, out, picked};
use crate::value::{Map, Value};

/// The attributes of a model, and their keys in `get_available_models`.
const MODEL: &[(&str, &str)] = &[
    ("psi.model/provider", "provider"),
    ("psi.model/id", "id"),
    ("psi.model/name", "name"),
    ("psi.model/context-window", "context-window"),
    ("psi.model/max-output", "max-output"),
    ("psi.model/reasoning", "reasoning"),
    ("psi.model/tools", "tools"),
    ("psi.model/images", "images"),
    ("psi.model/price", "price"),
    ("psi.model/usable", "usable"),
];

const NAMES: &[&str] = &names::<{ MODEL.len() }>(MODEL);

const PROVIDER: &[&str] = &["psi.provider/name", "psi.provider/usable", "psi.provider/model-count"];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.model/list", "The models of the catalogue."),
        ("psi.model/provider", "The provider's name."),
        ("psi.model/id", "The model's id at the provider."),
        ("psi.model/name", "Its display name."),
        ("psi.model/context-window", "Its window in tokens."),
        ("psi.model/max-output", "Its longest answer in tokens, or nil."),
        ("psi.model/reasoning", "Whether it can think."),
        ("psi.model/tools", "Whether it gets tools."),
        ("psi.model/images", "Whether it accepts images."),
        ("psi.model/price", "The price of a million tokens in US dollars, by kind, or nil."),
        ("psi.model/usable", "Whether its provider needs no further login."),
        ("psi.model/facts", "All facts of the catalogue about the model."),
        (
            "psi.agent-session/model-catalog",
            "The models of the catalogue, with the keys of `get_available_models`.",
        ),
        ("psi.provider/list", "The providers of the catalogue and of this process."),
        ("psi.provider/names", "The providers that need no further login."),
        ("psi.provider/name", "The provider's name."),
        ("psi.provider/usable", "Whether it needs no further login."),
        ("psi.provider/api", "Its protocol, such as :anthropic, or nil if it is not a server."),
        ("psi.provider/base-url", "Its address, or nil if it is not a server."),
        ("psi.provider/key-from", "The source of its key, such as a variable's name, or nil. Never the key."),
        ("psi.provider/model-count", "The number of its models in the catalogue."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.model/list",
            input: &[],
            output: &[join("psi.model/list", NAMES), out("psi.agent-session/model-catalog")],
            cost: Cost::Ready,
            run: Run::One(list),
        },
        Resolver {
            name: "psi.model/by-id",
            input: &[Input::Required("psi.model/provider"), Input::Required("psi.model/id")],
            output: &[
                out("psi.model/name"),
                out("psi.model/context-window"),
                out("psi.model/max-output"),
                out("psi.model/reasoning"),
                out("psi.model/tools"),
                out("psi.model/images"),
                out("psi.model/price"),
                out("psi.model/usable"),
                out("psi.model/facts"),
            ],
            cost: Cost::Ready,
            run: Run::Batch(by_id),
        },
        Resolver {
            name: "psi.provider/list",
            input: &[],
            output: &[join("psi.provider/list", PROVIDER), out("psi.provider/names")],
            cost: Cost::Ready,
            run: Run::One(providers),
        },
        Resolver {
            name: "psi.provider/facts",
            input: &[Input::Required("psi.provider/name")],
            output: &[out("psi.provider/api"), out("psi.provider/base-url"), out("psi.provider/key-from")],
            cost: Cost::Slow,
            run: Run::One(provider_facts),
        },
    ],
    mutations: &[],
};

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let models = env.world.models();
    Ok(vec![
        (
            "psi.model/list",
            Value::vector(models.iter().map(|model| Value::from(picked(model, MODEL)))).into(),
        ),
        ("psi.agent-session/model-catalog", Value::vector(models).into()),
    ])
}

/// Goes through the catalogue once for all requested models.
fn by_id(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let models = env.world.models();
    let answer = |inputs: &Inputs<'_>| {
        let is = |model: &Value<'_>, key, wanted| model.get(key).and_then(Value::as_str) == wanted;
        let (provider, id) = (inputs.text("psi.model/provider"), inputs.text("psi.model/id"));
        let found = models.iter().find(|model| is(model, "provider", provider) && is(model, "id", id));
        Ok(found
            .map(|model| {
                let mut answer = answers(picked(model, MODEL), NAMES);
                answer.push(("psi.model/facts", model.clone().into()));
                answer
            })
            .unwrap_or_default())
    };
    inputs.iter().map(answer).collect()
}

/// A provider of the catalogue that this process cannot use has no such facts.
fn provider_facts(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let facts =
        inputs.text("psi.provider/name").and_then(|name| env.world.provider(name)).unwrap_or_default();
    let fact = |key: &str| Value::from(facts.get_keyword(key).cloned());
    Ok(vec![
        ("psi.provider/api", fact("api").into()),
        ("psi.provider/base-url", fact("base-url").into()),
        ("psi.provider/key-from", fact("key-from").into()),
    ])
}

fn providers(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let usable = env.world.providers();
    let mut counts: BTreeMap<String, usize> = usable.iter().map(|name| (name.clone(), 0)).collect();
    for model in env.world.models() {
        if let Some(name) = model.get("provider").and_then(Value::as_str) {
            let count = counts.entry(name.to_owned()).or_default();
            *count = count.saturating_add(1);
        }
    }
    let entities = counts.into_iter().map(|(name, models)| {
        let mut map = Map::new();
        map.put("psi.provider/usable", usable.contains(&name));
        map.put("psi.provider/name", name);
        map.put("psi.provider/model-count", models);
        Value::from(map)
    });
    let entities = Value::vector(entities);
    Ok(vec![
        ("psi.provider/list", entities.into()),
        ("psi.provider/names", Value::vector(usable.into_iter().map(Value::from)).into()),
    ])
}
