//! Files and commands for an agent, under the rules of our own tools, in the sandbox of our own commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::turn_context::ExternalTurn;
use crate::agent::{AgentAsk, AgentReply};
use crate::engine::native::call::served;
use crate::engine::native::proposal::proposed;
use crate::files;
use crate::jsonrpc::RpcError;
use crate::limits::{AGENT_FILE_BYTES, AGENT_TERMINALS};
use crate::peer;
use crate::runner::{self, Program};
use crate::sha256;
use crate::tool::permission::{Access, Act, Run, Verdict};
use crate::tool::{self, Plan, SeenText, path};
use crate::value::{Map, Value};

impl ExternalTurn<'_> {
    /// Serves what an agent wants of files and commands.
    ///
    /// # Errors
    /// Why it was not done, for the agent.
    pub(super) async fn serve(&self, ask: AgentAsk) -> Result<AgentReply, RpcError> {
        match ask {
            AgentAsk::Write { path, text } => self.write(&path, &text).await,
            AgentAsk::Read { path, line, limit } => self.read(&path, line, limit).await,
            AgentAsk::StartTerminal { command, variables, cwd, keep } => {
                self.start_terminal(command, variables, cwd, keep).await
            }
            AgentAsk::ReadTerminal(id) => self.terminals.output(&id).ok_or_else(missing),
            AgentAsk::AwaitTerminal(id) => {
                let (code, signal) = self.terminals.ended(&id).await.ok_or_else(missing)?;
                Ok(AgentReply::Ended(code, signal))
            }
            AgentAsk::KillTerminal(id) => {
                self.terminals.kill(&id).map(|()| AgentReply::Done).ok_or_else(missing)
            }
            AgentAsk::ReleaseTerminal(id) => {
                self.terminals.release(&id).await.map(|()| AgentReply::Done).ok_or_else(missing)
            }
            AgentAsk::Permission { .. } | AgentAsk::Form(_) => Err(refused("It cannot be asked now.")),
        }
    }

    fn resolved(&self, file: &Path) -> Result<PathBuf, RpcError> {
        if !file.is_absolute() {
            return Err(RpcError { code: -32602, message: "The path must be absolute.".to_owned() });
        }
        let cwd = self.turn.session.snapshot().facts.cwd.clone();
        let resolved = path::resolve(Path::new(&*cwd), &file.to_string_lossy());
        resolved.map_err(|error| RpcError { code: -32602, message: error.to_string() })
    }

    /// Writes a file with our own tool. What the person has just allowed is not asked again.
    async fn write(&self, file: &Path, text: &str) -> Result<AgentReply, RpcError> {
        let resolved = self.resolved(file)?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > AGENT_FILE_BYTES {
            return Err(refused(format!("A file may have at most {AGENT_FILE_BYTES} bytes.")));
        }
        let access = Access::Write(resolved);
        let permitted = self.permits().take(&access, Some(text));
        let permitted = permitted.map(|permit| Plan { access, diff: permit.text.map(|text| text.diff) });
        let name = file.to_string_lossy();
        let arguments = arguments([("path", name.as_ref()), ("content", text)]);
        let id = self.turn.shared.clock.id("tc-").into();
        let call = proposed(&self.turn.tools(), id, tool::WRITE.into(), arguments);
        let outcome = served(self.turn, call, permitted).await;
        match outcome.is_error {
            false => Ok(AgentReply::Done),
            true => Err(refused(outcome.text)),
        }
    }

    /// Reads a file under the rules of our own tool.
    async fn read(&self, file: &Path, line: Option<u32>, limit: Option<u32>) -> Result<AgentReply, RpcError> {
        let resolved = self.resolved(file)?;
        let name = file.to_string_lossy();
        let id = self.turn.shared.clock.id("tc-").into();
        let call = proposed(&self.turn.tools(), id, tool::READ.into(), arguments([("path", name.as_ref())]));
        let act = Act::of(tool::READ, Access::Read(resolved.clone()));
        self.batch.admit(&Arc::new(call), &act, None).await.map_err(|refusal| refused(refusal.text))?;
        let shown = resolved.clone();
        let read = tokio::task::spawn_blocking(move || files::read(&resolved, AGENT_FILE_BYTES)).await;
        let bytes = match read.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
            Err(error) => return Err(refused(format!("The file cannot be read: {error}."))),
        };
        let text = String::from_utf8(bytes).map_err(|_| refused("The file is no text in UTF-8."))?;
        let is_whole = line.is_none() && limit.is_none();
        self.turn.session.known.shown(&shown, SeenText { digest: sha256::hex(&text), is_whole });
        let Some(from) = line.or(limit.map(|_| 1)) else { return Ok(AgentReply::Text(text)) };
        let skip = usize::try_from(from.max(1).saturating_sub(1)).unwrap_or(usize::MAX);
        let most = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(AgentReply::Text(text.split_inclusive('\n').skip(skip).take(most).collect()))
    }
}

