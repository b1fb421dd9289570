//! `edn-bridge chat`: a conversation on a terminal, for a machine without an editor. A client of the EDN wire, as
//! `prompt` is, that also answers questions.

mod markdown;
mod questions;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use edn_bridge::client::frame;
use edn_bridge::client::turn::{Accepted, Outcome};
use edn_bridge::message::{Block, sources_below};
use edn_bridge::repl::message_line::{MessageLine, Word};
use edn_bridge::value::{Map, Owned, Value};

use super::default_model::DefaultModel;
use super::failure::{Exit, Failure, USAGE};
use super::options::Options;
use super::prompt::console::{Console, ConsoleEvent, SignalKind};
use super::prompt::printer::{Output, Teller};
use super::prompt::verdict::Verdict;
use super::prompt::{Goal, TOPICS, check_provider, not_set_up, resumed, unusable};
use super::rule_options::RuleOptions;
use super::style::{Meaning, Painter};
use markdown::Markdown;
use questions::Asker;

/// Messages that are shown of a conversation that goes on.
const SHOWN: usize = 6;

#[derive(Args)]
pub(super) struct ChatArguments {
    /// Continue with the newest session of this folder.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    goes_on: bool,
    /// Continue with this session: its id, the beginning of its id, or its name.
    #[arg(long, short, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    rules: RuleOptions,
}

pub(super) fn run(options: &Options, arguments: &ChatArguments) -> Exit {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let message = "chat needs a terminal; in a script, use edn-bridge prompt".to_owned();
        return Err(Failure::Status { code: USAGE, message });
    }
    let rules = arguments.rules.rules()?;
    let mut settings = options.settings().map_err(|failure| not_set_up(failure.to_string()))?;
    settings.overrides.rules = rules;
    let wanted = Goal { goes_on: arguments.goes_on, session: arguments.session.as_deref() };
    let resumed = resumed(options, &settings, &wanted)?;
    let mut opening = None;
    if resumed.is_none() {
        check_provider(&settings)?;
        opening = DefaultModel::find(&settings).opening();
    }
    let history = settings.state_dir.join("chat-history");
    let folder = settings.cwd.clone();
    let console = Console::open("edn-bridge chat", options, settings, resumed.as_ref(), true);
    let console = console.map_err(unusable)?;
    arguments.rules.must_hold(console.is_own())?;
    let chat = Chat { console: &console, painter: Painter::stdout() };
    if let Some(opening) = opening {
        chat.say(Meaning::Note, &opening);
    }
    let ended = chat.talk(resumed.is_some(), folder, &history);
    console.end();
    ended
}

fn is_login(command: &str) -> bool {
    command.split_whitespace().next() == Some("/login")
}

/// A conversation.
struct Chat<'c> {
    console: &'c Console,
    painter: Painter,
}

