//! Real servers from the package registries, over their pipes and over HTTP, in the era that each speaks.
//! `make test` installs them; where they cannot be had, they are left out by name.

#![allow(clippy::print_stderr, reason = "tells what was left out")]

use crate::mcp_support;

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use edn_bridge::mcp::{Ask, ElicitReply, Era, Question, State};
use mcp_support::{Project, STOP};

/// The folder of the packages, if it is named and has this in it.
fn peer(path: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("EDN_BRIDGE_MCP_PEERS").map(PathBuf::from);
    let found = folder.map(|folder| folder.join(path)).filter(|found| found.exists());
    if found.is_none() {
        eprintln!("LEFT OUT: {path} (make test installs it)");
    }
    found
}

fn everything() -> Option<PathBuf> {
    peer("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

fn python() -> Option<PathBuf> {
    peer("python/mcp")?;
    peer("python")
}

fn peer_script() -> String {
    format!("{}/tests/mcp_servers/peer.py", env!("CARGO_MANIFEST_DIR"))
}

/// A server over HTTP, ended with its test.
struct Listening(Child, u16);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server on a free port, and waits for the line that says that it listens.
fn listen(
    program: &str,
    arguments: &[String],
    variables: &[(&str, String)],
    says: &str,
    port: u16,
) -> Listening {
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let errors = BufReader::new(child.stderr.take().unwrap());
    let mut lines = errors.lines();
    let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains(says));
    assert!(found, "{program} does not say {says:?}");
    // What it writes later must not block it.
    std::thread::spawn(move || lines.for_each(drop));
    Listening(child, port)
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn uses_everything(project: &Project) {
    let facts = project.ready().await;
    assert_eq!(facts.state, State::Ready, "{facts:?}");
    assert!(facts.tools.len() > 5 && !facts.prompts.is_empty() && !facts.resources.is_empty(), "{facts:?}");
    let outcome = project.call("echo", "{:message \"hello\"}").await;
    assert!(outcome.text.contains("hello") && !outcome.is_error, "{}", outcome.text);
    assert_eq!(project.call("get-tiny-image", "{}").await.images.len(), 1);
    let outcome = project.call("trigger-long-running-operation", "{:duration 1 :steps 3}").await;
    assert!(!outcome.is_error, "{}", outcome.text);
    let refused = project.call("get-sum", "{:a \"no number\"}").await;
    assert!(refused.is_error, "{}", refused.text);
    // A page that must be seen first, by an error; the same call again then asks for another by a request.
    project.answers(vec![ElicitReply::Agreed, ElicitReply::Agreed]);
    let page = "{:url \"https://example.com/a\" :errorPath true}";
    let outcome = project.call("trigger-url-elicitation", page).await;
    assert!(!outcome.is_error, "{}", outcome.text);
    let first = |ask: &Ask| matches!(ask.question, Question::Page { is_first: true, .. });
    assert_eq!(project.asked().iter().map(first).collect::<Vec<_>>(), [true, false], "{}", outcome.text);
    let typed = "demo://resource/dynamic/text/1";
    let completed = project.servers.complete_address("w", typed).await.unwrap();
    assert!(completed.values.contains(&typed.to_owned()), "{completed:?}");
    let resource = facts.resources[0].uri.to_string();
    let read = project.servers.read_resource("w", &resource, &project.answerer(), &STOP).await.unwrap();
    assert!(!read.is_empty());
    let prompt = facts.prompts.iter().find(|prompt| prompt.arguments.is_empty()).unwrap().name.to_string();
    let filled = project.servers.prompt("w", &prompt, &[], &project.answerer(), &STOP).await.unwrap();
    assert!(!filled.messages.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_over_its_pipes() {
    let Some(index) = everything() else { return };
    let project =
        Project::of(&format!("{{\"w\" {{:command [\"node\" {:?} \"stdio\"]}}}}", index.to_str().unwrap()));
    uses_everything(&project).await;
    project.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_over_http() {
    let Some(index) = everything() else { return };
    let port = free_port();
    let arguments = [index.to_str().unwrap().to_owned(), "streamableHttp".to_owned()];
    let server = listen("node", &arguments, &[("PORT", port.to_string())], "on port", port);
    let project = Project::of(&format!("{{\"w\" {{:url \"http://127.0.0.1:{}/mcp\"}}}}", server.1));
    uses_everything(&project).await;
    project.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filesystem_reads_below_its_root() {
    let Some(index) = peer("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "the file").unwrap();
    let root = folder.path().canonicalize().unwrap();
    let command = format!("[\"node\" {:?} {:?}]", index.to_str().unwrap(), root.to_str().unwrap());
    let project = Project::of(&format!("{{\"w\" {{:command {command}}}}}"));
    let facts = project.ready().await;
    assert_eq!(facts.state, State::Ready, "{facts:?}");
    // The server takes the client's root in place of its argument.
    let own = project.folder().join("b.txt");
    std::fs::write(&own, "of the project").unwrap();
    let outcome = project.call("read_text_file", &format!("{{:path {:?}}}", own.to_str().unwrap())).await;
    assert!(outcome.text.contains("of the project"), "{}", outcome.text);
    let outcome = project.call("read_text_file", "{:path \"/etc/passwd\"}").await;
    assert!(outcome.is_error, "{}", outcome.text);
    project.servers.end().await;
}

async fn uses_python(project: &Project) {
    let facts = project.ready().await;
    assert_eq!((facts.state, facts.era), (State::Ready, Some(Era::Discover)), "{facts:?}");
    assert_eq!(facts.revision.as_deref(), Some("2026-07-28"));
    assert_eq!(facts.instructions.as_deref(), Some("Add with add."));
    let outcome = project.call("add", "{:a 2 :b 3}").await;
    assert!(outcome.text.contains('5') && !outcome.is_error, "{}", outcome.text);
    let outcome = project.call("broken", "{}").await;
    assert!(outcome.is_error && outcome.text.contains("broken"), "{}", outcome.text);
    let outcome = project.call("steps", "{}").await;
    assert!(outcome.text.contains("done"), "{}", outcome.text);
    let read = project.servers.read_resource("w", "note://x", &project.answerer(), &STOP).await.unwrap();
    assert!(format!("{read:?}").contains("the note x"), "{read:?}");
    let given = [("who".to_owned(), "Ada".to_owned())];
    let filled = project.servers.prompt("w", "greet", &given, &project.answerer(), &STOP).await.unwrap();
    assert!(format!("{filled:?}").contains("Hello Ada"), "{filled:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_server_works_over_its_pipes() {
    let Some(packages) = python() else { return };
    let more = format!(":env {{\"PYTHONPATH\" {:?}}}", packages.to_str().unwrap());
    let command = format!("[\"python3\" {:?} \"stdio\"]", peer_script());
    // On a machine so busy that Python starts for longer than a server may leave the first question open, it counts as one
    // of the older era.
    let mut project = Project::of(&format!("{{\"w\" {{:command {command} {more}}}}}"));
    for _ in 0..4 {
        if project.ready().await.era == Some(Era::Discover) {
            break;
        }
        project.servers.end().await;
        project = Project::of(&format!("{{\"w\" {{:command {command} {more}}}}}"));
    }
    uses_python(&project).await;
    // The era was remembered, and the next start asks for nothing else.
    project.servers.restart("w").await.unwrap();
    assert_eq!(project.facts().era, Some(Era::Discover));
    project.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_server_works_over_http() {
    let Some(packages) = python() else { return };
    let port = free_port();
    let arguments = [peer_script(), "http".to_owned(), port.to_string()];
    let path = packages.to_str().unwrap().to_owned();
    let server = listen("python3", &arguments, &[("PYTHONPATH", path)], "running on", port);
    let project = Project::of(&format!("{{\"w\" {{:url \"http://127.0.0.1:{}/mcp\"}}}}", server.1));
    uses_python(&project).await;
    project.servers.end().await;
}
