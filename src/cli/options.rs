//! The options that all commands have, and the settings that they give together with the configuration files.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use edn_bridge::config::{self, ConfigError, Files, Layers, Overrides, Settings};
use edn_bridge::message::Mode;
use edn_bridge::store::{Durability, Store};

use super::failure::Failure;
use super::{log, style};

/// Options common to all commands.
#[derive(Args, Clone)]
#[command(next_help_heading = "Common options")]
pub struct Options {
    /// The folder that new sessions work in.
    #[arg(long, global = true, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// The provider of new sessions: anthropic, openai, another that `models list` names, or one of :providers in the
    /// configuration. Without it, that of the newest login, else the first whose key is in the environment.
    #[arg(long, global = true, env = "EDN_BRIDGE_PROVIDER", value_name = "NAME")]
    pub provider: Option<String>,
    /// The model of new sessions, by its id at the provider; without it, the newest of the provider's usual family.
    #[arg(long, global = true, env = "EDN_BRIDGE_MODEL", value_name = "ID")]
    pub model: Option<String>,
    /// The agent of new sessions, by its name at :agents in the configuration.
    #[arg(long, global = true, env = "EDN_BRIDGE_AGENT", value_name = "NAME")]
    pub agent: Option<String>,
    /// What tools may do without asking.
    #[arg(long, global = true, value_name = "MODE",
          value_parser = Mode::NAMES)]
    pub mode: Option<String>,
    /// Short for --mode yolo.
    #[arg(long, global = true, conflicts_with = "mode")]
    pub yolo: bool,
    /// The user's configuration, instead of the usual file.
    #[arg(long, global = true, env = "EDN_BRIDGE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder of sessions, models and other state.
    #[arg(long, global = true, env = "EDN_BRIDGE_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// A GGUF file for the embedded model, instead of the one that `models fetch` gets.
    #[arg(long, global = true, env = "EDN_BRIDGE_MODEL_FILE", value_name = "FILE")]
    pub model_file: Option<PathBuf>,
    /// The script of the scripted provider.
    #[arg(long, global = true, env = "EDN_BRIDGE_SCRIPT", value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// When a message counts as saved: full waits for the disk; relaxed survives the end of the process, but
    /// a power failure may cost the last second.
    #[arg(long, global = true, env = "EDN_BRIDGE_DURABILITY", value_name = "WHEN", default_value = "full",
          value_parser = ["full", "relaxed"])]
    pub durability: String,
    /// What is logged to standard error: error, warn, info, debug, trace, or a filter.
    #[arg(long, global = true, env = "EDN_BRIDGE_LOG", value_name = "LEVEL", default_value = "warn",
          value_parser = log::filter)]
    pub log: String,
    /// How the log is written: text, or json with an object for each line.
    #[arg(long, global = true, env = "EDN_BRIDGE_LOG_FORMAT", value_name = "FORMAT", default_value = "text",
          value_parser = ["text", "json"], hide_possible_values = true)]
    pub log_format: String,
    /// Whether the output has colours.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub color: style::ColorWhen,
    /// The source of each value above that is no default.
    #[arg(skip)]
    pub origins: Vec<(&'static str, String)>,
}

/// The sources of settings on the command line and in the environment: setting, argument, variable.
pub const SOURCES: &[(&str, &str, &str)] = &[
    ("state-dir", "state_dir", "EDN_BRIDGE_STATE_DIR"),
    ("cwd", "cwd", ""),
    ("provider", "provider", "EDN_BRIDGE_PROVIDER"),
    ("model", "model", "EDN_BRIDGE_MODEL"),
    ("agent", "agent", "EDN_BRIDGE_AGENT"),
    ("model-file", "model_file", "EDN_BRIDGE_MODEL_FILE"),
    ("script", "script", "EDN_BRIDGE_SCRIPT"),
    ("mode", "mode", ""),
    ("mode", "yolo", ""),
    ("config", "config", "EDN_BRIDGE_CONFIG"),
    ("durability", "durability", "EDN_BRIDGE_DURABILITY"),
    ("log", "log", "EDN_BRIDGE_LOG"),
    ("log-format", "log_format", "EDN_BRIDGE_LOG_FORMAT"),
];

/// The settings from the command line and the environment, each with its source for a person.
pub fn origins(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let origins = SOURCES.iter().filter_map(|(setting, argument, variable)| {
        let origin = match matches.value_source(argument)? {
            ValueSource::CommandLine => format!("the option --{}", argument.replace('_', "-")),
            ValueSource::EnvVariable => format!("the variable {variable}"),
            _ => return None,
        };
        Some((*setting, origin))
    });
    origins.collect()
}

