//! A session API that keeps its requests until the test answers them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use edn_bridge::event::{Body, Cause, Event, WaitingMessages};
use edn_bridge::facts::agent::{AgentOption, ListedAgent};
use edn_bridge::facts::editor::Editor;
use edn_bridge::facts::mcp::{McpCompletion, McpServer};
use edn_bridge::facts::permissions::{AuditPage, AuditWanted, ListedRule, TrustPreview};
use edn_bridge::facts::{
    BashOutput, CommandFacts, HostFacts, JobFacts, JobStatus, ListedSessions, LoginFacts, ModelFacts, Note,
    OutputPart, ProviderName, SessionFacts, SessionList, SessionStats, ShellFacts, Slot,
};
use edn_bridge::message::{EntryId, Message, Mode, SessionId, ThinkingLevel, TurnId};
use edn_bridge::session::control::{
    Capabilities, ControlAck, ControlKind, ControlRequest, ControlResult, TeamMember,
};
use edn_bridge::session::{
    ActionResult, Again, ApiError, Call, Client, ClientTools, Clients, Control, DialogResult, Edited,
    FileAnswer, GraphQuery, Interrupted, Jobs, Listing, Logins, McpServers, McpSwitch, McpTyped, NewSession,
    OfferedTool, OpenFilesOfClient, Opened, Page, Permissions, Prompt, Prompted, Queries, QueryAnswer,
    Questions, Queues, Reach, Registered, Removed, Reply, Response, Resumed, SessionServers, SessionSettings,
    Sessions, ShellCommand, ShownFiles, Since, Snapshot, SwitchTarget, Tally, ToolAnswer, ToolOutcome, Turns,
    Undo, Undone, Undos, Waited,
};
use edn_bridge::value::Value;

/// The fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is answered before the call returns.
    Now,
    /// It is kept.
    Later,
    /// It is refused.
    Refused,
    /// It is forgotten, as by a session that ended.
    Dropped,
}

/// A request that is kept.
pub struct Kept {
    pub op: &'static str,
    pub request: Arc<str>,
    answer: Box<dyn FnOnce(Fate) + Send>,
}

impl Kept {
    /// Answers it.
    pub fn end(self, fate: Fate) {
        (self.answer)(fate);
    }
}

