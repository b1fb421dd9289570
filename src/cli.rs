//! The command line: assembles what each command needs. Contains no rules of its own: sessions, wires and files are
//! the library's.

mod acp;
mod attached;
mod canonical;
mod chat;
mod completion;
mod config_command;
mod control;
mod daemon;
mod doctor;
mod input;
mod log;
mod login;
mod mcp;
mod models;
mod out;
mod permissions;
mod progress;
mod prompt;
mod realm;
mod repl;
mod schema;
mod serve;
mod served;
mod sessions;
mod show;
mod style;
mod table;
#[cfg(feature = "otel")]
mod telemetry;
mod top;
mod typed;
mod usage;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use daemon::DaemonCommand;
use edn_bridge::client::Refused;
use edn_bridge::config::{self, ConfigError, Files, Layers, Overrides, Settings};
use edn_bridge::message::Mode;
use edn_bridge::provider::embedded;
use edn_bridge::provider::fetch::FetchError;
use edn_bridge::provider::scripted::ScriptError;
use edn_bridge::store::{Durability, Store, StoreError};
use edn_bridge_contract::{Format, Wire};
use served::Protocol;
use tracing_subscriber::Layer as _;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// An EDN-native RPC bridge between editors and a coding-agent session runtime.
#[derive(Parser)]
#[command(name = "edn-bridge", version, about, max_term_width = 100, after_help = SHOWN)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

/// How every command except `serve` shows foreign text.
const SHOWN: &str = "On a terminal, what could steer it or is not seen (control, bidirectional, zero-width and private-use \
                     characters) is shown as a code such as \\u{202E}. A pipe or a file gets the text as it is.";