impl Options {
    /// The same with the mode that an interface of the UI protocol names, if it does.
    pub fn approved(&self, approval_mode: Option<&str>) -> Self {
        let mode = approval_mode.map(|mode| match mode {
            "full-access" => Mode::Yolo,
            "trusted" => Mode::AcceptEdits,
            _ => Mode::Ask,
        });
        let mut options = self.clone();
        if let Some(mode) = mode {
            options.mode = Some(mode.as_str().to_owned());
            options.origins.push(("mode", "the option --approval-mode".to_owned()));
        }
        options
    }

    /// When an append to a session is acknowledged.
    pub fn durability(&self) -> Durability {
        Durability::parse(&self.durability).unwrap_or_default()
    }

    /// The journals of the state folder, for a command that needs no engine.
    pub fn store(&self, settings: &Settings) -> Result<Store, Failure> {
        let folder = settings.state_dir.display().to_string();
        Store::new(&settings.state_dir, self.durability()).map_err(Failure::io(folder))
    }

    /// The state folder, absolute.
    pub fn state_folder(&self) -> Result<PathBuf, Failure> {
        match &self.state_dir {
            Some(dir) => {
                std::path::absolute(dir).map_err(Failure::io(format!("--state-dir {}", dir.display())))
            }
            None => config::default_state_dir().ok_or(Failure::NoHome),
        }
    }

    /// The settings of these options and the configuration files.
    pub fn settings(&self) -> Result<Settings, Failure> {
        self.config_is_there()?;
        self.settings_to_write()
    }

    /// Fails if a file is named as the user's that is not there.
    pub fn config_is_there(&self) -> Result<(), Failure> {
        if let Some(path) = &self.config
            && matches!(path.try_exists(), Ok(false))
        {
            let origin = self.origins.iter().find(|(setting, _)| *setting == "config");
            let origin = origin.map_or("--config", |(_, origin)| origin.as_str()).to_owned();
            return Err(ConfigError::Missing { path: path.clone(), origin }.into());
        }
        Ok(())
    }

    /// The settings as far as the files can be used, what they say, and all that cannot be used.
    pub fn settings_that_can_be(&self) -> Result<(Settings, Layers, Vec<ConfigError>), Failure> {
        self.config_is_there()?;
        let files = self.config_files()?;
        let (layers, wrong) = files.read_what_can_be();
        Ok((self.settings_of(files, &layers)?, layers, wrong))
    }

    /// The files of the configuration, which are not read.
    pub fn config_files(&self) -> Result<Files, Failure> {
        let (state_dir, cwd) = self.folders()?;
        Ok(Files::find(self.config.as_deref(), &cwd, &state_dir))
    }

    /// The state folder and the working folder.
    pub fn folders(&self) -> Result<(PathBuf, PathBuf), Failure> {
        let option = |name, dir: &Path| Failure::io(format!("{name} {}", dir.display()));
        let state_dir = self.state_folder()?;
        let cwd = match &self.cwd {
            Some(dir) => dir.canonicalize().map_err(option("--cwd", dir))?,
            None => std::env::current_dir().map_err(Failure::io("the working folder"))?,
        };
        for (role, option, dir) in [("state", "--state-dir", &state_dir), ("project", "--cwd", &cwd)] {
            if dir.to_str().is_none() {
                return Err(Failure::NotText { role, option, path: dir.clone() });
            }
        }
        Ok((state_dir, cwd))
    }

    /// The settings where the user's file may be one that is made now.
    pub fn settings_to_write(&self) -> Result<Settings, Failure> {
        let files = self.config_files()?;
        let layers = files.read()?;
        for passed_over in &layers.passed_over {
            tracing::warn!("{passed_over}");
        }
        self.settings_of(files, &layers)
    }

    /// The settings of these options and what the files say.
    fn settings_of(&self, files: Files, layers: &Layers) -> Result<Settings, Failure> {
        let (state_dir, cwd) = self.folders()?;
        let settings = Settings {
            state_dir,
            cwd,
            agent: self.agent.as_deref().map(Into::into),
            model_file: self.model_file.clone(),
            script: self.script.clone(),
            overrides: self.overrides(),
            files,
            ..Settings::default()
        };
        Ok(settings.with(layers))
    }

    /// Values from the command line and the environment.
    fn overrides(&self) -> Overrides {
        // A script on the command line selects its provider, whatever is configured.
        let scripted = self.script.as_ref().map(|_| "scripted");
        let mut origins = self.origins.clone();
        if scripted.is_some() && !origins.iter().any(|(known, _)| *known == "provider") {
            origins.push(("provider", "the option --script".to_owned()));
        }
        Overrides {
            provider: self.provider.as_deref().or(scripted).map(Into::into),
            model: self.model.as_deref().map(Into::into),
            mode: match self.yolo {
                true => Some(Mode::Yolo),
                false => self.mode.as_deref().and_then(Mode::parse),
            },
            origins,
            rules: Vec::new(),
        }
    }
}
