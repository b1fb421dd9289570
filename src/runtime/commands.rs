//! What slash commands come to.
//!
//! A command asks the session API like any frontend, and tells its outcome as an event to the connection
//! that gave it. One that needs a choice asks the frontend to offer it, in its own way.

use std::sync::Arc;

use crate::catalogue::{COMMANDS, ErrorCode, Topic};
use crate::command::{self, Command, Line};
use crate::context::Project;
use crate::event::Body;
use crate::limits::{HISTORY_MESSAGES, MAX_FRONTEND_ACTIONS};
use crate::message::{EntryId, Mode, Role, SessionId, ThinkingLevel};
use crate::projection;
use crate::runtime::Runtime;
use crate::runtime::mailbox::{Handle, Snapshot};
use crate::runtime::open::session_event;
use crate::session::{
    ActionResult, ActionStatus, ApiError, Call, Opened, Prompt, Prompted, Reach, Reply, Scope, SessionApi,
    SwitchTarget,
};
use crate::tool;
use crate::value::{Map, Value};

/// A choice that a frontend was asked for.
pub(crate) struct PendingAction {
    connection: u64,
    session: SessionId,
    name: &'static str,
}

impl Runtime {
    /// Runs a line: a command, or text for the model.
    pub(super) fn line(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        let text = prompt.message.clone();
        match command::read(&text) {
            Line::Text(text) => {
                let prompt = Prompt { message: text.into_owned(), ..prompt };
                self.begin_turn(call, prompt, reply);
            }
            Line::Unknown { name, arguments, .. } => {
                let (name, arguments) = (name.to_owned(), arguments.to_owned());
                self.own_command(call, name, arguments, prompt, reply);
            }
            Line::Usage(usage) => {
                reply.ok(Prompted { turn: None });
                self.tell(&call, "text", format!("Usage: {usage}"));
            }
            Line::Command(_) if prompt.idempotency_key.is_some() => self.run_once(call, prompt, reply),
            Line::Command(command) => match self.shared.session(&call.session) {
                Err(error) => reply.fail(error),
                Ok(handle) => {
                    reply.ok(Prompted { turn: None });
                    let _executor = self.shared.executor.enter();
                    self.run_command(call, &handle, command);
                }
            },
        }
    }

    /// Starts a turn with a prompt template or a skill of that name.
    fn own_command(
        &self,
        call: Call,
        name: String,
        arguments: String,
        prompt: Prompt,
        reply: Reply<Prompted>,
    ) {
        let handle = match self.shared.session(&call.session) {
            Ok(handle) => handle,
            Err(error) => return reply.fail(error),
        };
        let (shared, cwd) = (self.shared.clone(), handle.snapshot().facts.cwd.clone());
        // On the session's task, so that what is asked for behind it comes after it.
        handle.tell(move |live| {
            Box::pin(async move {
                let looked =
                    tokio::task::spawn_blocking(move || shared.library.refresh(&shared.places(&cwd)));
                let Ok(project) = looked.await else { return };
                let expanded = match (project.templates.get(&name), project.skills.get(&name)) {
                    (Some(template), _) => template.expand(&arguments).map_err(ApiError::failed),
                    (None, Some(skill)) => Ok(skill.expand(&arguments)),
                    (None, None) => Err(unknown_command(&name, &project)),
                };
                match expanded {
                    Ok(message) => live.prompt(call, Prompt { message, ..prompt }, reply).await,
                    Err(error) => reply.fail(error),
                }
            })
        });
    }

    /// Runs a command, unless the same key was answered before: the session's task knows.
    fn run_once(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        let handle = match self.shared.session(&call.session) {
            Ok(handle) => handle,
            Err(error) => return reply.fail(error),
        };
        let (runtime, session) = (self.clone(), handle.clone());
        handle.tell(move |live| {
            Box::pin(async move {
                let Some(reply) = live.first_time(&prompt, reply) else { return };
                live.remember(prompt.idempotency_key, None);
                reply.ok(Prompted { turn: None });
                if let Line::Command(command) = command::read(&prompt.message) {
                    runtime.run_command(call, &session, command);
                }
            })
        });
    }

