//! Which model answers: one decision, from facts that were found elsewhere.
//!
//! Takes what is named, the access to each provider, the catalogue, and the model of a server of this machine, if one was
//! asked. Reads no file and no variable, and asks no server: [`choose`] is a pure function, and every door uses it.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::model_ref::ModelNames;
use super::models::Models;
use super::{embedded, scripted};

/// The names that options, variables, configuration files and `/model` have for new sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedModel {
    /// The provider.
    pub provider: Option<Arc<str>>,
    /// The model, as [`ModelNames`] reads it.
    pub model: Option<Arc<str>>,
    /// Whether the model is named apart from the provider, and above it: by an option over a configuration. It may then name
    /// another provider.
    pub is_apart: bool,
}

/// The access to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderAccess {
    /// Nothing: its key is missing.
    None,
    /// It needs no key.
    Free,
    /// A login. A newer one has a greater number.
    Login(usize),
    /// A source of keys that the configuration names, such as `:key-command`.
    Configured(&'static str),
    /// A variable of the environment, by its name.
    Variable(String),
}

/// A model server that is known.
#[derive(Debug, Clone)]
pub struct KnownProvider {
    /// Its name in the configuration.
    pub id: Arc<str>,
    /// Its name for people.
    pub name: Arc<str>,
    /// Its preferred families of models, the best first.
    pub families: Arc<[String]>,
    /// The access to it.
    pub access: ProviderAccess,
}

/// The facts of a choice.
#[derive(Debug, Clone, Copy)]
pub struct ChoiceFacts<'f> {
    /// The names.
    pub named: &'f NamedModel,
    /// The known servers, in the order of `providers.edn`; those that only the configuration names come last.
    pub providers: &'f [KnownProvider],
    /// The catalogue.
    pub models: &'f Models,
    /// The server of this machine that answered with exactly one chat model: its name, and the model's id.
    pub here: Option<&'f (Arc<str>, Arc<str>)>,
}

/// The model that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// The model's id at the provider.
    pub model: Arc<str>,
    /// Why it was chosen.
    pub source: ChoiceSource,
}

/// Why a model was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChoiceSource {
    /// It is named.
    Named,
    /// A family is named; it is the newest of its models.
    Family {
        /// The provider's name for people.
        name: Arc<str>,
        /// The family.
        family: Arc<str>,
    },
    /// Only its provider is named; it is the usual one of its models.
    Usual {
        /// The provider's name for people.
        name: Arc<str>,
    },
    /// Only the model is named; the provider has it.
    Listed {
        /// The provider's name for people.
        name: Arc<str>,
    },
    /// Nothing is named; the person is logged in at the provider.
    Login {
        /// The provider's name for people.
        name: Arc<str>,
    },
    /// Nothing is named; the provider has a key.
    Key {
        /// The provider's name for people.
        name: Arc<str>,
        /// Where the key is: a variable, or a key of the configuration.
        from: String,
        /// The variables that have keys of other providers.
        others: Vec<String>,
    },
    /// Nothing is named, and there is no key; a server of this machine answered.
    Server {
        /// The server's name for people.
        name: Arc<str>,
    },
}

impl ModelChoice {
    /// Why it was chosen, for a person: a part of a sentence. `None` if it is named.
    pub fn reason(&self) -> Option<String> {
        Some(match &self.source {
            ChoiceSource::Named => return None,
            ChoiceSource::Family { family, .. } => format!("the newest {family}"),
            ChoiceSource::Usual { .. } => "the usual model of this provider".to_owned(),
            ChoiceSource::Listed { .. } => "the provider that has this model".to_owned(),
            ChoiceSource::Login { name } => format!("a login at {name}"),
            ChoiceSource::Server { .. } => "a server on this machine with one model".to_owned(),
            ChoiceSource::Key { from, others, .. } if others.is_empty() => format!("key in {from}"),
            ChoiceSource::Key { from, others, .. } => {
                format!("key in {from}; also there: {}", others.join(", "))
            }
        })
    }

    /// The notice of a choice that was made by rule: the provider, the model, why, and how to change it.
    pub fn notice(&self) -> Option<String> {
        let (ChoiceSource::Usual { name }
        | ChoiceSource::Family { name, .. }
        | ChoiceSource::Listed { name }
        | ChoiceSource::Login { name }
        | ChoiceSource::Server { name }
        | ChoiceSource::Key { name, .. }) = &self.source
        else {
            return None;
        };
        Some(format!(
            "{name} answers with {} ({}). To change that: /model, --provider and --model, or :provider and :model in the \
             configuration.",
            self.model,
            self.reason()?
        ))
    }
}

/// Why there is no model, and what a person can do about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoModel {
    /// Keys and names that are there and are not enough, as whole sentences.
    pub why: Option<String>,
}

