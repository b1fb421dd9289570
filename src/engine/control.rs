//! Control requests: who may send which, which session is meant, and what it is asked to do.
//!
//! All rules of the control protocol are here; wires only read and write its messages. What has to happen once happens
//! in the session's task, which looks at the keys and writes the key with what it causes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::catalogue::ErrorCode;
use crate::clock::{epoch_millis, rfc3339};
use crate::config::{ControlPolicy, Team};
use crate::engine::change::Change;
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::idempotency::{IdempotencyKeys, Lookup};
use crate::engine::incoming::{self, Incoming};
use crate::engine::remote::{Owner, RemoteCall};
use crate::event::{Body, ControlHandled};
use crate::facts::Phase;
use crate::federation::SlotText;
use crate::files::{self, Expected};
use crate::interaction::ClientAnswer;
use crate::limits::{CONTROL_FILE_BYTES, CONTROL_SOFT_BYTES};
use crate::message::SessionId;
use crate::realm::RealmSlot;
use crate::session::control::{
    Capabilities, ContentRef, ControlAck, ControlAction, ControlKind, ControlRequest, ControlResult,
    ControlText, SentAt, TeamMember,
};
use crate::session::{ApiError, Call, Control, Ended, Interrupted, Prompt, Prompted, Reply};
use crate::sha256;
use crate::store::StoreError;
use crate::store::record::{KeyedRequest, Via};

/// The prefix of an agent's id in programs that know several kinds of agents.
const OWN_PREFIX: &str = "edn-bridge:";

/// What becomes of a request.
struct Outcome {
    result: ControlResult,
    duplicate: bool,
    detail: Option<String>,
    code: Option<ErrorCode>,
}

impl Outcome {
    fn ok(detail: impl Into<String>) -> Self {
        Self { result: ControlResult::Ok, duplicate: false, detail: Some(detail.into()), code: None }
    }

    fn duplicate() -> Self {
        Self { duplicate: true, ..Self::ok("accepted before") }
    }

    fn no(result: ControlResult, detail: impl Into<String>) -> Self {
        let code = match result {
            ControlResult::NotFound | ControlResult::NotLive => ErrorCode::NotFound,
            ControlResult::Rejected => ErrorCode::InvalidParams,
            _ => ErrorCode::Failed,
        };
        Self { result, duplicate: false, detail: Some(detail.into()), code: Some(code) }
    }

    fn rejected(detail: impl Into<String>) -> Self {
        Self::no(ControlResult::Rejected, detail)
    }

    /// The refusal of what the user's policy does not allow: the request itself is well-formed.
    fn denied(detail: impl Into<String>) -> Self {
        Self { code: Some(ErrorCode::NotAllowed), ..Self::rejected(detail) }
    }

    /// The refusal of a session's task.
    fn refused(error: &ApiError) -> Self {
        let result = match error.code {
            ErrorCode::IdempotencyConflict
            | ErrorCode::InvalidParams
            | ErrorCode::NotAllowed
            | ErrorCode::NotFound
            | ErrorCode::InteractionAlreadyAnswered => ControlResult::Rejected,
            _ if error.retryable => ControlResult::Busy,
            _ => ControlResult::InternalError,
        };
        let duplicate = error.code == ErrorCode::IdempotencyConflict;
        Self { result, duplicate, detail: Some(error.message.clone()), code: Some(error.code) }
    }
}

/// The outcome of a request, and the session that it has reached.
struct Served {
    outcome: Outcome,
    /// `None` where the request has reached no session, or its sender may not know of it.
    session: Option<SessionId>,
    /// The session, if it is live here.
    live: Option<Handle>,
}

impl From<Outcome> for Served {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, session: None, live: None }
    }
}

/// The session that a request means.
enum Target {
    Live(Handle),
    /// On disk, with its keys, and who has it open, if anybody.
    Stored {
        id: SessionId,
        keys: Box<IdempotencyKeys>,
        holder: Option<String>,
    },
}

impl Control for Engine {
    fn control(&self, call: Call, request: Box<ControlRequest>, reply: Reply<ControlAck>) {
        self.control_from(call, request, false, reply);
    }