    fn run_command(&self, call: Call, handle: &Handle, command: Command<'_>) {
        let snapshot = handle.snapshot();
        match command {
            Command::Help => self.tell(&call, "text", help()),
            Command::Quit => {
                self.tell(&call, "quit", String::new());
                if let Some(client) = self.shared.hub.client(call.connection) {
                    client.close();
                }
            }
            Command::New => self.new_session(call.clone(), None, self.opened(&call, "new_session")),
            Command::Resume(text) => self.ask_resume(call, text),
            Command::Tree(None) | Command::Fork => {
                self.ask_session(&call, &snapshot, command == Command::Fork)
            }
            Command::Tree(Some(id)) => {
                let target = SwitchTarget::Id(SessionId::from(id));
                self.switch_session(call.clone(), target, self.opened(&call, "session_switch"));
            }
            Command::Mode(None) => self.tell(&call, "text", format!("Mode: {}", snapshot.facts.mode)),
            Command::Mode(Some(mode)) => {
                let Some(mode) = Mode::parse(mode) else {
                    return self.tell(&call, "text", format!("Usage: /mode {}", Mode::NAMES.join("|")));
                };
                let reply = self.text(&call, |mode| format!("Mode set to {mode}"));
                self.set_mode(call.clone(), mode, reply);
            }
            Command::Trust => {
                let reply = self.text(&call, |_| "This project's configuration is trusted.".to_owned());
                self.trust_project(call.clone(), true, reply);
            }
            Command::Workflow { name, arguments } => self.workflow(call, handle, name, arguments),
            Command::Reload => self.reload(call, handle),
            Command::Status => self.tell(&call, "text", status(&snapshot)),
            Command::History => self.tell(&call, "text", history(&snapshot)),
            Command::Model(None) => self.ask_model(call),
            Command::Model(Some((provider, id))) => {
                let reply = self
                    .outcome(&call, "model_set", |(provider, id)| format!("Model set to {provider} {id}"));
                self.set_model(call.clone(), provider.to_owned(), id.to_owned(), Reach::Session, reply);
            }
            Command::Thinking(None) => self.ask_thinking(&call),
            Command::Thinking(Some(level)) => self.set_thinking(call, level),
            Command::Compact(text) => {
                let reply = self.text(&call, |summary: Option<String>| {
                    format!("The conversation was compacted.\n\n{}", summary.unwrap_or_default())
                });
                self.compact(call.clone(), text.map(str::to_owned), reply);
            }
            Command::Name(name) => {
                let reply = self.text(&call, |name| format!("Session named {name}"));
                self.set_name(call.clone(), name.to_owned(), reply);
            }
            Command::Prompts => self.tell_project(call, handle, templates),
            Command::Skills => self.tell_project(call, handle, skills),
            Command::Remember(text) => self.remember(&call, handle, text),
            Command::Login(provider) => self.login_command(call, provider),
            Command::Logout(provider) => {
                let provider =
                    provider.map_or_else(|| snapshot.facts.model_provider.to_string(), str::to_owned);
                let reply = self.outcome(&call, "logout", |done: bool| {
                    if done { "Logged out." } else { "There was no login." }.to_owned()
                });
                self.logout(call.clone(), provider, reply);
            }
            Command::Worktree => self.tell(&call, "text", worktree(&snapshot)),
            Command::Jobs => {
                let reply = self.text(&call, |jobs: Vec<Value<'static>>| match jobs.len() {
                    0 => "There are no background jobs.".to_owned(),
                    _ => jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
                });
                self.jobs(call.clone(), None, reply);
            }
            Command::Job(id) => {
                self.job(
                    call.clone(),
                    id.to_owned(),
                    self.text(&call, |job: Value<'static>| job.to_string()),
                );
            }
            Command::CancelJob(id) => {
                let reply = self.text(&call, |_: Value<'static>| "The job was told to end.".to_owned());
                self.cancel_job(call.clone(), id.to_owned(), reply);
            }
            Command::Tools => {
                let facts = &snapshot.facts;
                let model = handle.manifest().models.describe(&facts.model_provider, &facts.model_id);
                self.tell(&call, "text", tools(model.tools, &facts.model_id));
            }
            Command::Export(path) => {
                let reply = self.text(&call, |path| format!("Exported to {path}"));
                self.export_html(call.clone(), path.map(str::to_owned), reply);
            }
            Command::Abort => {
                self.abort(call.clone(), self.text(&call, |()| "The turn was told to end.".to_owned()));
            }
        }
    }

    /// Starts a workflow, or goes on with its last run.
    fn workflow(&self, call: Call, handle: &Handle, name: &str, arguments: &str) {
        let manifest = handle.manifest();
        match manifest.workflows.get(name) {
            Some(Ok(workflow)) => {
                let (workflow, arguments) = (workflow.clone(), arguments.to_owned());
                let reply = self.text(&call, |began: String| began);
                handle.tell(move |live| {
                    Box::pin(async move { live.begin_workflow(call, workflow, &arguments, reply) })
                });
            }
            Some(Err(wrong)) => self.tell(&call, "error", format!("The workflow cannot be used: {wrong}")),
            None => {
                let names: Vec<&str> = manifest.workflows.keys().map(String::as_str).collect();
                let message = format!("There is no workflow {name:?}; there are {}.", names.join(", "));
                self.tell(&call, "error", message);
            }
        }
    }

    /// Tells something of what stands in the session's folder, as it is now.
    fn tell_project(&self, call: Call, handle: &Handle, say: fn(&Project) -> String) {
        let (runtime, cwd) = (self.clone(), handle.snapshot().facts.cwd.clone());
        let look = move || {
            let project = runtime.shared.library.refresh(&runtime.shared.places(&cwd));
            runtime.tell(&call, "text", say(&project));
        };
        self.shared.tasks.spawn_blocking_on(look, &self.shared.executor);
    }

    /// Reads the configuration again, and tells when this session goes on with it: a stage that runs is
    /// not changed in its middle.
    fn reload(&self, call: Call, handle: &Handle) {
        let (runtime, handle) = (self.clone(), handle.clone());
        self.shared.tasks.spawn(async move {
            let shared = runtime.shared.clone();
            let read = tokio::task::spawn_blocking(move || shared.reload()).await;
            match read.unwrap_or_else(|_| Err(ApiError::failed("The configuration could not be read."))) {
                Ok((manifest, problems)) => {
                    handle.adopted(manifest.revision).await;
                    let (revision, summary) = (manifest.revision, manifest.summary());
                    let mut message =
                        format!("The configuration was read again: revision {revision}, {summary}");
                    for problem in problems {
                        message.push_str(&format!("; not usable: {problem}"));
                    }
                    message.push('.');
                    message.push_str(&runtime.look_again(&handle).await);
                    runtime.tell(&call, "text", message);
                }
                Err(error) => runtime.tell(&call, "error", format!("Nothing was changed: {}", error.message)),
            }
        });
    }

    /// Looks again for what the session's folder has, and says what.
    async fn look_again(&self, handle: &Handle) -> String {
        let (shared, session) = (self.shared.clone(), handle.clone());
        let looked = tokio::task::spawn_blocking(move || {
            shared.library.refresh(&shared.places(&session.snapshot().facts.cwd))
        });
        let Ok(project) = looked.await else { return String::new() };
        let found = project.instructions.len().saturating_add(project.skills.len());
        if found.saturating_add(project.templates.len()).saturating_add(project.problems.len()) == 0 {
            handle.tell(move |live| Box::pin(async move { live.found(&project) }));
            return String::new();
        }
        let text = format!(
            " There are {} files of instructions, {} skills, {} prompt templates.{}",
            project.instructions.len(),
            project.skills.len(),
            project.templates.len(),
            problems(&project)
        );
        handle.tell(move |live| Box::pin(async move { live.found(&project) }));
        text
    }

    fn set_thinking(&self, call: Call, level: ThinkingLevel) {
        let reply = self.outcome(&call, "thinking_set", |level: ThinkingLevel| {
            format!("Thinking level set to {}", level.as_str())
        });
        self.set_thinking_level(call, Some(level), reply);
    }

    /// Tells a command's outcome to the connection that gave it.
    pub(super) fn tell(&self, call: &Call, kind: &'static str, message: String) {
        let mut payload = Map::new();
        payload.put("type", kind);
        payload.put("message", message);
        let Some(client) = self.shared.hub.client(call.connection) else { return };
        // After a switch the outcome belongs to where the person now is.
        let Ok(handle) = self.shared.session(&client.focused()) else { return };
        let body = Body::Payload(Topic::CommandResult, Arc::new(payload));
        let _ = client.deliver(&session_event(&handle, body, Some(call.cause())));
    }

    /// A reply that tells a success with a type of its own, and a failure as an error.
    fn outcome<T: 'static>(
        &self,
        call: &Call,
        kind: &'static str,
        say: impl FnOnce(T) -> String + Send + 'static,
    ) -> Reply<T> {
        let runtime = self.clone();
        let call = call.clone();
        Reply::new(move |result| match result {
            Ok(value) => runtime.tell(&call, kind, say(value)),
            Err(error) => runtime.tell(&call, "error", error.message),
        })
    }

