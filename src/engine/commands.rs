//! Runs slash commands.
//!
//! A command calls the session API like any frontend, and sends its outcome as an event to the connection
//! that gave it. A command that needs a choice asks the frontend to offer it natively. Does not know the
//! wire.

mod choice;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalogue::{COMMANDS, CommandSpec, REALM_COMMANDS};
use crate::config::{Files, ProjectFiles, unwatched};
use crate::context::Project;
use crate::edn;
use crate::engine::change::{Change, HeldRun};
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::incoming::Incoming;
use crate::engine::login::LoginDesk;
use crate::engine::mcp::SessionAnswerer;
use crate::engine::project_notes;
use crate::engine::remote::{RemoteCall, owner_elsewhere, stays_elsewhere};
use crate::engine::withheld;
use crate::engine::workflow;
use crate::facts::agent::AgentCommand;
use crate::facts::mcp::McpServer;
use crate::facts::{CommandFacts, HostFacts, JobFacts};
use crate::message::{Mode, SessionId, ThinkingLevel, TurnId};
use crate::session::{
    Again, ApiError, Call, Jobs as _, Logins as _, McpServers as _, McpSwitch, NewSession, Opened, Prompted,
    Reach, Reply, SessionSettings as _, Sessions as _, SwitchTarget, Turns as _, Undo, Undone, Undos as _,
};
use crate::slash::{self, Command, UserInput};
use crate::store::EntryBody;
use crate::store::record::{KeyedRequest, Withheld};
use crate::tool::WEB_SEARCH;

/// The slash commands of an engine.
pub struct Commands<'r>(pub &'r Engine);

