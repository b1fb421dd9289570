//! The most tokens that servers have said they take, kept in a file of the state folder: a server's limit outlives the
//! program. Knows no server.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::edn;
use crate::limits::{LEARNED_LIMITS, LEARNED_LIMITS_BYTES};
use crate::private;
use crate::value::{Map, Value};

/// The limit of a model at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    provider: String,
    address: String,
    model: String,
    tokens: u64,
}

/// The limits that servers have told. Without a file they last as long as the value.
#[derive(Debug, Default)]
pub struct LearnedLimits {
    path: Option<PathBuf>,
    /// The newest last.
    limits: Mutex<Vec<Limit>>,
}

impl LearnedLimits {
    /// Those of a file. A file that is missing or cannot be read has none.
    pub fn open(path: PathBuf) -> Self {
        let limits = Mutex::new(read(&path));
        Self { path: Some(path), limits }
    }

    /// Keeps the limit of a model, and writes the file. A file that cannot be written is logged: the limit counts until the
    /// program ends.
    pub fn learn(&self, provider: &str, address: &str, model: &str, tokens: u64) {
        let new = Limit { provider: provider.into(), address: address.into(), model: model.into(), tokens };
        let mut limits = self.lock();
        // Another process may have learned more.
        if let Some(path) = &self.path {
            *limits = read(path);
        }
        limits.retain(|known| !known.is_of(provider, address, model));
        limits.push(new);
        let over = limits.len().saturating_sub(LEARNED_LIMITS);
        limits.drain(..over);
        let Some(path) = &self.path else { return };
        let text = Value::vector(limits.iter().map(Limit::to_value)).to_string();
        if let Err(error) = private::replace_soon(path, text.as_bytes()) {
            tracing::warn!(%error, path = %path.display(), "the limits of servers could not be kept");
        }
    }

    /// The limit of a model.
    pub fn find(&self, provider: &str, address: &str, model: &str) -> Option<u64> {
        self.lock().iter().find(|known| known.is_of(provider, address, model)).map(|known| known.tokens)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Limit>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limit {
    fn is_of(&self, provider: &str, address: &str, model: &str) -> bool {
        (&*self.provider, &*self.address, &*self.model) == (provider, address, model)
    }

    /// `{:provider p :address a :model-id m :max-input n :source :server}`.
    fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        map.put("provider", self.provider.clone());
        map.put("address", self.address.clone());
        map.put("model-id", self.model.clone());
        map.put("max-input", Value::int(i64::try_from(self.tokens).unwrap_or(i64::MAX)));
        map.put("source", Value::keyword("server"));
        Value::from(map)
    }

    fn from_value(value: &Value<'_>) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            provider: text("provider")?,
            address: text("address")?,
            model: text("model-id")?,
            tokens: value.get("max-input")?.as_i64()?.try_into().ok()?,
        })
    }
}

fn read(path: &Path) -> Vec<Limit> {
    let mut bytes = Vec::new();
    let read =
        private::open_to_read(path).and_then(|file| file.take(LEARNED_LIMITS_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    let Ok(table) = edn::read_one(&bytes) else { return Vec::new() };
    let rows = table.as_slice().unwrap_or_default().iter();
    rows.filter_map(Limit::from_value).take(LEARNED_LIMITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept_by_address_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("limits.edn");
        let limits = LearnedLimits::open(path.clone());
        limits.learn("p", "http://a", "m", 15_000);
        // Another process.
        let other = LearnedLimits::open(path.clone());
        other.learn("p", "http://b", "m", 9000);
        limits.learn("p", "http://a", "m", 12_000);
        let again = LearnedLimits::open(path.clone());
        assert_eq!(again.find("p", "http://a", "m"), Some(12_000));
        assert_eq!(again.find("p", "http://b", "m"), Some(9000));
        assert_eq!(again.find("p", "http://c", "m"), None);
        for n in 0..=LEARNED_LIMITS {
            again.learn("q", "http://a", &n.to_string(), 5000);
        }
        assert_eq!(again.lock().len(), LEARNED_LIMITS);
        assert_eq!(again.find("p", "http://b", "m"), None, "the oldest are dropped");
        std::fs::write(&path, "no table").unwrap();
        assert_eq!(LearnedLimits::open(path).find("q", "http://a", "9"), None);
    }
}