/// The fate of a request, by its op and the number of earlier requests.
type Policy = Box<dyn Fn(&'static str, usize) -> Fate + Send + Sync>;

/// The event with a list of two sessions, one of which is named by the list's version.
pub fn told(version: u64) -> Body {
    let names = ["s".to_owned(), format!("v{version}")];
    let slots = names.map(|id| Slot::new(&SessionFacts::empty(id.as_str().into())));
    Body::ContextUpdated { sessions: Arc::new(SessionList::new(version, slots.into())), active: None }
}

fn job() -> Arc<JobFacts> {
    Arc::new(JobFacts {
        id: "j".into(),
        command: "true".into(),
        status: JobStatus::Running,
        started_at: "".into(),
        ended_at: None,
        exit_code: None,
        turn: None,
        output: "".into(),
        handle: None,
    })
}

/// The session API.
pub struct Double {
    policy: Policy,
    lists: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    /// The counts of the connections.
    pub tally: Arc<Tally>,
}

#[derive(Default)]
struct State {
    kept: VecDeque<Kept>,
    asked: usize,
    client: Option<Arc<dyn Client>>,
    left: bool,
}

impl Double {
    pub fn new(policy: impl Fn(&'static str, usize) -> Fate + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            policy: Box::new(policy),
            lists: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            tally: Arc::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The current list of sessions.
    fn list(&self) -> Body {
        told(self.lists.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Waits until `count` requests are kept, and takes them all.
    pub fn take(&self, count: usize) -> Vec<Kept> {
        let mut state = self.changed.wait_while(self.lock(), |state| state.kept.len() < count).unwrap();
        state.kept.drain(..).collect()
    }

    /// Sends an event to the connection.
    pub fn tell(&self, body: Body) {
        let client = self.lock().client.clone();
        if let Some(client) = client {
            let _ = client.deliver(&Event {
                session: Some(client.focused()),
                offset: 1,
                turn: Some(TurnId::from("t")),
                entry: None,
                cause: None,
                piece: None,
                body,
            });
        }
    }

    fn keep<T: Send + 'static>(&self, op: &'static str, call: &Call, reply: Reply<T>, value: T) {
        let mut state = self.lock();
        state.asked += 1;
        let asked = state.asked;
        drop(state);
        let answer = move |fate| match fate {
            Fate::Now | Fate::Later => reply.ok(value),
            Fate::Refused => reply.fail(ApiError::failed("It was refused.")),
            Fate::Dropped => drop(reply),
        };
        match (self.policy)(op, asked) {
            Fate::Later => {
                let kept = Kept { op, request: call.request.clone(), answer: Box::new(answer) };
                self.lock().kept.push_back(kept);
                self.changed.notify_all();
            }
            fate => answer(fate),
        }
    }
}

fn opened() -> Opened {
    Opened { session: SessionId::from("s"), location: None, is_repeated: false }
}

/// Methods that keep their reply: name, params, type of the answer, and an answer.
macro_rules! kept {
    ($($name:ident($($param:ident: $type:ty),*) -> $answer:ty = $value:expr;)*) => {
        $(fn $name(&self, call: Call, $($param: $type,)* reply: Reply<$answer>) {
            $(let _ = $param;)*
            self.keep(stringify!($name), &call, reply, $value);
        })*
    };
}

impl Clients for Double {
    fn attach(&self, _: u64, client: Arc<dyn Client>) -> SessionId {
        self.lock().client = Some(client);
        SessionId::from("s")
    }

    fn detach(&self, _: u64, reply: Reply<()>) {
        // Like in the runtime, the last one to leave ends running turns.
        let mut state = self.lock();
        state.client = None;
        state.left = true;
        let kept = std::mem::take(&mut state.kept);
        drop(state);
        for kept in kept {
            kept.end(Fate::Dropped);
        }
        reply.ok(());
    }

    fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    fn snapshot(&self, _: u64, session: &SessionId, what: Snapshot, cause: Option<Cause>) -> Vec<Event> {
        let (session, body) = match what {
            Snapshot::State => {
                (Some(session.clone()), Body::SessionUpdated(Arc::new(SessionFacts::empty("s".into()))))
            }
            Snapshot::Sessions => (None, self.list()),
            _ => return Vec::new(),
        };
        vec![Event { session, offset: 0, turn: None, entry: None, cause, piece: None, body }]
    }

    fn catch_up(&self, _: u64) {
        self.tell(Body::SessionRehydrated(Arc::default()));
    }

    fn follow(&self, call: Call, since: Since, reply: Reply<u64>) {
        let _ = since;
        self.keep("follow", &call, reply, 0);
    }

    fn follow_again(&self, _: u64, _: u64, _: &SessionId, _: u64) -> bool {
        false
    }
}

fn stats() -> SessionStats {
    SessionStats {
        session: "s".into(),
        created_at: "".into(),
        last_entry_at: None,
        roles: Vec::new(),
        message_count: 0,
        entry_count: 0,
        turns: 0,
        turns_stopped: 0,
        tool_calls: Default::default(),
        tool_errors: Default::default(),
        usage: Default::default(),
        duration_ms: 0,
        working_ms: 0,
        bytes: 0,
    }
}

fn provider() -> ProviderName {
    ProviderName { id: "p".into(), name: "P".into() }
}

fn login() -> LoginFacts {
    let (url, provider) = ("https://example.com".to_owned(), provider());
    LoginFacts { provider, url, uses_callback: false, code: None, expires_at: None }
}

fn bash() -> BashOutput {
    BashOutput { output: String::new(), exit_code: Some(0), cancelled: false, truncated: false, handle: None }
}

fn note() -> Note {
    Note { id: "m".into(), ts: "".into(), text: "note".into(), session: None }
}

impl Sessions for Double {
    fn has_session(&self, _: &SessionId) -> bool {
        true
    }

    fn facts(&self, _: &SessionId) -> Option<Arc<SessionFacts>> {
        None
    }

    kept! {
        state() -> Arc<SessionFacts> = Arc::new(SessionFacts::empty("s".into()));
        messages(before: Option<EntryId>, limit: Option<usize>) -> Page = Page::default();
        stats() -> SessionStats = stats();
        fork_messages() -> Vec<Arc<Message>> = Vec::new();
        last_assistant_text() -> Option<String> = None;
        list_sessions(wanted: Listing) -> ListedSessions = ListedSessions::default();
        new_session(wanted: NewSession) -> Opened = opened();
        open_session(session: SessionId) -> SessionId = SessionId::from("s");
        set_roots(roots: Vec<std::path::PathBuf>) -> () = ();
        switch_session(target: SwitchTarget) -> Opened = opened();
        fork(entry: EntryId, key: Option<String>) -> Opened = opened();
        set_name(name: String) -> String = String::new();
        rename_session(session: SessionId, name: String) -> String = String::new();
        archive_session(session: SessionId, archived: bool) -> bool = true;
        delete_session(session: SessionId) -> () = ();
        share_session() -> () = ();
        take_session(session: SessionId, cwd: Option<std::path::PathBuf>) -> String = String::new();
        hand_over_session(session: SessionId, host: String) -> String = String::new();
        hosts() -> Vec<HostFacts> = Vec::new();
        read_output(handle: String, offset: u64, limit: usize) -> OutputPart =
            OutputPart { text: String::new(), offset: 0, size: 0 };
        export_html(path: Option<String>) -> String = String::new();
    }
}

impl Turns for Double {
    fn prompt(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        // The answer, then the turn: words, a snapshot, and the words as a message.
        self.keep("prompt", &call, reply, Prompted { turn: Some(TurnId::from("t")), repeated: None });
        let text: Arc<str> = prompt.message.chars().take(2000).collect::<String>().into();
        for _ in 0..3 {
            self.tell(Body::AssistantDelta(text.clone()));
        }
        self.tell(Body::SessionUpdated(Arc::new(SessionFacts::empty("s".into()))));
        self.tell(self.list());
        self.tell(Body::Error { code: edn_bridge::catalogue::ErrorCode::Failed, message: "end".into() });
    }

    kept! {
        steer(prompt: Prompt) -> Prompted = Prompted::default();
        follow_up(prompt: Prompt) -> Prompted = Prompted::default();
        ask_again(how: Again, key: Option<String>) -> Prompted = Prompted::default();
        abort(key: Option<String>) -> bool = false;
        interrupt(key: Option<String>) -> Interrupted = Interrupted::default();
        abort_retry() -> () = ();
        compact(wishes: Option<String>) -> Option<String> = None;
        commands() -> Vec<CommandFacts> = Vec::new();
        command(text: String) -> () = ();
        action_result(result: ActionResult) -> () = ();
        update_context(editor: Editor) -> () = ();
    }
}

impl Permissions for Double {
    kept! {
        rules() -> Vec<ListedRule> = Vec::new();
        remove_rule(id: String) -> () = ();
        audit(wanted: AuditWanted) -> AuditPage = AuditPage::default();
        trust_preview() -> TrustPreview = TrustPreview::default();
    }
}

impl McpServers for Double {
    kept! {
        mcp_servers() -> Vec<McpServer> = Vec::new();
        set_mcp(switch: McpSwitch) -> McpServer = McpServer::default();
        bring_mcp(servers: SessionServers) -> () = ();
        leave_mcp() -> () = ();
        restart_mcp(server: String) -> McpServer = McpServer::default();
        complete_mcp(typed: McpTyped) -> McpCompletion = McpCompletion::default();
    }
}

impl Queues for Double {
    kept! {
        pending(entry: Option<EntryId>) -> WaitingMessages = WaitingMessages::default();
        edit_pending(entry: EntryId, content: Edited) -> () = ();
        remove_pending(entry: EntryId) -> Removed = Removed { text: String::new(), images: 0 };
        move_pending(entry: EntryId, before: Option<EntryId>) -> () = ();
        resume_queue() -> Resumed = Resumed::default();
    }
}

impl Undos for Double {
    kept! {
        undo(wish: Undo) -> Undone = Undone::default();
    }
}

impl Questions for Double {
    kept! {
        decide(interaction: String, approve: bool, note: Option<String>) -> () = ();
        respond(response: Response) -> () = ();
        resolve_dialog(dialog: String, result: Option<DialogResult>) -> () = ();
    }

    fn interactor_changed(&self, _: u64) {}
}

impl SessionSettings for Double {
    fn usual_thinking(&self) -> ThinkingLevel {
        ThinkingLevel::default()
    }

    fn usual_model(&self) -> (Arc<str>, Arc<str>) {
        ("provider".into(), "model".into())
    }

    fn theme(&self) -> Option<String> {
        None
    }

    kept! {
        models() -> Vec<ModelFacts> = Vec::new();
        set_model(provider: Option<String>, model: String, reach: Reach) -> (String, String) = Default::default();
        cycle_model(forward: bool) -> (String, String) = Default::default();
        set_thinking_level(level: Option<ThinkingLevel>, reach: Reach) -> ThinkingLevel = ThinkingLevel::default();
        set_mode(mode: Mode) -> Mode = Mode::default();
        set_auto_compaction(enabled: bool) -> bool = true;
        set_auto_retry(enabled: bool) -> bool = true;
        set_option(option: String, value: Value<'static>) -> Vec<AgentOption> = Vec::new();
        agents() -> Vec<ListedAgent> = Vec::new();
        agent_options() -> Vec<AgentOption> = Vec::new();
        set_theme(name: String) -> String = String::new();
        trust_project(trusted: bool, shown: Option<ShownFiles>) -> bool = true;
    }
}

impl Logins for Double {
    kept! {
        login_begin(provider: Option<String>) -> LoginFacts = login();
        login_complete(input: Option<String>) -> ProviderName = provider();
        logout(provider: String) -> bool = true;
    }
}

impl ClientTools for Double {
    kept! {
        register_tools(tools: Vec<OfferedTool>) -> Registered = Registered::default();
        tool_result(request: String, answer: ToolAnswer) -> () = ();
        tool_progress(request: String, text: String) -> () = ();
        register_files(files: OpenFilesOfClient) -> usize = 0;
        file_result(request: String, answer: FileAnswer) -> () = ();
    }
}

impl Jobs for Double {
    kept! {
        bash(command: String, timeout_seconds: Option<u64>) -> BashOutput = bash();
        abort_bash() -> () = ();
        jobs(statuses: Option<Vec<String>>) -> Vec<Arc<JobFacts>> = Vec::new();
        job(id: String) -> Arc<JobFacts> = job();
        job_wait(id: String) -> Arc<JobFacts> = job();
        cancel_job(id: String) -> Arc<JobFacts> = job();
    }

    fn shell_start(&self, _: Call, _: ShellCommand, reply: Reply<Arc<ShellFacts>>) {
        reply.fail(ApiError::failed("no shell"));
    }

    fn shells(&self) -> Vec<Arc<ShellFacts>> {
        Vec::new()
    }

    fn shell_wait(&self, id: &str, _: Option<Duration>, reply: Reply<(Arc<ShellFacts>, Waited)>) {
        reply.fail(ApiError::not_found("task", id));
    }

    fn shell_detach(&self, id: &str, reply: Reply<Arc<ShellFacts>>) {
        reply.fail(ApiError::not_found("task", id));
    }

    fn shell_cancel(&self, id: &str, reply: Reply<Arc<ShellFacts>>) {
        reply.fail(ApiError::not_found("task", id));
    }

    fn call_tool(&self, _: Call, _: String, _: Value<'static>, reply: Reply<ToolOutcome>) {
        reply.fail(ApiError::failed("no tool"));
    }
}

impl Control for Double {
    kept! {
        control(request: Box<ControlRequest>) -> ControlAck = ack();
    }

    fn control_capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn control_agents(&self, _: Option<&str>) -> Vec<TeamMember> {
        Vec::new()
    }
}

fn ack() -> ControlAck {
    ControlAck {
        kind: ControlKind::Interrupt,
        request_id: String::new(),
        team: String::new(),
        session_id: String::new(),
        agent_id: String::new(),
        acked_at: "".into(),
        result: ControlResult::Ok,
        duplicate: false,
        detail: None,
        error: None,
    }
}

impl Queries for Double {
    kept! {
        query(query: GraphQuery) -> QueryAnswer = QueryAnswer { result: Value::Nil, missing: Vec::new(), errors: None };
        remember(text: String) -> Note = note();
        forget(note: String) -> bool = true;
    }
}