impl Commands<'_> {
    /// Runs a line: a command, or text for the model.
    pub(super) fn line(&self, call: Call, mut incoming: Incoming, reply: Reply<Prompted>) {
        let text = incoming.prompt.message.clone();
        let read = slash::read(&text);
        if matches!(read, UserInput::Text(_) | UserInput::Unknown { .. })
            && let Some(owner) = owner_elsewhere(self.0, &call)
        {
            // As it was typed: templates, skills and servers are those of the session's host.
            return owner.ask_prompt(&call, incoming.prompt, RemoteCall::Prompt, reply);
        }
        match read {
            UserInput::Text(text) => {
                incoming.prompt.message = text.into_owned();
                self.0.begin_turn(call, incoming, reply);
            }
            UserInput::Unknown { name, arguments, .. } => {
                let (name, arguments) = (name.to_owned(), arguments.to_owned());
                self.own_command(call, name, arguments, incoming, reply);
            }
            UserInput::Usage(usage) => {
                reply.ok(Prompted::default());
                self.0.shared.tell(&call, "text", format!("Usage: {usage}"));
            }
            UserInput::Command(command) => match (incoming.request, self.0.shared.tree.get(&call.session)) {
                // Its key is known where the session is: what the command asks for goes there.
                (Some(_), Ok(handle)) if handle.snapshot().facts.is_elsewhere => {
                    reply.ok(Prompted::default());
                    let _executor = self.0.shared.executor.enter();
                    self.run_command(call, &handle, command);
                }
                (Some(request), _) => self.run_once(call, request, text, reply),
                (None, Err(error)) => reply.fail(error),
                (None, Ok(handle)) => {
                    reply.ok(Prompted::default());
                    let _executor = self.0.shared.executor.enter();
                    self.run_command(call, &handle, command);
                }
            },
        }
    }

    /// Starts a turn with the prompt template or skill of that name.
    fn own_command(
        &self,
        call: Call,
        name: String,
        arguments: String,
        incoming: Incoming,
        reply: Reply<Prompted>,
    ) {
        let handle = match self.0.shared.tree.get(&call.session) {
            Ok(handle) => handle,
            Err(error) => return reply.fail(error),
        };
        if slash::is_of_server(&name) {
            return self.prompt_of_server(call, handle, name, arguments, incoming, reply);
        }
        // On the session's task, so that later requests come after it.
        handle.tell(Change::Invoke { call, name, arguments, incoming, reply });
    }

    /// Starts a turn with the prompt of a server, which may take its time: requests that come meanwhile are served.
    fn prompt_of_server(
        &self,
        call: Call,
        handle: Handle,
        name: String,
        arguments: String,
        mut incoming: Incoming,
        reply: Reply<Prompted>,
    ) {
        let engine = self.0.clone();
        // From here on, so that an abort that follows at once counts.
        let stop = handle.stoppable();
        let fill_in = async move {
            let (shared, session, cause) = (engine.shared.clone(), handle.clone(), Some(call.cause()));
            let answerer = SessionAnswerer::new(shared, session, None, cause, stop.clone());
            match engine.shared.mcp.fill_in_prompt(&handle, &name, &arguments, answerer, &stop).await {
                Ok(filled) => {
                    // The server's text names no file, resource or skill for the person.
                    incoming.ahead.typed = Some(arguments);
                    incoming.prompt.message = filled.message;
                    incoming.prompt.images.extend(filled.images);
                    engine.with_resources(handle, incoming, reply, |handle, incoming, reply| {
                        handle.tell(Change::Prompt { call, incoming, reply });
                    });
                }
                Err(error) => reply.fail(error),
            }
        };
        self.0.shared.tasks.spawn_on(fill_in, &self.0.shared.executor);
    }

    /// Runs a command, unless its key was answered before; the session's task knows the keys.
    fn run_once(&self, call: Call, request: Box<KeyedRequest>, line: String, reply: Reply<Prompted>) {
        let handle = match self.0.shared.tree.get(&call.session) {
            Ok(handle) => handle,
            Err(error) => return reply.fail(error),
        };
        let (engine, session) = (self.0.clone(), handle.clone());
        let claimed = Reply::new(move |claim: Result<Prompted, ApiError>| {
            let is_new = claim.as_ref().is_ok_and(|claim| claim.repeated.is_none());
            reply.send(claim);
            if is_new && let UserInput::Command(command) = slash::read(&line) {
                Commands(&engine).run_command(call, &session, command);
            }
        });
        handle.tell(Change::Claim { request, reply: claimed });
    }

    fn run_command(&self, call: Call, handle: &Handle, command: Command<'_>) {
        let snapshot = handle.snapshot();
        match command {
            Command::Remember(_)
            | Command::Prompts
            | Command::Skills
            | Command::Tools
            | Command::LeaveOut
            | Command::Search(_)
            | Command::Workflow { .. }
                if let Some(error) = stays_elsewhere(handle) =>
            {
                self.0.shared.tell(&call, "error", error.message);
            }
            Command::Help => {
                let own: Vec<_> = own(self.0.shared.federation.get().is_some()).collect();
                self.0.shared.tell(&call, "text", text::help(&own));
            }
            Command::Quit => {
                self.0.shared.tell(&call, "quit", String::new());
                if let Some(client) = self.0.shared.hub.client(call.connection) {
                    client.close();
                }
            }
            Command::New(agent) => {
                let reply = self.opened(&call, "new_session");
                let wanted = NewSession { agent: agent.map(str::to_owned), ..NewSession::default() };
                self.0.new_session(call, wanted, reply);
            }
            Command::Resume(text) => self.ask_resume(call, text),
            Command::Tree(None) | Command::Fork => {
                self.ask_session(&call, &snapshot, command == Command::Fork)
            }
            Command::Tree(Some(id)) => {
                let target = SwitchTarget::Id(SessionId::from(id));
                self.0.switch_session(call.clone(), target, self.opened(&call, "session_switch"));
            }
            Command::Share => {
                let reply = self.text(&call, |()| "Your other hosts see this session now.".to_owned());
                self.0.share_session(call.clone(), reply);
            }
            Command::Hosts => {
                let reply = self.text(&call, |hosts: Vec<HostFacts>| text::hosts(&hosts));
                self.0.hosts(call.clone(), reply);
            }
            Command::Take(folder) => {
                let folder = folder.map(PathBuf::from);
                let (is_given, own) = (folder.is_some(), self.0.shared.settings.cwd.clone());
                let reply = self.text(&call, move |cwd: String| {
                    let why = match (is_given, own == Path::new(&cwd)) {
                        (true, _) => "as you said",
                        (false, true) => "the folder of this project",
                        (false, false) => "which has the same git remote",
                    };
                    format!("This host continues the session, in {cwd} ({why}).")
                });
                self.0.take_session(call.clone(), handle.id.clone(), folder, reply);
            }
            Command::Give(host) => {
                let reply = self.text(&call, |host| format!("The session is {host}'s now."));
                self.0.hand_over_session(call.clone(), handle.id.clone(), host.to_owned(), reply);
            }
            Command::Mode(None) => {
                self.0.shared.tell(&call, "text", format!("Mode: {}", snapshot.facts.mode))
            }
            Command::Mode(Some(mode)) => {
                let Some(mode) = Mode::parse(mode) else {
                    return self.0.shared.tell(
                        &call,
                        "text",
                        format!("Usage: /mode {}", Mode::NAMES.join("|")),
                    );
                };
                let reply = self.text(&call, |mode| format!("Mode set to {mode}"));
                self.0.set_mode(call.clone(), mode, reply);
            }
            Command::Trust => {
                let (shared, cwd) = (self.0.shared.clone(), snapshot.facts.cwd.clone());
                let reply = self.text(&call, move |_| trusted(&shared.configuration.files_of(&cwd)));
                self.0.trust_project(call.clone(), true, None, reply);
            }
            Command::Workflow { name, arguments } => self.workflow(call, handle, name, arguments),
            Command::Reload => self.reload(call, handle),
            Command::Status => self.0.shared.tell(&call, "text", text::status(&snapshot)),
            Command::History => self.0.shared.tell(&call, "text", text::history(&snapshot)),
            Command::Model(None) => self.ask_model(call),
            Command::Model(Some(name)) => {
                let config = self.0.shared.configuration.newest();
                let reply = self.outcome(&call, "model_set", move |(provider, id): (String, String)| {
                    text::model_set(&config.models, &provider, &id)
                });
                self.0.set_model(call.clone(), None, name.to_owned(), Reach::Session, reply);
            }
            Command::Thinking(None) => self.ask_thinking(&call),
            Command::Thinking(Some(level)) => self.set_thinking(call, level),
            Command::Compact(text) => {
                let reply = self.text(&call, |summary: Option<String>| match summary {
                    Some(summary) => format!("The conversation was compacted.\n\n{summary}"),
                    None => "There is nothing to compact yet.".to_owned(),
                });
                self.0.compact(call.clone(), text.map(str::to_owned), reply);
            }
            Command::LeaveOut => self.leave_out(call, handle),
            Command::Search(enabled) => self.search(call, handle, enabled),
            Command::Name(name) => {
                let reply = self.text(&call, |name| format!("Session named {name}"));
                self.0.set_name(call.clone(), name.to_owned(), reply);
            }
            Command::Prompts => self.tell_project(call, handle, text::templates),
            Command::Skills => self.tell_project(call, handle, text::skills),
            Command::Remember(text) => project_notes::command(&self.0.shared, &call, handle, text),
            Command::Login(provider) => LoginDesk(&self.0.shared).command(call, provider),
            Command::Logout(provider) => {
                let provider =
                    provider.map_or_else(|| snapshot.facts.model_provider.to_string(), str::to_owned);
                let reply = self.outcome(&call, "logout", |done: bool| {
                    if done { "Logged out." } else { "There was no login." }.to_owned()
                });
                self.0.logout(call.clone(), provider, reply);
            }
            Command::Worktree => self.0.shared.tell(&call, "text", text::worktree(&snapshot)),
            Command::Jobs => {
                let reply = self.text(&call, |jobs: Vec<Arc<JobFacts>>| match jobs.len() {
                    0 => "There are no background jobs.".to_owned(),
                    _ => jobs.iter().map(|job| text::job_line(job)).collect::<Vec<_>>().join("\n"),
                });
                self.0.jobs(call.clone(), None, reply);
            }
            Command::Job(id) => {
                self.0.job(
                    call.clone(),
                    id.to_owned(),
                    self.text(&call, |job: Arc<JobFacts>| text::job(&job)),
                );
            }
            Command::CancelJob(id) => {
                let reply = self.text(&call, |_: Arc<JobFacts>| "The job was told to end.".to_owned());
                self.0.cancel_job(call.clone(), id.to_owned(), reply);
            }
            Command::Tools => {
                let facts = &snapshot.facts;
                let model = handle.config().models.describe(&facts.model_provider, &facts.model_id);
                let tools = self.0.shared.mcp.toolbox_to_show(handle);
                self.0.shared.tell(&call, "text", text::tools(&tools, model.tools, &facts.model_id));
            }
            Command::Mcp => {
                let reply = self.text(&call, |servers: Vec<McpServer>| text::servers(&servers));
                self.0.mcp_servers(call.clone(), reply);
            }
            Command::SetMcp { enabled, server, tool } => {
                let about = tool.map_or_else(|| server.to_owned(), |tool| format!("{tool} of {server}"));
                let state = if enabled { "on" } else { "off" };
                let reply = self.text(&call, move |_: McpServer| {
                    format!("{about} is {state} for this session, from the next model call on.")
                });
                let (server, tool) = (server.to_owned(), tool.map(str::to_owned));
                self.0.set_mcp(call.clone(), McpSwitch { server, tool, enabled }, reply);
            }
            Command::RestartMcp(server) => {
                let reply = self.text(&call, |server: McpServer| text::server(&server));
                self.0.restart_mcp(call.clone(), server.to_owned(), reply);
            }
            Command::Export(path) => {
                let reply = self.text(&call, |path| format!("Exported to {path}"));
                self.0.export_html(call.clone(), path.map(str::to_owned), reply);
            }
            Command::Retry => self.ask_again(call, Again::Retry),
            Command::Continue => self.ask_again(call, Again::Continue),
            Command::Undo | Command::Redo => {
                let wish = Undo { undoes: command == Command::Undo, steps: 1, skips_changed: false };
                let reply = self.text(&call, |done: Undone| done.message);
                self.0.undo(call.clone(), wish, reply);
            }
            Command::Abort => {
                self.0.abort(
                    call.clone(),
                    None,
                    self.text(&call, |_| "The turn was told to end.".to_owned()),
                );
            }
        }
    }

    /// Leaves out the message that the model's server refused last.
    fn leave_out(&self, call: Call, handle: &Handle) {
        let snapshot = handle.snapshot();
        let facts = &snapshot.facts;
        let open = withheld::open(&snapshot.branch, &facts.model_provider, &facts.model_id);
        let Some(record) = open else {
            let text = format!("{} has refused no message of this session.", facts.model_id);
            return self.0.shared.tell(&call, "text", text);
        };
        let about = withheld::described(&snapshot.branch, record);
        let entries = vec![EntryBody::Withheld(Box::new(Withheld { left_out: true, ..record.clone() }))];
        let done = format!(
            "From now on, {} gets a note in the place of {about}. /retry asks it again.",
            facts.model_id
        );
        let (shared, session) = (self.0.shared.clone(), handle.clone());
        let write = async move {
            match session.request(|ack| Change::Append { entries, ack }).await {
                Ok(_) => shared.tell(&call, "text", done),
                Err(error) => shared.tell(&call, "error", error.message),
            }
        };
        self.0.shared.tasks.spawn_on(write, &self.0.shared.executor);
    }

    /// Shows or sets whether the model's provider may search the web.
    fn search(&self, call: Call, handle: &Handle, enabled: Option<bool>) {
        let (facts, config) = (&handle.snapshot().facts, handle.config());
        let model = config.models.describe(&facts.model_provider, &facts.model_id);
        let provider = config.providers.get(&facts.model_provider);
        let can = provider.is_some_and(|provider| provider.searches_web(&facts.model_id, &model.takes));
        let text = text::search(facts, config.settings.web_search, enabled, can);
        let Some(enabled) = enabled else { return self.0.shared.tell(&call, "text", text) };
        let entries = vec![EntryBody::Setting { key: WEB_SEARCH.into(), value: enabled.into() }];
        let (shared, session) = (self.0.shared.clone(), handle.clone());
        let write = async move {
            match session.request(|ack| Change::Append { entries, ack }).await {
                Ok(_) => shared.tell(&call, "text", text),
                Err(error) => shared.tell(&call, "error", error.message),
            }
        };
        self.0.shared.tasks.spawn_on(write, &self.0.shared.executor);
    }

    /// Asks the model again. Its answer says enough; a refusal is told.
    fn ask_again(&self, call: Call, how: Again) {
        let (shared, asked) = (self.0.shared.clone(), call.clone());
        let reply = Reply::new(move |begun: Result<Prompted, ApiError>| {
            if let Err(error) = begun {
                shared.tell(&asked, "error", error.message);
            }
        });
        self.0.ask_again(call, how, None, reply);
    }

    /// Starts a workflow, or resumes its last run.
    fn workflow(&self, call: Call, handle: &Handle, name: &str, arguments: &str) {
        let config = handle.config();
        match config.workflows.get(name) {
            Some(Ok(workflow)) => {
                let (engine, session) = (self.0.clone(), handle.clone());
                let (asked, found) = (call.clone(), workflow.clone());
                let reply = Reply::new(move |held: Result<HeldRun, ApiError>| match held {
                    Ok(held) => {
                        let name = &found.name;
                        let began = match &held.from {
                            None => format!("Workflow {name} began."),
                            Some(run) => format!("Workflow {name} continues the stage {}.", run.step),
                        };
                        engine.shared.tell_begun(&asked, "text", began, Some(TurnId::from(&*held.id)));
                        workflow::start(engine.opener.clone(), session, found, asked.cause(), held);
                    }
                    Err(error) => engine.shared.tell(&asked, "error", error.message),
                });
                let (workflow, arguments) = (workflow.name.clone(), arguments.to_owned());
                handle.tell(Change::BeginWorkflow { call, workflow, arguments, reply });
            }
            Some(Err(wrong)) => {
                self.0.shared.tell(&call, "error", format!("The workflow cannot be used: {wrong}"))
            }
            None => {
                let names: Vec<&str> = config.workflows.keys().map(String::as_str).collect();
                let message = format!("There is no workflow {name:?}; there are {}.", names.join(", "));
                self.0.shared.tell(&call, "error", message);
            }
        }
    }

    /// Reports on the session's folder, after a new search.
    fn tell_project(&self, call: Call, handle: &Handle, say: fn(&Project) -> String) {
        let (engine, cwd) = (self.0.clone(), handle.snapshot().facts.cwd.clone());
        let look = move || {
            let project = engine.shared.search_folder(&cwd);
            engine.shared.tell(&call, "text", say(&project));
        };
        self.0.shared.tasks.spawn_blocking_on(look, &self.0.shared.executor);
    }

    /// Reloads the configuration, and reports when this session uses it: a running stage keeps the old one.
    fn reload(&self, call: Call, handle: &Handle) {
        let (engine, handle) = (self.0.clone(), handle.clone());
        self.0.shared.tasks.spawn(async move {
            let shared = engine.shared.clone();
            let read = tokio::task::spawn_blocking(move || shared.reload()).await;
            match read.unwrap_or_else(|_| Err(ApiError::failed("The configuration could not be read."))) {
                Ok((config, problems)) => {
                    handle.adopted(config.revision).await;
                    let (revision, summary) = (config.revision, config.summary());
                    let mut message =
                        format!("The configuration was read again: revision {revision}, {summary}");
                    for problem in problems {
                        message.push_str(&format!("; not usable: {problem}"));
                    }
                    message.push('.');
                    message.push_str(&Commands(&engine).look_again(&handle).await);
                    engine.shared.tell(&call, "text", message);
                }
                Err(error) => {
                    engine.shared.tell(&call, "error", format!("Nothing was changed: {}", error.message))
                }
            }
        });
    }

    /// Searches the session's folder again, and reports the result.
    async fn look_again(&self, handle: &Handle) -> String {
        // That of another host is looked at there.
        if handle.snapshot().facts.is_elsewhere {
            return String::new();
        }
        let (shared, session) = (self.0.shared.clone(), handle.clone());
        let looked = tokio::task::spawn_blocking(move || shared.search_folder(&session.snapshot().facts.cwd));
        let Ok(project) = looked.await else { return String::new() };
        let found = project.instructions.len().saturating_add(project.skills.len());
        if found.saturating_add(project.templates.len()).saturating_add(project.problems.len()) == 0 {
            handle.tell(Change::ContextFound { project, ack: None });
            return String::new();
        }
        let text = format!(
            " There are {} files of instructions, {} skills, {} prompt templates.{}",
            project.instructions.len(),
            project.skills.len(),
            project.templates.len(),
            text::problems(&project)
        );
        handle.tell(Change::ContextFound { project, ack: None });
        text
    }

    fn set_thinking(&self, call: Call, level: ThinkingLevel) {
        let reply = self.outcome(&call, "thinking_set", |level: ThinkingLevel| {
            format!("Thinking level set to {}", level.as_str())
        });
        self.0.set_thinking_level(call, Some(level), Reach::Session, reply);
    }

    /// A reply that reports a success with its own type, and a failure as an error.
    fn outcome<T: 'static>(
        &self,
        call: &Call,
        kind: &'static str,
        say: impl FnOnce(T) -> String + Send + 'static,
    ) -> Reply<T> {
        let engine = self.0.clone();
        let call = call.clone();
        Reply::new(move |result| match result {
            Ok(value) => engine.shared.tell(&call, kind, say(value)),
            Err(error) => engine.shared.tell(&call, "error", error.message),
        })
    }

    fn text<T: 'static>(&self, call: &Call, say: impl FnOnce(T) -> String + Send + 'static) -> Reply<T> {
        self.outcome(call, "text", say)
    }

    fn opened(&self, call: &Call, kind: &'static str) -> Reply<Opened> {
        self.outcome(call, kind, |opened: Opened| format!("Session {}", opened.session))
    }
}

