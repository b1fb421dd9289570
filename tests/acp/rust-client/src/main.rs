//! Whole turns with the official Rust library of the Agent Client Protocol, in both versions.
//!
//! usage: acp-rust-client PROGRAM
//!
//! Answered, a permission with its change, a command, an edit, cancelled, listed, and loaded after a kill.

use std::error::Error;
use std::path::{Path, PathBuf};

use agent_client_protocol::schema::{MaybeUndefined, ProtocolVersion};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client, on_receive_notification, on_receive_request};
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};

const SCRIPT: &str = r#"{:turns [{:steps [{:delta "Hello."}]}
 {:steps [{:delta "I edit."} {:tool-call {:id "e" :name "edit" :arguments {:path "a.txt" :edits [{:old "one" :new "two"}]}}}]}
 {:steps [{:tool-call {:id "b" :name "bash" :arguments {:command "cat a.txt"}}}]}
 {:steps [{:delta "Done."}]}
 {:steps [{:tool-call {:id "w" :name "bash" :arguments {:command "while [ -d $PWD ]; do sleep 0.02; done"}}}]}]}"#;

/// A run: a state folder, a project folder and a script.
struct Run {
    dir: tempfile::TempDir,
    program: String,
}

impl Run {
    fn new(program: &str) -> Result<Self, Box<dyn Error>> {
        let dir = tempfile::tempdir()?;
        std::fs::create_dir(dir.path().join("project"))?;
        std::fs::write(dir.path().join("project/a.txt"), "one\n")?;
        std::fs::write(dir.path().join("script.edn"), SCRIPT)?;
        Ok(Self { dir, program: program.to_owned() })
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn agent(&self) -> AcpAgent {
        let path = |name: &str| self.dir.path().join(name).to_string_lossy().into_owned();
        let arguments = ["--state-dir", &path("state"), "--script", &path("script.edn"), "acp", "--no-daemon"];
        let config = AcpAgentConfig::new(Path::new(&self.program)).args(arguments);
        AcpAgent::new(config.env("XDG_CONFIG_HOME", path("config")))
    }
}

mod first {
    use agent_client_protocol::v1::schema::*;
    use agent_client_protocol::v1::{ConnectionTo, Responder};

    use super::*;

    struct Editor {
        updates: UnboundedReceiver<SessionUpdate>,
        asked: UnboundedReceiver<ToolCallUpdate>,
    }

    impl Editor {
        /// The updates that are there.
        fn told(&mut self) -> Vec<SessionUpdate> {
            std::iter::from_fn(|| self.updates.try_recv().ok()).collect()
        }
    }

    fn text(updates: &[SessionUpdate]) -> String {
        let texts = updates.iter().filter_map(|update| match update {
            SessionUpdate::AgentMessageChunk(ContentChunk { content: ContentBlock::Text(text), .. }) => {
                Some(text.text.as_str())
            }
            _ => None,
        });
        texts.collect()
    }

    fn said(updates: &[SessionUpdate]) -> String {
        let texts = updates.iter().filter_map(|update| match update {
            SessionUpdate::UserMessageChunk(ContentChunk { content: ContentBlock::Text(text), .. }) => {
                Some(text.text.as_str())
            }
            _ => None,
        });
        texts.collect()
    }

    async fn connected<T>(
        run: &Run,
        work: impl AsyncFnOnce(ConnectionTo<Agent>, Editor) -> agent_client_protocol::Result<T>,
    ) -> agent_client_protocol::Result<T> {
        let (tell, updates) = unbounded();
        let (ask, asked) = unbounded();
        Client
            .v1()
            .on_receive_notification(
                async move |told: SessionNotification, _: ConnectionTo<Agent>| {
                    let _ = tell.unbounded_send(told.update);
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest,
                            responder: Responder<RequestPermissionResponse>,
                            _: ConnectionTo<Agent>| {
                    let once = request.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
                    let chosen = SelectedPermissionOutcome::new(once.expect("allow_once").option_id.clone());
                    let _ = ask.unbounded_send(request.tool_call);
                    responder.respond(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(chosen)))
                },
                on_receive_request!(),
            )
            .connect_with(run.agent(), async move |agent| {
                let told = agent.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
                assert_eq!(told.protocol_version, ProtocolVersion::V1);
                assert_eq!(told.agent_info.map(|info| info.name).as_deref(), Some("edn-bridge"));
                work(agent, Editor { updates, asked }).await
            })
            .await
    }

