//! Composes the request to a model: conversation, system prompt and tools, and the parts that hooks see and
//! may change. Sends nothing.

use std::path::Path;
use std::sync::Arc;

use crate::catalogue::tools::ToolRow;
use crate::clock::rfc3339;
use crate::context;
use crate::context::instructions::Instructions;
use crate::engine::conversation;
use crate::engine::native::environment;
use crate::engine::native::hooks::text_of;
use crate::engine::native::turn::Turn;
use crate::engine::sent_prompt::{self, SentPrompt, Surroundings};
use crate::engine::system_prompt;
use crate::engine::withheld;
use crate::facts::SessionFacts;
use crate::git;
use crate::limits::{NESTED_INSTRUCTIONS, SUBAGENT_DEPTH};
use crate::message::{Message, Mode};
use crate::provider::{ModelRequest, Provider, ToolSpec};
use crate::query::world::PromptPart;
use crate::session::ApiError;
use crate::sha256;
use crate::store::EntryBody;
use crate::store::record::{Update, UpdateKind};
use crate::tool;
use crate::value::{Map, Value};

/// Composes the requests of a turn.
pub struct Composer<'t>(pub &'t Turn);

impl Composer<'_> {
    /// The facts for hooks about the model.
    pub fn about_model(&self) -> Map<'static> {
        let facts = self.0.session.snapshot().facts.clone();
        let mut model = Map::new();
        model.put("provider", facts.model_provider.to_string());
        model.put("id", facts.model_id.to_string());
        Map::new().with("model", Value::from(model)).with("message-count", Value::from(facts.message_count))
    }

    /// The facts for hooks about a composed request.
    pub fn about_request(&self, request: &ModelRequest) -> Map<'static> {
        let mut payload = self.about_model();
        payload.put("system", request.system.clone());
        payload.put("tools", Value::vector(request.tools.iter().map(|tool| Value::from(tool.name.clone()))));
        payload
    }

    /// The next request, and its provider. The error is for a person: the model answers nothing without a provider.
    pub(super) fn request(&self) -> Result<(Arc<dyn Provider>, ModelRequest), String> {
        let snapshot = self.0.session.snapshot();
        let facts = &snapshot.facts;
        let config = self.0.config();
        if !facts.has_model() {
            let chosen = self.0.shared.configuration.usual_model(self.0.control.variables().as_ref());
            return Err(chosen.err().unwrap_or_default().to_string());
        }
        let provider = config.providers.get(&facts.model_provider);
        let provider = provider.ok_or_else(|| config.providers.why_none(&facts.model_provider))?;
        let model = self.0.model();
        let system = self.system(facts);
        let mut tools = if model.tools { self.tools_on_offer() } else { Vec::new() };
        tools.extend(self.0.execution.as_ref().filter(|_| model.tools).map(|execution| execution.spec()));
        let request = ModelRequest {
            model: facts.model_id.to_string(),
            session: self.0.session.id.as_str().into(),
            system,
            messages: conversation::messages(&snapshot.branch),
            withheld: withheld::parts(&snapshot.branch, &facts.model_provider, &facts.model_id),
            tools,
            web_search: false,
            thinking: facts.effective_thinking(),
            thinking_by: model.thinking_by,
            thinking_tags: model.thinking_tags,
            takes: model.takes.clone(),
            max_output_tokens: model.max_output,
            variables: self.0.control.variables(),
        };
        Ok((provider, request))
    }

    /// The tools for the model: those of its stage or envelope, or else all.
    fn tools_on_offer(&self) -> Vec<ToolSpec> {
        let deepest = self.0.session.depth() >= SUBAGENT_DEPTH;
        let mut tools = self.0.tools().specs();
        tools.retain(|tool| match (&self.0.execution, self.0.session.working_for()) {
            _ if tool.name == tool::DELEGATE && deepest => false,
            (Some(execution), _) => execution.allows(&tool.name),
            (None, Some(link)) => link.covers(&tool.name),
            (None, None) => true,
        });
        // A tool that the mode refuses is not offered. A stricter mode later leaves the list as it was, and refuses.
        let place = |name: &str| self.0.session.prompt.place(name);
        let is_free = self.0.execution.is_none() && self.0.session.working_for().is_none();
        if is_free && self.0.session.snapshot().facts.mode == Mode::ReadOnly {
            tools.retain(|tool| {
                place(&tool.name).is_some() || !ToolRow::of(&tool.name).is_some_and(|row| row.changes)
            });
        }
        // In the order in which they were offered first: what comes later stands behind.
        tools.sort_by_key(|tool| place(&tool.name).unwrap_or(usize::MAX));
        let config = self.0.config();
        if let Some(delegate) = tools.iter_mut().find(|tool| tool.name == tool::DELEGATE) {
            offer_agents(delegate, config.agents.agents.iter().map(|agent| &*agent.name));
        }
        tools
    }

    /// Their names.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools_on_offer().into_iter().map(|tool| tool.name).collect()
    }

    /// Whether the window is so full that the next answer may not fit.
    pub fn is_nearly_full(&self) -> bool {
        let facts = self.0.session.snapshot().facts.clone();
        let limit = facts.context_window.saturating_sub(conversation::reserve(facts.context_window));
        facts.auto_compaction && facts.context_window > 0 && self.size() > limit
    }

    /// Tokens of the next request: as the server counted them, with what came since, or as estimated from what would be sent.
    /// The larger of both, because some servers send no figures, or wrong ones.
    fn size(&self) -> u64 {
        let snapshot = self.0.session.snapshot();
        let messages = conversation::messages(&snapshot.branch);
        let tokens = |messages: &[Arc<Message>]| -> u64 {
            messages.iter().map(|message| conversation::tokens(message)).fold(0, u64::saturating_add)
        };
        let since = messages.iter().rposition(|message| message.usage.is_some());
        let since =
            since.map_or(0, |last| tokens(messages.get(last.saturating_add(1)..).unwrap_or_default()));
        let counted = snapshot.facts.context_tokens.saturating_add(since);
        let system = self.system(&snapshot.facts);
        let tools = if self.0.model().tools { self.tools_on_offer() } else { Vec::new() };
        let texts = tools.iter().map(|tool| {
            let parameters = tool.parameters.to_string().len();
            tool.name.len().saturating_add(tool.description.len()).saturating_add(parameters)
        });
        let bytes = texts.fold(system.len(), usize::saturating_add);
        let fixed = u64::try_from(bytes / 4).unwrap_or(u64::MAX);
        counted.max(tokens(&messages).saturating_add(fixed))
    }

    /// The system prompt of the next request: as it was sent first, or since the last compaction.
    fn system(&self, facts: &SessionFacts) -> String {
        let sent = self.0.session.prompt.get().map(|prompt| prompt.text);
        let mut system = sent.unwrap_or_else(|| system_prompt::text(&self.parts(facts)));
        if let Some(execution) = &self.0.execution {
            system.push_str("\n\n");
            system.push_str(&execution.prompt);
        }
        system
    }

    fn parts(&self, facts: &SessionFacts) -> Vec<PromptPart> {
        self.0.shared.prompt_parts(&self.0.session, &self.0.config(), facts)
    }

    /// Makes the system prompt where there is none yet, or where the user's files are others; and otherwise writes down
    /// what of the surroundings has changed since the model was told.
    ///
    /// # Errors
    /// If the session has ended, or its journal cannot be written.
    pub async fn note_surroundings(&self) -> Result<(), ApiError> {
        let turn = self.0;
        let snapshot = turn.session.snapshot();
        let facts = &snapshot.facts;
        let cwd = facts.cwd.clone();
        let branch = tokio::task::spawn_blocking(move || git::branch(Path::new(&*cwd))).await;
        let date = rfc3339(turn.shared.clock.now());
        let surroundings = Surroundings {
            date: date.split('T').next().unwrap_or_default().to_owned(),
            branch: branch.ok().flatten().map(|branch| branch.to_string()),
            mode: facts.mode.as_str(),
        };
        let parts = self.parts(facts);
        // Notes of the agent, and instructions of servers that come later, wait for the next prompt.
        let files = parts.iter().filter(|part| !matches!(part.kind, "memory" | "servers"));
        let files: Vec<&str> = files.map(|part| part.text.as_str()).collect();
        let digest = sha256::hex(files.join("\n\n"));
        let compaction = conversation::compaction_entry(&snapshot.branch).map(|entry| entry.id.clone());
        let has_tools = self.0.model().tools;
        let tools = if has_tools { self.tool_names() } else { Vec::new() };
        let is_current = |sent: &SentPrompt| sent.digest == digest && sent.compaction == compaction;
        let Some(sent) = turn.session.prompt.get().filter(is_current) else {
            let mut text = system_prompt::text(&parts);
            if has_tools {
                text.push_str("\n\n");
                text.push_str(&environment::block(turn, &surroundings).await);
            }
            let instructions = Vec::new();
            turn.session.prompt.set(SentPrompt {
                text,
                digest,
                compaction,
                surroundings,
                tools,
                instructions,
            });
            return self.note_instructions(facts).await;
        };
        if let Some(news) = sent_prompt::news(&sent.surroundings, &surroundings) {
            let update = Update::new(UpdateKind::Surroundings, news);
            turn.write(vec![EntryBody::Update(Box::new(update))]).await?;
        }
        let mut known = sent.tools.clone();
        known.extend(tools.into_iter().filter(|tool| !sent.tools.contains(tool)));
        turn.session.prompt.set(SentPrompt { surroundings, tools: known, ..sent });
        self.note_instructions(facts).await
    }

    /// Writes down the instructions of folders in which calls have touched a file, once each.
    async fn note_instructions(&self, facts: &SessionFacts) -> Result<(), ApiError> {
        let (turn, touched) = (self.0, self.0.take_touched());
        let Some(mut sent) = turn.session.prompt.get().filter(|_| !touched.is_empty()) else { return Ok(()) };
        let places = turn.shared.configuration.places(&facts.cwd);
        let look = move || -> Vec<Instructions> {
            touched.iter().flat_map(|file| context::nested_instructions(&places, file)).collect()
        };
        let mut found = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        found.retain(|one| {
            let is_new =
                !sent.instructions.contains(&one.path) && sent.instructions.len() < NESTED_INSTRUCTIONS;
            if is_new {
                sent.instructions.push(one.path.clone());
            }
            is_new
        });
        if found.is_empty() {
            return Ok(());
        }
        let texts = system_prompt::instructions(facts, &found).into_iter().map(|part| part.text);
        let text = texts.collect::<Vec<_>>().join("\n");
        turn.session.prompt.set(sent);
        let update = Update::new(UpdateKind::Instructions, format!("For files below its folder:\n{text}"));
        turn.write(vec![EntryBody::Update(Box::new(update))]).await.map(drop)
    }
}

/// Lets a model name an external agent for a task, where there is any.
fn offer_agents<'a>(delegate: &mut ToolSpec, names: impl Iterator<Item = &'a str>) {
    let names: Vec<&str> = names.collect();
    let Value::Map(schema) = &mut delegate.parameters else { return };
    let Some(properties) = schema.get_keyword("properties").and_then(Value::as_map) else { return };
    if names.is_empty() {
        return;
    }
    let about = format!(
        "An agent of its own that does the task instead of a model, only if the user wants it: {}. The tools are those \
         that its requests may be for.",
        names.join(", ")
    );
    let property = Map::new().with("type", "string").with("description", about);
    let properties = properties.clone().with("agent", Value::from(property));
    schema.put("properties", Value::from(properties));
}

/// Applies the hooks' changes to a request.
pub(super) fn recompose(request: &mut ModelRequest, composed: &Map<'static>) {
    if let Some(system) = text_of(composed, "system") {
        request.system = system.to_owned();
    }
    if let Some(tools) = composed.get_keyword("tools").and_then(Value::as_slice) {
        request.tools.retain(|tool| tools.iter().any(|name| name.as_str() == Some(&tool.name)));
    }
}