    fn text<T: 'static>(&self, call: &Call, say: impl FnOnce(T) -> String + Send + 'static) -> Reply<T> {
        self.outcome(call, "text", say)
    }

    fn opened(&self, call: &Call, kind: &'static str) -> Reply<Opened> {
        self.outcome(call, kind, |opened: Opened| format!("Session {}", opened.session))
    }

    /// Asks the frontend to let the person choose.
    fn ask(&self, call: &Call, name: &'static str, prompt: &str, items: Vec<Value<'static>>) {
        if items.is_empty() {
            return self.tell(call, "text", "There is nothing to choose from.".to_owned());
        }
        let Some(client) = self.shared.hub.client(call.connection) else { return };
        // It is the person at this connection who chooses, wherever they now are.
        let Ok(handle) = self.shared.session(&client.focused()) else { return };
        let request = self.shared.clock.id("a-");
        {
            let mut pending = self.shared.actions();
            // A frontend that never answers must not make the list grow; the oldest choice is given up.
            while pending.len() >= MAX_FRONTEND_ACTIONS {
                pending.pop_front();
            }
            let action = PendingAction { connection: call.connection, session: call.session.clone(), name };
            pending.push_back((request.clone(), action));
        }
        let mut action = Map::new();
        action.put("ui/action-id", request.clone());
        action.put("ui/action-kind", Value::keyword("select"));
        action.put("ui/action-name", Value::keyword(name));
        action.put("ui/prompt", prompt.to_owned());
        action.put("ui/order", Value::keyword("preserve"));
        action.put("ui/items", Value::vector(items));
        action.put("ui/on-submit", Value::keyword("frontend-action-result"));
        let mut payload = Map::new();
        payload.put("request-id", request);
        payload.put("ui/action", Value::from(action));
        let body = Body::Payload(Topic::FrontendActionRequested, Arc::new(payload));
        let _ = client.deliver(&session_event(&handle, body, Some(call.cause())));
    }

    /// Offers the sessions of all projects, or those that a search finds.
    fn ask_resume(&self, call: Call, text: Option<&str>) {
        let runtime = self.clone();
        let asked = call.clone();
        let reply = Reply::new(move |result: Result<Vec<Value<'static>>, ApiError>| match result {
            Ok(slots) => {
                let items = slots.iter().filter_map(|slot| {
                    let path = slot.get("session-file")?.as_str()?.to_owned();
                    let label = slot.get("display-name")?.as_str()?.to_owned();
                    let mut meta = Map::new();
                    for key in ["created-at", "worktree-path", "excerpt"] {
                        if let Some(value) = slot.get(key) {
                            meta.put(key, value.clone());
                        }
                    }
                    Some(item(path.clone(), label, Value::from(path), meta))
                });
                runtime.ask(&asked, "select-resume-session", "Select a session to resume", items.collect());
            }
            Err(error) => runtime.tell(&asked, "error", error.message),
        });
        self.list_sessions(call, text.map(str::to_owned), None, Scope::All, reply);
    }

    fn ask_session(&self, call: &Call, snapshot: &Snapshot, forks_only: bool) {
        let mut items = Vec::new();
        if !forks_only {
            for handle in self.shared.live() {
                let facts = handle.snapshot().facts.clone();
                let mut value = Map::new();
                value.put("action/kind", Value::keyword("switch-session"));
                value.put("action/session-id", facts.id.to_value());
                let mut meta = Map::new();
                meta.put("is-active", facts.id == call.session);
                meta.put("is-streaming", facts.is_streaming());
                items.push(item(
                    facts.id.to_string(),
                    facts.display_name().to_owned(),
                    Value::from(value),
                    meta,
                ));
            }
        }
        for message in snapshot.messages().filter(|message| message.role == Role::User) {
            let mut value = Map::new();
            value.put("action/kind", Value::keyword("fork-session"));
            value.put("action/entry-id", message.id.to_value());
            let start: String = message.text().chars().take(80).collect();
            let mut meta = Map::new();
            meta.put("fork-point", true);
            items.push(item(
                message.id.to_string(),
                format!("⑂ {}", start.replace('\n', " ")),
                Value::from(value),
                meta,
            ));
        }
        self.ask(call, "select-session", "Select a live session", items);
    }

    fn ask_model(&self, call: Call) {
        let runtime = self.clone();
        let asked = call.clone();
        let reply = Reply::new(move |result: Result<Vec<Value<'static>>, ApiError>| match result {
            Ok(models) => {
                let items = models.iter().filter_map(|model| {
                    let provider = model.get("provider")?.as_str()?;
                    let id = model.get("id")?.as_str()?;
                    let mut value = Map::new();
                    value.put("provider", provider.to_owned());
                    value.put("id", id.to_owned());
                    Some(item(
                        format!("{provider}/{id}"),
                        format!("{provider} {id}"),
                        Value::from(value),
                        Map::new(),
                    ))
                });
                runtime.ask(&asked, "select-model", "Select a model", items.collect());
            }
            Err(error) => runtime.tell(&asked, "error", error.message),
        });
        self.models(call, reply);
    }

    fn ask_thinking(&self, call: &Call) {
        let items = ThinkingLevel::ALL.map(|level| {
            item(
                level.as_str().to_owned(),
                level.as_str().to_owned(),
                Value::from(level.as_str()),
                Map::new(),
            )
        });
        self.ask(call, "select-thinking-level", "Select a thinking level", items.to_vec());
    }

    /// Does what was chosen.
    pub(super) fn chosen(&self, call: Call, result: ActionResult, reply: Reply<()>) {
        let pending = {
            let mut actions = self.shared.actions();
            let place = actions
                .iter()
                .position(|(id, action)| *id == result.request_id && action.connection == call.connection);
            let Some((place, name)) = place.and_then(|place| Some((place, actions.get(place)?.1.name)))
            else {
                return reply.fail(ApiError::not_found("frontend action", &result.request_id));
            };
            // A mistake in the answer leaves the question open.
            if result.action_name.trim_start_matches(':') != name {
                let expected = format!("{name:?}, the name of that action");
                return reply.fail(ApiError::invalid_param("action-name", &expected));
            }
            actions.remove(place)
        };
        let Some((_, action)) = pending else {
            return reply.fail(ApiError::not_found("frontend action", &result.request_id));
        };
        reply.ok(());
        let call = Call { session: action.session, ..call };
        match result.status {
            ActionStatus::Cancelled => return self.tell(&call, "text", "Nothing was chosen.".to_owned()),
            ActionStatus::Failed => {
                let why = result.error_message.unwrap_or_else(|| "The frontend could not ask.".to_owned());
                return self.tell(&call, "error", why);
            }
            ActionStatus::Submitted => {}
        }
        let value = &result.value;
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        match action.name {
            "select-resume-session" => match value.as_str() {
                Some(path) => {
                    let target = SwitchTarget::Path(path.to_owned());
                    self.switch_session(call.clone(), target, self.opened(&call, "session_switch"));
                }
                None => self.no_choice(&call),
            },
            "select-session" => match (text("action/session-id"), text("action/entry-id")) {
                (Some(id), None) => {
                    let target = SwitchTarget::Id(SessionId::from(id));
                    self.switch_session(call.clone(), target, self.opened(&call, "session_switch"));
                }
                (None, Some(entry)) => {
                    self.fork(call.clone(), EntryId::from(entry), self.opened(&call, "session_switch"));
                }
                _ => self.no_choice(&call),
            },
            "select-model" => match (text("provider"), text("id")) {
                (Some(provider), Some(id)) => {
                    let reply = self.outcome(&call, "model_set", |(provider, id)| {
                        format!("Model set to {provider} {id}")
                    });
                    self.set_model(call.clone(), provider, id, Reach::Session, reply);
                }
                _ => self.no_choice(&call),
            },
            _ => match crate::catalogue::thinking_level(value) {
                Some(level) => self.set_thinking(call, level),
                None => self.no_choice(&call),
            },
        }
    }

    fn no_choice(&self, call: &Call) {
        self.tell(call, "error", "The choice has another shape than the items that were offered.".to_owned());
    }
}