/// Options common to all commands.
#[derive(Args, Clone)]
#[command(next_help_heading = "Common options")]
struct Options {
    /// The folder that new sessions work in.
    #[arg(long, global = true, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The provider of new sessions: embedded, anthropic, openai, another that `models list` names, or one of :providers
    /// in the configuration.
    #[arg(long, global = true, env = "EDN_BRIDGE_PROVIDER", value_name = "NAME")]
    provider: Option<String>,
    /// The model of new sessions, by its id at the provider.
    #[arg(long, global = true, env = "EDN_BRIDGE_MODEL", value_name = "ID")]
    model: Option<String>,
    /// The agent of new sessions, by its name at :agents in the configuration.
    #[arg(long, global = true, env = "EDN_BRIDGE_AGENT", value_name = "NAME")]
    agent: Option<String>,
    /// What tools may do without asking.
    #[arg(long, global = true, value_name = "MODE",
          value_parser = Mode::NAMES)]
    mode: Option<String>,
    /// Short for --mode yolo.
    #[arg(long, global = true, conflicts_with = "mode")]
    yolo: bool,
    /// The user's configuration, instead of the usual file.
    #[arg(long, global = true, env = "EDN_BRIDGE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder of sessions, models and other state.
    #[arg(long, global = true, env = "EDN_BRIDGE_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// A GGUF file for the embedded model, instead of the one that `models fetch` gets.
    #[arg(long, global = true, env = "EDN_BRIDGE_MODEL_FILE", value_name = "FILE")]
    model_file: Option<PathBuf>,
    /// The script of the scripted provider.
    #[arg(long, global = true, env = "EDN_BRIDGE_SCRIPT", value_name = "FILE")]
    script: Option<PathBuf>,
    /// When a message counts as saved: full waits for the disk; relaxed survives the end of the process, but
    /// a power failure may cost the last second.
    #[arg(long, global = true, env = "EDN_BRIDGE_DURABILITY", value_name = "WHEN", default_value = "full",
          value_parser = ["full", "relaxed"])]
    durability: String,
    /// What is logged to standard error: error, warn, info, debug, trace, or a filter.
    #[arg(long, global = true, env = "EDN_BRIDGE_LOG", value_name = "LEVEL", default_value = "warn",
          value_parser = log::filter)]
    log: String,
    /// How the log is written: text, or json with an object for each line.
    #[arg(long, global = true, env = "EDN_BRIDGE_LOG_FORMAT", value_name = "FORMAT", default_value = "text",
          value_parser = ["text", "json"], hide_possible_values = true)]
    log_format: String,
    /// Whether the output has colours.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    color: style::ColorWhen,
    /// The source of each value above that is no default.
    #[arg(skip)]
    origins: Vec<(&'static str, String)>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one turn without an editor and streams the answer to standard output.
    ///
    /// Exit status: 0 answered, 1 failed, 2 wrong usage, 3 the model's server cannot be reached or is overloaded, 4 the
    /// configuration or the provider is not usable, 5 ended by --max-turns or by the length of the answer, 6 no answer
    /// that fits --schema, 130 interrupted (128 and its number for another signal).
    Prompt(prompt::PromptArguments),
    /// A conversation on this terminal: streamed Markdown, approvals with diffs, slash commands, files after @.
    Chat(chat::ChatArguments),
    /// The sessions on disk.
    Sessions {
        #[command(subcommand)]
        command: Option<sessions::SessionsCommand>,
    },
    /// The models.
    Models {
        #[command(subcommand)]
        command: Option<models::ModelsCommand>,
    },
    /// Logs in at a provider of models: in a browser, with a code, or with a key that you paste.
    Login {
        /// The provider by its name in the configuration; without one, that of new sessions.
        provider: Option<String>,
    },
    /// Deletes the login at a provider.
    Logout {
        /// The provider by its name in the configuration.
        provider: String,
    },
    /// The files of the configuration.
    Config {
        #[command(subcommand)]
        command: config_command::ConfigCommand,
    },
    /// Checks configuration, state, models, sandbox and Emacs, with advice for what is missing.
    ///
    /// Fails only when something is broken, not when something is merely absent.
    Doctor {
        /// The format of the report: text or edn.
        #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "edn"])]
        format: String,
    },
    /// The rules that calls of tools are judged by.
    Rules {
        #[command(subcommand)]
        command: Option<permissions::RulesCommand>,
        /// As JSON, whole.
        #[arg(long)]
        json: bool,
    },
    /// What was asked and decided, newest first. `sessions verify` checks that nothing of it was changed.
    Audit {
        /// At most so many records.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// As JSON, whole.
        #[arg(long)]
        json: bool,
    },
    /// Tokens and cost over time, from the sessions on disk.
    Usage(usage::UsageArguments),
    /// What runs in the bridges now: sessions, turns, clients, queues, tokens, cost, memory.
    ///
    /// Keys: q ends it, s changes the order, p or the space bar pauses.
    Top(top::TopArguments),
    /// Servers of tools (Model Context Protocol): which there are, and this program as one.
    Mcp {
        #[command(subcommand)]
        command: Option<mcp::McpCommand>,
    },
    /// Runs one query and prints its result as EDN.
    Query {
        /// The query: an EDN vector of attributes.
        query: String,
        /// Ask this session, live in a running bridge or on disk: its id, the beginning of its id, or its name.
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
        /// Show the plan of the query instead of its result.
        #[arg(long)]
        explain: bool,
    },
    /// Queries and ops by hand, on the project's running bridge or on the state folder.
    Repl {
        /// Ask this session, live in a running bridge or on disk: its id, the beginning of its id, or its name.
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
    },
    /// Runs the bridge on standard input and output, as EDN lines. Editors start this.
    Serve {
        /// The protocol on standard input and output. Sockets speak EDN lines.
        #[arg(long, value_name = "WIRE", default_value = "edn", value_parser = ["edn", "ui-protocol"])]
        wire: String,
        /// How much tools may do without asking, in the words of the UI protocol.
        #[arg(long, value_name = "MODE", value_parser = ["minimal", "trusted", "full-access"], conflicts_with_all = ["mode", "yolo"])]
        approval_mode: Option<String>,
        /// Run everything in this process, which ends with its editor.
        #[arg(long)]
        no_daemon: bool,
        /// Whether a daemon runs what is begun here, so that it outlives the editor: auto or never.
        #[arg(long, env = "EDN_BRIDGE_DAEMON", value_name = "WHEN", default_value = "auto", value_parser = ["auto", "never", ""],
              hide = true)]
        daemon: String,
    },
    /// Runs the bridge on standard input and output for editors that speak the Agent Client Protocol.
    Acp {
        #[command(subcommand)]
        command: Option<acp::AcpCommand>,
        /// Run everything in this process, which ends with its editor.
        #[arg(long)]
        no_daemon: bool,
        /// Whether a daemon runs what is begun here, so that it outlives the editor: auto or never.
        #[arg(long, env = "EDN_BRIDGE_DAEMON", value_name = "WHEN", default_value = "auto", value_parser = ["auto", "never", ""],
              hide = true)]
        daemon: String,
    },
    /// The process that runs what editors begin, and outlives them.
    Daemon {
        #[command(subcommand)]
        command: DaemonCommand,
    },
    /// Sends texts and interrupts to live sessions, as a member of a team.
    Control {
        #[command(subcommand)]
        command: control::ControlCommand,
    },
    /// The realm: sessions that several of your machines share.
    Realm {
        #[command(subcommand)]
        command: realm::RealmCommand,
    },
    /// Reads EDN from standard input and prints it canonically, one form a line.
    Edn,
    /// Runs the contract of the protocol against any server that claims to speak it.
    ///
    /// Starts the server in a temporary folder with a home of its own. In the arguments of COMMAND, {script}
    /// stands for a file with the model's answers, {state} for a folder that keeps the server's state from one
    /// start of a check to the next, and {config} for a file with the user's configuration. A check that needs a
    /// word that is not there is reported as not applicable.
    Contract {
        /// What the server speaks: edn, or ui-protocol.
        #[arg(long, value_name = "WIRE", default_value = "edn", value_parser = clap::value_parser!(Wire))]
        wire: Wire,
        /// How the report is written.
        #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = clap::value_parser!(Format))]
        format: Format,
        /// Only this check or rule, or this room of them (framing, topic); may be given several times.
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// How long to wait for one answer or event, in seconds.
        #[arg(long, value_name = "SECONDS", default_value = "10")]
        patience: u64,
        /// The command that starts the server, and its arguments.
        #[arg(last = true, required = true, value_name = "COMMAND")]
        server: Vec<OsString>,
    },
    /// Prints what a shell needs to complete these commands.
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: completion::Shell,
    },
    /// Prints the manual page; with a folder, writes a page for each command there.
    Man {
        /// The folder, such as ~/.local/share/man/man1.
        folder: Option<PathBuf>,
    },
    /// Writes the files that are generated from the protocol's catalogue.
    #[command(hide = true)]
    Generate {
        /// The project's folder.
        root: PathBuf,
    },
}

