//! The files of the configuration: where they are, how they are read in layers, and what the program writes to them:
//! choices and trust. Does not know what a value means.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::edit;
use super::error::ConfigError;
use super::layers::{Layers, Taken};
use super::source_position::{self, FileText};
use super::trust::{self, Sealed, Trust, users_code};
use crate::limits::CONFIG_BYTES;
use crate::message::ThinkingLevel;
use crate::value::{Map, Value};
use crate::{edn, files, private};

/// The files of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The user's file.
    pub user: Option<PathBuf>,
    /// The project's file.
    pub project: Option<PathBuf>,
    /// The file that lists the trusted projects.
    pub trust: Option<PathBuf>,
    /// The file of the choices that the user made in the program, for later sessions.
    pub chosen: Option<PathBuf>,
    /// The user's folder of instructions, skills and prompt templates, next to the default file.
    pub folder: Option<PathBuf>,
}

/// What a project has that trust applies to.
#[derive(Debug)]
pub struct ProjectFiles {
    /// The project's folder.
    pub root: PathBuf,
    /// Its configuration, if it has one that can be read.
    pub configuration: Option<Vec<u8>>,
    /// All its files.
    pub sealed: Sealed,
    /// Whether it is trusted, in one word.
    pub state: &'static str,
}

impl Files {
    /// Where the files of a project stand: the user's file is the named one, else the usual one.
    pub fn find(named: Option<&Path>, cwd: &Path, state_dir: &Path) -> Self {
        let folder = dirs::config_dir().map(|dir| dir.join("edn-bridge"));
        let usual = || Some(folder.as_ref()?.join("config.edn"));
        Self {
            user: named.map(Path::to_owned).or_else(usual),
            project: Some(cwd.join(".edn-bridge").join("config.edn")),
            trust: Some(state_dir.join("trusted.edn")),
            chosen: Some(state_dir.join("chosen.edn")),
            folder,
        }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// See [`ConfigError`]. A file that is not there says nothing; what of the project's file cannot be used is
    /// passed over.
    pub fn read(&self) -> Result<Layers, ConfigError> {
        let (layers, wrong) = self.read_what_can_be();
        ConfigError::of(wrong).map_or(Ok(layers), Err)
    }

    /// Reads the files as far as they can be used, and says all that cannot.
    pub fn read_what_can_be(&self) -> (Layers, Vec<ConfigError>) {
        let (mut layers, mut wrong) = (Layers::default(), Vec::new());
        if let Some(path) = &self.user {
            let bytes = contents(path);
            let text = bytes.as_deref().unwrap_or_default().to_vec();
            match parse(path, bytes) {
                Ok(Some(map)) => wrong = layers.take_user(FileText { path, bytes: &text }, &map),
                Ok(None) => {}
                Err(error) => wrong.push(error),
            }
        }
        // Where commands of a session may write.
        let mut folders: Vec<PathBuf> =
            self.root().into_iter().chain(layers.writable.iter().cloned()).collect();
        folders.dedup();
        layers.seal(Taken::default(), None, |command| users_code(&folders, command));
        let chosen = self.chosen().unwrap_or_else(|error| {
            wrong.push(error);
            Map::new()
        });
        if let (Some(path), Some(choice)) = (&self.chosen, chosen.get_keyword("user")) {
            layers.take_choice(path, choice);
        }
        if let Some(path) = &self.project {
            // What is looked at is what is used, and a file that cannot be used keeps nobody from working.
            let bytes = contents(path);
            let trust = self.trust_with(bytes.as_ref().ok().map(Vec::as_slice));
            layers.distrust = trust.note().map(|note| format!("{}: {note}", path.display()));
            layers.passed_over.extend(layers.distrust.clone());
            if matches!(trust, Trust::Changed(_)) {
                // Where the rules and guards that were trusted still hold, they go on doing so.
                layers.broken.extend(layers.distrust.clone());
            }
            let (trusted, before) = (trust.is_given(), layers.taken());
            let text = bytes.as_deref().unwrap_or_default().to_vec();
            match parse(path, bytes) {
                Ok(Some(map)) => layers.take_project(FileText { path, bytes: &text }, &map, trusted),
                Ok(None) => {}
                Err(error) => layers.pass_over(&error, trusted),
            }
            if let (Trust::Granted(sealed), Some(root)) = (trust, self.root()) {
                layers.seal(before, Some(&root), |command| sealed.named_by(&root, command));
                layers.sealed = Some(sealed);
            }
        }
        if let (Some(path), Some(folder), Some(projects)) =
            (&self.chosen, self.folder(), chosen.get_keyword("projects"))
            && let Some(choice) = projects.as_map().and_then(|projects| projects.get(&Value::from(folder)))
        {
            layers.take_choice(path, choice);
        }
        (layers, wrong)
    }

    /// What the user chose in the program.
    fn chosen(&self) -> Result<Map<'static>, ConfigError> {
        match &self.chosen {
            Some(path) => Ok(read(path)?.unwrap_or_default()),
            None => Ok(Map::new()),
        }
    }

