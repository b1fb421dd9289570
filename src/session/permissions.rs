//! Permissions: which rules hold, what was decided, and what trust would let run. Does not know how a call is judged.

use crate::facts::permissions::{AuditPage, AuditWanted, ListedRule, TrustPreview};
use crate::session::call::{Call, Reply};

/// The permissions of a session, to look at and to take back. Nothing here permits anything.
pub trait Permissions: Send + Sync {
    /// The rules that its calls are judged by, in their order, and those that were kept and are not used.
    fn rules(&self, call: Call, reply: Reply<Vec<ListedRule>>);

    /// Takes a rule back that came from an answer: from now on in every session of this process that has it, and for
    /// later processes before the reply.
    fn remove_rule(&self, call: Call, id: String, reply: Reply<()>);

    /// Records of decisions, page by page.
    fn audit(&self, call: Call, wanted: AuditWanted, reply: Reply<AuditPage>);

    /// What the project's configuration would do, whether it is trusted or not.
    fn trust_preview(&self, call: Call, reply: Reply<TrustPreview>);
}