/// The exit status of a command that failed.
const FAILED: u8 = 1;
/// That of a command that was called wrongly; clap's too.
const USAGE: u8 = 2;
/// That of a prompt whose server cannot be reached or is overloaded: the same later may succeed.
const UNREACHABLE: u8 = 3;
/// That of a prompt that cannot succeed before the configuration is changed.
const NOT_SET_UP: u8 = 4;
/// That of a prompt that a limit ended.
const LIMIT: u8 = 5;
/// That of a prompt without the structured answer that it asked for.
const NO_ANSWER: u8 = 6;
/// That of a command that C-c ended, by the convention of shells.
const INTERRUPTED: u8 = 130;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// There is no home folder to keep the state in.
    #[error("There is no home folder: name one with --state-dir DIR.")]
    NoHome,
    /// A folder's path is not UTF-8. Paths are part of frames and journals, which are text.
    #[error("the {role} folder's path is not UTF-8: {}; choose another ({option})", path.display())]
    NotText {
        /// `state` or `project`.
        role: &'static str,
        /// Its option.
        option: &'static str,
        /// Its path.
        path: PathBuf,
    },
    /// The configuration is unusable.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model's script is unusable.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The state is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No session, or more than one, has this name.
    #[error("{0}")]
    NoSession(String),
    /// The process cannot start.
    #[error("cannot start: {0}")]
    Start(Box<dyn std::error::Error + Send + Sync>),
    /// A folder, a file, a stream or a terminal is unusable.
    #[error("{place}: {error}")]
    Io {
        /// Its name for a person.
        place: String,
        /// The system's error.
        error: io::Error,
    },
    /// The embedded model cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A bridge refused a request.
    #[error("{}", .0.message)]
    Refused(#[from] Refused),
    /// A form on standard input has no end.
    #[error("standard input ended within a form")]
    OpenForm,
    /// The prompt, the contract or the opening of the engine failed; contains the reason.
    #[error("{0}")]
    Failed(String),
    /// The same with an exit status of its own.
    #[error("{message}")]
    Status {
        /// The exit status.
        code: u8,
        /// The reason.
        message: String,
    },
}

impl Failure {
    fn start(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Start(error.into())
    }

    fn io(place: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let place = place.into();
        |error| Self::Io { place, error }
    }
}

/// The exit status of a command.
type Exit = Result<ExitCode, Failure>;

