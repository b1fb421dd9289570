//! `edn-bridge chat`: a conversation on a terminal, for a machine without an editor. A client of the session API, as
//! `prompt` is, that also answers questions.

mod markdown;
mod questions;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use clap::Args;
use edn_bridge::engine::Engine;
use edn_bridge::event::{Body, Choice, TurnOutcome};
use edn_bridge::message::Role;
use edn_bridge::repl::message_line::{MessageLine, Word};
use edn_bridge::session::{
    ActionResult, ActionStatus, Client as _, Clients as _, Prompt, Reply, Sessions as _, SwitchTarget,
    Turns as _,
};

use super::prompt::console::{Console, ConsoleEvent};
use super::prompt::told::Teller;
use super::prompt::{CONNECTION, Goal, Output, call, check_provider, not_set_up, resumed, wait};
use super::served::Process;
use super::style::{Meaning, Painter};
use super::{Exit, Failure, Options, USAGE};
use markdown::Markdown;

/// Messages that are shown of a conversation that goes on.
const SHOWN: usize = 6;

#[derive(Args)]
pub(super) struct ChatArguments {
    /// Go on with the newest session of this folder.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    goes_on: bool,
    /// Go on with this session: its id, the beginning of its id, or its name.
    #[arg(long, short, value_name = "SESSION")]
    session: Option<String>,
}

pub(super) fn run(options: &Options, arguments: &ChatArguments) -> Exit {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let message = "chat needs a terminal; in a script, use edn-bridge prompt".to_owned();
        return Err(Failure::Status { code: USAGE, message });
    }
    let settings = options.settings().map_err(|failure| not_set_up(failure.to_string()))?;
    let wanted = Goal { goes_on: arguments.goes_on, session: arguments.session.as_deref() };
    let resumed = resumed(options, &settings, &wanted)?;
    if resumed.is_none() {
        check_provider(&settings)?;
    }
    let history = settings.state_dir.join("chat-history");
    let folder = settings.cwd.clone();
    let process = Process::new(settings, options.durability())?;
    let (events, listen) = channel();
    let client = Arc::new(Console::new(events.clone(), true));
    let first = process.engine.attach(CONNECTION, client.clone());
    client.focus(first.clone());
    process.on_interrupt(Box::new(move || drop(events.send(ConsoleEvent::Interrupt))));
    let mut chat = Chat { engine: &process.engine, client, listen, painter: Painter::stdout() };
    if let Some(session) = resumed {
        let opened =
            wait(|reply| chat.engine.switch_session(call(&first), SwitchTarget::Id(session), reply))?;
        chat.client.focus(opened.session);
        chat.show_past()?;
    }
    let commands = wait(|reply| chat.engine.commands(call(&chat.client.focused()), reply))?;
    let commands =
        commands.into_iter().map(|command| Word { name: command.name, about: command.description });
    let mut line =
        MessageLine::new(commands.collect(), folder, &history).map_err(Failure::io("the terminal"))?;
    chat.say(
        Meaning::Faint,
        "/help lists the commands, @ names a file, M-RET breaks the line, C-d ends the chat.",
    );
    while let Some(text) = line.read().map_err(Failure::io("the terminal"))? {
        match text.trim() {
            "" => {}
            "/exit" | "/quit" => break,
            _ => chat.turn(&text)?,
        }
    }
    let session = chat.client.focused();
    let is_kept =
        wait(|reply| chat.engine.state(call(&session), reply)).is_ok_and(|facts| facts.message_count > 0);
    if is_kept {
        chat.say(Meaning::Faint, &format!("edn-bridge chat --session {session} goes on with it."));
    }
    drop(chat.listen);
    wait(|reply| process.engine.detach(CONNECTION, reply))?;
    process.end();
    Ok(ExitCode::SUCCESS)
}

/// A conversation.
struct Chat<'e> {
    engine: &'e Engine,
    client: Arc<Console>,
    listen: Receiver<ConsoleEvent>,
    painter: Painter,
}

