//! Parses slash commands into a type.
//!
//! Knows the grammar (`grammar/slash.ebnf`) and the catalogue's names. Runs nothing; the engine does.

use std::borrow::Cow;

use crate::catalogue::COMMANDS;
use crate::message::ThinkingLevel;

/// A person's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserInput<'a> {
    /// Text for the model. A doubled slash at the start becomes a single one.
    Text(Cow<'a, str>),
    /// A command.
    Command(Command<'a>),
    /// A command with invalid arguments; contains its syntax.
    Usage(&'static str),
    /// A slash and an unknown name: a prompt template, a skill, a prompt of an MCP server, a command of an
    /// external agent, or a mistake.
    Unknown {
        /// The name, without its slash.
        name: &'a str,
        /// The text after the name.
        arguments: &'a str,
    },
}

/// A slash command with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// `/help`, `/?`
    Help,
    /// `/quit`, `/exit`
    Quit,
    /// `/new [agent]`
    New(Option<&'a str>),
    /// `/resume [text]`
    Resume(Option<&'a str>),
    /// `/tree [id]`
    Tree(Option<&'a str>),
    /// `/fork`
    Fork,
    /// `/share`
    Share,
    /// `/hosts`
    Hosts,
    /// `/take [folder]`
    Take(Option<&'a str>),
    /// `/give host`
    Give(&'a str),
    /// `/mode [name]`
    Mode(Option<&'a str>),
    /// `/trust`
    Trust,
    /// `/workflow name [args]`
    Workflow {
        /// The workflow.
        name: &'a str,
        /// Its arguments.
        arguments: &'a str,
    },
    /// `/reload`
    Reload,
    /// `/status`
    Status,
    /// `/history`
    History,
    /// `/model [provider/model]`
    Model(Option<&'a str>),
    /// `/thinking [level]`
    Thinking(Option<ThinkingLevel>),
    /// `/compact [text]`
    Compact(Option<&'a str>),
    /// `/leave-out`
    LeaveOut,
    /// `/search [on|off]`
    Search(Option<bool>),
    /// `/name text`
    Name(&'a str),
    /// `/prompts`
    Prompts,
    /// `/skills`
    Skills,
    /// `/remember [text]`
    Remember(Option<&'a str>),
    /// `/login [provider]`
    Login(Option<&'a str>),
    /// `/logout [provider]`
    Logout(Option<&'a str>),
    /// `/worktree`
    Worktree,
    /// `/jobs`
    Jobs,
    /// `/job id`
    Job(&'a str),
    /// `/cancel-job id`
    CancelJob(&'a str),
    /// `/tools`
    Tools,
    /// `/mcp`
    Mcp,
    /// `/mcp on|off server [tool]`
    SetMcp {
        /// Whether it is switched on.
        enabled: bool,
        /// The server.
        server: &'a str,
        /// One of its tools.
        tool: Option<&'a str>,
    },
    /// `/mcp restart server`
    RestartMcp(&'a str),
    /// `/export [path]`
    Export(Option<&'a str>),
    /// `/retry`
    Retry,
    /// `/continue`
    Continue,
    /// `/undo`
    Undo,
    /// `/redo`
    Redo,
    /// `/abort`
    Abort,
}

impl Command<'_> {
    /// Whether only a person may give it, and no program that speaks to a session: it changes what runs unasked, what every
    /// later session is told, who has the session, or which keys are there.
    pub const fn is_for_people(&self) -> bool {
        match self {
            Self::Mode(Some(_))
            | Self::Search(Some(true))
            | Self::Trust
            | Self::Reload
            | Self::Remember(_)
            | Self::Login(_)
            | Self::Logout(_)
            | Self::Share
            | Self::Take(_)
            | Self::Give(_)
            | Self::SetMcp { .. }
            | Self::RestartMcp(_)
            | Self::Export(_) => true,
            Self::Help
            | Self::Quit
            | Self::New(_)
            | Self::Resume(_)
            | Self::Tree(_)
            | Self::Fork
            | Self::Hosts
            | Self::Mode(None)
            | Self::Workflow { .. }
            | Self::Status
            | Self::History
            | Self::Model(_)
            | Self::Thinking(_)
            | Self::Compact(_)
            | Self::LeaveOut
            | Self::Search(_)
            | Self::Name(_)
            | Self::Prompts
            | Self::Skills
            | Self::Worktree
            | Self::Jobs
            | Self::Job(_)
            | Self::CancelJob(_)
            | Self::Tools
            | Self::Mcp
            | Self::Retry
            | Self::Continue
            | Self::Undo
            | Self::Redo
            | Self::Abort => false,
        }
    }
}

/// Parses a line. Total: every text is one of the variants.
pub fn read(text: &str) -> UserInput<'_> {
    if let Some(rest) = text.strip_prefix('/')
        && rest.starts_with('/')
    {
        return UserInput::Text(Cow::Borrowed(rest));
    }
    match name(text) {
        None => UserInput::Text(Cow::Borrowed(text)),
        Some((name, rest)) => match COMMANDS.iter().find(|spec| spec.name == name) {
            Some(spec) => {
                command(spec.name, rest.trim()).map_or(UserInput::Usage(spec.usage), UserInput::Command)
            }
            None => UserInput::Unknown { name, arguments: rest.trim() },
        },
    }
}

/// Whether a text matches the grammar of command names.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'?')
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// Whether a text is the name of a command that an MCP server offers: `mcp__server__prompt`.
pub fn is_of_server(text: &str) -> bool {
    let of_server = text.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    of_server.is_some_and(|(server, prompt)| !server.is_empty() && !prompt.is_empty())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// A slash and `[a-z?][a-z-]*`, or the name of a server's command, up to a blank or the end; and the rest.
fn name(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at_checked(end)?;
    (is_name(name) || is_of_server(name)).then_some((name, arguments))
}

/// The catalogued command with that name; `None` if the arguments are invalid.
fn command<'a>(name: &str, arguments: &'a str) -> Option<Command<'a>> {
    let mut words = arguments.split_whitespace();
    let (first, second, third) = (words.next(), words.next(), words.next());
    let rest = (!arguments.is_empty()).then_some(arguments);
    // A command without arguments does not ignore extra ones, because they are a mistake worth reporting.
    let alone = |command: Command<'a>| first.is_none().then_some(command);
    let one = second.is_none();
    match name {
        "help" | "?" => alone(Command::Help),
        "quit" | "exit" => alone(Command::Quit),
        "new" => one.then_some(Command::New(first)),
        "resume" => Some(Command::Resume(rest)),
        "tree" => one.then_some(Command::Tree(first)),
        "fork" => alone(Command::Fork),
        "share" => alone(Command::Share),
        "hosts" => alone(Command::Hosts),
        "take" => Some(Command::Take(rest)),
        "give" => first.filter(|_| one).map(Command::Give),
        "mode" => one.then_some(Command::Mode(first)),
        "trust" => alone(Command::Trust),
        "workflow" => {
            let name = first?;
            let arguments = arguments.strip_prefix(name)?.trim_start();
            Some(Command::Workflow { name, arguments })
        }
        "reload" => alone(Command::Reload),
        "status" => alone(Command::Status),
        "history" => alone(Command::History),
        "model" => third.is_none().then_some(Command::Model(rest)),
        "thinking" => match first {
            None => Some(Command::Thinking(None)),
            Some(level) if one => ThinkingLevel::parse(level).map(|level| Command::Thinking(Some(level))),
            Some(_) => None,
        },
        "compact" => Some(Command::Compact(rest)),
        "leave-out" => alone(Command::LeaveOut),
        "search" => match first {
            None => Some(Command::Search(None)),
            Some(word @ ("on" | "off")) if one => Some(Command::Search(Some(word == "on"))),
            Some(_) => None,
        },
        "name" => rest.map(Command::Name),
        "prompts" => alone(Command::Prompts),
        "skills" => alone(Command::Skills),
        "remember" => Some(Command::Remember(rest)),
        "login" => one.then_some(Command::Login(first)),
        "logout" => one.then_some(Command::Logout(first)),
        "worktree" => alone(Command::Worktree),
        "jobs" => alone(Command::Jobs),
        "job" => first.filter(|_| one).map(Command::Job),
        "cancel-job" => first.filter(|_| one).map(Command::CancelJob),
        "tools" => alone(Command::Tools),
        "mcp" => match (first, second, third) {
            (None, ..) => Some(Command::Mcp),
            (Some("restart"), Some(server), None) => Some(Command::RestartMcp(server)),
            (Some(word @ ("on" | "off")), Some(server), tool) if words.next().is_none() => {
                Some(Command::SetMcp { enabled: word == "on", server, tool })
            }
            _ => None,
        },
        "export" => Some(Command::Export(rest)),
        "retry" => alone(Command::Retry),
        "continue" => alone(Command::Continue),
        "undo" => alone(Command::Undo),
        "redo" => alone(Command::Redo),
        "abort" => alone(Command::Abort),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_kinds_are_distinguished() {
        let text = |text| UserInput::Text(Cow::Borrowed(text));
        let set_mcp = |enabled, server, tool| UserInput::Command(Command::SetMcp { enabled, server, tool });
        let of_server = |name, arguments| UserInput::Unknown { name, arguments };
        const MCP: &str = "/mcp [on|off server [tool]] OR /mcp restart server";
        for (input, expected) in [
            ("hello", text("hello")),
            ("", text("")),
            ("/", text("/")),
            ("/usr/bin/env", text("/usr/bin/env")),
            ("/Users", text("/Users")),
            ("/help.md", text("/help.md")),
            (" /help", text(" /help")),
            ("//help", text("/help")),
            ("///", text("//")),
            ("/help", UserInput::Command(Command::Help)),
            ("/?", UserInput::Command(Command::Help)),
            ("/help\n", UserInput::Command(Command::Help)),
            ("/help me", UserInput::Usage("/help")),
            ("/tree", UserInput::Command(Command::Tree(None))),
            ("/tree s-1", UserInput::Command(Command::Tree(Some("s-1")))),
            ("/tree a b", UserInput::Usage("/tree [id]")),
            ("/model", UserInput::Command(Command::Model(None))),
            ("/model p m", UserInput::Command(Command::Model(Some("p m")))),
            ("/model p/m", UserInput::Command(Command::Model(Some("p/m")))),
            ("/model p m x", UserInput::Usage("/model [provider/model]")),
            ("/thinking high", UserInput::Command(Command::Thinking(Some(ThinkingLevel::High)))),
            ("/search", UserInput::Command(Command::Search(None))),
            ("/search off", UserInput::Command(Command::Search(Some(false)))),
            ("/search rust", UserInput::Usage("/search [on|off]")),
            ("/thinking deep", UserInput::Usage("/thinking [level]")),
            ("/name  a b ", UserInput::Command(Command::Name("a b"))),
            ("/name", UserInput::Usage("/name text")),
            ("/workflow w a  b", UserInput::Command(Command::Workflow { name: "w", arguments: "a  b" })),
            ("/job", UserInput::Usage("/job id")),
            ("/mcp", UserInput::Command(Command::Mcp)),
            ("/mcp off git", set_mcp(false, "git", None)),
            ("/mcp on git  log", set_mcp(true, "git", Some("log"))),
            ("/mcp restart git", UserInput::Command(Command::RestartMcp("git"))),
            ("/mcp on git log x", UserInput::Usage(MCP)),
            ("/mcp off", UserInput::Usage(MCP)),
            ("/mcp__git__A_b-1 x y", of_server("mcp__git__A_b-1", "x y")),
            ("/mcp__git", text("/mcp__git")),
            ("/mcp____x", text("/mcp____x")),
            ("/mcp__git__a.b", text("/mcp__git__a.b")),
            ("/Mcp__git__a", text("/Mcp__git__a")),
        ] {
            assert_eq!(read(input), expected, "{input:?}");
        }
    }

    #[test]
    fn every_catalogued_command_is_parsed() {
        for spec in COMMANDS {
            for arguments in ["", " x", " high", " a b"] {
                let line = format!("/{}{arguments}", spec.name);
                assert!(!matches!(read(&line), UserInput::Unknown { .. } | UserInput::Text(_)), "{line}");
            }
            let understood = ["", " x", " high", " a b"].iter().any(|arguments| {
                matches!(read(&format!("/{}{arguments}", spec.name)), UserInput::Command(_))
            });
            assert!(understood, "/{} is never understood", spec.name);
        }
    }

    /// The names of the commands that the grammar gives no arguments, and of all others.
    #[test]
    fn grammar_and_catalogue_have_the_same_commands() {
        let grammar = include_str!("../grammar/slash.ebnf");
        let (_, productions) = grammar.split_once("The arguments of each command").unwrap();
        let quoted = |text: &str| text.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let (mut alone, mut first) = (Vec::new(), Vec::new());
        for production in productions.split(';') {
            let Some((name, body)) = production.split_once('=') else { continue };
            match name.trim().rsplit(char::is_whitespace).next().unwrap() {
                "alone" | "help" | "quit" => alone.extend(quoted(body)),
                // `("job" | "cancel-job") , job-id`, and words such as `tool = word`, which have no quotes.
                _ => first.extend(quoted(body.split(',').next().unwrap())),
            }
        }
        let of_catalogue = |is_alone: bool| {
            let names = COMMANDS.iter().filter(|spec| (spec.usage.len() == spec.name.len() + 1) == is_alone);
            let mut names: Vec<_> = names.map(|spec| spec.name.to_owned()).collect();
            names.sort();
            names
        };
        alone.sort();
        first.sort();
        assert_eq!((alone, first), (of_catalogue(true), of_catalogue(false)));
    }
}