/// One thing to choose.
fn item(id: String, label: String, value: Value<'static>, meta: Map<'static>) -> Value<'static> {
    let mut item = Map::new();
    item.put("ui.item/id", id);
    item.put("ui.item/label", label);
    item.put("ui.item/value", value);
    item.put("ui.item/meta", Value::from(meta));
    Value::from(item)
}

fn help() -> String {
    let width = COMMANDS.iter().map(|command| command.usage.len()).max().unwrap_or_default();
    let lines = COMMANDS.iter().map(|command| format!("{:width$}  {}", command.usage, command.doc));
    lines.collect::<Vec<_>>().join("\n")
}

/// The slash commands, for completion: the program's own, then the templates and skills that no command
/// hides.
pub(super) fn listed(project: &Project) -> Vec<Value<'static>> {
    let entry = |name: &str, usage: String, description: &str, source: &'static str| {
        let mut map = Map::new();
        map.put("name", name.to_owned());
        map.put("usage", usage);
        map.put("description", description.to_owned());
        map.put("source", source);
        Value::from(map)
    };
    let mut all: Vec<Value<'static>> = COMMANDS
        .iter()
        .map(|command| entry(command.name, command.usage.to_owned(), command.doc, "built-in"))
        .collect();
    let hidden = |name: &str| COMMANDS.iter().any(|command| command.name == name);
    let templates = project.templates.values().filter(|template| !hidden(&template.name));
    all.extend(templates.map(|one| entry(&one.name, one.usage(), &one.description, "template")));
    let skills = project.skills.values().filter(|skill| {
        !hidden(&skill.name) && !project.templates.contains_key(&skill.name) && command::is_name(&skill.name)
    });
    all.extend(
        skills.map(|one| entry(&one.name, format!("/{} [text]", one.name), &one.description, "skill")),
    );
    all
}

