//! The providers of models that this process knows: the embedded model, the servers of the configuration, and
//! others that the program adds; and the facts from which the model of new sessions is chosen. Asks none of them, except
//! for the servers of this machine when nothing else leads to a model.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future;

use crate::auth::{Credentials, KeyPlace, Keys, Logins};
use crate::clock::Clock;
use crate::config::Settings;
use crate::environment::Variables;
use crate::files::Seal;
use crate::http::{self, Http};
use crate::limits::LOCAL_SERVER_WAIT;
use crate::provider::Provider;
use crate::provider::choice::{
    self, ChoiceFacts, KnownProvider, ModelChoice, NamedModel, NoModel, ProviderAccess,
};
use crate::provider::embedded::{Embedded, ModelFile};
use crate::provider::hosted::{Hosted, spec};
use crate::provider::model_ref::ModelNames;
use crate::provider::models::Models;
use crate::similar;
use crate::value::Value;

/// The providers that this process knows.
#[derive(Clone, Default)]
pub struct Providers {
    /// The model inside the process.
    embedded: Option<Arc<dyn Provider>>,
    servers: Vec<Arc<dyn Provider>>,
    /// The same servers, for a choice among them.
    known: Vec<KnownServer>,
    /// Those that no configuration names.
    added: Vec<Arc<dyn Provider>>,
    /// What the configuration said of the servers.
    configured: Vec<(String, Value<'static>)>,
    /// How it found the files of their commands.
    sealed: Vec<(String, Seal)>,
    /// What of that cannot be used, or tells secrets, for a person: the provider's name, and a sentence with its place.
    problems: Vec<(String, String)>,
    /// The environment variables that hold their keys.
    key_variables: Vec<String>,
    logins: Option<Arc<Logins>>,
    credentials: Option<Credentials>,
    http: Arc<Http>,
}

/// The facts of a server that a choice needs.
#[derive(Clone)]
struct KnownServer {
    id: Arc<str>,
    name: Arc<str>,
    families: Arc<[String]>,
    /// Whether it is on this machine.
    is_here: bool,
    keys: Keys,
}

impl Providers {
    /// The embedded model, and every server that the program or the configuration knows. Nothing is asked
    /// and no key is looked for yet.
    pub fn new(settings: &Settings, clock: &Arc<dyn Clock>) -> Self {
        let file = ModelFile::choose(settings.model_file.clone(), &settings.state_dir);
        let mut providers = Self { embedded: Some(Arc::new(Embedded::new(file))), ..Self::default() };
        providers.serve(settings, clock);
        providers
    }

    /// The same with the servers that a newer reading of the configuration names. Where it says nothing new
    /// of them they stay as they are, with the keys that they asked for and the logins that were begun.
    #[must_use]
    pub(super) fn again(&self, settings: &Settings, clock: &Arc<dyn Clock>) -> Self {
        let mut again = self.clone();
        if self.configured != settings.providers || self.sealed != settings.provider_seals {
            again.serve(settings, clock);
        }
        again
    }

    /// Takes the servers that are known, and those of the configuration.
    fn serve(&mut self, settings: &Settings, clock: &Arc<dyn Clock>) {
        let (mut specs, problems) = spec::all(&settings.providers);
        for spec in &mut specs {
            spec.key.read_from(&settings.environment);
            let seal = settings.provider_seals.iter().rev().find(|(name, _)| **name == *spec.id);
            spec.key.sealed_by(seal.map_or(&Seal::default(), |(_, seal)| seal));
        }
        let (credentials, http) = (Credentials::new(&settings.state_dir), &self.http);
        let sources = specs.iter().map(|spec| (spec.id.clone(), spec.name.clone(), spec.key.clone()));
        let logins = Logins::new(sources.collect(), credentials.clone(), http.clone(), clock.clone());
        self.logins = Some(Arc::new(logins));
        self.key_variables = specs.iter().flat_map(|spec| spec.key.variables.iter().cloned()).collect();
        self.servers.clear();
        self.known.clear();
        for spec in specs {
            let (id, name, source) = (spec.id.clone(), spec.name.clone(), spec.key.clone());
            let (kept, through) = (credentials.clone(), http.clone());
            let keys = Keys::new(id.clone(), name.clone(), source, kept, through, clock.clone());
            let (families, is_here) = (spec.families.clone(), http::is_loopback(&spec.base));
            self.known.push(KnownServer { id, name, families, is_here, keys: keys.clone() });
            self.servers.push(Arc::new(Hosted::new(spec, keys, http.clone(), clock.clone())));
        }
        self.credentials = Some(credentials);
        self.configured.clone_from(&settings.providers);
        self.sealed.clone_from(&settings.provider_seals);
        let told = problems.into_iter().map(|problem| {
            let section = [Value::keyword("providers"), Value::from(problem.provider.clone())];
            let place = problem.key.iter().find_map(|key| {
                let keys: Vec<_> = section.iter().chain([key]).cloned().collect();
                settings.files.place(&keys)
            });
            let place = place.or_else(|| settings.files.place(&section));
            let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
            let told = format!("{place}{problem}");
            (problem.provider, told)
        });
        self.problems = told.collect();
    }

    /// Adds one that no configuration names.
    pub fn add(&mut self, provider: Arc<dyn Provider>) {
        self.added.push(provider);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.embedded.iter().chain(&self.servers).chain(&self.added)
    }

