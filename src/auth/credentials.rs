//! The credentials file: keys and tokens of logins, readable only by the user.
//!
//! A map by provider name. It is written to a new file and renamed, under a lock that other processes respect
//! too. Knows files; does not know the purpose of the secrets.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, Mode, fchmod, flock};

use crate::edn;
use crate::limits::CREDENTIALS_BYTES;
use crate::private;
use crate::secret::Secret;
use crate::value::{Map, Value};

/// The credentials file of a state folder.
#[derive(Debug, Clone)]
pub struct Credentials {
    path: PathBuf,
}

/// The entry of a provider.
#[derive(Debug, Clone)]
pub enum ProviderEntry {
    /// A pasted key.
    Key(Secret),
    /// The tokens of a login.
    Tokens(Tokens),
}

/// The tokens of a login.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// The token for the server.
    pub access: Secret,
    /// The token for renewal.
    pub refresh: Option<Secret>,
    /// Its expiry, if known.
    pub ends: Option<Timestamp>,
}

impl Tokens {
    /// Whether it expires within `time`.
    pub fn ends_within(&self, now: Timestamp, time: Duration) -> bool {
        let Ok(then) = now.checked_add(time) else { return true };
        self.ends.is_some_and(|ends| ends <= then)
    }
}

/// Why the file is unusable.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// It cannot be read or written.
    #[error("the credentials in {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Its content is invalid. The error does not reveal the content.
    #[error("the credentials in {} are damaged: remove the file and log in again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// Permission to change the file.
#[derive(Debug)]
pub struct CredentialsLock(#[expect(dead_code, reason = "held open: closing it gives the lock back")] File);

type Result<T> = std::result::Result<T, CredentialsError>;

impl Credentials {
    /// The credentials of a state folder. Touches nothing yet.
    pub fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join("credentials.edn") }
    }

    /// Whether a provider has an entry.
    pub fn has(&self, provider: &str) -> bool {
        self.get(provider).is_ok_and(|kept| kept.is_some())
    }

    /// The providers that have an entry; that of the newest login is the last one. None, if the file is unusable.
    pub fn providers(&self) -> Vec<String> {
        let all = self.read().unwrap_or_default();
        all.iter().filter_map(|(name, _)| name.as_str().map(str::to_owned)).collect()
    }

    /// The entry of a provider.
    ///
    /// # Errors
    /// See [`CredentialsError`]. A missing file has no entries.
    pub fn get(&self, provider: &str) -> Result<Option<ProviderEntry>> {
        let all = self.read()?;
        let Some(entry) =
            all.iter().find_map(|(name, kept)| (name.as_str() == Some(provider)).then_some(kept))
        else {
            return Ok(None);
        };
        let secret =
            |key: &str| entry.get(key).and_then(Value::as_str).map(|text| Secret::new(text.to_owned()));
        if let Some(key) = secret("key") {
            return Ok(Some(ProviderEntry::Key(key)));
        }
        let access = secret("access").ok_or_else(|| CredentialsError::Damaged { path: self.path.clone() })?;
        let ends = entry.get("ends").and_then(Value::as_str).and_then(|ends| ends.parse().ok());
        Ok(Some(ProviderEntry::Tokens(Tokens { access, refresh: secret("refresh"), ends })))
    }

    /// Stores the entry of a provider, which is that of the newest login then.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub fn put(&self, provider: &str, kept: ProviderEntry) -> Result<()> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        all.remove(&Value::from(provider));
        all.insert(provider.to_owned(), entry(kept));
        self.write(&all)
    }

    /// Replaces an entry of a login that goes on, with a lock that the caller holds. Its place in the order stays.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub fn put_locked(&self, _: &CredentialsLock, provider: &str, kept: ProviderEntry) -> Result<()> {
        let mut all = self.read()?;
        all.insert(provider.to_owned(), entry(kept));
        self.write(&all)
    }

    /// Removes a provider's entry; returns whether it existed.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub fn forget(&self, provider: &str) -> Result<bool> {
        if !self.has(provider) {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let was_there = all.remove(&Value::from(provider)).is_some();
        self.write(&all)?;
        Ok(was_there)
    }

    /// Waits for the lock on the file. Blocks its thread.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub fn lock(&self) -> Result<CredentialsLock> {
        let file = self.open(&self.path.with_extension("lock")).map_err(|source| self.io(source))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| self.io(error.into()))?;
        Ok(CredentialsLock(file))
    }

    fn read(&self) -> Result<Map<'static>> {
        let file = match private::open_to_read(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
            Err(source) => return Err(self.io(source)),
        };
        // A backup or a copy may have made it readable for others.
        if file.metadata().is_ok_and(|found| found.mode() & 0o077 != 0)
            && let Err(error) = fchmod(&file, Mode::RUSR | Mode::WUSR)
        {
            tracing::warn!(%error, "others can read the credentials");
        }
        let mut bytes = Vec::new();
        file.take(CREDENTIALS_BYTES).read_to_end(&mut bytes).map_err(|source| self.io(source))?;
        match edn::read_one(&bytes).map(Value::into_owned) {
            Ok(Value::Map(all)) => Ok(all),
            _ => Err(CredentialsError::Damaged { path: self.path.clone() }),
        }
    }

    fn write(&self, all: &Map<'static>) -> Result<()> {
        let mut text = Vec::new();
        edn::write_pretty(&Value::from(all.clone()), 100, &mut text);
        private::replace(&self.path, &text).map_err(|source| self.io(source))
    }

    /// Opens a file that only the user can read, and creates it if necessary.
    fn open(&self, path: &Path) -> io::Result<File> {
        if let Some(folder) = path.parent() {
            private::make_folder(folder)?;
        }
        private::open(path)
    }

    fn io(&self, source: io::Error) -> CredentialsError {
        CredentialsError::Io { path: self.path.clone(), source }
    }
}

