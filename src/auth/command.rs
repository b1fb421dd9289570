//! Keys that a program prints: a command of the user's, or the tool of the system's secret store.
//!
//! The store is asked through its own tool (`secret-tool` of libsecret, `security` of macOS), so that neither
//! D-Bus nor a desktop's libraries are linked into this program. What a command prints is never shown, not
//! even when it fails: it may be half of a key.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::environment::Environment;
use crate::files::{BrokenSeal, Seal};
use crate::limits::{KEY_BYTES, KEY_COMMAND_SECONDS};
use crate::runner::{self, Program};
use crate::secret::Secret;

/// Why there is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is none, or it is unobtainable; the text says what to do.
    #[error("{0}")]
    Missing(String),
    /// It is unobtainable at the moment.
    #[error("{0}")]
    Passing(String),
}

/// Why a program printed no key. Completes a sentence whose subject is the program.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("is not run: {0}")]
    Sealed(#[from] BrokenSeal),
    #[error("cannot be run: {0}")]
    Start(io::Error),
    #[error("cannot be read: {0}")]
    Read(io::Error),
    #[error("cannot be waited for: {0}")]
    Wait(io::Error),
    #[error("took longer than {KEY_COMMAND_SECONDS} seconds")]
    TimedOut,
    #[error("failed ({0})")]
    Failed(ExitStatus),
    #[error("printed something that is no text")]
    NotText,
    #[error("printed nothing")]
    Nothing,
}

/// Runs the command of a setting, such as `:key-command of Work`, and takes its first line. It runs as the user, so that
/// its files must be as they were.
///
/// # Errors
/// [`KeyError::Missing`], with the cause.
pub async fn run(
    command: &[String],
    seal: &Seal,
    setting: &str,
    environment: &Environment,
) -> Result<Secret, KeyError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(KeyError::Missing(format!("The {setting} is empty.")));
    };
    let what = format!("The {setting} ({program})");
    if program.contains('/') && !program.starts_with('/') {
        return Err(KeyError::Missing(format!(
            "{what} must be an absolute path, or a name without a slash that is found on the PATH: the current folder \
             may be anybody's."
        )));
    }
    let printed = async {
        seal.verify().await?;
        output(program, arguments, environment).await
    };
    printed.await.map_err(|why: CommandError| KeyError::Missing(format!("{what} {why}.")))
}

/// Asks the system's secret store for this program's key of a provider.
///
/// # Errors
/// [`KeyError::Missing`], with the cause.
pub async fn secret_store(id: &str, provider: &str, environment: &Environment) -> Result<Secret, KeyError> {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (program, arguments, put) = if cfg!(target_os = "macos") {
        let put = format!("security add-generic-password -s edn-bridge -a {id} -w");
        ("security", text(&["find-generic-password", "-s", "edn-bridge", "-a", id, "-w"]), put)
    } else {
        let put = format!("secret-tool store --label='edn-bridge {id}' service edn-bridge provider {id}");
        ("secret-tool", text(&["lookup", "service", "edn-bridge", "provider", id]), put)
    };
    output(program, &arguments, environment).await.map_err(|why| {
        KeyError::Missing(format!("The key of {provider} is not to be had from the secret store: {program} {why}. Put it there with `{put}`."))
    })
}

/// The first line that a program prints.
async fn output(
    program: &str,
    arguments: &[String],
    environment: &Environment,
) -> Result<Secret, CommandError> {
    let patience = Duration::from_secs(KEY_COMMAND_SECONDS);
    let read = async {
        let start = async {
            let (stdout, writer) = runner::pipe()?;
            let program = Program::new(program).args(arguments).environment(environment);
            Ok::<_, io::Error>((program.start(writer.into(), Stdio::null()).await?, stdout))
        };
        let (mut running, stdout) = start.await.map_err(CommandError::Start)?;
        let printed = read(stdout).await.map_err(CommandError::Read)?;
        let status = running.exited().await.map_err(CommandError::Wait)?;
        running.end().await;
        Ok::<_, CommandError>((printed, status))
    };
    let (printed, status) = match tokio::time::timeout(patience, read).await {
        Ok(read) => read?,
        Err(_) => return Err(CommandError::TimedOut),
    };
    if !status.success() {
        return Err(CommandError::Failed(status));
    }
    let text = String::from_utf8(printed).map_err(|_| CommandError::NotText)?;
    let line = text.lines().next().unwrap_or_default().trim();
    match line {
        "" => Err(CommandError::Nothing),
        line => Ok(Secret::new(line.to_owned())),
    }
}

async fn read(stdout: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut printed = Vec::new();
    stdout.take(KEY_BYTES).read_to_end(&mut printed).await?;
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn key_command_whose_file_has_changed_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("key.sh");
        std::fs::write(&script, "echo sk-1").unwrap();
        let command = ["sh".to_owned(), script.to_str().unwrap().to_owned()];
        let seal = Seal::now([script.clone()]);
        let run = async || {
            let key = run(&command, &seal, ":key-command of Work", &Environment::default()).await;
            key.map(|key| key.expose().to_owned()).map_err(|error| error.to_string())
        };
        assert_eq!(run().await, Ok("sk-1".to_owned()));
        std::fs::write(&script, "touch ran; echo sk-2").unwrap();
        let told = run().await.unwrap_err();
        assert!(told.contains("(sh) is not run: ") && told.contains("key.sh has changed since"), "{told}");
    }

    #[tokio::test]
    async fn the_first_line_is_the_key_and_nothing_of_it_is_shown() {
        let run = async |script: &str| {
            let command: Vec<String> = ["sh", "-c", script].map(str::to_owned).into();
            run(&command, &Seal::default(), ":key-command of Work", &Environment::default())
                .await
                .map(|key| key.expose().to_owned())
                .map_err(|error| error.to_string())
        };
        assert_eq!(run("echo ' sk-1 '; echo more").await, Ok("sk-1".to_owned()));
        let error = run("echo sk-secret; echo sk-secret >&2; exit 3").await.unwrap_err();
        assert_eq!(error, "The :key-command of Work (sh) failed (exit status: 3).");
        assert!(run("true").await.unwrap_err().contains("printed nothing"));
        assert!(run("cat").await.unwrap_err().contains("printed nothing"), "standard input is empty");
        let missing =
            super::run(&["no-such-program-here".to_owned()], &Seal::default(), "x", &Environment::default())
                .await
                .unwrap_err();
        assert!(missing.to_string().contains("cannot be run"), "{missing}");
        let relative = super::run(&["./key".to_owned()], &Seal::default(), "x", &Environment::default())
            .await
            .unwrap_err();
        assert!(relative.to_string().contains("must be an absolute path"), "{relative}");
        assert!(
            super::run(&[], &Seal::default(), "x", &Environment::default())
                .await
                .unwrap_err()
                .to_string()
                .contains("empty")
        );
    }
}