/// The sentences that say what [`crate::facts::MODEL_OFFERS`] names.
impl fmt::Display for NoModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("There is no model yet.")?;
        if let Some(why) = &self.why {
            write!(f, " {why}")?;
        }
        f.write_str(
            " Log in with edn-bridge login NAME or set a key such as ANTHROPIC_API_KEY; or choose a model with /model, with \
             --provider and --model, or in the configuration (edn-bridge models list shows them); ",
        )?;
        match embedded::COMPILED_IN {
            true => f.write_str(
                "or try the small demonstration model: edn-bridge models fetch, then --provider embedded.",
            ),
            false => f.write_str(
                "or use a build with the small demonstration model (--provider embedded), which this one lacks.",
            ),
        }
    }
}

/// Chooses the model of a new session: what is named; else the provider of the newest login; else the first provider with a
/// key, one that the configuration names before one in the environment; else a server of this machine. The embedded model
/// is chosen only by name.
///
/// # Errors
/// If nothing leads to a model.
pub fn choose(facts: ChoiceFacts<'_>) -> Result<ModelChoice, NoModel> {
    let named = |provider: &Arc<str>, model: Arc<str>, source| ModelChoice {
        provider: provider.clone(),
        model,
        source,
    };
    let read = facts.read_names();
    let facts = ChoiceFacts { named: &read, ..facts };
    match (&facts.named.provider, &facts.named.model) {
        (Some(provider), Some(model)) => match facts.contradiction(provider, model) {
            Some(why) => Err(NoModel { why: Some(why) }),
            None => Ok(facts.named_choice(provider, model, ChoiceSource::Named)),
        },
        (Some(provider), None) => {
            let known = facts.provider(provider);
            let families = known.map_or(&[][..], |known| &*known.families);
            Ok(match facts.models.usual(provider, families) {
                Some(model) => {
                    let is_alone =
                        facts.models.iter().filter(|model| model.provider == *provider).count() == 1;
                    let source = known.filter(|_| !is_alone).map(|known| known.name.clone());
                    let source = source.map_or(ChoiceSource::Named, |name| ChoiceSource::Usual { name });
                    named(provider, model.id.clone(), source)
                }
                // A server with one model answers for any name.
                None => named(provider, provider.clone(), ChoiceSource::Named),
            })
        }
        (None, Some(model)) => match facts.lists(model) {
            Some((provider, source)) => Ok(facts.named_choice(&provider, model, source)),
            // One that nobody lists may be new.
            None => facts.by_rule(),
        },
        (None, None) => facts.by_rule(),
    }
}

impl<'f> ChoiceFacts<'f> {
    /// The names, with the provider that the model's name has in itself.
    fn read_names(&self) -> NamedModel {
        let NamedModel { provider, model, is_apart } = self.named;
        let own = [embedded::NAME, scripted::NAME];
        let providers = self.providers.iter().map(|known| &*known.id).chain(own).collect();
        let names = ModelNames { models: self.models, providers };
        let current = provider.as_deref().unwrap_or_default();
        let Some(name) = model.as_deref().map(str::trim) else { return self.named.clone() };
        let (provider, name) = match names.split(name, current) {
            Some((other, id)) if *is_apart || provider.is_none() => (Some(other), id),
            _ => (provider.as_deref(), names.without(current, name)),
        };
        NamedModel { provider: provider.map(Arc::from), model: Some(name.into()), is_apart: false }
    }

    /// The choice of a model by its id or its family.
    fn named_choice(&self, provider: &Arc<str>, model: &Arc<str>, source: ChoiceSource) -> ModelChoice {
        let found = self.models.resolve(provider, model).map(|found| found.id.clone());
        let name = self.provider(provider).map_or(provider, |known| &known.name).clone();
        match found.filter(|id| id != model) {
            Some(id) => {
                let source = ChoiceSource::Family { name, family: model.clone() };
                ModelChoice { provider: provider.clone(), model: id, source }
            }
            None => ModelChoice { provider: provider.clone(), model: model.clone(), source },
        }
    }