/// `request/unknown-command`, with the names that are spelt alike.
fn unknown_command(name: &str, project: &Project) -> ApiError {
    let own = project.templates.keys().chain(project.skills.keys()).map(String::as_str);
    let nearest = command::nearest(name, COMMANDS.iter().map(|spec| spec.name).chain(own));
    let hint = match nearest.first() {
        Some(name) => format!(" Did you mean /{name}?"),
        None => " /help lists them.".to_owned(),
    };
    let names = Value::vector(nearest.iter().map(|name| Value::from((*name).to_owned())));
    let message = format!("There is no command /{name}.{hint}");
    ApiError::new(ErrorCode::UnknownCommand, message).with("nearest", names)
}

fn templates(project: &Project) -> String {
    let lines = project.templates.values().map(|template| {
        let taken = COMMANDS.iter().any(|command| command.name == template.name);
        let note = if taken { " (hidden by the command of that name)" } else { "" };
        format!("{}  {}{note}\n    {}", template.usage(), template.description, template.path.display())
    });
    let lines: Vec<String> = lines.collect();
    let text = match lines.is_empty() {
        true => {
            "There are no prompt templates. They stand as name.md in .edn-bridge/prompts of the project, or \
            in prompts beside the user's configuration."
                .to_owned()
        }
        false => lines.join("\n"),
    };
    text + &problems(project)
}