    /// The addresses of the servers, by the names of their providers.
    pub fn addresses(&self) -> HashMap<String, String> {
        let address =
            |provider: &Arc<dyn Provider>| Some((provider.name().to_owned(), provider.facts().base_url?));
        self.all().filter_map(address).collect()
    }

    /// The provider of that name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.all().find(|provider| provider.name() == name).cloned()
    }

    /// The environment variables that hold their keys: commands do not inherit them.
    pub fn key_variables(&self) -> Vec<String> {
        self.key_variables.clone()
    }

    /// What of the configuration cannot be used or tells secrets, for a person; each with its place if it is known.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().map(|(_, told)| told.as_str())
    }

    /// Why there is no provider of that name, for a person, and what to do about it.
    pub fn why_none(&self, name: &str) -> String {
        if let Some((_, told)) = self.problems.iter().find(|(provider, _)| provider == name) {
            return format!("There is no provider {name:?}: {told}");
        }
        match similar::names(name, self.all().map(|provider| provider.name())).first() {
            Some(near) => format!("There is no provider {name:?}. Did you mean {near:?}?"),
            None => format!(
                "There is no provider {name:?}. Choose one with --provider, in the configuration, or with /model."
            ),
        }
    }

    /// The model of new sessions, for whoever has variables of their own. Asks no server.
    ///
    /// # Errors
    /// If nothing leads to a model.
    pub fn choice(
        &self,
        named: &NamedModel,
        models: &Models,
        own: Option<&Variables>,
    ) -> Result<ModelChoice, NoModel> {
        self.choice_with(named, models, own, None)
    }

    /// The same. If nothing is named and there is no key, asks the servers of this machine that need none which models they
    /// have, for a moment.
    ///
    /// # Errors
    /// If nothing leads to a model.
    pub async fn find_choice(
        &self,
        named: &NamedModel,
        models: &Models,
        own: Option<&Variables>,
    ) -> Result<ModelChoice, NoModel> {
        let chosen = self.choice(named, models, own);
        if chosen.is_ok() || named.provider.is_some() {
            return chosen;
        }
        let here = self.known.iter().filter(|known| known.is_here).filter(|known| {
            let place = known.keys.place(own.cloned(), || false);
            place == KeyPlace::NotNeeded
        });
        let asked = here.filter_map(|known| {
            let listed = self.get(&known.id)?.listed();
            Some(async {
                let listed = tokio::time::timeout(LOCAL_SERVER_WAIT, listed).await.ok()?;
                let mut models = listed.ok()??;
                models.retain(|id| is_for_chat(id));
                Some((known.id.clone(), Arc::from(<[String; 1]>::try_from(models).ok()?.concat())))
            })
        });
        let answered = future::join_all(asked).await.into_iter().flatten().next();
        self.choice_with(named, models, own, answered.as_ref())
    }

    fn choice_with(
        &self,
        named: &NamedModel,
        models: &Models,
        own: Option<&Variables>,
        here: Option<&(Arc<str>, Arc<str>)>,
    ) -> Result<ModelChoice, NoModel> {
        // A model that is named in full needs no key to be chosen.
        let is_named = named.provider.is_some() && named.model.is_some();
        let logins = self.credentials.as_ref().filter(|_| !is_named);
        let logins = logins.map(Credentials::providers).unwrap_or_default();
        let known = self.known.iter().map(|known| {
            let login = logins.iter().position(|provider| **provider == *known.id);
            KnownProvider {
                id: known.id.clone(),
                name: known.name.clone(),
                families: known.families.clone(),
                access: match known.keys.place(own.cloned(), || login.is_some()) {
                    _ if is_named => ProviderAccess::None,
                    KeyPlace::None => ProviderAccess::None,
                    KeyPlace::NotNeeded => ProviderAccess::Free,
                    KeyPlace::Configured(key) => ProviderAccess::Configured(key),
                    KeyPlace::Login => ProviderAccess::Login(login.unwrap_or_default()),
                    KeyPlace::Variable(name) => ProviderAccess::Variable(name),
                },
            }
        });
        let providers: Vec<KnownProvider> = known.collect();
        choice::choose(ChoiceFacts { named, providers: &providers, models, here })
    }

    /// The providers and models that names are read against: a provider that can be asked comes before one that cannot.
    pub fn model_names<'n>(&'n self, models: &'n Models) -> ModelNames<'n> {
        let mut providers: Vec<(bool, &str)> =
            self.all().map(|provider| (!provider.is_ready(), provider.name())).collect();
        providers.sort_by_key(|(is_unready, _)| *is_unready);
        ModelNames { models, providers: providers.into_iter().map(|(_, name)| name).collect() }
    }

    /// The logins of the servers.
    pub(super) fn logins(&self) -> Option<Arc<Logins>> {
        self.logins.clone()
    }

    /// The key of a server of models.
    pub(super) fn keys_of(&self, name: &str) -> Option<Keys> {
        self.known.iter().find(|known| *known.id == *name).map(|known| known.keys.clone())
    }

    /// Requests over HTTP, for others that ask servers.
    pub(super) fn http(&self) -> Arc<Http> {
        self.http.clone()
    }

    /// The names of those that can be asked as things stand.
    pub fn ready(&self) -> Vec<&str> {
        self.all().filter(|provider| provider.is_ready()).map(|provider| provider.name()).collect()
    }
}

/// Whether a model of a server's list can be talked to, by its name: servers list models for other uses too.
fn is_for_chat(id: &str) -> bool {
    let id = id.to_lowercase();
    !["embed", "rerank", "whisper", "tts", "bge-", "minilm"].iter().any(|other| id.contains(other))
}