    fn control_capabilities(&self) -> Capabilities {
        let policy = self.policy();
        let kinds = [ControlKind::Stdin, ControlKind::Interrupt, ControlKind::Elicitation];
        Capabilities {
            kinds: if policy.teams.is_empty() { Vec::new() } else { kinds.to_vec() },
            soft_limit_bytes: CONTROL_SOFT_BYTES.min(policy.hard_limit_bytes),
            hard_limit_bytes: policy.hard_limit_bytes,
            file_limit_bytes: CONTROL_FILE_BYTES,
            content_folders: self.content_folders(&policy),
            max_age_ms: policy.max_age_ms,
            max_skew_ms: policy.max_skew_ms,
            dedupe_ms: policy.dedupe_ms,
            ack_timeout_ms: policy.ack_timeout_ms,
        }
    }

    fn control_agents(&self, team: Option<&str>) -> Vec<TeamMember> {
        let policy = self.policy();
        let agent = |handle: Handle| {
            let facts = handle.snapshot().facts.clone();
            if facts.is_elsewhere {
                return None;
            }
            let of = policy.team_of(Path::new(&*facts.cwd))?;
            team.is_none_or(|team| team == of.name).then(|| TeamMember {
                id: handle.id.clone(),
                name: facts.name.clone(),
                parent: handle.working_for().map(|link| link.parent.clone()),
                team: of.name.clone(),
                is_busy: facts.phase != Phase::Idle,
                cwd: facts.cwd.clone(),
            })
        };
        self.shared.tree.all().into_iter().filter_map(agent).collect()
    }
}

impl Engine {
    /// Serves a request of this machine, or one that another host has passed on.
    pub(super) fn control_from(
        &self,
        call: Call,
        request: Box<ControlRequest>,
        is_passed_on: bool,
        reply: Reply<ControlAck>,
    ) {
        let engine = self.clone();
        let serve = async move {
            let served = engine.serve_control(&call, &request, is_passed_on).await;
            let Served { outcome, session, live } = served;
            let acked_at = rfc3339(engine.shared.clock.now());
            let mut ack = ControlAck::new(&request, acked_at, outcome.result);
            if let Some(session) = session.filter(|_| ack.session_id.is_empty()) {
                // Who has named the agent alone learns which session that is.
                ack.session_id = session.to_string();
            }
            ack.duplicate = outcome.duplicate;
            ack.error = outcome.code.map(|code| (code, outcome.detail.clone().unwrap_or_default()));
            ack.detail = outcome.detail;
            let policy = engine.policy();
            let text = match &request.asked {
                Ok(ControlAction::Stdin { content: ControlText::Text(text), .. }) if policy.log_text => {
                    Some(text.as_str())
                }
                _ => None,
            };
            let patience = Duration::from_millis(policy.ack_timeout_ms);
            engine.shared.control_audit.record(&request, &ack, text, patience).await;
            reply.ok(ack.clone());
            engine.shared.control.count(outcome.result);
            if let Some(handle) = live {
                let handled = ControlHandled::new(&request, &ack);
                let event = handle.event(Body::ControlHandled(Arc::new(handled)), None);
                let _ = handle.show(&engine.shared.hub, event);
            }
        };
        self.shared.tasks.spawn_on(serve, &self.shared.executor);
    }

    fn policy(&self) -> ControlPolicy {
        self.shared.configuration.newest().settings.control.clone()
    }

    fn content_folders(&self, policy: &ControlPolicy) -> Vec<PathBuf> {
        let own = self.shared.settings.state_dir.join("control");
        policy.content_folders.iter().cloned().chain([own]).collect()
    }