impl Chat<'_> {
    /// The whole conversation.
    fn talk(&self, goes_on: bool, folder: PathBuf, history: &Path) -> Exit {
        self.console.catch([SignalKind::interrupt()])?;
        if goes_on {
            self.show_past()?;
            self.rest()?;
        }
        let commands = self.console.ask("get_commands", Map::new())?;
        let commands = commands.get("commands").and_then(Value::as_slice).unwrap_or_default().iter();
        let text = |command, key| frame::text(command, key).to_owned();
        let commands =
            commands.map(|command| Word { name: text(command, "name"), about: text(command, "description") });
        let line = MessageLine::new(commands.collect(), folder, history, self.painter.has_colours());
        let mut line = line.map_err(Failure::io("the terminal"))?;
        self.say(
            Meaning::Faint,
            "/help lists the commands, @ names a file, M-RET breaks the line, C-d ends the chat.",
        );
        loop {
            line.begin(self.console.take_draft());
            let Some(text) = line.read().map_err(Failure::io("the terminal"))? else { break };
            match text.trim() {
                "" => {}
                "/exit" | "/quit" => break,
                // A key that is pasted at the next line would be said to the model.
                command if is_login(command) => {
                    let told = "in another terminal logs in; this chat uses it. A key that is typed here goes to the model.";
                    self.say(
                        Meaning::Note,
                        &format!("edn-bridge {} {told}", command.trim_start_matches('/')),
                    );
                }
                _ => self.turn(&text)?,
            }
        }
        if let Some(session) = self.kept() {
            self.say(Meaning::Faint, &format!("edn-bridge chat --session {session} continues it."));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn say(&self, meaning: Meaning, text: &str) {
        let _ = writeln!(std::io::stdout().lock(), "{}", self.painter.paint(meaning, text));
    }

    const fn asker(&self) -> Asker<'_> {
        Asker { console: self.console, painter: self.painter }
    }

    /// The session, if anything was said in it.
    fn kept(&self) -> Option<String> {
        let messages = self.console.ask("get_messages", Map::new().with("limit", 1)).ok()?;
        messages.get("messages").and_then(Value::as_slice).filter(|some| !some.is_empty())?;
        self.session().ok()
    }

    /// The id of the session.
    fn session(&self) -> Result<String, Failure> {
        let state = self.console.ask("get_state", Map::new())?;
        Ok(state.get("state").map(|state| frame::text(state, "session-id").to_owned()).unwrap_or_default())
    }

    /// The end of a conversation that goes on.
    fn show_past(&self) -> Result<(), Failure> {
        let page = self.console.ask("get_messages", Map::new().with("limit", SHOWN))?;
        for message in page.get("messages").and_then(Value::as_slice).unwrap_or_default() {
            let (text, role) = (frame::message_text(message), frame::text(message, "role"));
            let content = message.get("content").and_then(Value::as_slice).unwrap_or_default();
            let content: Vec<Block> = content.iter().filter_map(Block::from_value).collect();
            let text = text + &sources_below(&content);
            if text.trim().is_empty() || role == "tool" {
                continue;
            }
            if role == "user" {
                for line in text.lines() {
                    self.say(Meaning::Name, &format!("> {line}"));
                }
            } else {
                let mut markdown = Markdown::new(self.painter);
                let shown = markdown.push(&text) + &markdown.end();
                let _ = writeln!(std::io::stdout().lock(), "{}\n", shown.trim_end());
            }
        }
        Ok(())
    }

    /// Sends a message and shows what happens to the end of its turn.
    fn turn(&self, text: &str) -> Result<(), Failure> {
        self.console.begin_anew();
        self.watching(|| match self.console.ask("prompt", Map::new().with("message", text.to_owned())) {
            Ok(accepted) => self.to_the_end(&Accepted::of(&accepted)),
            Err(failure) => {
                self.say(Meaning::Bad, &failure.to_string());
                Ok(())
            }
        })
    }

    /// Shows the rest of a turn that runs in the session, with its questions.
    fn rest(&self) -> Result<(), Failure> {
        let runs = || -> Result<bool, Failure> {
            let state = self.console.ask("get_state", Map::new())?;
            Ok(state.get("state").and_then(|state| state.get("is-streaming")?.as_bool()) == Some(true))
        };
        if !runs()? {
            return Ok(());
        }
        // Asked again, because its end comes only to who watches.
        self.watching(|| if runs()? { self.to_the_end(&Accepted::running()) } else { Ok(()) })
    }

    /// Between turns, this client watches nothing: it would hold up those of others in the session.
    fn watching(&self, then: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let topics = [TOPICS, &["interaction/requested"]].concat();
        self.console.subscribe(&topics)?;
        let ended = then();
        self.console.unsubscribe(&topics)?;
        ended
    }

    /// Shows what happens to the end of a turn, or of a slash command.
    fn to_the_end(&self, accepted: &Accepted) -> Result<(), Failure> {
        let mut markdown = Markdown::new(self.painter);
        let mut teller =
            Teller::new(Output::Text, false).with_markdown(Box::new(move |text: Option<&str>| match text {
                Some(text) => markdown.push(text),
                None => markdown.end(),
            }));
        let session = self.session()?;
        // A question may be told more than once: who begins to watch gets the pending ones.
        let mut asked: Vec<String> = Vec::new();
        loop {
            let event = match self.console.next(teller.tick()) {
                None => continue,
                Some(ConsoleEvent::Gone) => return Err(Failure::Failed("the bridge has ended".to_owned())),
                Some(ConsoleEvent::Interrupt(_)) => {
                    self.console.tell("abort", Map::new());
                    continue;
                }
                Some(ConsoleEvent::Event(event)) => event,
            };
            // A question of a subagent has the subagent's turn, and holds this one up.
            let is_question = frame::topic(&event) == "interaction/requested";
            if is_question && !is_of(&session, frame::data(&event)) {
                self.say(Meaning::Note, "Another session has a question; answer it there.");
                self.console.printed(&event);
                continue;
            }
            if !is_question && !accepted.has(&event) {
                self.console.printed(&event);
                continue;
            }
            teller.tell(&event);
            self.console.printed(&event);
            let data = frame::data(&event);
            if is_question {
                let id = frame::text(data, "interaction-id").to_owned();
                if !asked.contains(&id) {
                    asked.push(id);
                    teller.pause();
                    self.asker().answer(data);
                }
            }
            let Some(outcome) = accepted.ended(&event) else { continue };
            teller.end(&Verdict::default());
            match outcome {
                Outcome::Turn(ended) => {
                    match (frame::text(&ended, "outcome"), frame::text(&ended, "error-message")) {
                        ("failed", error) if !error.is_empty() => self.say(Meaning::Bad, error),
                        ("aborted" | "interrupted", _) => self.say(Meaning::Note, "(ended)"),
                        _ => {}
                    }
                }
                Outcome::Command { failed, message } => {
                    let meaning = if failed { Meaning::Bad } else { Meaning::Faint };
                    message.lines().for_each(|line| self.say(meaning, line));
                }
                // What comes of the choice ends the command.
                Outcome::Choice(asked) if self.choose(&asked) => continue,
                Outcome::Choice(_) | Outcome::Repeated => {}
            }
            return Ok(());
        }
    }

    /// Offers a choice of a slash command. Returns whether the bridge has taken the answer.
    fn choose(&self, asked: &Owned) -> bool {
        let action = asked.get("ui/action").unwrap_or(&Value::Nil);
        let items = action.get("ui/items").and_then(Value::as_slice).unwrap_or_default();
        let labels: Vec<&str> = items.iter().map(|item| frame::text(item, "ui.item/label")).collect();
        let picked = self
            .asker()
            .pick(frame::text(action, "ui/prompt"), &labels)
            .and_then(|at| items.get(at)?.get("ui.item/value"));
        let mut result = Map::new().with("request-id", frame::text(asked, "request-id").to_owned());
        result.put("action-name", action.get("ui/action-name").cloned().unwrap_or(Value::Nil));
        result.put("status", if picked.is_some() { "submitted" } else { "cancelled" });
        result.put_some("value", picked.cloned());
        let taken = self.console.ask("frontend_action_result", result);
        if let Err(failure) = &taken {
            self.say(Meaning::Bad, &failure.to_string());
        }
        taken.is_ok()
    }
}

/// Whether a question is of a session, or of a subagent below it. A person who reads this session has not seen what another
/// one's question is about.
fn is_of(session: &str, question: &Value<'_>) -> bool {
    let of = |key| frame::text(question, key);
    [of("session-id"), of("root-session-id"), of("parent-session-id")].contains(&session)
}