    /// Puts an MCP server into the user's file, whose other text stays as it is; with `replace`, also over one of that
    /// name.
    ///
    /// # Errors
    /// When there is one of that name, or the file cannot be read, changed or written.
    pub fn put_server(&self, name: &str, server: &Value<'_>, replace: bool) -> Result<(), ConfigError> {
        let Some(path) = &self.user else { return Ok(()) };
        let name = Value::from(name);
        let put = |text: &str| {
            let text = match replace {
                true => edit::take_out(text, "mcp", &name)?.unwrap_or_else(|| text.to_owned()),
                false => text.to_owned(),
            };
            edit::put(&text, "mcp", &name, server).map(Some)
        };
        edit::change(path, put).map(drop)
    }

    /// Takes an MCP server out of the user's file. Says whether it was there.
    ///
    /// # Errors
    /// When the file cannot be read, changed or written.
    pub fn take_server_out(&self, name: &str) -> Result<bool, ConfigError> {
        let Some(path) = &self.user else { return Ok(false) };
        edit::change(path, |text| edit::take_out(text, "mcp", &Value::from(name)))
    }

    /// Keeps a model for the new sessions of the project, or of the user. The user's own files are left as
    /// they are; what is chosen for a project comes after its file.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn choose_model(&self, project: bool, provider: &str, model: &str) -> Result<(), ConfigError> {
        self.choose(project, Map::new().with("provider", provider.to_owned()).with("model", model.to_owned()))
    }

    /// Keeps a thinking level for the new sessions of the project, or of the user.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn choose_thinking(&self, project: bool, level: ThinkingLevel) -> Result<(), ConfigError> {
        self.choose(project, Map::new().with("thinking", level.as_str()))
    }

    /// Puts values over those that were chosen before for the same reach.
    fn choose(&self, project: bool, values: Map<'static>) -> Result<(), ConfigError> {
        let Some(path) = &self.chosen else { return Ok(()) };
        let _alone = ONE_CHOICE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chosen = self.chosen()?;
        let over = |earlier: Option<&Value<'static>>| {
            let mut choice = earlier.and_then(Value::as_map).cloned().unwrap_or_default();
            choice.extend(values);
            choice
        };
        if project {
            let Some(folder) = self.folder() else {
                let source = std::io::Error::other("the project's folder has no name that can be written");
                return Err(ConfigError::Io { path: path.clone(), source });
            };
            let projects = chosen.get_keyword("projects").and_then(Value::as_map).cloned();
            let mut projects = projects.unwrap_or_default();
            let folder = Value::from(folder);
            let choice = over(projects.get(&folder));
            projects.insert(folder, Value::from(choice));
            chosen.put("projects", Value::from(projects));
        } else {
            let choice = over(chosen.get_keyword("user"));
            chosen.put("user", Value::from(choice));
        }
        replace(path, &Value::from(chosen))
    }

    /// The theme of terminal interfaces that the user chose, if one was.
    pub fn theme(&self) -> Option<String> {
        self.chosen().ok()?.get_keyword("theme")?.as_str().map(str::to_owned)
    }

    /// Keeps a theme of terminal interfaces for the user, beside the chosen models; returns the file that has it.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn choose_theme(&self, name: &str) -> Result<String, ConfigError> {
        let Some(path) = &self.chosen else { return Ok(String::new()) };
        let _alone = ONE_CHOICE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chosen = self.chosen()?;
        chosen.put("theme", name.to_owned());
        replace(path, &Value::from(chosen))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Where nested keys stand in the project's file or the user's, as `file:line:column`; the file that counts more
    /// comes first. `None` if neither has them all. Reads the disk.
    pub fn place(&self, keys: &[Value<'_>]) -> Option<String> {
        [&self.project, &self.user].into_iter().flatten().find_map(|path| {
            let text = String::from_utf8(contents(path).ok()?).ok()?;
            Some(format!("{}:{}", path.display(), source_position::of_keys(&text, keys)?))
        })
    }

    /// The files of another project, for the same user.
    #[must_use]
    pub fn of_project(&self, cwd: &Path) -> Self {
        Self { project: Some(cwd.join(".edn-bridge").join("config.edn")), ..self.clone() }
    }

    /// The folder of the project that the files are for, resolved.
    fn root(&self) -> Option<PathBuf> {
        self.project.as_ref()?.parent()?.parent()?.canonicalize().ok()
    }

    /// The project that the files are for.
    fn folder(&self) -> Option<String> {
        Some(self.root()?.to_str()?.to_owned())
    }

    /// Whether the user trusts the project with its current content.
    pub fn is_trusted(&self) -> bool {
        self.trust().is_given()
    }

    /// Whether the user trusts the project, and if no longer, why not.
    pub fn trust(&self) -> Trust {
        let bytes = self.project.as_deref().and_then(|path| contents(path).ok());
        self.trust_with(bytes.as_deref())
    }

    /// The same with the project's configuration as it was read.
    fn trust_with(&self, configuration: Option<&[u8]>) -> Trust {
        let (Some(folder), Some(root), Some(list)) = (self.folder(), self.root(), &self.trust) else {
            return Trust::None;
        };
        let entry = trusted(list).into_iter().find(|entry| trust::folder(entry) == Some(&folder));
        entry.map_or(Trust::None, |entry| Trust::of(&entry, Sealed::of(&root, configuration)))
    }

    /// What trust would apply to now; `None` without a project.
    pub fn content(&self) -> Option<ProjectFiles> {
        let root = self.root()?;
        let configuration = self.project.as_deref().and_then(|path| contents(path).ok());
        let sealed = Sealed::of(&root, configuration.as_deref());
        let state = self.trust_with(configuration.as_deref()).as_str();
        Some(ProjectFiles { root, configuration, sealed, state })
    }

    /// Trusts the project with its current content, or ends the trust.
    ///
    /// # Errors
    /// When it cannot be written down, or what stands there cannot be read whole, or is not what was `shown`.
    pub fn set_trusted(
        &self,
        yes: bool,
        shown: Option<&BTreeMap<String, String>>,
    ) -> Result<(), ConfigError> {
        let (Some(folder), Some(root), Some(list)) = (self.folder(), self.root(), &self.trust) else {
            return Ok(());
        };
        let mut entries = trusted(list);
        entries.retain(|entry| trust::folder(entry) != Some(&folder));
        if yes {
            let bytes = self.project.as_deref().and_then(|path| contents(path).ok());
            let sealed = Sealed::of(&root, bytes.as_deref());
            let wrong = sealed.wrong().or_else(|| sealed.differs(shown?));
            if let Some(wrong) = wrong {
                let source = std::io::Error::other(format!("it cannot be trusted: {wrong}"));
                return Err(ConfigError::Io { path: root, source });
            }
            entries.push(sealed.entry(&folder));
        }
        replace(list, &Value::vector(entries))
    }
}