    /// The outcome of a request, and the session that it has reached. The order of the checks is part of the protocol:
    /// whoever may not ask learns nothing of sessions, and a known key is answered before anything else about the
    /// request.
    async fn serve_control(&self, call: &Call, request: &ControlRequest, is_passed_on: bool) -> Served {
        let asked = match &request.asked {
            Ok(asked) => asked,
            Err(fault) => return Outcome::rejected(fault.as_str()).into(),
        };
        let policy = self.policy();
        let team = match allowed(&policy, request, asked) {
            Ok(team) => team,
            Err(why) => return Outcome::denied(why).into(),
        };
        let most = if is_passed_on { CONTROL_FILE_BYTES } else { policy.hard_limit_bytes };
        if !is_passed_on {
            match self.owner_of(&policy, team, request) {
                Ok(Some((owner, id))) => {
                    let outcome = self.pass_on(&policy, &owner, &id, request, asked).await;
                    let live = self.shared.tree.get(&id).ok();
                    return Served { outcome, session: Some(id), live };
                }
                Ok(None) => {}
                Err(outcome) => return outcome.into(),
            }
        }
        let target = match self.target(&policy, team, request).await {
            Ok(target) => target,
            Err(outcome) => return outcome.into(),
        };
        let id = match &target {
            Target::Live(handle) => handle.id.clone(),
            Target::Stored { id, .. } => id.clone(),
        };
        let noted = noted(&id, request, asked);
        let now = epoch_millis(self.shared.clock.now());
        let mut asleep = "the session is not live in this process".to_owned();
        let (keys, live) = match target {
            Target::Live(handle) => (handle.snapshot().idempotency.clone(), Some(handle)),
            Target::Stored { keys, holder, .. } => {
                if let Some(holder) = holder {
                    asleep.push_str(&format!(", but open in {holder}"));
                }
                (*keys, None)
            }
        };
        let known = keys.look_up(&noted, now, self.shared.idempotency_window());
        let outcome = match known {
            Lookup::Again(_) => Outcome::duplicate(),
            Lookup::Other => Outcome {
                duplicate: true,
                code: Some(ErrorCode::IdempotencyConflict),
                ..Outcome::rejected("the request_id was used for something else")
            },
            Lookup::New | Lookup::Full => match (untimely(&policy, &keys, request.sent_at, now), &live) {
                (Some(why), _) => Outcome::denied(why),
                (None, None) => Outcome::no(ControlResult::NotLive, asleep),
                (None, Some(handle)) if handle.parent.is_some() && handle.working_for().is_none() => {
                    Outcome::no(ControlResult::NotLive, "the subagent's work is over")
                }
                (None, Some(_)) if known == Lookup::Full => {
                    Outcome::no(ControlResult::Busy, "the session knows as many request_ids as it can")
                }
                (None, Some(handle)) => {
                    let patience = Duration::from_millis(policy.ack_timeout_ms);
                    let done = self.carry_out(&policy, most, call, handle, asked, request.sent_at, noted);
                    let late = || Outcome::no(ControlResult::Timeout, "the session did not answer in time");
                    tokio::time::timeout(patience, done).await.unwrap_or_else(|_| late())
                }
            },
        };
        Served { outcome, session: Some(id), live }
    }

