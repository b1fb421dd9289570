//! `:psi.control/*`: who may control sessions, within which bounds, and how requests were answered. Does not know the
//! rules that these answers follow.

use crate::message::count;
use crate::projection::control::{self, Spelling};
use crate::query::graph::{Env, Inputs, Resolver, ResolverResult};
use crate::query::table::out;
use crate::query::world::ControlFacts;
use crate::value::{Map, Value};

pub(super) const PART: &[Resolver] = &[Resolver::one(
    "psi.control/facts",
    &[],
    &[
        out(
            "psi.control/teams",
            "The teams of the user's configuration: a map each, with :name, :folders and :members of :name and :may.",
        ),
        out("psi.control/limits", "The bounds of control requests, as the protocol tells its clients."),
        out("psi.control/requests", "A map of results to the number of control requests that got them."),
    ],
    facts,
)];

fn facts(env: &Env<'_>, _: &Inputs<'_>) -> ResolverResult {
    let ControlFacts { teams, limits, requests } = env.world.control();
    let texts = |texts: &[String]| Value::vector(texts.iter().cloned());
    let teams = teams.into_iter().map(|team| {
        let members = team
            .members
            .iter()
            .map(|(name, may)| Value::from(Map::new().with("name", name.clone()).with("may", texts(may))));
        let members = Value::vector(members);
        Value::from(
            Map::new().with("name", team.name).with("folders", texts(&team.folders)).with("members", members),
        )
    });
    let requests = requests.into_iter().filter(|(_, times)| *times > 0);
    let requests =
        requests.map(|(result, times)| (Value::keyword(result.as_str().replace('_', "-")), count(times)));
    Ok(vec![
        ("psi.control/teams", Value::vector(teams).into()),
        ("psi.control/limits", Value::from(control::capabilities(&limits, Spelling::Edn)).into()),
        ("psi.control/requests", Value::map(requests).into()),
    ])
}
