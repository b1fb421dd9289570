//! Commands that an agent runs through this program, with the newest of their output. Judges nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio_util::sync::CancellationToken;

use crate::agent::AgentReply;
use crate::limits::{AGENT_TERMINAL_BYTES, PROCESS_GRACE, PROCESS_READ_BYTES};
use crate::runner::RunningProgram;

/// How a command ended: its exit code, or the signal.
type ExitOf = (Option<u32>, Option<String>);

/// The commands of a turn.
#[derive(Default)]
pub(super) struct Terminals(Mutex<HashMap<Arc<str>, Arc<Terminal>>>);

/// A command.
struct Terminal {
    kept: Mutex<Kept>,
    /// Ends it.
    end: CancellationToken,
    /// It has ended, and all that it wrote is read.
    ended: CancellationToken,
}

#[derive(Default)]
struct Kept {
    bytes: std::collections::VecDeque<u8>,
    most: usize,
    is_cut: bool,
    exit: Option<ExitOf>,
}

impl Terminal {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest output, from the boundary of a character on, and whether it lacks some.
    fn text(&self) -> (String, bool) {
        let kept = self.kept();
        let mut bytes: Vec<u8> = kept.bytes.iter().copied().collect();
        if kept.is_cut {
            let start = bytes.iter().position(|byte| byte & 0xC0 != 0x80).unwrap_or(0);
            bytes.drain(..start);
        }
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        // A byte that is no text has become three.
        let over = text.len().saturating_sub(kept.most);
        let over = (over..=text.len()).find(|over| text.is_char_boundary(*over)).unwrap_or(0);
        text.drain(..over);
        (text, kept.is_cut || over > 0)
    }
}

impl Terminals {
    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Terminal>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, id: &str) -> Option<Arc<Terminal>> {
        self.all().get(id).cloned()
    }

    /// Takes a started command in, with the end of the pipe that it writes to. The returned future runs until it has ended.
    pub(super) fn watch(
        &self,
        id: Arc<str>,
        (mut running, read): (RunningProgram, Receiver),
        keep: Option<u64>,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        let most = keep.and_then(|keep| usize::try_from(keep).ok()).unwrap_or(AGENT_TERMINAL_BYTES);
        let terminal = Arc::new(Terminal {
            kept: Mutex::new(Kept { most: most.min(AGENT_TERMINAL_BYTES), ..Kept::default() }),
            end: stop,
            ended: CancellationToken::new(),
        });
        self.all().insert(id, terminal.clone());
        async move {
            let _ended = terminal.ended.clone().drop_guard();
            let reading = tokio::spawn(collect(read, terminal.clone()));
            let status = tokio::select! {
                status = running.exited() => status.ok(),
                () = terminal.end.cancelled() => None,
            };
            // What it has left running holds its output open.
            running.end().await;
            let _ = tokio::time::timeout(PROCESS_GRACE, reading).await;
            terminal.kept().exit = Some(match status {
                Some(status) => {
                    use std::os::unix::process::ExitStatusExt as _;
                    let code = status.code().and_then(|code| u32::try_from(code).ok());
                    (code, status.signal().map(|signal| signal.to_string()))
                }
                None => (None, Some("SIGKILL".to_owned())),
            });
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    /// What one has written, if it is known: agents name terminals of their own too.
    pub(super) fn text(&self, id: &str) -> Option<String> {
        self.get(id).map(|terminal| terminal.text().0)
    }

    /// What one has written, and how it ended.
    pub(super) fn output(&self, id: &str) -> Option<AgentReply> {
        let terminal = self.get(id)?;
        let (text, is_cut) = terminal.text();
        let ended = terminal.kept().exit.clone();
        Some(AgentReply::Output { text, is_cut, ended })
    }

    /// Waits for the end of one.
    pub(super) async fn ended(&self, id: &str) -> Option<ExitOf> {
        let terminal = self.get(id)?;
        terminal.ended.cancelled().await;
        let exit = terminal.kept().exit.clone();
        Some(exit.unwrap_or_default())
    }

    /// Ends one.
    pub(super) fn kill(&self, id: &str) -> Option<()> {
        self.get(id).map(|terminal| terminal.end.cancel())
    }

    /// Ends one, and forgets it.
    pub(super) async fn release(&self, id: &str) -> Option<()> {
        let terminal = self.all().remove(id)?;
        terminal.end.cancel();
        terminal.ended.cancelled().await;
        Some(())
    }

    /// Ends all.
    pub(super) async fn release_all(&self) {
        let all: Vec<Arc<Terminal>> = self.all().drain().map(|(_, terminal)| terminal).collect();
        for terminal in all {
            terminal.end.cancel();
            terminal.ended.cancelled().await;
        }
    }
}

/// Keeps the newest of what is written.
async fn collect(mut read: Receiver, terminal: Arc<Terminal>) {
    let mut buffer = vec![0u8; PROCESS_READ_BYTES];
    while let Ok(count @ 1..) = read.read(&mut buffer).await {
        let mut kept = terminal.kept();
        kept.bytes.extend(buffer.get(..count).unwrap_or_default());
        let over = kept.bytes.len().saturating_sub(kept.most);
        kept.bytes.drain(..over);
        kept.is_cut |= over > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_no_text_stays_within_its_bound() {
        let of = |bytes: &[u8], most, is_cut| {
            let kept = Kept { bytes: bytes.iter().copied().collect(), most, is_cut, exit: None };
            Terminal {
                kept: Mutex::new(kept),
                end: CancellationToken::new(),
                ended: CancellationToken::new(),
            }
        };
        assert_eq!(of(b"text", 4, false).text(), ("text".to_owned(), false));
        assert_eq!(of(b"\xff\xff\xffend", 6, false).text(), ("\u{fffd}end".to_owned(), true));
        assert_eq!(of(b"\xff\xffend", 5, false).text(), ("end".to_owned(), true), "no half character");
        assert_eq!(of("é!".as_bytes().get(1..).unwrap(), 2, true).text(), ("!".to_owned(), true));
        assert_eq!(of(b"", 0, true).text(), (String::new(), true));
    }
}
