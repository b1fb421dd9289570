//! The servers of the folders that sessions work in: each folder has its own, shared by its sessions. A server of a project
//! is withheld while a person must look at it: its command line is another one than before, or a file that it names is.
//! Asks nobody.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::config::KnownDigests;
use crate::engine::revision::ConfigRevision;
use crate::mcp::{Server, ServerContext, Servers, Settings};
use crate::peer::Source;

/// The servers of folders.
pub struct McpPool {
    known: KnownDigests,
    folders: Mutex<HashMap<Arc<str>, Arc<Folder>>>,
    /// Ends what is asked, and what is told, with the process.
    pub stop: CancellationToken,
}

/// The servers of a folder.
pub struct Folder {
    /// Those that may be started.
    pub servers: Servers,
    withheld: Mutex<Vec<Withheld>>,
    /// The digests of command lines that a person has refused in this process.
    refused: Mutex<HashSet<String>>,
    /// One is asked about at a time.
    pub asking: tokio::sync::Mutex<()>,
}

/// A server that is not started.
#[derive(Debug, Clone)]
pub struct Withheld {
    /// The server.
    pub server: Server,
    /// Why.
    pub why: Why,
}

/// Why a server is not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It is another one than before, and nobody was asked yet.
    Another,
    /// A person has refused it.
    Refused,
    /// A file that its command names is not what was trusted.
    Changed(PathBuf),
}

impl Why {
    /// As a sentence for a person.
    pub fn text(&self) -> String {
        match self {
            Self::Another => {
                "It is another one than when it was last started. You are asked when it is used.".to_owned()
            }
            Self::Refused => "You refused it as it is now. /mcp restart asks again.".to_owned(),
            Self::Changed(path) => {
                format!("{} has changed since the project was trusted (/trust).", path.display())
            }
        }
    }
}

impl McpPool {
    /// No server yet.
    pub fn new(state_dir: &Path) -> Self {
        Self {
            known: KnownDigests::servers(state_dir),
            folders: Mutex::default(),
            stop: CancellationToken::new(),
        }
    }

    fn folders(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Folder>>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command lines that are known.
    pub fn known(&self) -> &KnownDigests {
        &self.known
    }

    /// The servers of a folder that were needed before.
    pub fn get(&self, cwd: &str) -> Option<Arc<Folder>> {
        self.folders().get(cwd).cloned()
    }

    /// The folders whose servers were needed.
    pub fn all(&self) -> Vec<(Arc<str>, Arc<Folder>)> {
        self.folders().iter().map(|(cwd, folder)| (cwd.clone(), folder.clone())).collect()
    }

    /// The servers of a folder, and whether they are new here; `None` for a folder without any. Starts none. Reads the
    /// disk.
    pub fn folder(
        &self,
        cwd: &Arc<str>,
        config: &ConfigRevision,
        place: impl FnOnce() -> ServerContext,
    ) -> Option<(Arc<Folder>, bool)> {
        if let Some(folder) = self.get(cwd) {
            return Some((folder, false));
        }
        if config.mcp.servers.is_empty() || self.stop.is_cancelled() {
            return None;
        }
        let folder = Arc::new(Folder {
            servers: Servers::new(place(), Settings::default()),
            withheld: Mutex::default(),
            refused: Mutex::default(),
            asking: tokio::sync::Mutex::new(()),
        });
        let mut folders = self.folders();
        if let Some(folder) = folders.get(cwd) {
            return Some((folder.clone(), false));
        }
        // While nobody else finds it: it is found with its settings.
        self.take(cwd, &folder, config);
        folders.insert(cwd.clone(), folder.clone());
        Some((folder, true))
    }

    /// Gives a folder's servers new settings. Reads the disk.
    pub fn take(&self, cwd: &str, folder: &Folder, config: &ConfigRevision) {
        let known = self.known.of(cwd);
        let refused = folder.refused();
        let mut settings = Settings { servers: Vec::new(), problems: config.mcp.problems.clone() };
        let (mut withheld, mut new) = (Vec::new(), BTreeMap::new());
        for server in &config.mcp.servers {
            let mut server = server.clone();
            server.seal = config.mcp_seals.get(&*server.name).cloned().unwrap_or_default();
            let why = match &server.source {
                Source::Project(_) if server.enabled => {
                    let digest = server.digest();
                    let changed = server.seal.check().err();
                    match known.as_ref().map(|known| known.get(&*server.name)) {
                        _ if changed.is_some() => {
                            changed.map(|broken| Why::Changed(broken.path().to_owned()))
                        }
                        Some(Some(before)) if *before == digest => None,
                        // Also where nobody can say what it was before.
                        None | Some(Some(_)) if refused.contains(&digest) => Some(Why::Refused),
                        None | Some(Some(_)) => Some(Why::Another),
                        Some(None) => {
                            new.insert(server.name.to_string(), digest);
                            None
                        }
                    }
                }
                _ => None,
            };
            match why {
                Some(why) => withheld.push(Withheld { server, why }),
                None => settings.servers.push(server),
            }
        }
        drop(refused);
        if let Err(error) = self.known.add(cwd, new) {
            tracing::warn!(%error, "the command lines of servers could not be written down");
        }
        *folder.withheld.lock().unwrap_or_else(PoisonError::into_inner) = withheld;
        folder.servers.reload(settings);
    }

    /// A person agrees to a server as it is now. Writes the disk.
    pub fn agree(&self, cwd: &str, folder: &Folder, server: &Server) {
        folder.refused().remove(&server.digest());
        let digests = BTreeMap::from([(server.name.to_string(), server.digest())]);
        if let Err(error) = self.known.add(cwd, digests) {
            tracing::warn!(%error, "the command line of a server could not be written down");
        }
    }

    /// Takes the servers of all folders out, to be ended.
    pub fn close(&self) -> Vec<Arc<Folder>> {
        self.stop.cancel();
        self.folders().drain().map(|(_, folder)| folder).collect()
    }
}

impl Folder {
    fn refused(&self) -> MutexGuard<'_, HashSet<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers that are not started, with why.
    pub fn withheld(&self) -> Vec<Withheld> {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A person refuses a server as it is now.
    pub fn refuse(&self, server: &Server) {
        self.refused().insert(server.digest());
        let mut withheld = self.withheld.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = withheld.iter_mut().find(|known| known.server.name == server.name) {
            known.why = Why::Refused;
        }
    }

    /// A person wants to be asked again about a server.
    pub fn ask_again(&self, name: &str) {
        let mut withheld = self.withheld.lock().unwrap_or_else(PoisonError::into_inner);
        for known in
            withheld.iter_mut().filter(|known| *known.server.name == *name && known.why == Why::Refused)
        {
            self.refused().remove(&known.server.digest());
            known.why = Why::Another;
        }
    }
}