fn skills(project: &Project) -> String {
    let lines = project.skills.values().map(|skill| {
        let note = if skill.for_model { "" } else { " (not told to the model)" };
        format!("{}  {}{note}\n    {}", skill.name, skill.description, skill.path.display())
    });
    let lines: Vec<String> = lines.collect();
    let text = match lines.is_empty() {
        true => {
            "There are no skills. They stand as name/SKILL.md in .edn-bridge/skills of the project, or in \
            skills beside the user's configuration."
                .to_owned()
        }
        false => lines.join("\n"),
    };
    text + &problems(project)
}

fn problems(project: &Project) -> String {
    let lines = project.problems.iter();
    let lines = lines.map(|problem| format!("\n{}: {}", problem.path.display(), problem.message));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n\nCannot be used:{lines}") }
}

fn tools(offered: bool, model: &str) -> String {
    if !offered {
        return format!("The model {model} has no use for tools; it is offered none.");
    }
    let specs = tool::specs();
    let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or_default();
    let lines = specs.iter().map(|spec| format!("{:width$}  {}", spec.name, spec.description));
    lines.collect::<Vec<_>>().join("\n")
}

fn status(snapshot: &Snapshot) -> String {
    let facts = &snapshot.facts;
    let tokens = projection::footer(facts);
    let stats = tokens.get_keyword("stats-line").and_then(Value::as_str).unwrap_or_default();
    format!(
        "Session: {}\nModel: {} {}\nThinking: {}\nMode: {}\nPhase: {}\nMessages: {}\nUsage: {stats}",
        facts.display_name(),
        facts.model_provider,
        facts.model_id,
        facts.effective_thinking().as_str(),
        facts.mode,
        facts.phase.as_str(),
        facts.message_count,
    )
}

fn history(snapshot: &Snapshot) -> String {
    let mut lines: Vec<String> = snapshot
        .messages()
        .rev()
        .take(HISTORY_MESSAGES)
        .map(|message| {
            let start: String = message.text().chars().take(100).collect();
            format!("{:9}  {}", message.role.as_str(), start.replace('\n', " "))
        })
        .collect();
    lines.push("Message history".to_owned());
    lines.reverse();
    lines.join("\n")
}

fn worktree(snapshot: &Snapshot) -> String {
    let branch = snapshot.facts.git_branch.as_deref().unwrap_or("no repository");
    format!("{} ({branch})", snapshot.facts.cwd)
}
