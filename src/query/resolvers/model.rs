//! `:psi.model/*` and `:psi.provider/*`: the models of the catalogue and their providers.
//!
//! Never shows a key. The only fact about credentials is whether a provider is usable.

use std::collections::BTreeMap;

use crate::facts::{ModelFacts, ProviderFacts};
use crate::message::count;
use crate::projection;
use crate::query::graph::{Env, Input, Inputs, Resolver, ResolverOutput, ResolverResult};
use crate::query::plan::Cost;
use crate::query::table::{join, out, rest, table, text, texts};
use crate::value::Value;

table! {
    MODEL of ModelFacts {
        "psi.model/provider" "The provider's name." => |model| text(&model.provider);
        "psi.model/id" "The model's id at the provider." => |model| text(&model.id);
        "psi.model/name" "Its display name." => |model| text(&model.name);
        "psi.model/context-window" "Its window in tokens." => |model| count(model.context_window);
        "psi.model/max-output" "Its longest answer in tokens, or nil." => |model| model.max_output;
        "psi.model/reasoning" "Whether it can think." => |model| !model.thinking.is_empty();
        "psi.model/tools" "Whether it gets tools." => |model| model.tools;
        "psi.model/images" "Whether it accepts images." => |model| model.images;
        "psi.model/price" "The price of a million tokens in US dollars, by kind, or nil." => |model| model.price.map(projection::price);
        "psi.model/usable" "Whether its provider needs no further login." => |model| model.usable;
    }
}

table! {
    /// Whether a provider is usable, and the number of its models.
    PROVIDER of (String, bool, usize) {
        "psi.provider/name" "The provider's name." => |(name, ..)| text(name);
        "psi.provider/usable" "Whether it needs no further login." => |(_, usable, _)| *usable;
        "psi.provider/model-count" "The number of its models in the catalogue." => |(.., models)| *models;
    }
}

table! {
    PROVIDER_FACTS of ProviderFacts {
        "psi.provider/api" "Its protocol, such as :anthropic, or nil if it is not a server." => |facts| facts.api.map(Value::keyword);
        "psi.provider/base-url" "Its address, or nil if it is not a server." => |facts| facts.base_url.clone();
        "psi.provider/key-from" "The source of its key, such as a variable's name, or nil. Never the key." => |facts| facts.key_from.clone();
    }
}

const FACTS: &str = "psi.model/facts";

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.model/list",
        &[],
        &[
            join("psi.model/list", "The models of the catalogue.", MODEL.outputs),
            out(
                "psi.agent-session/model-catalog",
                "The models of the catalogue, with the keys of `get_available_models`.",
            ),
        ],
        |env, _| {
            let models = env.world.models();
            let shown = Value::vector(models.iter().map(shown));
            Ok(vec![
                ("psi.model/list", MODEL.entities(&models).into()),
                ("psi.agent-session/model-catalog", shown.into()),
            ])
        },
    ),
    Resolver::batch("psi.model/by-id", IDS, rest(rest(MODEL.outputs)), |env, inputs| {
        by_id(env, inputs, |model| MODEL.answer(model))
    }),
    Resolver::batch(
        "psi.model/facts",
        IDS,
        &[out(FACTS, "All facts of the catalogue about the model.")],
        |env, inputs| by_id(env, inputs, |model| vec![(FACTS, shown(model).into())]),
    ),
    Resolver::one(
        "psi.provider/list",
        &[],
        &[
            join(
                "psi.provider/list",
                "The providers of the catalogue and of this process.",
                PROVIDER.outputs,
            ),
            out("psi.provider/names", "The providers that need no further login."),
        ],
        providers,
    ),
    // A provider of the catalogue that this process cannot use has no such facts.
    Resolver::one(
        "psi.provider/facts",
        &[Input::Required("psi.provider/name")],
        PROVIDER_FACTS.outputs,
        |env, inputs| {
            let facts = inputs.text("psi.provider/name").and_then(|name| env.world.provider(name));
            Ok(PROVIDER_FACTS.answer(&facts.unwrap_or_default()))
        },
    )
    .costing(Cost::Slow),
];

const IDS: &[Input] = &[Input::Required("psi.model/provider"), Input::Required("psi.model/id")];

fn shown(model: &ModelFacts) -> Value<'static> {
    projection::model(model).into_owned().into()
}

/// Goes through the catalogue once for all requested models.
fn by_id(
    env: &Env<'_>,
    inputs: &[Inputs<'_>],
    answer: fn(&ModelFacts) -> ResolverOutput,
) -> Vec<ResolverResult> {
    let models = env.world.models();
    let find = |inputs: &Inputs<'_>| {
        let (provider, id) = (inputs.text("psi.model/provider")?, inputs.text("psi.model/id")?);
        models.iter().find(|model| &*model.provider == provider && &*model.id == id)
    };
    inputs.iter().map(|inputs| Ok(find(inputs).map(answer).unwrap_or_default())).collect()
}

fn providers(env: &Env<'_>, _: &Inputs<'_>) -> ResolverResult {
    let usable = env.world.providers();
    let mut counts: BTreeMap<String, usize> = usable.iter().map(|name| (name.clone(), 0)).collect();
    for model in env.world.models() {
        let count = counts.entry(model.provider.to_string()).or_default();
        *count = count.saturating_add(1);
    }
    let all: Vec<_> =
        counts.into_iter().map(|(name, models)| (name.clone(), usable.contains(&name), models)).collect();
    Ok(vec![
        ("psi.provider/list", PROVIDER.entities(&all).into()),
        ("psi.provider/names", texts(usable).into()),
    ])
}
