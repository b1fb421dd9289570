//! Asks the person about a call: a grant for a call outside its stage's tools, an approval if no rule
//! decides, or an answer for the model. Knows the rules and the questions; does not know how a call runs.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::MutexGuard;

use super::{Allowed, Batch, Places, QueuePlace, Vote, denied};
use crate::crash;
use crate::diff;
use crate::engine::answer_records;
use crate::engine::execution::{Execution, GrantAnswer};
use crate::engine::interrupted::UnendedQuestion;
use crate::engine::long_text::{self, Start};
use crate::event::question::{
    Answer, Approval, ApprovalScope, CutDiff, GrantRequest, ProposedText, QuestionContent, QuestionKind,
    ShownDiff,
};
use crate::event::{Body, LOOP, ToolCall};
use crate::http::host::pattern_of;
use crate::interaction::grant::{self, Binding};
use crate::interaction::{Origin, Question, Resolution, digest, warning};
use crate::limits::{APPROVAL_ARGUMENTS_BYTES, LOOP_ASK, RULE_STEPS, TOOL_RESULT_BYTES};
use crate::message::Mode;
use crate::meter::Meter;
use crate::secret;
use crate::store::EntryBody;
use crate::store::record::QuestionRecord;
use crate::tool::output::Outputs;
use crate::tool::permission::{self, Access, Act, Ground, Leave, Part, Rule, Run, Verdict};
use crate::tool::shell;
use crate::tool::walk::DeniedPaths;
use crate::tool::{self, CallError, Outcome, Plan, Proposal, RedirectPolicy, Tool};
use crate::value::Value;
use crate::visible;

/// The result of a question of the model that no person can see, in every mode: a mode answers permissions only.
const NOBODY_TO_ASK: &str = "Nobody is there to ask. Decide yourself, and say what you assumed.";

/// The result of a call that needs an approval in a run without a person.
pub(super) const NOBODY_TO_APPROVE: &str = "It needs an approval, and nobody can be asked in this run. Continue without it, and say what \
                                 is left undone.";

/// The detail of a result that says that nobody could be asked about the call.
pub(super) const UNASKED: &str = "unasked";

/// The warning about an act that is not whole.
const NOT_UNDERSTOOD: &str = "Not all of what it asks for is understood: look at its arguments.";

/// A call of somebody else that may run.
pub struct Admitted {
    /// How far the person's approval reaches; `None` if something else decided.
    pub scope: Option<ApprovalScope>,
}

/// A person's approval.
struct Approved {
    scope: ApprovalScope,
    /// Whether the workspace has a rule from it.
    has_rule: bool,
    /// The person's own text, in place of the proposed one.
    text: Option<Arc<str>>,
}

