//! The command line: assembles what each command needs. Contains no rules of its own: sessions, wires and files are
//! the library's.

mod acp;
mod canonical;
mod chat;
mod completion;
mod config_command;
mod control;
mod daemon;
mod default_model;
mod doctor;
mod engine_client;
mod ephemeral;
mod failure;
mod input;
mod lock;
mod log;
mod login;
mod mcp;
mod models;
mod options;
mod out;
mod permissions;
mod progress;
mod prompt;
mod realm;
mod repl;
mod rule_options;
mod runtime;
mod schema;
mod serve;
mod served;
mod sessions;
mod show;
mod signals;
mod style;
mod table;
#[cfg(feature = "otel")]
mod telemetry;
mod top;
mod typed;
mod usage;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use daemon::DaemonCommand;
use edn_bridge_contract::{Format, Wire};
use failure::Failure;
use options::{Options, origins};
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

#[derive(Subcommand)]
enum Command {
    /// Runs one turn without an editor and streams the answer to standard output.
    ///
    /// Exit status: 0 answered, 1 failed, 2 wrong usage, 3 the model's server cannot be reached or is overloaded, 4 the
    /// configuration or the provider is not usable, 5 ended by --max-turns, --timeout or the length of the answer, 6 no
    /// answer that fits --schema, 7 answered, but calls were refused that need an approval (--allow admits them), 130
    /// interrupted (128 and its number for another signal).
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
    /// MCP servers (Model Context Protocol): which there are, and this program as one.
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
        Command::Prompt(arguments) => prompt::prompt(&options, &arguments),
        Command::Chat(arguments) => chat::run(&options, &arguments),
        Command::Completion { shell } => completion::completion(&Arguments::command(), shell),
        Command::Man { folder } => completion::man(Arguments::command(), folder),
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
            ExitCode::from(failure.status())
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