    pub async fn run(run: &Run) -> agent_client_protocol::Result<()> {
        let session = connected(run, async |agent, mut editor| {
            let session = agent.send_request(NewSessionRequest::new(run.project())).block_task().await?.session_id;
            let say = |text: &str| {
                let prompt = vec![ContentBlock::Text(TextContent::new(text))];
                agent.send_request(PromptRequest::new(session.clone(), prompt))
            };
            assert_eq!(say("hello").block_task().await?.stop_reason, StopReason::EndTurn);
            assert_eq!(text(&editor.told()), "Hello.");
            assert_eq!(say("edit").block_task().await?.stop_reason, StopReason::EndTurn);
            let told = editor.told();
            assert_eq!(text(&told), "I edit.Done.");
            let asked = editor.asked.try_recv().expect("a permission");
            match asked.fields.content.as_deref() {
                Some([ToolCallContent::Diff(diff), ..]) => {
                    assert_eq!((diff.old_text.as_deref(), diff.new_text.as_str()), (Some("one\n"), "two\n"));
                }
                other => panic!("{other:?}"),
            }
            let asked = editor.asked.try_recv().expect("a second one");
            assert_eq!(asked.fields.kind, Some(ToolKind::Execute));
            let output = told.iter().rev().find_map(|update| match update {
                SessionUpdate::ToolCallUpdate(update) if &*update.tool_call_id.0 == "b" => Some(update),
                _ => None,
            });
            assert_eq!(output.expect("the output").fields.status, Some(ToolCallStatus::Completed));
            let waiting = say("wait");
            loop {
                match editor.updates.next().await.expect("an update") {
                    SessionUpdate::ToolCallUpdate(update)
                        if update.fields.status == Some(ToolCallStatus::InProgress) => break,
                    _ => {}
                }
            }
            agent.send_notification(CancelNotification::new(session.clone()))?;
            assert_eq!(waiting.block_task().await?.stop_reason, StopReason::Cancelled);
            let listed = agent.send_request(ListSessionsRequest::new()).block_task().await?;
            assert_eq!(listed.sessions.into_iter().map(|row| row.session_id).collect::<Vec<_>>(), [session.clone()]);
            Ok(session)
        })
        .await?;
        // The library has killed the process.
        connected(run, async |agent, mut editor| {
            agent.send_request(LoadSessionRequest::new(session, run.project())).block_task().await?;
            let told = editor.told();
            assert_eq!((said(&told).as_str(), text(&told).as_str()), ("helloeditwait", "Hello.I edit.Done."));
            Ok(())
        })
        .await
    }
}

mod second {
    use agent_client_protocol::v2::schema::*;
    use agent_client_protocol::v2::{ConnectionTo, Responder};

    use super::*;

    struct Editor {
        updates: UnboundedReceiver<SessionUpdate>,
        asked: UnboundedReceiver<RequestPermissionRequest>,
    }

    impl Editor {
        /// The updates until the session is idle after it has worked, and why it stopped.
        async fn until_idle(&mut self) -> (Vec<SessionUpdate>, Option<StopReason>) {
            let (mut told, mut works) = (Vec::new(), false);
            loop {
                match self.updates.next().await.expect("an update") {
                    SessionUpdate::StateUpdate(StateUpdate::Idle(idle)) if works => return (told, idle.stop_reason),
                    SessionUpdate::StateUpdate(StateUpdate::Idle(_)) => {}
                    SessionUpdate::StateUpdate(_) => works = true,
                    update => told.push(update),
                }
            }
        }
    }

    fn text(updates: &[SessionUpdate]) -> String {
        let texts = updates.iter().filter_map(|update| match update {
            SessionUpdate::AgentMessageChunk(ContentChunk { content: ContentBlock::Text(text), .. }) => {
                Some(text.text.as_str())
            }
            _ => None,
        });
        texts.collect()
    }

    fn said(updates: &[SessionUpdate]) -> Vec<(String, String)> {
        let texts = updates.iter().filter_map(|update| match update {
            SessionUpdate::UserMessageChunk(ContentChunk { content: ContentBlock::Text(text), message_id, .. }) => {
                Some((message_id.0.to_string(), text.text.clone()))
            }
            _ => None,
        });
        texts.collect()
    }