    /// The session that a request means.
    async fn target(
        &self,
        policy: &ControlPolicy,
        team: &Team,
        request: &ControlRequest,
    ) -> Result<Target, Outcome> {
        let not_found = || Outcome::no(ControlResult::NotFound, "there is no such session in the team");
        let is_of_team = |cwd: &str| policy.team_of(Path::new(cwd)).is_some_and(|of| of.name == team.name);
        let above = above_of(request);
        let agent = agent_of(request);
        let live = self.live_in(policy, team);
        let by_id = live.iter().find(|handle| handle.id.as_str() == agent);
        let found = match by_id {
            Some(handle) => Some(handle.clone()),
            None => {
                let is_named = |handle: &&Handle| handle.snapshot().facts.name.as_deref() == Some(agent);
                let mut named = live.iter().filter(is_named);
                match (named.next(), named.next()) {
                    (Some(_), Some(_)) => {
                        return Err(Outcome::rejected("several live sessions have that name: give an id"));
                    }
                    (found, _) => found.cloned(),
                }
            }
        };
        if let Some(handle) = found {
            let below = above.is_none_or(|above| self.is_below(&handle, above));
            // Looked up, so that it stays while the request is served.
            let held = self.shared.tree.get(&handle.id).is_ok();
            return if below && held { Ok(Target::Live(handle)) } else { Err(not_found()) };
        }
        let (journals, id) = (self.shared.journals.clone(), SessionId::from(agent));
        // Few at once: each takes the memory of a long line. Whoever waits too long leaves, and its place is kept until
        // the file is read.
        let busy = || Outcome::no(ControlResult::Busy, "too many stored sessions are being read");
        let patience = Duration::from_millis(policy.ack_timeout_ms);
        let permit = tokio::time::timeout(patience, self.shared.stored_reads.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(busy()) };
        let read = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut keys = IdempotencyKeys::default();
            let header = journals.read_requests(&id, &mut |entry| keys.apply(&entry, &id))?;
            let holder = journals.holder(&id);
            Ok::<_, StoreError>((id, header, keys, holder))
        });
        let Ok(read) = tokio::time::timeout(patience, read).await else { return Err(busy()) };
        let Ok(Ok((id, header, keys, holder))) = read else { return Err(not_found()) };
        let parent = header.parent.as_ref().map(|parent| parent.session.as_str());
        let below = above.is_none_or(|above| above == id.as_str() || parent == Some(above));
        if !is_of_team(&header.cwd) || !below {
            return Err(not_found());
        }
        Ok(Target::Stored { id, keys: Box::new(keys), holder })
    }

    /// Whether a session is that one, or works below it.
    fn is_below(&self, handle: &Handle, above: &str) -> bool {
        let mut id = handle.id.clone();
        // A chain of subagents is short; this only guards against a circle.
        for _ in 0..64 {
            if id.as_str() == above {
                return true;
            }
            let Ok(handle) = self.shared.tree.get(&id) else { return false };
            match &handle.parent {
                Some(link) => id = link.parent.clone(),
                None => return false,
            }
        }
        false
    }

    /// The live sessions of this host that belong to a team.
    fn live_in(&self, policy: &ControlPolicy, team: &Team) -> Vec<Handle> {
        let is_of_team = |cwd: &str| policy.team_of(Path::new(cwd)).is_some_and(|of| of.name == team.name);
        let mut live = self.shared.tree.all();
        live.retain(|handle| {
            let facts = &handle.snapshot().facts;
            !facts.is_elsewhere && is_of_team(&facts.cwd)
        });
        live
    }

    /// The owner of the session that a request means, if that is another host: by its id, or by the name that lists show
    /// of it, unless a session of this host has that name. The owner looks whether it belongs to the team.
    fn owner_of(
        &self,
        policy: &ControlPolicy,
        team: &Team,
        request: &ControlRequest,
    ) -> Result<Option<(Owner, SessionId)>, Outcome> {
        let agent = agent_of(request);
        let id = SessionId::from(agent);
        if let Some(owner) = Owner::listed(self, &id) {
            return Ok(Some((owner, id)));
        }
        let is_here =
            |handle: &Handle| handle.id == id || handle.snapshot().facts.name.as_deref() == Some(agent);
        if self.live_in(policy, team).iter().any(is_here) {
            return Ok(None);
        }
        let slots = self.shared.federation.get().map(|federation| federation.sessions()).unwrap_or_default();
        let is_named = |slot: &RealmSlot| SlotText::read(&slot.text).name.as_deref() == Some(agent);
        let named = slots.into_iter().filter(is_named).map(|slot| slot.header.session);
        let mut owners = named.filter_map(|id| Some((Owner::listed(self, &id)?, id)));
        match (owners.next(), owners.next()) {
            (Some(_), Some(_)) => {
                Err(Outcome::rejected("several sessions of other hosts have that name: give an id"))
            }
            (found, _) => Ok(found),
        }
    }

    /// Has the session's owner serve a request: its policy, its keys and its clock count.
    async fn pass_on(
        &self,
        policy: &ControlPolicy,
        owner: &Owner,
        id: &SessionId,
        request: &ControlRequest,
        asked: &ControlAction,
    ) -> Outcome {
        let mut asked = asked.clone();
        if let ControlAction::Stdin { content, .. } = &mut asked {
            // A file is one of this machine.
            match self.text(policy, policy.hard_limit_bytes, content).await {
                Ok(text) => *content = ControlText::Text(text),
                Err(why) => return Outcome::rejected(why),
            }
        }
        let (asked, agent_id) = (Ok(asked), id.to_string());
        let passed = RemoteCall::Control(Box::new(ControlRequest { asked, agent_id, ..request.clone() }));
        let patience = Duration::from_millis(policy.ack_timeout_ms);
        match tokio::time::timeout(patience, owner.call::<ControlAck>(&passed)).await {
            Ok(Ok(ControlAck { result, duplicate, detail, error, .. })) => {
                Outcome { result, duplicate, detail, code: error.map(|(code, _)| code) }
            }
            Ok(Err(error)) => Outcome::refused(&error),
            Err(_) => Outcome::no(ControlResult::Timeout, "the session's host did not answer in time"),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a request with all that its checks have found")]
    async fn carry_out(
        &self,
        policy: &ControlPolicy,
        most: u64,
        call: &Call,
        handle: &Handle,
        asked: &ControlAction,
        sent_at: SentAt,
        noted: Box<KeyedRequest>,
    ) -> Outcome {
        let call = Call { session: handle.id.clone(), ..call.clone() };
        match asked {
            ControlAction::Stdin { content, interrupt } => {
                let text = match self.text(policy, most, content).await {
                    Ok(text) => text,
                    Err(why) => return Outcome::rejected(why),
                };
                let prompt = Prompt { message: text, ..Prompt::default() };
                let incoming = Incoming::new(prompt, Some(noted));
                let interrupts = interrupt.then(|| sent_at.latest());
                let done = answer(handle, |reply| Change::Inject { call, incoming, interrupts, reply });
                match done.await {
                    Ok(Prompted { repeated: Some(_), .. }) => Outcome::duplicate(),
                    Ok(_) => Outcome::ok("accepted"),
                    Err(error) => error,
                }
            }
            ControlAction::Interrupt => {
                let (request, before) = (Some(noted), Some(sent_at.latest()));
                let done =
                    answer(handle, |reply| Change::Interrupt { call, request, before, at_once: None, reply });
                match done.await {
                    Ok(Interrupted { is_repeated: true, .. }) => Outcome::duplicate(),
                    Ok(Interrupted { ended: Ended::Turn, .. }) => Outcome::ok("accepted"),
                    Ok(Interrupted { ended: Ended::Idle, .. }) => Outcome::ok("idle"),
                    Ok(Interrupted { ended: Ended::Later, .. }) => {
                        Outcome::ok("the running turn began after the request was sent, and goes on")
                    }
                    Err(error) => error,
                }
            }
            ControlAction::Answer { question, approve } => {
                let decision = match self.shared.questions.decision(question.clone(), *approve, None) {
                    Ok(decision) => ClientAnswer::Response(Box::new(decision)),
                    Err(error) => return Outcome::refused(&error),
                };
                let (request, given) = (Some(noted), decision);
                let done = answer(handle, |reply| Change::Answer { call, request, given, reply });
                match done.await {
                    Ok(Prompted { repeated: Some(_), .. }) => Outcome::duplicate(),
                    Ok(_) => Outcome::ok("accepted"),
                    Err(error) => error,
                }
            }
        }
    }

    /// The text of a request, which without a file may have `most` bytes.
    async fn text(&self, policy: &ControlPolicy, most: u64, content: &ControlText) -> Result<String, String> {
        let text = match content {
            ControlText::Text(text) => {
                if u64::try_from(text.len()).is_ok_and(|length| length > most) {
                    return Err(format!(
                        "content has {} bytes; above {most} it must be a content_ref",
                        text.len()
                    ));
                }
                text.clone()
            }
            ControlText::File(file) => {
                let (folders, file) = (self.content_folders(policy), file.clone());
                let now = self.shared.clock.now();
                if file.expires_at.is_some_and(|end| end < now) {
                    return Err("content_ref has expired".to_owned());
                }
                let read = tokio::task::spawn_blocking(move || read_content(&folders, &file));
                read.await.map_err(|_| "content_ref could not be read".to_owned())??
            }
        };
        match text.trim().is_empty() {
            true => Err("content is empty".to_owned()),
            false => Ok(text),
        }
    }
}

/// The team of a request, if its sender may send it.
fn allowed<'p>(
    policy: &'p ControlPolicy,
    request: &ControlRequest,
    asked: &ControlAction,
) -> Result<&'p Team, &'static str> {
    let team = policy.team(&request.team).ok_or("the team is not known")?;
    let member = team.member(&request.sender).ok_or("the sender is no member of the team")?;
    let powers: &[&str] = match asked {
        ControlAction::Stdin { interrupt: true, .. } => &["stdin", "interrupt"],
        ControlAction::Stdin { .. } => &["stdin"],
        ControlAction::Interrupt => &["interrupt"],
        ControlAction::Answer { .. } => &["answer"],
    };
    let may = powers.iter().all(|power| member.may.iter().any(|known| known == power));
    may.then_some(team).ok_or("the sender may not do that")
}