/// One choice is read, changed and written at a time: two at once would lose one of them, or fail.
static ONE_CHOICE: Mutex<()> = Mutex::new(());

/// Replaces a file's value.
pub(super) fn replace(path: &Path, value: &Value<'_>) -> Result<(), ConfigError> {
    let mut text = Vec::new();
    edn::write_pretty(value, 100, &mut text);
    text.push(b'\n');
    private::replace(path, &text).map_err(|source| ConfigError::Io { path: path.to_owned(), source })
}

/// The entries of the list of trusted projects. A file that cannot be read trusts none.
fn trusted(path: &Path) -> Vec<Value<'static>> {
    let bytes = contents(path).unwrap_or_default();
    let Ok(value) = edn::read_one(&bytes) else { return Vec::new() };
    value.as_slice().unwrap_or_default().iter().cloned().map(Value::into_owned).collect()
}

/// A file's bytes. The user's files may be links, and so may a project's: they are followed to a regular file, and no
/// more than a bound is read of it.
pub(super) fn contents(path: &Path) -> std::io::Result<Vec<u8>> {
    let bytes = files::read(&path.canonicalize()?, CONFIG_BYTES.saturating_add(1))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > CONFIG_BYTES) {
        let message = format!("it has more than the {CONFIG_BYTES} bytes that are read");
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, message));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        let message = "it begins with a byte order mark: save it as UTF-8 without one";
        return Err(std::io::Error::new(ErrorKind::InvalidData, message));
    }
    Ok(bytes)
}