impl Batch<'_> {
    /// Asks for a grant if a call is outside its stage's tools, before any other question or verdict. The
    /// returned grant must be used when the call is about to run. `others` is what is told of its effects besides the plan.
    pub(super) async fn grant(
        &self,
        call: &ToolCall,
        plan: Option<&Result<Plan, CallError>>,
        others: Vec<String>,
        place: &mut Option<QueuePlace>,
    ) -> Result<Option<String>, Outcome> {
        let Some(stage) = self.turn.execution.as_ref().filter(|_| !self.is_of_stage(call)) else {
            return Ok(None);
        };
        let runs = matches!(&*call.name, tool::ASK_USER | tool::DELEGATE);
        match plan {
            // A call that cannot run causes no question.
            Some(Err(_)) => return Ok(None),
            None if !runs => return Ok(None),
            Some(Ok(plan)) => {
                if let Verdict::Deny(reason) = self.judge(call, plan) {
                    return Err(denied(&reason));
                }
            }
            None => {}
        }
        let Some(_asking) = self.may_ask_now(place).await else { return Err(self.not_run()) };
        let proposal = self.turn.shared.clock.id("p-");
        let binding = binding(stage, &proposal, call);
        let access = plan.and_then(|plan| plan.as_ref().ok()).map(|plan| &plan.access);
        let whole = match access {
            Some(Access::Run(run)) => format!("$ {}", run.shown()),
            Some(Access::AtClient { .. } | Access::Call { .. }) => {
                format!("{} {}", call.name, call.arguments)
            }
            Some(Access::Fetch(url)) => format!("{} {url}", call.name),
            _ => call.summary.to_string(),
        };
        let masked = match access {
            Some(Access::Run(_)) => secret::mask_command(&whole),
            _ => secret::mask(&whole),
        };
        let start = self.start_of("text of the call", &masked, APPROVAL_ARGUMENTS_BYTES).await;
        let mut summary = visible::line(&start.text).into_owned();
        let mut warnings = start.warnings;
        warnings.extend(matches!(masked, Cow::Owned(_)).then(|| secret::IS_MASKED.to_owned()));
        if let Some(diff) = plan.and_then(|plan| plan.as_ref().ok()).and_then(|plan| plan.diff.as_deref()) {
            let start = self.start_of("diff", diff, TOOL_RESULT_BYTES).await;
            summary.push_str("\n\n");
            summary.push_str(&visible::text(&start.text));
            if start.rest.is_some() {
                summary.push_str(diff::GOES_ON);
            }
            warnings.extend(start.warnings);
        }
        let request = GrantRequest {
            stage_execution: stage.id.clone(),
            attempt: stage.attempt,
            proposal: proposal.clone(),
            tool: call.name.clone(),
            args_digest: binding.args_digest.clone(),
            args_summary: summary,
            reason: format!("The stage {} has only {}.", stage.stage.id, stage.stage.tools.join(", ")),
        };
        warnings.extend(access.map_or_else(Vec::new, |access| self.leaves(access)));
        warnings.extend(others);
        warnings.extend(warning::of("An argument of the call", &call.parsed));
        let (answer, note) = match self.ask(call, QuestionContent::GrantStageTool(request), warnings).await {
            Resolution::Accepted { answer, note } => (answer, note),
            Resolution::Cancelled { note } => (Answer::Deny, note),
            Resolution::TimedOut => (Answer::Deny, Some("Nobody answered in time.".to_owned())),
            Resolution::Headless => (Answer::Deny, Some("Nobody is there to grant it.".to_owned())),
            Resolution::Withdrawn => return Err(self.not_run()),
        };
        let outcome = answer.outcome().unwrap_or("deny");
        stage.answered(GrantAnswer { binding, outcome, note: note.clone() });
        match outcome {
            "approve" => Ok(Some(proposal)),
            _ => Err(denied(note.as_deref().unwrap_or("It is outside this stage's tools."))),
        }
    }

    /// Asks the person whether the turn goes on, if it makes the same call again and again. Without a yes it is halted.
    pub(super) async fn asks_about_loop(&self) {
        let Some(repeated) = self.turn.recent_calls().take_repeated() else { return };
        let what = visible::line(&secret::mask(&repeated.summary)).into_owned();
        let prompt = format!(
            "The model has made the same call {LOOP_ASK} times, with the same result each time: {what}. Go on?"
        );
        let question = QuestionContent::Confirm { prompt, default: false };
        let resolution = self.ask(&repeated, question, Vec::new()).await;
        let why = match resolution {
            Resolution::Accepted { answer: Answer::Confirm(true), .. } | Resolution::Withdrawn => return,
            Resolution::Headless | Resolution::TimedOut => "nobody is there to say whether it goes on",
            Resolution::Accepted { .. } | Resolution::Cancelled { .. } => "the user ended it",
        };
        self.turn.control.fail(LOOP);
        self.halt(format!(
            "The turn made the same call {LOOP_ASK} times with the same result ({what}), and {why}."
        ));
    }

    /// Uses the grant of a call that is about to run, if it needed one.
    pub(super) fn use_grant(&self, call: &ToolCall, proposal: Option<&str>) -> Result<(), Outcome> {
        let Some(stage) = self.turn.execution.as_ref().filter(|_| !self.is_of_stage(call)) else {
            return Ok(());
        };
        match proposal {
            Some(proposal) if stage.consume(&binding(stage, proposal, call)) => Ok(()),
            _ => Err(denied("There is no grant for this call.")),
        }
    }

    /// Waits until this call is the next to ask and no other question is open. `None` if no further call is
    /// started.
    pub(super) async fn may_ask_now(&self, place: &mut Option<QueuePlace>) -> Option<MutexGuard<'_, ()>> {
        let asking = async {
            if let Some(place) = place {
                place.come_up().await;
            }
            self.asking.lock().await
        };
        tokio::select! {
            biased;
            () = self.ended() => None,
            asking = asking => Some(asking),
        }
    }

    /// Lets a call pass with the approved plan and the text that the person put in place of the proposed one, or
    /// returns the text for the model in place of a result. Guards vote before the person is asked.
    pub(super) async fn allow(
        &self,
        tool: &Arc<dyn Tool>,
        call: &Arc<ToolCall>,
        plan: Plan,
        Places { asking: place, file }: &mut Places,
    ) -> Result<Allowed, Outcome> {
        match self.judge(call, &plan) {
            Verdict::Allow => {
                self.lets_run(call).await;
                return Ok(Allowed::at_once(plan));
            }
            Verdict::Deny(reason) => return Err(denied(&reason)),
            // A person saw this very call and granted it.
            Verdict::Ask(_) if !self.is_of_stage(call) => return Ok(Allowed::at_once(plan)),
            // As part of an agent's call, which the person has allowed with this very change.
            Verdict::Ask(_) if self.permitted.as_ref() == Some(&plan) => {
                return Ok(Allowed::at_once(plan));
            }
            Verdict::Ask(_) => {}
        }
        // The person edits the file as the calls before leave it. Before it is this call's turn: a call before may
        // have to ask too.
        if let Some(file) = file {
            tokio::select! {
                biased;
                () = self.ended() => return Err(self.not_run()),
                () = file.come_up() => {}
            }
        }
        let Some(_asking) = self.may_ask_now(place).await else { return Err(self.not_run()) };
        // The question shows the current effects, and an answer about an earlier call may have decided it.
        let (plan, proposal) = &self.propose(tool, call).await.map_err(Outcome::failed)?;
        let suggested = match self.judge(call, plan) {
            Verdict::Allow => return Ok(Allowed::at_once(plan.clone())),
            Verdict::Deny(reason) => return Err(denied(&reason)),
            // Whoever allowed it once may do so again.
            Verdict::Ask(None) if self.is_another(call) => exact(&self.act(call, plan)),
            Verdict::Ask(suggested) => suggested,
        };
        self.voted(call).await?;
        let act = self.act(call, plan);
        let (approval, warnings) =
            self.approval(call, &act, plan.diff.as_deref(), proposal.as_ref(), suggested.clone()).await;
        let shown = approval.diff.clone();
        let resolution = self.ask(call, QuestionContent::Approve(approval), warnings).await;
        let approved = self.decide(resolution, call, &act, suggested, shown)?;
        if approved.has_rule {
            self.note_tool(call, true).await;
        }
        let revision = proposal.clone().zip(approved.text).map(|(proposal, text)| proposal.revised(text));
        Ok(Allowed { plan: plan.clone(), revision, asked: true })
    }

    /// Keeps what a person's answer says about later calls, if all of the act is known, and returns what it says about
    /// this one.
    fn decide(
        &self,
        resolution: Resolution,
        call: &ToolCall,
        act: &Act,
        suggested: Option<Rule>,
        shown: Option<ShownDiff>,
    ) -> Result<Approved, Outcome> {
        match resolution {
            Resolution::Accepted { answer: Answer::Approve { scope, rule, content }, .. } => {
                let scope = scope.unwrap_or(ApprovalScope::Once);
                let reaches = act.is_whole && scope != ApprovalScope::Once;
                let rule = rule.filter(|rule| rule.check().is_ok()).or(suggested).or_else(|| exact(act));
                let rule = rule.filter(|_| reaches);
                let has_rule = scope == ApprovalScope::Rule && rule.is_some();
                if let Some(rule) = rule {
                    self.keep(scope, rule);
                }
                Ok(Approved { scope, has_rule, text: content })
            }
            Resolution::Headless if self.turn.shared.settings.denies_unasked => {
                Err(self.unasked(call, act, suggested))
            }
            Resolution::Headless => {
                let mut outcome = self.halt_for(QuestionKind::Approve, &call.summary);
                self.put_admitting(&mut outcome, call, act, suggested);
                Err(outcome)
            }
            other => {
                if act.is_whole
                    && let Resolution::Accepted { answer: Answer::Forbid { scope, rule }, .. } = &other
                {
                    let rule = rule.clone().filter(|rule| rule.check().is_ok());
                    if let Some(rule) = rule.or(suggested).or_else(|| exact(act)) {
                        self.keep(*scope, Rule { decision: permission::Decision::Deny, ..rule });
                    }
                }
                Err(self.not_allowed(other, shown))
            }
        }
    }

    /// The result of a call that the end of its question does not allow.
    fn not_allowed(&self, resolution: Resolution, shown: Option<ShownDiff>) -> Outcome {
        match resolution {
            Resolution::Accepted { note, .. } => {
                rejected(note.as_deref().unwrap_or("The user gave no reason."), shown)
            }
            Resolution::Cancelled { note } => {
                rejected(note.as_deref().unwrap_or("The user dismissed the question."), shown)
            }
            Resolution::TimedOut => rejected("Nobody answered in time.", shown),
            Resolution::Withdrawn | Resolution::Headless => self.not_run(),
        }
    }

    /// The result of a call that nobody can be asked about, where the turn continues without it.
    fn unasked(&self, call: &ToolCall, act: &Act, suggested: Option<Rule>) -> Outcome {
        let mut outcome = denied(NOBODY_TO_APPROVE);
        self.put_admitting(&mut outcome, call, act, suggested);
        outcome
    }

    /// Says in the details of a result that nobody could be asked, with the rule that admits the call, if one rule does.
    fn put_admitting(&self, outcome: &mut Outcome, call: &ToolCall, act: &Act, suggested: Option<Rule>) {
        outcome.details.put(UNASKED, true);
        let rule =
            suggested.or_else(|| exact(act)).filter(|rule| act.is_whole && self.admits(rule, call, act));
        outcome.details.put_some("allow", rule.and_then(|rule| rule.short()));
    }

    /// Whether the call would run with one further rule of the command line.
    fn admits(&self, rule: &Rule, call: &ToolCall, act: &Act) -> bool {
        let RedirectPolicy { leave, mut rules, ground, .. } = self.may(call);
        rules.insert(0, rule.clone());
        let mut meter = Meter::new(RULE_STEPS, usize::MAX).stopped_by(&self.turn.stop);
        permission::judge_within(&mut meter, leave, &rules, &ground, act) == Verdict::Allow
    }

    /// Judges what somebody else carries out, and asks the person about it unless something decides it.
    ///
    /// # Errors
    /// Why it may not be done, as the result of a call.
    pub async fn admit(
        &self,
        call: &Arc<ToolCall>,
        act: &Act,
        diff: Option<&str>,
    ) -> Result<Admitted, Outcome> {
        let asks = || match self.judge_act(call, act) {
            Verdict::Allow => Ok(None),
            Verdict::Deny(reason) => Err(denied(&reason)),
            Verdict::Ask(suggested) => Ok(Some(suggested)),
        };
        // A stage's tools need no approval, and what is not one of them needs a grant.
        if let Some(part) = self.outside_of_stage(act) {
            asks()?;
            let named = ToolCall { name: part.tool.clone(), ..ToolCall::clone(call) };
            // Of what nobody understands, the arguments are all that can be shown.
            let unknown = act.accesses().find(|access| matches!(access, Access::Call { .. }));
            let access = unknown.filter(|_| !act.is_whole).unwrap_or(&part.access).clone();
            let plan = Plan { access, diff: diff.map(str::to_owned) };
            let mut told = self.effects(act, None);
            told.extend((!act.is_whole).then(|| NOT_UNDERSTOOD.to_owned()));
            let grant = self.grant(&named, Some(&Ok(plan)), told, &mut None).await?;
            self.use_grant(&named, grant.as_deref())?;
            self.voted_on(call, act).await?;
            return Ok(Admitted { scope: Some(ApprovalScope::Once) });
        }
        if asks()?.is_none() {
            self.voted_on(call, act).await?;
            return Ok(Admitted { scope: None });
        }
        let Some(_asking) = self.may_ask_now(&mut None).await else { return Err(self.not_run()) };
        self.voted_on(call, act).await?;
        // An answer about an earlier call may have decided it.
        let Some(suggested) = asks()? else { return Ok(Admitted { scope: None }) };
        let (approval, warnings) = self.approval(call, act, diff, None, suggested.clone()).await;
        let shown = approval.diff.clone();
        let resolution = self.ask(call, QuestionContent::Approve(approval), warnings).await;
        let approved = self.decide(resolution, call, act, suggested, shown)?;
        Ok(Admitted { scope: Some(approved.scope) })
    }

    /// The first part of an act that is not one of the running stage's tools.
    fn outside_of_stage<'a>(&self, act: &'a Act) -> Option<&'a Part> {
        let stage = self.turn.execution.as_ref()?;
        act.parts.iter().find(|part| !stage.allows(&part.tool))
    }

    /// Whether an act needs the grant of a person, because a part of it is of a tool that the running stage does not have.
    pub fn is_outside_of_stage(&self, act: &Act) -> bool {
        self.outside_of_stage(act).is_some()
    }

    /// Lets guards vote on what somebody else carries out: on each part as a call of its own tool, whatever the agent calls it.
    ///
    /// # Errors
    /// The guard's no, as the result of a call.
    pub async fn voted_on(&self, call: &ToolCall, act: &Act) -> Result<(), Outcome> {
        let mut tools = vec![&call.name];
        for tool in act.parts.iter().map(|part| &part.tool) {
            if !tools.contains(&tool) {
                tools.push(tool);
            }
        }
        for tool in tools {
            self.voted(&ToolCall { name: tool.clone(), ..call.clone() }).await?;
        }
        Ok(())
    }

    /// What a person reads about each effect of an act, except the one that the question shows in a place of its own.
    fn effects(&self, act: &Act, shown: Option<&Access>) -> Vec<String> {
        let mut told = Vec::new();
        for access in act.accesses() {
            if shown != Some(access) {
                match access {
                    Access::Read(path) => {
                        told.push(format!("It reads {}.", visible::line(&path.to_string_lossy())));
                    }
                    Access::Write(path) => {
                        told.push(format!("It changes {}.", visible::line(&path.to_string_lossy())));
                    }
                    Access::Run(run) if shown.is_none() => {
                        told.push(format!("It runs: {}", visible::line(&run.shown())));
                    }
                    Access::Fetch(url) => told.push(format!("It asks {url}.")),
                    _ => {}
                }
            }
            told.extend(self.leaves(access));
        }
        told
    }

    /// What a call of a tool would do.
    pub(super) fn act(&self, call: &ToolCall, plan: &Plan) -> Act {
        let access = match plan.access.clone() {
            // A server that has changed what it says of its tool may have made it up.
            Access::Call { server, tool, read_only } => {
                let read_only = read_only && !self.turn.session.mcp.has_changed(&call.name);
                Access::Call { server, tool, read_only }
            }
            access => access,
        };
        Act::of(call.name.clone(), access)
    }

    /// The verdict of the rules and the mode on a call.
    pub fn judge(&self, call: &ToolCall, plan: &Plan) -> Verdict {
        self.judge_act(call, &self.act(call, plan))
    }

    /// The verdict of the rules and the mode on what a call does.
    pub fn judge_act(&self, call: &ToolCall, act: &Act) -> Verdict {
        let RedirectPolicy { mut leave, rules, ground, .. } = self.may(call);
        let link = self.turn.session.parent.as_ref();
        leave.agreed = leave.agreed
            && (self.turn.execution.is_some()
                || act.parts.iter().all(|part| link.is_some_and(|link| link.covers(&part.tool))));
        let mut meter = Meter::new(RULE_STEPS, usize::MAX).stopped_by(&self.turn.stop);
        permission::judge_within(&mut meter, leave, &rules, &ground, act)
    }

    /// The folders of the session.
    fn ground(&self) -> Ground {
        let state = &self.turn.shared.settings.state_dir;
        let state = state.canonicalize().unwrap_or_else(|_| state.clone());
        let outputs = Outputs::new(&state, self.turn.session.id.as_str());
        let ground = self.turn.shared.configuration.ground(&self.cwd, &self.turn.session.roots());
        Ground { outputs: Some(outputs.folder().to_owned()), ..ground }
    }

    /// What calls of a tool may do.
    pub(super) fn may(&self, call: &ToolCall) -> RedirectPolicy {
        let facts = self.turn.session.snapshot().facts.clone();
        // Inside the workspace, a stage's tools and a subagent's granted tools need no further approval.
        // Rules and guarded files apply as everywhere.
        let granted = self.turn.execution.is_some()
            || self.turn.session.parent.as_ref().is_some_and(|link| link.covers(&call.name));
        // Nobody has granted a tool of a server that is another one since, or that only has the name of one of the user's.
        let agreed = granted && !self.turn.session.mcp.has_changed(&call.name) && !self.is_borrowed(call);
        let leave = Leave { mode: self.turn.shared.mode(&facts), agreed };
        let config = self.turn.config();
        let mut rules = self.turn.shared.rules_for(&config, &self.turn.session);
        if self.is_another(call) {
            // What was answered in the session since is about the tool as it is now.
            let answered = self.turn.session.rules.all();
            rules.retain(|rule| !rule.allows_by_name(&call.name) || answered.contains(rule));
        }
        let private = config.settings.private_hosts.clone();
        let ground = Ground { private, ..self.ground() };
        let web = self.turn.shared.web.clone();
        RedirectPolicy { web, leave, rules, ground, uses_proxy: config.settings.fetch_proxy }
    }

    /// Whether a rule that stands lets a call run by its tool's name.
    fn has_standing_rule(&self, call: &ToolCall) -> bool {
        self.turn.session.mcp.tool(&call.name).is_some()
            && self
                .turn
                .shared
                .standing(&self.turn.config(), &self.cwd)
                .iter()
                .any(|rule| rule.allows_by_name(&call.name))
    }

    /// Whether rules that stand allow a server's tool that is another one since.
    fn is_another(&self, call: &ToolCall) -> bool {
        self.has_standing_rule(call)
            && self.turn.shared.mcp.allowed.is_another(&self.turn.session, &call.name)
    }

    /// Whether a call's server has the name of one of the user's own, and nobody has allowed its tool here.
    fn is_borrowed(&self, call: &ToolCall) -> bool {
        self.turn.shared.mcp.allowed.is_borrowed(&self.turn.session, &call.name)
    }

    /// A call runs without a question. If that is because of a rule, the tool is known from now on.
    async fn lets_run(&self, call: &ToolCall) {
        if self.has_standing_rule(call) {
            self.note_tool(call, false).await;
        }
    }

    /// Notes a server's tool as it is now, on a thread that may wait for the disk.
    async fn note_tool(&self, call: &ToolCall, is_agreed: bool) {
        if self.turn.session.mcp.tool(&call.name).is_none() {
            return;
        }
        let (shared, session, tool) =
            (self.turn.shared.clone(), self.turn.session.clone(), call.name.clone());
        let noted = tokio::task::spawn_blocking(move || shared.mcp.allowed.note(&session, &tool, is_agreed));
        let _ = noted.await;
    }

    /// The content of an approval question. It contains the start of a long diff; a handle gives the whole
    /// diff, which can be read before the answer. Also returns the warnings about what it does not show.
    async fn approval(
        &self,
        call: &ToolCall,
        act: &Act,
        diff: Option<&str>,
        proposal: Option<&Proposal>,
        suggested_rule: Option<Rule>,
    ) -> (Approval, Vec<String>) {
        let command = act.commands();
        let run = act.accesses().find(|access| matches!(access, Access::Run(_)));
        let touched = act.accesses().find(|access| matches!(access, Access::Read(_) | Access::Write(_)));
        let path = touched.filter(|_| run.is_none()).and(act.paths().next());
        let path = path.map(|path| path.to_string_lossy().into_owned());
        let fetched = act.accesses().find(|access| matches!(access, Access::Fetch(_)));
        let shown = run.or(touched).or(fetched).or(act.accesses().next());
        let mut warnings = self.effects(act, shown);
        warnings.extend(self.turn.shared.kept_rules.damage(&self.cwd));
        let mut shown_diff = None;
        if let Some(text) = diff {
            let start = self.start_of("diff", text, TOOL_RESULT_BYTES).await;
            shown_diff = Some(match start.rest {
                None => ShownDiff { text: start.text, cut: None },
                Some(handle) => {
                    let cut = Some(CutDiff { size: text.len(), handle });
                    ShownDiff { text: format!("{}{}", start.text, diff::GOES_ON), cut }
                }
            });
            warnings.extend(start.warnings);
        }
        let mut proposed = None;
        if let Some(proposal) = proposal {
            let (text, base) = (proposal.new.clone(), proposal.base());
            let handle = match text.len() > TOOL_RESULT_BYTES {
                true => self.keep_text(&text).await.map(Some),
                false => Some(None),
            };
            // What nobody can be shown, nobody can edit.
            let old = proposal.old.clone();
            proposed = handle.map(|handle| ProposedText { old, text, base, handle });
        }
        let mut summary = call.summary.to_string();
        if let Some(Access::Fetch(url)) = shown {
            // All of it is what the server is told, and the host as the server has it.
            summary = format!("fetch {url}");
        }
        let is_opaque =
            act.accesses().any(|access| matches!(access, Access::AtClient { .. } | Access::Call { .. }));
        if is_opaque || !act.is_whole {
            // Nothing else of the question shows what the client, the server or the agent is to do.
            // Of a call without arguments an agent says no more than its title.
            let is_titled = call.parsed.as_map().is_some_and(|map| map.is_empty())
                && !call.summary.starts_with(&*call.name);
            let whole = match is_titled {
                true => call.summary.to_string(),
                false => format!("{} {}", call.name, call.arguments),
            };
            let start = self.start_of("text of the call", &whole, APPROVAL_ARGUMENTS_BYTES).await;
            summary = tool::one_line(&start.text, APPROVAL_ARGUMENTS_BYTES);
            warnings.extend(start.warnings);
            warnings.extend(warning::of("An argument of the call", &call.parsed));
            if !act.is_whole {
                warnings.push(NOT_UNDERSTOOD.to_owned());
            }
            if self.is_borrowed(call) {
                warnings.push(
                    "The server has the name of another one of your own, and your rules are about that one."
                        .to_owned(),
                );
            } else if self.is_another(call) {
                warnings.push(
                    "The tool has another description or schema than when a rule last let it run, or its server runs \
                     or asks something else."
                        .to_owned(),
                );
            }
        }
        let approval = Approval {
            tool: call.name.clone(),
            call: call.id.clone(),
            summary: summary.into(),
            is_dangerous: command.as_deref().is_some_and(shell::is_dangerous),
            command,
            path,
            diff: shown_diff,
            proposal: proposed,
            suggested_rule,
        };
        (approval, warnings)
    }

    /// A warning if a path is outside the workspace, or if the written file is guarded.
    fn leaves(&self, access: &Access) -> Vec<String> {
        match access {
            Access::Read(path) | Access::Write(path) if !self.ground().holds(path) => {
                vec![format!("The path {} is outside the workspace.", visible::line(&path.to_string_lossy()))]
            }
            Access::Run(Run { folder: Some(folder), .. }) if !self.ground().holds(folder) => {
                vec![format!(
                    "The folder {} is outside the workspace.",
                    visible::line(&folder.to_string_lossy())
                )]
            }
            Access::Read(path) => {
                let hidden = self.ground().hides(path);
                hidden.then(|| format!("The file is guarded: {}.", permission::OWN)).into_iter().collect()
            }
            Access::Write(path) => {
                let guarded = permission::guarded(path, &self.ground());
                guarded.map(|reason| format!("The file is guarded: {reason}.")).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The start of a text for a question.
    pub(super) async fn start_of(&self, what: &str, text: &str, most: usize) -> Start {
        long_text::start_of(&self.turn.shared, &self.turn.session.id, what, text, most).await
    }

    /// Stores a long text like a tool's output; `None` if the disk is full.
    async fn keep_text(&self, text: &str) -> Option<String> {
        long_text::keep(&self.turn.shared, &self.turn.session.id, text).await
    }

    /// The question about an act whose answers are chosen by their names: who asks, and all of the act.
    pub async fn described(
        &self,
        head: &str,
        call: &ToolCall,
        act: &Act,
        diff: Option<&str>,
    ) -> (String, Vec<String>) {
        let (approval, warnings) = self.approval(call, act, diff, None, None).await;
        let mut text = format!("{head}: {}", call.summary);
        if let Some(command) = &approval.command {
            text.push_str(&format!("\n\n$ {command}"));
        }
        if let Some(path) = &approval.path {
            text.push_str(&format!("\n\n{path}"));
        }
        if *approval.summary != *call.summary {
            text.push_str(&format!("\n\n{}", approval.summary));
        }
        if let Some(diff) = &approval.diff {
            text.push_str(&format!("\n\n{}", diff.text));
        }
        (text, warnings)
    }

    /// The rules' denials for a call that may read more than the judged path.
    pub(super) fn barred(&self, tool: &str, plan: &Plan) -> DeniedPaths {
        if !matches!(plan.access, Access::Read(_)) {
            return DeniedPaths::default();
        }
        let rules = self.turn.shared.rules_for(&self.turn.config(), &self.turn.session);
        DeniedPaths::new(&rules, &self.ground(), tool)
    }

    /// Keeps a rule from an answer: for the session, or for every session of the workspace.
    fn keep(&self, scope: ApprovalScope, rule: Rule) {
        let rules = &self.turn.session.rules;
        if scope != ApprovalScope::Rule {
            return rules.add(rule);
        }
        if let Err(error) = self.turn.shared.kept_rules.keep(&rule, &self.cwd) {
            tracing::warn!(%error, "the rule could not be kept; it holds for this session");
            rules.add_above(rule);
        }
    }

    /// The question of a kind that was asked about a call before the process was killed.
    pub(super) fn asked_before(&self, call: &ToolCall, kind: QuestionKind) -> Option<&UnendedQuestion> {
        self.unended.as_ref()?.asked(&call.id, kind)
    }

    /// Asks the person, until the turn ends. What was asked before the process was killed is asked again under its id,
    /// or has its answer already; if it asked for something else, it is gone.
    pub async fn ask(&self, call: &ToolCall, content: QuestionContent, warnings: Vec<String>) -> Resolution {
        let digest = digest::of(&content);
        let earlier = self.asked_before(call, content.kind());
        let earlier = earlier.filter(|asked| *asked.question.digest == *digest);
        let snapshot = self.turn.session.snapshot();
        let question = Question {
            content: Arc::new(content),
            warnings: warnings.into(),
            origin: Origin {
                session: self.turn.session.id.clone(),
                offset: snapshot.offset,
                turn: Some(self.turn.id.clone()),
                cause: self.turn.cause.clone(),
                correlation: self.turn.id.as_str().into(),
                subagent: self.turn.session.subagent(),
            },
            timeout: self.turn.execution.as_ref().and_then(|execution| execution.stage.patience),
            unattended: self.turn.shared.mode(&snapshot.facts) == Mode::Yolo,
            journalled: self.is_journalled,
        };
        let questions = &self.turn.shared.questions;
        if let Some(UnendedQuestion { question: known, at, answer: Some(answer) }) = earlier
            && let Some(resolution) = answer_records::resolution(answer)
        {
            let (id, by) = (&known.question_id, answer.by.clone());
            questions.record_earlier(id, question, at.clone(), by, &resolution);
            return resolution;
        }
        let ended = self.halt.child_token();
        let asked = async {
            // One question at a time, among this session, its parents and its children.
            let asking = self.turn.session.asking.lock();
            tokio::select! {
                biased;
                () = ended.cancelled() => Resolution::Withdrawn,
                _asking = asking => {
                    let id = match earlier {
                        Some(asked) => asked.question.question_id.clone(),
                        None => self.noted(call, &question.content, digest).await,
                    };
                    questions.ask_as(id, question, &ended).await
                }
            }
        };
        tokio::pin!(asked);
        tokio::select! {
            biased;
            resolution = &mut asked => resolution,
            () = self.turn.control.interrupt.cancelled() => {
                ended.cancel();
                asked.await
            }
        }
    }

    /// Notes a question before somebody is asked, and returns its id. A full disk keeps nobody from being asked; it keeps
    /// the answer from being taken.
    async fn noted(&self, call: &ToolCall, content: &QuestionContent, digest: String) -> Arc<str> {
        let questions = &self.turn.shared.questions;
        let id = questions.new_id();
        let (session, subagent) = (&self.turn.session, self.turn.session.subagent());
        if !self.is_journalled || !questions.would_be_open(&session.id, subagent.as_ref(), content.kind()) {
            return id;
        }
        let subagent_id = match content {
            QuestionContent::ApproveSubagentEnvelope(request) => Some(request.subagent.clone()),
            _ => None,
        };
        let record = QuestionRecord {
            session_id: self.turn.session.id.clone(),
            question_id: id.clone(),
            kind: content.kind().as_str().into(),
            digest: digest.into(),
            turn_id: self.turn.id.clone(),
            call_id: call.id.clone(),
            subagent_id,
            works_for: self.turn.session.parent.as_ref().map(|link| link.parent.clone()),
        };
        if let Err(error) = self.turn.write(vec![EntryBody::Question(Box::new(record))]).await {
            tracing::warn!(%error, "the journal does not have a question");
        }
        crash::point("question-journalled");
        id
    }

    /// Runs a call of `ask-user`: a question from the model.
    pub(super) async fn ask_user(&self, call: &Arc<ToolCall>, place: &mut Option<QueuePlace>) -> Outcome {
        let Some(question) = call.parsed.get("question").and_then(Value::as_str) else {
            return Outcome::failed("The argument question must be a string.");
        };
        let options: Vec<&str> = call
            .parsed
            .get("options")
            .and_then(Value::as_slice)
            .map(|options| options.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let prompt = question.to_owned();
        let content = match options.is_empty() {
            true => QuestionContent::Ask { prompt },
            false => {
                let options = options.iter().map(|option| (*option).to_owned()).collect();
                QuestionContent::Select { prompt, options }
            }
        };
        let Some(_asking) = self.may_ask_now(place).await else { return self.not_run() };
        if let Err(refused) = self.guarded(call, Vote::ToCome).await {
            return refused;
        }
        self.turn.publish(Body::ToolExecuting(call.clone())).await;
        let outcome = match self.ask(call, content, Vec::new()).await {
            Resolution::Accepted { answer, .. } => Outcome::ok(match answer {
                Answer::Text(text) => text,
                Answer::Option(place) => options.get(place).copied().unwrap_or_default().to_owned(),
                _ => String::new(),
            }),
            Resolution::Cancelled { note } => {
                Outcome::failed(note.unwrap_or_else(|| "The user does not want to answer.".to_owned()))
            }
            Resolution::TimedOut => Outcome::failed("Nobody answered in time."),
            Resolution::Withdrawn => return self.not_run(),
            Resolution::Headless => Outcome::failed(NOBODY_TO_ASK),
        };
        self.followed(call, outcome).await
    }
}

/// A refusal by the person, with the diff that the question showed.
fn rejected(reason: &str, shown: Option<ShownDiff>) -> Outcome {
    let mut outcome = denied(reason);
    if let Some(ShownDiff { text, cut }) = shown {
        outcome.details.put("diff", text);
        if let Some(CutDiff { size, handle }) = cut {
            outcome.details.put("diff-size", Value::from(size));
            outcome.details.put_some("diff-handle", handle);
        }
    }
    outcome
}

/// The binding of a grant for this call.
fn binding(stage: &Execution, proposal: &str, call: &ToolCall) -> Binding {
    Binding {
        stage_execution: stage.id.clone(),
        attempt: stage.attempt,
        proposal: proposal.to_owned(),
        tool: call.name.to_string(),
        args_digest: grant::digest(&call.parsed),
    }
}

/// The rule that allows this act again, if no wider one was suggested.
fn exact(act: &Act) -> Option<Rule> {
    let [Part { tool, access }] = act.parts.as_slice() else { return None };
    let rule = Rule { tool: Some(tool.to_string()), ..Rule::allowing() };
    Some(match access {
        Access::Read(path) | Access::Write(path) => {
            Rule { path: Some(crate::glob::escape(&path.to_string_lossy())), ..rule }
        }
        Access::Run(run) if run.is_plain() => Rule { command: Some(run.line.clone()), exact: true, ..rule },
        Access::Fetch(url) => Rule { host: pattern_of(url), ..rule },
        Access::AtClient { .. } | Access::Call { .. } => rule,
        Access::Nothing | Access::Run(_) => return None,
    })
}