/// The id or the name of the session that a request means.
fn agent_of(request: &ControlRequest) -> &str {
    request.agent_id.strip_prefix(OWN_PREFIX).unwrap_or(&request.agent_id)
}

/// The session of this program that a request names beside its agent. `None` if it names none, or a session of another
/// program: a lead that is no session here, as in the document's examples, says nothing of which worker is meant.
fn above_of(request: &ControlRequest) -> Option<&str> {
    let named = request.session_id.as_str();
    let own = named.strip_prefix(OWN_PREFIX);
    own.or_else(|| named.starts_with(SessionId::PREFIX).then_some(named))
}

/// Why the time of a request is wrong.
fn untimely(policy: &ControlPolicy, keys: &IdempotencyKeys, sent_at: SentAt, now: i64) -> Option<String> {
    let millis = |bound: u64| i64::try_from(bound).unwrap_or(i64::MAX);
    let is_old = now.saturating_sub(sent_at.latest()) > millis(policy.max_age_ms);
    if is_old || keys.may_have_forgotten(sent_at.millis, policy.max_skew_ms) {
        return Some(format!("sent_at is older than {} ms", policy.max_age_ms));
    }
    let ahead = sent_at.millis.saturating_sub(now) > millis(policy.max_skew_ms);
    ahead.then(|| format!("sent_at is more than {} ms ahead", policy.max_skew_ms))
}