    fn provider(&self, id: &str) -> Option<&'f KnownProvider> {
        self.providers.iter().find(|known| &*known.id == id)
    }

    /// The provider of a model that is named alone: one that can be asked before one that cannot.
    fn lists(&self, model: &str) -> Option<(Arc<str>, ChoiceSource)> {
        let has = |known: &&KnownProvider| self.models.resolve(&known.id, model).is_some();
        let can = |known: &&KnownProvider| known.access != ProviderAccess::None;
        let all = || self.providers.iter().filter(has);
        match all().find(can).or_else(|| all().next()) {
            Some(known) => Some((known.id.clone(), ChoiceSource::Listed { name: known.name.clone() })),
            // Its name names the provider too.
            None => {
                let own = [embedded::NAME, scripted::NAME].into_iter();
                let own = own.filter_map(|own| self.models.find(own, model)).next()?;
                Some((own.provider.clone(), ChoiceSource::Named))
            }
        }
    }

    /// Why a provider cannot be meant with a model: the embedded one would answer in the place of any other.
    fn contradiction(&self, provider: &str, model: &str) -> Option<String> {
        if provider != embedded::NAME || self.models.find(provider, model).is_some() {
            return None;
        }
        let other = self.models.iter().find(|other| &*other.id == model)?;
        Some(format!(
            "The model {model} is one of {0}, and the provider that is named is {provider}. Name {0}: --provider {0}, or \
             :provider {0:?} in the configuration.",
            other.provider
        ))
    }

    fn by_rule(&self) -> Result<ModelChoice, NoModel> {
        let named = &self.named.model;
        let usual = |known: &KnownProvider| {
            let usual = || self.models.usual(&known.id, &known.families).map(|model| model.id.clone());
            named.clone().or_else(usual)
        };
        let with =
            |known: &KnownProvider, model, source| ModelChoice { provider: known.id.clone(), model, source };
        let logged_in = self.providers.iter().filter_map(|known| match known.access {
            ProviderAccess::Login(at) => Some((at, known, usual(known)?)),
            _ => None,
        });
        if let Some((_, known, model)) = logged_in.max_by_key(|(at, ..)| *at) {
            return Ok(with(known, model, ChoiceSource::Login { name: known.name.clone() }));
        }
        let key = |known: &KnownProvider| match &known.access {
            ProviderAccess::Configured(from) => Some((0, (*from).to_owned())),
            ProviderAccess::Variable(from) => Some((1, from.clone())),
            _ => None,
        };
        let keys = self.providers.iter().filter_map(|known| Some((known, key(known)?)));
        let usable = keys.filter_map(|(known, key)| Some((known, key, usual(known)?)));
        // Of equals, the first is taken.
        if let Some((known, (_, from), model)) = usable.min_by_key(|(_, (rank, _), _)| *rank) {
            let name = known.name.clone();
            let others = self.variables().filter(|variable| *variable != from).map(str::to_owned).collect();
            return Ok(with(known, model, ChoiceSource::Key { name, from, others }));
        }
        if let Some((provider, model)) = self.here {
            let name = self.provider(provider).map_or(provider, |known| &known.name).clone();
            let source = ChoiceSource::Server { name };
            return Ok(ModelChoice { provider: provider.clone(), model: model.clone(), source });
        }
        Err(NoModel { why: self.unused() })
    }

    /// The variables with keys.
    fn variables(&self) -> impl Iterator<Item = &'f str> {
        self.providers.iter().filter_map(|known| match &known.access {
            ProviderAccess::Variable(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The keys of providers without a known model.
    fn unused(&self) -> Option<String> {
        let mut told = String::new();
        for known in self.providers {
            let what = match &known.access {
                ProviderAccess::None | ProviderAccess::Free => continue,
                ProviderAccess::Login(_) => format!("You are logged in at {}", known.name),
                ProviderAccess::Configured(from) => format!("{} has a {from}", known.name),
                ProviderAccess::Variable(name) => format!("{name} has a key of {}", known.name),
            };
            let _ = write!(
                told,
                "{}{what}, but the catalogue has no model of it: name one with --provider {} --model ID.",
                if told.is_empty() { "" } else { " " },
                known.id
            );
        }
        Some(told).filter(|told| !told.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts_of<'f>(
        named: &'f NamedModel,
        providers: &'f [KnownProvider],
        models: &'f Models,
        here: Option<&'f (Arc<str>, Arc<str>)>,
    ) -> ChoiceFacts<'f> {
        ChoiceFacts { named, providers, models, here }
    }

    fn providers(access: &[(&str, ProviderAccess)]) -> Vec<KnownProvider> {
        let known = |id: &str, name: &str, families: &[&str]| KnownProvider {
            id: id.into(),
            name: name.into(),
            families: families.iter().map(|family| (*family).to_owned()).collect(),
            access: access
                .iter()
                .find(|(of, _)| *of == id)
                .map_or(ProviderAccess::None, |(_, access)| access.clone()),
        };
        vec![
            known("anthropic", "Anthropic", &["claude-sonnet"]),
            known("openai", "OpenAI", &["gpt"]),
            known("gemini", "Gemini", &["gemini-pro"]),
            known("mistral", "Mistral", &[]),
            known("ollama", "Ollama", &[]),
        ]
    }

    /// Each row stands above those that follow: what it has wins over all that the rows below have.
    #[test]
    fn order_of_choice_is_that_of_the_table() {
        let variable = |name: &str| ProviderAccess::Variable(name.to_owned());
        let here = (Arc::from("ollama"), Arc::from("qwen3:8b"));
        let (models, _) = Models::new(&[]);
        let all = [
            ("anthropic", variable("ANTHROPIC_API_KEY")),
            ("openai", variable("OPENAI_API_KEY")),
            ("gemini", variable("GEMINI_API_KEY")),
            ("ollama", ProviderAccess::Free),
        ];
        let with = |over: &[(&'static str, ProviderAccess)]| {
            let of = |(id, access): &(&'static str, ProviderAccess)| {
                let over = over.iter().find(|(other, _)| other == id);
                (*id, over.map_or(access, |(_, access)| access).clone())
            };
            providers(&all.iter().map(of).collect::<Vec<_>>())
        };
        let name = |provider: Option<&str>, model: Option<&str>| NamedModel {
            provider: provider.map(Into::into),
            model: model.map(Into::into),
            is_apart: false,
        };
        let nothing = name(None, None);
        for (named, providers, expected, why) in [
            (name(Some("xai"), Some("grok-4")), with(&[]), "xai grok-4", None),
            (name(Some("embedded"), None), with(&[]), "embedded smollm2-135m-instruct", None),
            (name(Some("anthropic"), None), with(&[]), "anthropic claude-sonnet-5", Some("the usual model")),
            (name(None, Some("gpt-5.1")), with(&[]), "openai gpt-5.1", Some("the provider that has")),
            (name(None, Some("smollm2-135m-instruct")), with(&[]), "embedded smollm2-135m-instruct", None),
            (
                name(None, Some("mine")),
                providers(&[("mistral", variable("M"))]),
                "mistral mine",
                Some("key in M"),
            ),
            (
                name(None, Some("brand-new")),
                with(&[]),
                "anthropic brand-new",
                Some("key in ANTHROPIC_API_KEY"),
            ),
            (
                nothing.clone(),
                with(&[("openai", ProviderAccess::Login(0)), ("gemini", ProviderAccess::Login(1))]),
                "gemini gemini-2.5-pro",
                Some("a login at Gemini"),
            ),
            (
                nothing.clone(),
                with(&[("gemini", ProviderAccess::Configured(":key-command"))]),
                "gemini gemini-2.5-pro",
                Some("key in :key-command; also there: ANTHROPIC_API_KEY, OPENAI_API_KEY"),
            ),
            (
                nothing.clone(),
                with(&[]),
                "anthropic claude-sonnet-5",
                Some("key in ANTHROPIC_API_KEY; also there: OPENAI_API_KEY, GEMINI_API_KEY"),
            ),
            (
                nothing.clone(),
                with(&[("anthropic", ProviderAccess::None), ("gemini", ProviderAccess::None)]),
                "openai gpt-5.2",
                Some("key in OPENAI_API_KEY"),
            ),
            (
                nothing.clone(),
                with(&[
                    ("anthropic", ProviderAccess::None),
                    ("openai", ProviderAccess::None),
                    ("gemini", ProviderAccess::None),
                ]),
                "ollama qwen3:8b",
                Some("a server on this machine"),
            ),
        ] {
            let choice = choose(facts_of(&named, &providers, &models, Some(&here))).unwrap();
            assert_eq!(format!("{} {}", choice.provider, choice.model), expected, "{named:?}");
            let reason = choice.reason();
            assert_eq!(reason.is_some(), why.is_some(), "{named:?}: {reason:?}");
            assert!(reason.unwrap_or_default().starts_with(why.unwrap_or_default()), "{named:?}");
            let notice = choice.notice();
            assert!(notice.is_none_or(|notice| notice.contains(&*choice.model)), "{named:?}");
        }
        // Without the server of this machine, nothing is left: neither a free server nor the embedded model.
        let none = providers(&[("ollama", ProviderAccess::Free), ("mistral", variable("MISTRAL_API_KEY"))]);
        let told = choose(facts_of(&nothing, &none, &models, None)).unwrap_err().to_string();
        for part in
            ["MISTRAL_API_KEY has a key of Mistral", "edn-bridge login", "/model", "--provider embedded"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn embedded_provider_takes_no_other_ones_model() {
        let (models, _) = Models::new(&[]);
        let named =
            NamedModel { provider: Some("embedded".into()), model: Some("gpt-5".into()), is_apart: false };
        let told = choose(facts_of(&named, &[], &models, None)).unwrap_err().to_string();
        assert!(told.contains("--provider openai"), "{told}");
        let named = NamedModel { model: Some("mine".into()), ..named };
        assert_eq!(&*choose(facts_of(&named, &[], &models, None)).unwrap().model, "mine");
    }
}