/// The reply to `/trust`: it names the code that trust does not watch, because nobody has to look for it.
fn trusted(project: &Files) -> String {
    let mut lines = vec!["This project's configuration is trusted.".to_owned()];
    if let Some(ProjectFiles { root, configuration: Some(bytes), .. }) = project.content()
        && let Ok(configuration) = edn::read_one(&bytes)
    {
        lines.extend(unwatched(&root, &configuration).into_iter().map(|what| format!("Note: {what}.")));
    }
    lines.join("\n")
}

/// An additional slash command, not one of the program.
pub(super) struct Added<'p> {
    pub(super) name: &'p str,
    usage: String,
    description: &'p str,
    /// `template` or `skill`.
    source: &'static str,
}

/// The slash commands of the project and the user: templates, then skills, without those that the program's
/// commands, or a template, hide.
pub(super) fn added(project: &Project) -> impl Iterator<Item = Added<'_>> {
    let hidden = |name: &str| COMMANDS.iter().any(|command| command.name == name);
    let templates = project.templates.values().filter(move |template| !hidden(&template.name));
    let templates = templates.map(|one| Added {
        name: &one.name,
        usage: one.usage(),
        description: &one.description,
        source: "template",
    });
    let skills = project.skills.values().filter(move |skill| {
        !hidden(&skill.name) && !project.templates.contains_key(&skill.name) && slash::is_name(&skill.name)
    });
    templates.chain(skills.map(|one| Added {
        name: &one.name,
        usage: format!("/{} [text]", one.name),
        description: &one.description,
        source: "skill",
    }))
}