/// Runs the program.
pub fn main() -> ExitCode {
    edn_bridge::heap::set_up();
    edn_bridge::runner::enable();
    let matches = Arguments::command().try_get_matches().unwrap_or_else(|error| told(&error));
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let options = Options { origins: origins(&matches), ..arguments.options };
    // Editors of the Agent Client Protocol show each line of standard error as a failure. `config` and `doctor` print
    // what is wrong themselves.
    let is_quiet = matches!(
        arguments.command,
        Command::Acp { command: None, .. } | Command::Config { .. } | Command::Doctor { .. }
    );
    // Whoever starts these reads a log; all others are for a person.
    let is_logged = matches!(
        arguments.command,
        Command::Serve { .. } | Command::Acp { .. } | Command::Daemon { .. } | Command::Mcp { .. }
    );
    style::choose(options.color);
    let names_log = options.origins.iter().any(|(setting, _)| *setting == "log");
    let filter = if is_quiet && !names_log { "error" } else { &options.log };
    let log = log::Log::default();
    let exporting = exporting(&options, &arguments.command);
    set_up_log(&options, filter, is_logged || names_log, &log, exporting.as_ref());
    let result = match arguments.command {
        Command::Serve { wire, approval_mode, no_daemon, daemon } => {
            let protocol = match wire.as_str() {
                "ui-protocol" => Protocol::Ui {
                    diagnostics: std::env::var_os("CODELIA_DIAGNOSTICS").is_some_and(|value| value == "1"),
                },
                _ => Protocol::Edn,
            };
            let wanted = if no_daemon || daemon == "never" { daemon::Use::Never } else { daemon::Use::Auto };
            serve::run(&options.approved(approval_mode.as_deref()), protocol, wanted)
        }
        Command::Acp { command: Some(acp::AcpCommand::Login { provider }), .. } => {
            login::login(&options, provider)
        }
        Command::Acp { command: None, no_daemon, daemon } => {
            let wanted = if no_daemon || daemon == "never" { daemon::Use::Never } else { daemon::Use::Auto };
            acp::run(&options, wanted)
        }
        Command::Query { query, session, explain } => repl::query(&options, query, session, explain),
        Command::Repl { session } => repl::run(&options, session),
        Command::Prompt(arguments) => prompt::prompt(&options, arguments),
        Command::Chat(arguments) => chat::run(&options, &arguments),
        Command::Completion { shell } => completion::completion(shell),
        Command::Man { folder } => completion::man(folder),
        Command::Sessions { command } => sessions::run(&options, command),
        Command::Realm { command } => realm::run(&options, command),
        Command::Control { command } => control::run(&options, command),
        Command::Models { command } => models::run(&options, command),
        Command::Rules { command, json } => permissions::rules(&options, command, json),
        Command::Audit { limit, json } => permissions::audit(&options, limit, json),
        Command::Usage(arguments) => usage::run(&options, &arguments),
        Command::Top(arguments) => top::run(&options, &arguments),
        Command::Config { command } => config_command::run(&options, command),
        Command::Login { provider } => login::login(&options, provider),
        Command::Logout { provider } => login::logout(&options, provider),
        Command::Mcp { command } => mcp::run(&options, command),
        Command::Daemon { command } => daemon::run(&options, command),
        Command::Doctor { format } => doctor::run(&options, format == "edn"),
        Command::Edn => show::edn(),
        Command::Contract { wire, format, only, patience, server } => {
            show::contract(wire, server, format, only, Duration::from_secs(patience))
        }
        Command::Generate { root } => show::generate(&root),
    };
    if let Some(exporting) = exporting {
        exporting.end();
    }
    log.end();
    match result {
        Ok(code) => code,
        // A reader that closes the pipe early, such as `head`, has what it wants.
        Err(Failure::Io { error, place })
            if error.kind() == io::ErrorKind::BrokenPipe && place.starts_with("standard") =>
        {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(out::stderr(), "edn-bridge: {failure}");
            ExitCode::from(match failure {
                Failure::Status { code, .. } => code,
                _ => FAILED,
            })
        }
    }
}