/// An entry as it is written.
fn entry(kept: ProviderEntry) -> Map<'static> {
    let mut entry = Map::new();
    match kept {
        ProviderEntry::Key(key) => {
            entry.put("key", key.expose().to_owned());
        }
        ProviderEntry::Tokens(tokens) => {
            entry.put("access", tokens.access.expose().to_owned());
            entry.put_some("refresh", tokens.refresh.map(|refresh| refresh.expose().to_owned()));
            entry.put_some("ends", tokens.ends.map(|ends| ends.to_string()));
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn key(kept: Option<ProviderEntry>) -> String {
        match kept {
            Some(ProviderEntry::Key(key)) => key.expose().to_owned(),
            Some(ProviderEntry::Tokens(tokens)) => {
                let refresh = tokens.refresh.map(|refresh| refresh.expose().to_owned());
                format!(
                    "{} {refresh:?} {:?}",
                    tokens.access.expose(),
                    tokens.ends.map(|ends| ends.to_string())
                )
            }
            None => String::new(),
        }
    }

    #[test]
    fn what_is_kept_is_the_users_alone() {
        let state = tempfile::tempdir().unwrap();
        let credentials = Credentials::new(&state.path().join("deep"));
        assert!(!credentials.has("a"));
        assert!(!credentials.forget("a").unwrap());
        credentials.put("a", ProviderEntry::Key(Secret::new("sk-1".into()))).unwrap();
        let ends = "2026-01-02T03:04:05Z".parse().unwrap();
        let tokens = Tokens {
            access: Secret::new("at".into()),
            refresh: Some(Secret::new("rt".into())),
            ends: Some(ends),
        };
        assert!(tokens.ends_within("2026-01-02T03:03:30Z".parse().unwrap(), Duration::from_secs(60)));
        assert!(!tokens.ends_within("2026-01-02T03:03:00Z".parse().unwrap(), Duration::from_secs(60)));
        credentials.put("b", ProviderEntry::Tokens(tokens.clone())).unwrap();
        assert_eq!(credentials.providers(), ["a", "b"], "the newest login is the last one");
        credentials.put("a", ProviderEntry::Key(Secret::new("sk-1".into()))).unwrap();
        assert_eq!(credentials.providers(), ["b", "a"]);
        // A login that is renewed is not a new one.
        let lock = credentials.lock().unwrap();
        credentials.put_locked(&lock, "b", ProviderEntry::Tokens(tokens)).unwrap();
        assert_eq!(credentials.providers(), ["b", "a"]);
        drop(lock);
        assert_eq!(key(credentials.get("a").unwrap()), "sk-1");
        assert_eq!(key(credentials.get("b").unwrap()), r#"at Some("rt") Some("2026-01-02T03:04:05Z")"#);
        for file in std::fs::read_dir(state.path().join("deep")).unwrap() {
            let file = file.unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
        }
        std::fs::set_permissions(&credentials.path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(credentials.has("a"));
        assert_eq!(std::fs::metadata(&credentials.path).unwrap().mode() & 0o777, 0o600);
        assert!(credentials.forget("a").unwrap());
        assert!(!credentials.has("a") && credentials.has("b"));
    }

    #[test]
    fn a_damaged_file_is_not_written_over_and_not_shown() {
        let state = tempfile::tempdir().unwrap();
        let credentials = Credentials::new(state.path());
        std::fs::write(&credentials.path, "{\"a\" {:access \"sk-secret\"").unwrap();
        let error =
            credentials.put("b", ProviderEntry::Key(Secret::new("k".into()))).unwrap_err().to_string();
        assert!(error.contains("damaged") && !error.contains("sk-secret"), "{error}");
        assert!(std::fs::read_to_string(&credentials.path).unwrap().contains("sk-secret"));
    }

    #[test]
    fn changes_of_several_at_once_are_all_kept() {
        let state = tempfile::tempdir().unwrap();
        let credentials = Credentials::new(state.path());
        std::thread::scope(|scope| {
            for n in 0..8 {
                let credentials = &credentials;
                scope.spawn(move || {
                    credentials
                        .put(&format!("p{n}"), ProviderEntry::Key(Secret::new(format!("k{n}"))))
                        .unwrap();
                });
            }
        });
        assert!((0..8).all(|n| credentials.has(&format!("p{n}"))));
    }
}