    async fn connected<T>(
        run: &Run,
        work: impl AsyncFnOnce(ConnectionTo<Agent>, Editor) -> agent_client_protocol::Result<T>,
    ) -> agent_client_protocol::Result<T> {
        let (tell, updates) = unbounded();
        let (ask, asked) = unbounded();
        Client
            .v2()
            .on_receive_notification(
                async move |told: UpdateSessionNotification, _: ConnectionTo<Agent>| {
                    let _ = tell.unbounded_send(told.update);
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest,
                            responder: Responder<RequestPermissionResponse>,
                            _: ConnectionTo<Agent>| {
                    let once = request.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
                    let chosen = SelectedPermissionOutcome::new(once.expect("allow_once").option_id.clone());
                    let _ = ask.unbounded_send(request);
                    responder.respond(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(chosen)))
                },
                on_receive_request!(),
            )
            .connect_with(run.agent(), async move |agent| {
                let info = Implementation::new("test", "1");
                let told = agent.send_request(InitializeRequest::new(ProtocolVersion::V2, info)).block_task().await?;
                assert_eq!(told.info.name, "edn-bridge");
                assert!(told.capabilities.session.is_some_and(|session| session.delete.is_some()));
                work(agent, Editor { updates, asked }).await
            })
            .await
    }

    pub async fn run(run: &Run) -> agent_client_protocol::Result<()> {
        let session = connected(run, async |agent, mut editor| {
            let session = agent.send_request(NewSessionRequest::new(run.project())).block_task().await?.session_id;
            let say = |text: &str| {
                let prompt = vec![ContentBlock::Text(TextContent::new(text))];
                agent.send_request(PromptRequest::new(session.clone(), prompt))
            };
            let message = say("hello").block_task().await?.message_id;
            let (told, stop) = editor.until_idle().await;
            assert_eq!((text(&told).as_str(), stop), ("Hello.", Some(StopReason::EndTurn)));
            assert_eq!(said(&told), [(message.0.to_string(), "hello".to_owned())]);
            say("edit").block_task().await?;
            let (told, stop) = editor.until_idle().await;
            assert_eq!((text(&told).as_str(), stop), ("I edit.Done.", Some(StopReason::EndTurn)));
            let asked = editor.asked.try_recv().expect("a permission");
            let Some(RequestPermissionSubject::ToolCall(subject)) = asked.subject else { panic!("no subject") };
            match subject.tool_call.content {
                MaybeUndefined::Value(content) => match content.first() {
                    Some(ToolCallContent::Diff(diff)) => {
                        let patch = diff.patch.as_ref().expect("a patch");
                        assert!(patch.text.ends_with("-one\n+two\n"), "{}", patch.text);
                    }
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
            let waiting = say("wait").block_task().await?;
            let _ = waiting;
            loop {
                match editor.updates.next().await.expect("an update") {
                    SessionUpdate::ToolCallUpdate(update)
                        if update.status == MaybeUndefined::Value(ToolCallStatus::InProgress) => break,
                    _ => {}
                }
            }
            agent.send_notification(CancelSessionNotification::new(session.clone()))?;
            let stop = loop {
                match editor.updates.next().await.expect("an update") {
                    SessionUpdate::StateUpdate(StateUpdate::Idle(idle)) => break idle.stop_reason,
                    _ => {}
                }
            };
            assert_eq!(stop, Some(StopReason::Cancelled));
            let listed = agent.send_request(ListSessionsRequest::new()).block_task().await?;
            assert_eq!(listed.sessions.into_iter().map(|row| row.session_id).collect::<Vec<_>>(), [session.clone()]);
            Ok(session)
        })
        .await?;
        connected(run, async |agent, mut editor| {
            let from = ReplayFrom::Start(ReplayFromStart::new());
            let resume = ResumeSessionRequest::new(session, run.project()).replay_from(from);
            agent.send_request(resume).block_task().await?;
            let mut told = Vec::new();
            while let Ok(update) = editor.updates.try_recv() {
                told.push(update);
            }
            let words: String = said(&told).into_iter().map(|(_, text)| text).collect();
            assert_eq!((words.as_str(), text(&told).as_str()), ("helloeditwait", "Hello.I edit.Done."));
            Ok(())
        })
        .await
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let program = std::env::args().nth(1).ok_or("usage: acp-rust-client PROGRAM")?;
    futures::executor::block_on(first::run(&Run::new(&program)?))?;
    futures::executor::block_on(second::run(&Run::new(&program)?))?;
    println!("the Rust library: all is well, in both versions");
    Ok(())
}
