//! `:psi.model/*`: the models of the catalogue.

use crate::query::graph::{Answer, Cost, Env, Failure, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{join, out};
use crate::value::{Map, Value};

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.model/list", "The models of the catalogue."),
        ("psi.model/provider", "The provider's name."),
        ("psi.model/id", "The model's id at the provider."),
        ("psi.model/facts", "All that the catalogue says of the model."),
        (
            "psi.agent-session/model-catalog",
            "The models of the catalogue, as `get_available_models` lists them.",
        ),
        ("psi.provider/names", "The providers that can be asked without a further login."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.model/list",
            input: &[],
            output: &[
                join("psi.model/list", &["psi.model/provider", "psi.model/id", "psi.model/facts"]),
                out("psi.agent-session/model-catalog"),
            ],
            cost: Cost::Ready,
            run: Run::One(list),
        },
        Resolver {
            name: "psi.provider/names",
            input: &[],
            output: &[out("psi.provider/names")],
            cost: Cost::Ready,
            run: Run::One(providers),
        },
    ],
    mutations: &[],
};

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let models = env.world.models();
    let entity = |model: &Value<'static>| {
        let mut map = Map::new();
        map.put("psi.model/provider", model.get("provider").cloned());
        map.put("psi.model/id", model.get("id").cloned());
        map.put("psi.model/facts", model.clone());
        Value::from(map)
    };
    Ok(vec![
        ("psi.model/list", Value::vector(models.iter().map(entity)).into()),
        ("psi.agent-session/model-catalog", Value::vector(models).into()),
    ])
}

fn providers(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let names = env.world.providers();
    Ok(vec![("psi.provider/names", Value::vector(names.into_iter().map(Value::from)).into())])
}