impl Chat<'_> {
    fn say(&self, meaning: Meaning, text: &str) {
        let _ = writeln!(std::io::stdout().lock(), "{}", self.painter.paint(meaning, text));
    }

    /// The end of a conversation that goes on.
    fn show_past(&self) -> Result<(), Failure> {
        let session = self.client.focused();
        let page = wait(|reply| self.engine.messages(call(&session), None, Some(SHOWN), reply))?;
        for message in page.messages {
            let text = message.text();
            if text.trim().is_empty() || message.role == Role::Tool {
                continue;
            }
            if message.role == Role::User {
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
    fn turn(&mut self, text: &str) -> Result<(), Failure> {
        let session = self.client.focused();
        let prompt = Prompt { message: text.to_owned(), ..Prompt::default() };
        let mut markdown = Markdown::new(self.painter);
        let mut teller =
            Teller::new(Output::Text, false).with_markdown(Box::new(move |text: Option<&str>| match text {
                Some(text) => markdown.push(text),
                None => markdown.end(),
            }));
        let accepted = match wait(|reply| self.engine.prompt(call(&session), prompt, reply)) {
            Ok(accepted) => accepted,
            Err(failure) => {
                self.say(Meaning::Bad, &failure.to_string());
                return Ok(());
            }
        };
        loop {
            let next = match teller.tick() {
                Some(tick) => match self.listen.recv_timeout(tick) {
                    Err(RecvTimeoutError::Timeout) => continue,
                    other => other.ok(),
                },
                None => self.listen.recv().ok(),
            };
            let event = match next {
                None => return Err(Failure::Failed("the bridge has ended".to_owned())),
                Some(ConsoleEvent::Interrupt) => {
                    self.engine.abort(call(&self.client.focused()), None, Reply::new(|_| {}));
                    continue;
                }
                Some(ConsoleEvent::Event(event)) => event,
            };
            let weight = event.body.weight();
            teller.tell(&event);
            self.client.printed(weight);
            let is_ours = accepted.turn.is_none() || event.turn == accepted.turn;
            match &event.body {
                Body::QuestionAsked(asked) => {
                    teller.pause();
                    let session = event.session.clone().unwrap_or_else(|| self.client.focused());
                    questions::answer(self.engine, &session, asked, self.painter);
                }
                Body::TurnEnded(ended) if is_ours => {
                    teller.end(None);
                    match (ended.outcome, &ended.error) {
                        (TurnOutcome::Failed, Some(error)) => self.say(Meaning::Bad, error),
                        (TurnOutcome::Aborted | TurnOutcome::Interrupted, _) => {
                            self.say(Meaning::Note, "(ended)")
                        }
                        _ => {}
                    }
                    return Ok(());
                }
                Body::CommandResult(outcome) => {
                    teller.end(None);
                    let meaning = if outcome.is_error() { Meaning::Bad } else { Meaning::Faint };
                    outcome.message.lines().for_each(|line| self.say(meaning, line));
                    return Ok(());
                }
                Body::ChoiceRequested(choice) => {
                    teller.end(None);
                    return self.choose(choice);
                }
                _ => {}
            }
        }
    }

    /// Offers a choice of a slash command.
    fn choose(&self, choice: &Choice) -> Result<(), Failure> {
        let labels: Vec<&str> = choice.items.iter().map(|item| item.label.as_str()).collect();
        let picked =
            questions::pick(choice.prompt, &labels, self.painter).and_then(|at| choice.items.get(at));
        let result = ActionResult {
            request_id: choice.request.to_string(),
            kind: Some(choice.kind),
            status: if picked.is_some() { ActionStatus::Submitted } else { ActionStatus::Cancelled },
            pick: picked.map(|item| item.pick.clone()),
            error_message: None,
        };
        let session = self.client.focused();
        if let Err(failure) = wait(|reply| self.engine.action_result(call(&session), result, reply)) {
            self.say(Meaning::Bad, &failure.to_string());
        }
        Ok(())
    }
}