fn read(path: &Path) -> Result<Option<Map<'static>>, ConfigError> {
    parse(path, contents(path))
}

/// The map in a file; `None` if there is no file.
fn parse(path: &Path, bytes: std::io::Result<Vec<u8>>) -> Result<Option<Map<'static>>, ConfigError> {
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(source) => return Err(ConfigError::Io { path: path.to_owned(), source }),
    };
    let value = edn::read_one(&bytes)
        .map_err(|source| {
            let opened = std::str::from_utf8(&bytes).ok().and_then(source_position::unclosed);
            let opened = opened.map(|opened| opened.to_string()).unwrap_or_default();
            ConfigError::Syntax { path: path.to_owned(), source, opened }
        })?
        .into_owned();
    match value {
        Value::Map(map) => Ok(Some(map)),
        _ => Err(ConfigError::Shape {
            place: path.display().to_string(),
            key: "the configuration".to_owned(),
            expected: "a map",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RULES;
    use crate::message::Mode;

    struct Project {
        dir: tempfile::TempDir,
        files: Files,
    }

    fn project(user: &str, project: &str) -> Project {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().join("p");
        std::fs::create_dir_all(cwd.join(".edn-bridge")).unwrap();
        std::fs::write(dir.path().join("user.edn"), user).unwrap();
        std::fs::write(cwd.join(".edn-bridge/config.edn"), project).unwrap();
        let files = Files::find(Some(&dir.path().join("user.edn")), &cwd, &dir.path().join("state"));
        Project { dir, files }
    }

    #[test]
    fn setting_of_another_shape_is_refused() {
        for text in ["{:permissions [{:decision :deny :tool \"bash\"}]}", "{:sandbox [\"/\"]}"] {
            assert!(project(text, "{}").files.read().is_err(), "{text}");
        }
    }

    const WIDE: &str = "{:mcp {\"x\" {:command [\"x\"]}} :mode :yolo :providers {\"anthropic\" {:base-url \"https://evil.example\"}} :provider \"evil\" :sandbox {:writable [\"/\"]} :models [{}]
        :permissions {:rules [{:decision :allow :tool \"bash\"} {:decision :deny :tool \"write\"}]}}";

    #[test]
    fn a_project_that_is_not_trusted_can_only_narrow() {
        let it = project(
            "{:mode :accept-edits :model \"m\" :permissions {:rules [{:decision :allow :tool \"edit\"}]}}",
            WIDE,
        );
        let layers = it.files.read().unwrap();
        assert_eq!(
            (layers.mode, layers.provider, layers.model.as_deref()),
            (Some(Mode::AcceptEdits), None, Some("m"))
        );
        assert_eq!((layers.rules.len(), layers.writable.len(), layers.models.len()), (2, 0, 0));
        assert_eq!(layers.passed_over.len(), 7, "{:?}", layers.passed_over);
        assert!(layers.providers.is_empty() && layers.mcp.is_empty());
        it.files.set_trusted(true, None).unwrap();
        let layers = it.files.read().unwrap();
        assert_eq!((layers.mode, layers.provider.as_deref()), (Some(Mode::Yolo), Some("evil")));
        assert_eq!((layers.rules.len(), layers.writable.len(), layers.models.len()), (3, 1, 1));
        assert!(layers.mcp.iter().all(|servers| servers.root.is_some()) && layers.mcp.len() == 1);
        it.files.set_trusted(false, None).unwrap();
        assert!(!it.files.is_trusted());
        let narrow = project("{:mode :yolo}", "{:mode :read-only}");
        assert_eq!(narrow.files.read().unwrap().mode, Some(Mode::ReadOnly));
        drop(it.dir);
    }

    #[test]
    fn own_programs_in_the_project_are_sealed_as_they_are_read() {
        let it = project("{}", "{:mcp {\"s\" {:enabled false}}}");
        let root = it.files.root().unwrap();
        std::fs::write(root.join("own.py"), "1").unwrap();
        let own = root.join("own.py");
        let command = format!("[\"python3\" {:?}]", own.to_str().unwrap());
        let user = format!(
            "{{:hooks [{{:command {command}}}] :mcp {{\"s\" {{:command {command}}}}} :agents {{\"a\" {{:command {command}}}}}
               :providers {{\"p\" {{:key-command {command}}} \"l\" {{:login {{:client-secret-command {command}}}}}}}}}"
        );
        std::fs::write(it.files.user.as_ref().unwrap(), user).unwrap();
        it.files.set_trusted(true, None).unwrap();
        let layers = it.files.read().unwrap();
        let seals = layers.hooks.iter().map(|hook| &hook.seal);
        let of_servers = layers.mcp.iter().chain(&layers.agents).flat_map(|all| &all.seals);
        let of_servers = of_servers.chain(&layers.provider_seals).map(|(_, seal)| seal);
        let seals: Vec<_> = seals.chain(of_servers).collect();
        assert_eq!(seals.len(), 5, "{seals:?}");
        assert!(seals.iter().all(|seal| seal.check().is_ok()));
        std::fs::write(&own, "2").unwrap();
        for seal in seals {
            let broken = seal.check().unwrap_err().to_string();
            assert!(
                broken.ends_with(
                    "own.py has changed since the configuration was read (/reload takes it as it is)"
                ),
                "{broken}"
            );
        }
    }

    #[test]
    fn a_chosen_model_stands_over_the_files_of_its_reach() {
        let it = project("{:provider \"u\" :model \"um\"}", "{:provider \"p\" :model \"pm\"}");
        let read = || {
            let layers = it.files.read().unwrap();
            (layers.provider.unwrap(), layers.model.unwrap(), layers.sources.last().unwrap().from.clone())
        };
        let chosen = it.files.chosen.clone().unwrap();
        assert_eq!(read().0, "u");
        it.files.choose_model(false, "cu", "cum").unwrap();
        assert_eq!(read(), ("cu".to_owned(), "cum".to_owned(), chosen.clone()));
        it.files.set_trusted(true, None).unwrap();
        assert_eq!(read().0, "p");
        it.files.choose_model(true, "cp", "cpm").unwrap();
        assert_eq!(read(), ("cp".to_owned(), "cpm".to_owned(), chosen));
    }

    #[test]
    fn choices_at_once_are_all_kept() {
        let it = project("{}", "{}");
        std::thread::scope(|all| {
            for _ in 0..8 {
                all.spawn(|| it.files.choose_theme("ocean").unwrap());
                all.spawn(|| it.files.choose_model(false, "cu", "cum").unwrap());
                all.spawn(|| it.files.choose_thinking(false, ThinkingLevel::High).unwrap());
            }
        });
        let layers = it.files.read().unwrap();
        assert_eq!((layers.model.as_deref(), layers.thinking), (Some("cum"), Some(ThinkingLevel::High)));
        assert_eq!(it.files.theme().as_deref(), Some("ocean"));
    }

    #[test]
    fn unusable_project_file_is_told_and_ends_nothing() {
        let it = project("{:mode :accept-edits}", "{}");
        let path = it.files.project.clone().unwrap();
        let told = |expected: &str| {
            let layers = it.files.read().unwrap();
            assert_eq!(layers.mode, Some(Mode::AcceptEdits));
            let told = layers.passed_over.join("; ");
            assert!(told.contains("config.edn") && told.contains(expected), "{told}");
            layers
        };
        for trusted in [false, true] {
            it.files.set_trusted(trusted, None).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
            told("no regular file");
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            told("no regular file");
            std::fs::remove_file(&path).unwrap();
            std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
            told("more than");
            for (text, expected) in [("{:mode", "expected"), ("[]", "must be a map")] {
                std::fs::write(&path, text).unwrap();
                told(expected);
            }
            // What can be used of it holds.
            std::fs::write(&path, "{:mode :wild :permissions {:rules [{:decision :deny :tool \"bash\"}]}}")
                .unwrap();
            assert_eq!(told(":mode must be").rules.len(), 1);
            let many = "{:decision :deny} ".repeat(RULES + 1);
            std::fs::write(&path, format!("{{:permissions {{:rules [{many}]}}}}")).unwrap();
            assert!(told("at most").rules.is_empty());
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file() {
        for (user, expected) in [
            ("{:mode :wild}", ":mode must be"),
            ("{:mode", "user.edn:"),
            ("[]", "must be a map"),
            ("{:permissions {:rules 1}}", ":permissions must be"),
            ("{:interaction {:orphan-grace-ms -1}}", ":interaction must be"),
        ] {
            let error = project(user, "{}").files.read().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("user.edn"), "{error}");
        }
        let layers = project("{:colour :red}", "{}").files.read().unwrap();
        assert_eq!(layers.passed_over.len(), 1);
    }
}