impl ExternalTurn<'_> {
    /// What a request for a command would run.
    ///
    /// # Errors
    /// If it cannot be run.
    fn run(
        &self,
        command: &[String],
        variables: Vec<(String, String)>,
        cwd: Option<&Path>,
    ) -> Result<Run, RpcError> {
        let unfit = |word: &String| word.contains('\0');
        let is_unfit = |(name, value): &(String, String)| {
            name.is_empty() || name.starts_with('-') || name.contains('=') || unfit(name) || unfit(value)
        };
        if command.first().is_none_or(String::is_empty)
            || command.iter().any(unfit)
            || variables.iter().any(is_unfit)
        {
            return Err(RpcError { code: -32602, message: "The command cannot be run.".to_owned() });
        }
        let session = self.turn.session.snapshot().facts.cwd.clone();
        let folder = match cwd {
            Some(cwd) if !cwd.is_absolute() => {
                return Err(RpcError { code: -32602, message: "The cwd must be absolute.".to_owned() });
            }
            Some(cwd) => Some(self.resolved(cwd)?).filter(|folder| folder != Path::new(&*session)),
            None => None,
        };
        Ok(Run { folder, variables: variables.into_iter().collect(), ..Run::words(command) })
    }

    /// Starts a command for the agent, if it may run.
    ///
    /// # Errors
    /// Why it does not, for the agent.
    pub(super) async fn start_terminal(
        &self,
        command: Vec<String>,
        variables: Vec<(String, String)>,
        cwd: Option<PathBuf>,
        keep: Option<u64>,
    ) -> Result<AgentReply, RpcError> {
        let turn = self.turn;
        let facts = turn.session.snapshot().facts.clone();
        let run = self.run(&command, variables, cwd.as_deref())?;
        if self.terminals.count() >= AGENT_TERMINALS {
            return Err(refused(format!("{AGENT_TERMINALS} commands are there: release some.")));
        }
        let id = turn.shared.clock.id("tc-").into();
        let arguments = arguments([("command", &run.shown())]);
        let call = Arc::new(proposed(&turn.tools(), id, tool::BASH.into(), arguments));
        let access = Access::Run(run.clone());
        let is_permitted = self.permits().take(&access, None).is_some();
        let act = Act::of(tool::BASH, access);
        let is_denied = matches!(self.batch.judge_act(&call, &act), Verdict::Deny(_));
        if is_denied || !is_permitted {
            self.batch.admit(&call, &act, None).await.map_err(|refusal| refused(refusal.text))?;
        }
        let config = turn.config();
        let session = Path::new(&*facts.cwd);
        let folder = run.folder.as_deref().unwrap_or(session);
        // Somebody may have put a link in its place while the person was asked.
        if path::resolve(session, &folder.to_string_lossy()).ok().as_deref() != Some(folder) {
            return Err(refused("The folder leads elsewhere since the command was allowed; it was not run."));
        }
        // The very text that was judged and shown.
        let program = Program::new("bash").args(["-c", &*run.shown()]).cwd(session);
        let (environment, own) = self.attached.connection.variables();
        let program = peer::with_variables(program, environment, own);
        let sandbox = config.sandbox(facts.mode, session, &turn.session.roots());
        let failed = |error: std::io::Error| refused(format!("The command cannot be started: {error}."));
        let (read, output) = runner::pipe().map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let started = program.sandbox(sandbox).start(output.into(), errors.into()).await;
        let running = started.map_err(failed)?;
        let id: Arc<str> = turn.shared.clock.id("term-").into();
        let stop = turn.stop.child_token();
        let watched = self.terminals.watch(id.clone(), (running, read), keep, stop);
        turn.shared.tasks.spawn(watched);
        Ok(AgentReply::Terminal(id))
    }
}

/// An error for an agent.
fn refused(message: impl Into<String>) -> RpcError {
    RpcError { code: -32603, message: message.into() }
}

/// That there is no such thing.
fn missing() -> RpcError {
    RpcError { code: -32002, message: "Resource not found".to_owned() }
}

/// The arguments of a call of ours.
fn arguments<const N: usize>(pairs: [(&'static str, &str); N]) -> Value<'static> {
    let mut map = Map::new();
    for (key, text) in pairs {
        map.put(key, text.to_owned());
    }
    Value::from(map)
}
