//! The calls of a realm, and what each promises. Knows no engine.
//!
//! Kept outputs are files of the owner's host, which is asked for them when somebody wants to see them: a realm keeps
//! entries and no files.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::message::SessionId;
use crate::realm::error::RealmError;
use crate::realm::types::{
    Claim, Host, HostId, HostName, Opened, Posted, RealmFilter, RealmHint, RealmHit, RealmPage, RealmRequest,
    RealmSlot, Tail,
};
use crate::store::{Entry, Header};

/// The answer of a call, when it comes. It comes in bounded time, also when the network swallows everything. Who drops it
/// gives up the answer and not the call, which may still be carried out.
pub type RealmCall<'a, T> = BoxFuture<'a, Result<T, RealmError>>;

/// Hints, until the receiver is dropped. Where the reader does not keep up, [`RealmHint::Anything`] takes the place of
/// those that are lost.
pub type Hints = mpsc::Receiver<RealmHint>;

/// What the owner of a session says meanwhile, until the receiver is dropped. Pieces may be lost.
pub type Utterances = mpsc::Receiver<Arc<str>>;

/// Requests to this host, until the receiver is dropped.
pub type Requests = mpsc::Receiver<Posted>;

/// Sessions that several machines share. Everything that it keeps is on the engine's disk when its call returns `Ok`.
///
/// Three errors mean the same for every call: [`RealmError::Unreachable`] nothing was done, [`RealmError::Unfit`] the
/// engine is one that this program does not trust, [`RealmError::Damaged`] the engine has what this program did not write.
/// A call that changes something and whose answer is lost returns [`RealmError::InDoubt`]; every such call but `append`
/// can simply be made again. `hand_over`, made again after it was carried out, is refused as fenced: the owner says then
/// whose the session is.
///
/// An implementation need not be asked by one caller at a time. It reads no clock of this machine to judge a lease.
pub trait Realm: Debug + Send + Sync {
    /// Who this process is in the realm.
    fn me(&self) -> &HostId;

    /// Enters the realm, or stays in it: from when the engine carries this out, this host is alive for a lease. The
    /// caller counts from before it made the call ([`Lease`](super::rules::Lease)). Sessions of an earlier run of this
    /// host can be claimed from then on.
    ///
    /// # Errors
    /// [`RealmError::NameTaken`] if a living host of another key has the name, or if a later run of this host has entered:
    /// then this run may do nothing any more.
    fn renew(&self) -> RealmCall<'_, ()>;

    /// Leaves: the lease is over at once, and others can take the sessions.
    fn leave(&self) -> RealmCall<'_, ()>;

    /// The hosts of the realm, by name; at most [`REALM_HOSTS`](crate::limits::REALM_HOSTS).
    fn hosts(&self) -> RealmCall<'_, Vec<Host>>;

    /// Brings a new session into the realm, without entries, owned by this host in the first epoch. Made again by its
    /// owner with the same header, it claims the session as [`Realm::claim`] does.
    ///
    /// # Errors
    /// [`RealmError::Taken`] if there is one of that id with another header, [`RealmError::Held`] as for a claim.
    fn create<'a>(&'a self, header: &'a Header) -> RealmCall<'a, Claim>;

    /// What the realm knows of a session, whoever owns it. Changes nothing.
    ///
    /// # Errors
    /// [`RealmError::NoSession`].
    fn open<'a>(&'a self, session: &'a SessionId) -> RealmCall<'a, Opened>;