/// The program's own commands, as far as they are of use.
fn own(in_realm: bool) -> impl Iterator<Item = &'static CommandSpec> {
    COMMANDS.iter().filter(move |command| in_realm || !REALM_COMMANDS.contains(&command.name))
}

/// The slash commands, for completion: the program's own, then the additional ones.
pub(super) fn listed(project: Option<&Project>, in_realm: bool) -> Vec<CommandFacts> {
    let own = own(in_realm).map(|command| CommandFacts {
        name: command.name.to_owned(),
        usage: command.usage.to_owned(),
        description: command.doc.to_owned(),
        source: "built-in",
        server: None,
    });
    let added = project.into_iter().flat_map(added).map(|one| CommandFacts {
        name: one.name.to_owned(),
        usage: one.usage,
        description: one.description.to_owned(),
        source: one.source,
        server: None,
    });
    own.chain(added).collect()
}

/// A command of a session's agent; `None` if it cannot be typed.
pub(super) fn of_agent(command: &AgentCommand) -> Option<CommandFacts> {
    let name = command.name.trim_start_matches('/');
    if name.is_empty() || name.contains(char::is_whitespace) || slash::is_of_server(name) {
        return None;
    }
    let hint = command.hint.as_deref().map(|hint| format!(" [{hint}]")).unwrap_or_default();
    Some(CommandFacts {
        name: name.to_owned(),
        usage: format!("/{name}{hint}"),
        description: command.about.to_string(),
        source: "agent",
        server: None,
    })
}