/// A request as the journal notes it. A text in a file counts by its digest, so that it is the same request as the text.
fn noted(session: &SessionId, request: &ControlRequest, asked: &ControlAction) -> Box<KeyedRequest> {
    let said = match asked {
        ControlAction::Stdin { content, interrupt } => {
            let digest = match content {
                ControlText::Text(text) => sha256::hex(text),
                ControlText::File(file) => file.sha256.clone(),
            };
            vec!["stdin".to_owned(), interrupt.to_string(), digest]
        }
        ControlAction::Interrupt => vec!["interrupt".to_owned()],
        ControlAction::Answer { question, approve } => {
            vec!["answer".to_owned(), question.clone(), approve.to_string()]
        }
    };
    Box::new(KeyedRequest {
        session_id: session.clone(),
        via: Via::Control,
        team: Some(request.team.as_str().into()),
        id: request.request_id.as_str().into(),
        sender: Some(request.sender.as_str().into()),
        digest: incoming::digest(said.iter().map(String::as_str)).into(),
        turn_id: None,
    })
}

/// The text in a file, as verified.
fn read_content(folders: &[PathBuf], file: &ContentRef) -> Result<String, String> {
    let mime = file.mime.to_ascii_lowercase();
    let mut parts = mime.split(';').map(str::trim);
    let is_text = parts.next().is_some_and(|kind| kind.starts_with("text/"));
    let charset = parts.find_map(|part| part.strip_prefix("charset=").map(|name| name.trim_matches('"')));
    if !is_text || charset.is_some_and(|name| name != "utf-8" && name != "us-ascii") {
        return Err("content_ref.mime must be a text in UTF-8".to_owned());
    }
    let expected = Expected { bytes: file.size_bytes, sha256: &file.sha256 };
    let bytes = files::read_below(folders, &file.path, &expected, CONTROL_FILE_BYTES);
    let bytes = bytes.map_err(|error| format!("content_ref: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "content_ref: the file is not UTF-8".to_owned())
}

/// A reply, and where its result arrives.
fn pending<T: Send + 'static>() -> (Reply<T>, oneshot::Receiver<Result<T, ApiError>>) {
    let (sender, receiver) = oneshot::channel();
    (Reply::new(move |result| drop(sender.send(result))), receiver)
}

/// Sends a change to a session and waits for its answer.
async fn answer<T: Send + 'static>(
    handle: &Handle,
    change: impl FnOnce(Reply<T>) -> Change,
) -> Result<T, Outcome> {
    let (reply, answer) = pending();
    if !handle.offer(change(reply)) {
        return Err(Outcome::no(ControlResult::Busy, "the session has too much to do"));
    }
    match answer.await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Outcome::refused(&error)),
        Err(_) => Err(Outcome::no(ControlResult::InternalError, "the session has ended")),
    }
}

impl ControlHandled {
    fn new(request: &ControlRequest, ack: &ControlAck) -> Self {
        Self {
            kind: request.kind.as_str(),
            request_id: request.request_id.as_str().into(),
            team: request.team.as_str().into(),
            sender: request.sender.as_str().into(),
            result: ack.result.as_str(),
            duplicate: ack.duplicate,
            detail: ack.detail.as_deref().map(Arc::from),
        }
    }
}