    /// Entries after a place, oldest first: at most `most`, and at least one if there is one. They are durable: none of
    /// them will be another one later, unless the engine itself is set back, and the next call says so.
    ///
    /// # Errors
    /// [`RealmError::Behind`] if the log is shorter than `after`, [`RealmError::Diverged`] if it has another entry there,
    /// [`RealmError::NoSession`].
    fn read<'a>(&'a self, session: &'a SessionId, after: &'a Tail, most: usize) -> RealmCall<'a, RealmPage>;

    /// The sessions, the last changed first; at most `most`.
    fn list<'a>(&'a self, filter: &'a RealmFilter, most: usize) -> RealmCall<'a, Vec<RealmSlot>>;

    /// The sessions with all words of a text in one message or in their name, the last changed first; at most `most`, and
    /// without those that `besides` owns. Takes at most [`REALM_FIND_WAIT`](crate::limits::REALM_FIND_WAIT), and holds up
    /// no other call.
    fn find<'a>(
        &'a self,
        text: &'a str,
        besides: Option<&'a HostName>,
        most: usize,
    ) -> RealmCall<'a, Vec<RealmHit>>;

    /// Makes this host the owner of a session, in a folder of this host: one that nobody owns, that an earlier run of this
    /// host or this run owns, or whose owner's lease is over. The epoch is higher than any before: an append of an earlier
    /// claim that is still under way either was carried out before, and is in the tail of the claim, or never will be.
    /// `known` is what this host knows to be saved.
    ///
    /// # Errors
    /// [`RealmError::Held`] by a living host; [`RealmError::Behind`] and [`RealmError::Diverged`] if the log lacks what is
    /// known, and [`RealmError::NoSession`]; the owner is as before then.
    fn claim<'a>(&'a self, session: &'a SessionId, cwd: &'a Path, known: &'a Tail) -> RealmCall<'a, Claim>;

    /// Gives a session up: it has no owner then. Of a claim that is fenced already nothing changes, without an error.
    fn release<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()>;

    /// Makes a living host the owner. It gets a hint, and claims the session when it continues it. From then on this
    /// host's claim is fenced.
    ///
    /// # Errors
    /// [`RealmError::Fenced`], [`RealmError::NoHost`]; the owner is as before then.
    fn hand_over<'a>(&'a self, claim: &'a Claim, host: &'a HostName) -> RealmCall<'a, ()>;

    /// Deletes a session: its entries, what lists show of it, and requests to its owner. That it was deleted stays known, so
    /// that no late call makes it again, and no host takes its copy for what the engine has lost: every call that names it
    /// is refused as [`RealmError::Deleted`], apart from this one, which changes nothing then. What is on disk may go bit by
    /// bit, but nothing of it can be read any more.
    ///
    /// # Errors
    /// [`RealmError::Fenced`]; the session is there as before.
    fn delete<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()>;

    /// Appends entries as a unit right after a place, with what lists show from then on. Fence, place and slot are one
    /// step of the engine: either the claim still counts, the log ends exactly at `after`, and all of it is on disk, or
    /// nothing is. No clock decides that. A follower may see it before this answer comes, and never before it is durable.
    ///
    /// # Errors
    /// [`RealmError::InDoubt`]: it may be carried out, also later; [`Realm::settle`] must answer before the next append.
    /// [`RealmError::Unreachable`], [`RealmError::Fenced`], [`RealmError::TooLong`], [`RealmError::Refused`] and
    /// [`RealmError::Store`]: nothing was appended, and nothing of it will be.
    fn append<'a>(
        &'a self,
        claim: &'a Claim,
        after: &'a Tail,
        entries: &'a [Arc<Entry>],
        slot: Option<&'a str>,
    ) -> RealmCall<'a, Tail>;

    /// Whether the claim still counts, and what the log has beyond a place: the entries of this owner's appends that were
    /// carried out although their answers did not come. It is read at the engine's newest state, after every statement
    /// that has ended. One that has not even begun may follow; it appends only where the log still ends as it expects.
    ///
    /// # Errors
    /// [`RealmError::Fenced`], [`RealmError::Behind`], [`RealmError::Diverged`].
    fn settle<'a>(&'a self, claim: &'a Claim, known: &'a Tail) -> RealmCall<'a, RealmPage>;

    /// Hints about a session, or about all sessions with `None`. A hint only makes a follower read sooner: it reads from
    /// its own place every [`REALM_WATCH`](crate::limits::REALM_WATCH) in any case. Who watches all sessions is told
    /// [`RealmHint::Anything`] with a [renewal](Realm::renew) at the latest, if something has changed that no hint told: a
    /// session, or that a host is lost.
    fn watch<'a>(&'a self, session: Option<&'a SessionId>) -> RealmCall<'a, Hints>;

    /// What lists show of a session, where no entry goes with it.
    ///
    /// # Errors
    /// [`RealmError::Fenced`], [`RealmError::TooLong`].
    fn slot<'a>(&'a self, claim: &'a Claim, slot: &'a str) -> RealmCall<'a, ()>;

    /// Tells those who follow a session something that is not kept: at most
    /// [`REALM_HINT_BYTES`](crate::limits::REALM_HINT_BYTES). It may be lost, and is never seen twice. Returns when it is
    /// on its way, which is no promise that anybody gets it.
    ///
    /// # Errors
    /// [`RealmError::TooLong`].
    fn say<'a>(&'a self, claim: &'a Claim, text: &'a str) -> RealmCall<'a, ()>;

    /// What the owner of a session says from now on.
    fn hear<'a>(&'a self, session: &'a SessionId) -> RealmCall<'a, Utterances>;

    /// Asks the owner of a session for something and waits for its answer, in EDN. Posted again with the same id, it
    /// waits for the answer of the first time.
    ///
    /// # Errors
    /// [`RealmError::OwnerLost`] if nobody answers for the session, [`RealmError::Unanswered`] if the answer takes longer
    /// than [`REALM_ANSWER_WAIT`](crate::limits::REALM_ANSWER_WAIT): it may have been carried out.
    fn post<'a>(&'a self, session: &'a SessionId, request: &'a RealmRequest) -> RealmCall<'a, Arc<str>>;

    /// The requests to this host, each at least once, also those that came while nobody received them and have not
    /// expired. The receiver gives each one an [`answer`](Realm::answer); by its id it knows one that comes again.
    fn requests(&self) -> RealmCall<'_, Requests>;

    /// Answers a request. Returns whether that is its answer: not if it has another one, if it was posted again and is
    /// another host's now, or if a later run of this host has entered. What this host has not answered it does not begin.
    fn answer<'a>(&'a self, request: &'a str, answer: &'a str) -> RealmCall<'a, bool>;
}