/// Says what is wrong with the command line, and ends. In the usage, what a variable sets would stand as if it had to be
/// written.
fn told(error: &clap::Error) -> ! {
    let alone = Arguments::command().mut_args(|argument| argument.env(None::<&'static str>));
    match alone.try_get_matches() {
        Err(same) if error.use_stderr() && same.kind() == error.kind() => same.exit(),
        _ => error.exit(),
    }
}

/// The sources of settings on the command line and in the environment: setting, argument, variable.
const SOURCES: &[(&str, &str, &str)] = &[
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
fn origins(matches: &ArgMatches) -> Vec<(&'static str, String)> {
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

/// What sends spans and metrics, if the user wants that and the command does work of its own.
#[cfg(feature = "otel")]
fn exporting(options: &Options, command: &Command) -> Option<telemetry::Exporter> {
    let policy = match command.works() {
        true => options.settings_to_write().map(|settings| settings.telemetry),
        false => return None,
    };
    // What is wrong with the configuration is told where it is used.
    telemetry::Exporter::of(&policy.unwrap_or_default())
}

/// Stands for what sends spans, in a program without it.
#[cfg(not(feature = "otel"))]
enum Exporting {}

#[cfg(not(feature = "otel"))]
impl Exporting {
    fn end(self) {
        match self {}
    }
}

#[cfg(feature = "otel")]
use telemetry::Exporter as Exporting;

#[cfg(not(feature = "otel"))]
const fn exporting(_: &Options, _: &Command) -> Option<Exporting> {
    None
}

/// Sends the log to standard error: standard output is the wire.
fn set_up_log(
    options: &Options,
    filter: &str,
    is_logged: bool,
    log: &log::Log,
    exporting: Option<&Exporting>,
) {
    let mut filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_else(|_| "warn".into());
    // The first writes whole messages, and addresses with their keys; what matters of them is told without it. The second
    // has texts of conversations, for a receiver that the user named. The third takes the end of a connection for an error.
    for quiet in
        ["rmcp=off".to_owned(), "async_nats=off".to_owned(), format!("{}=off", edn_bridge::telemetry::TEXTS)]
    {
        if let Ok(quiet) = quiet.parse() {
            filter = filter.add_directive(quiet);
        }
    }
    let lines = tracing_subscriber::fmt::layer().with_writer(log.clone()).with_ansi(false);
    // The spans tell where a turn begins and ends, and how long its calls took.
    let spans = FmtSpan::NEW | FmtSpan::CLOSE;
    let lines = match options.log_format.as_str() {
        "json" => lines.with_span_events(spans).json().with_filter(filter).boxed(),
        _ if is_logged => lines.with_span_events(spans).with_filter(filter).boxed(),
        _ => lines.event_format(log::ForPeople).with_filter(filter).boxed(),
    };
    let set_up = tracing_subscriber::registry().with(lines);
    // A layer that is not there would count as one that wants nothing, and nobody would be asked.
    let _ = match exporting {
        #[cfg(feature = "otel")]
        Some(exporting) => set_up.with(exporting.layer()).try_init(),
        _ => set_up.try_init(),
    };
}

impl Command {
    /// Whether it may run turns in this process.
    #[cfg(feature = "otel")]
    const fn works(&self) -> bool {
        match self {
            Self::Serve { .. } | Self::Acp { command: None, .. } | Self::Prompt(_) | Self::Chat(_) => true,
            Self::Daemon { command } => matches!(command, DaemonCommand::Run { .. }),
            Self::Mcp { command } => matches!(command, Some(mcp::McpCommand::Serve { .. })),
            _ => false,
        }
    }
}

impl Options {
    /// The same with the mode that an interface of the UI protocol names, if it does.
    fn approved(&self, approval_mode: Option<&str>) -> Self {
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
    fn durability(&self) -> Durability {
        Durability::parse(&self.durability).unwrap_or_default()
    }

    /// The journals of the state folder, for a command that needs no engine.
    fn store(&self, settings: &Settings) -> Result<Store, Failure> {
        let folder = settings.state_dir.display().to_string();
        Store::new(&settings.state_dir, self.durability()).map_err(Failure::io(folder))
    }

    /// The state folder, absolute.
    fn state_folder(&self) -> Result<PathBuf, Failure> {
        match &self.state_dir {
            Some(dir) => {
                std::path::absolute(dir).map_err(Failure::io(format!("--state-dir {}", dir.display())))
            }
            None => config::default_state_dir().ok_or(Failure::NoHome),
        }
    }

    /// The settings of these options and the configuration files.
    fn settings(&self) -> Result<Settings, Failure> {
        self.config_is_there()?;
        self.settings_to_write()
    }

    /// Fails if a file is named as the user's that is not there.
    fn config_is_there(&self) -> Result<(), Failure> {
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
    fn settings_that_can_be(&self) -> Result<(Settings, Layers, Vec<ConfigError>), Failure> {
        self.config_is_there()?;
        let files = self.config_files()?;
        let (layers, wrong) = files.read_what_can_be();
        Ok((self.settings_of(files, &layers)?, layers, wrong))
    }

    /// The files of the configuration, which are not read.
    fn config_files(&self) -> Result<Files, Failure> {
        let (state_dir, cwd) = self.folders()?;
        Ok(Files::find(self.config.as_deref(), &cwd, &state_dir))
    }

    /// The state folder and the working folder.
    fn folders(&self) -> Result<(PathBuf, PathBuf), Failure> {
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
    fn settings_to_write(&self) -> Result<Settings, Failure> {
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
            usual: (embedded::NAME.into(), edn_bridge::provider::downloads::SMOLLM2.id.into()),
            origins,
        }
    }
}
