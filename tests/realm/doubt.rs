//! Appends whose answers are lost, at a realm that does with them what a test says.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use edn_bridge::config::{Share, Takeover, Workspace};
use edn_bridge::federation::{FederatedJournals, Federation, Terms};
use edn_bridge::message::SessionId;
use edn_bridge::realm::rules::LeaseTerms;
use edn_bridge::realm::{
    Claim, Doubt, Hints, Host, HostId, HostName, LocalRealm, Opened, Realm, RealmCall, RealmError,
    RealmFilter, RealmHit, RealmPage, RealmRequest, RealmSlot, RealmWriter, Requests, Tail, Utterances,
    Written,
};
use edn_bridge::store::{Durability, Entry, Header, Journal, Journals as _, Ownership, Store};

use crate::promises::{PATIENCE, entries, header, host, ids, log, run};

/// What becomes of an append. One that nothing is said of is carried out and answered.
#[derive(Debug)]
enum Fate {
    /// No answer; it is carried out right before the next append of which nothing is said.
    Late,
    /// The engine refuses.
    Refused,
    /// It is carried out, and the answer is lost.
    Unanswered,
}

type Held = (Claim, Tail, Vec<Arc<Entry>>);

#[derive(Debug)]
struct Doubtful {
    realm: LocalRealm,
    fates: Mutex<VecDeque<Fate>>,
    held: Mutex<Option<Held>>,
    /// Entries of a page at most.
    page: usize,
}

impl Doubtful {
    fn new(folder: &Path, page: usize) -> Arc<Self> {
        let realm = LocalRealm::new(host("laptop", "1"), Store::new(folder, Durability::Full).unwrap());
        Arc::new(Self { realm, fates: Mutex::default(), held: Mutex::default(), page })
    }

    fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.fates.lock().unwrap().extend(fates);
    }
}

impl Realm for Doubtful {
    fn append<'a>(
        &'a self,
        claim: &'a Claim,
        after: &'a Tail,
        entries: &'a [Arc<Entry>],
        slot: Option<&'a str>,
    ) -> RealmCall<'a, Tail> {
        Box::pin(async move {
            let fate = self.fates.lock().unwrap().pop_front();
            match fate {
                Some(Fate::Late) => {
                    *self.held.lock().unwrap() = Some((claim.clone(), after.clone(), entries.to_vec()));
                    Err(RealmError::InDoubt(Doubt::NoAnswer))
                }
                Some(Fate::Refused) => Err(RealmError::Refused("it is full".into())),
                Some(Fate::Unanswered) => {
                    self.realm.append(claim, after, entries, slot).await?;
                    Err(RealmError::InDoubt(Doubt::NoAnswer))
                }
                None => {
                    let held = self.held.lock().unwrap().take();
                    if let Some((claim, after, entries)) = held {
                        self.realm.append(&claim, &after, &entries, None).await?;
                    }
                    self.realm.append(claim, after, entries, slot).await
                }
            }
        })
    }

    fn settle<'a>(&'a self, claim: &'a Claim, known: &'a Tail) -> RealmCall<'a, RealmPage> {
        Box::pin(async move {
            let mut page = self.realm.settle(claim, known).await?;
            page.entries.truncate(self.page);
            Ok(page)
        })
    }

    fn me(&self) -> &HostId {
        self.realm.me()
    }

    fn renew(&self) -> RealmCall<'_, ()> {
        self.realm.renew()
    }

    fn leave(&self) -> RealmCall<'_, ()> {
        self.realm.leave()
    }

    fn hosts(&self) -> RealmCall<'_, Vec<Host>> {
        self.realm.hosts()
    }

    fn create<'a>(&'a self, header: &'a Header) -> RealmCall<'a, Claim> {
        self.realm.create(header)
    }

    fn open<'a>(&'a self, session: &'a SessionId) -> RealmCall<'a, Opened> {
        self.realm.open(session)
    }

    fn read<'a>(&'a self, session: &'a SessionId, after: &'a Tail, most: usize) -> RealmCall<'a, RealmPage> {
        self.realm.read(session, after, most)
    }

    fn find<'a>(
        &'a self,
        text: &'a str,
        besides: Option<&'a HostName>,
        most: usize,
    ) -> RealmCall<'a, Vec<RealmHit>> {
        self.realm.find(text, besides, most)
    }

    fn list<'a>(&'a self, filter: &'a RealmFilter, most: usize) -> RealmCall<'a, Vec<RealmSlot>> {
        self.realm.list(filter, most)
    }

    fn claim<'a>(&'a self, session: &'a SessionId, cwd: &'a Path, known: &'a Tail) -> RealmCall<'a, Claim> {
        self.realm.claim(session, cwd, known)
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()> {
        self.realm.release(claim)
    }

    fn hand_over<'a>(&'a self, claim: &'a Claim, host: &'a HostName) -> RealmCall<'a, ()> {
        self.realm.hand_over(claim, host)
    }

    fn delete<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()> {
        self.realm.delete(claim)
    }

    fn watch<'a>(&'a self, session: Option<&'a SessionId>) -> RealmCall<'a, Hints> {
        self.realm.watch(session)
    }

    fn slot<'a>(&'a self, claim: &'a Claim, slot: &'a str) -> RealmCall<'a, ()> {
        self.realm.slot(claim, slot)
    }

    fn say<'a>(&'a self, claim: &'a Claim, text: &'a str) -> RealmCall<'a, ()> {
        self.realm.say(claim, text)
    }

    fn hear<'a>(&'a self, session: &'a SessionId) -> RealmCall<'a, Utterances> {
        self.realm.hear(session)
    }

    fn post<'a>(&'a self, session: &'a SessionId, request: &'a RealmRequest) -> RealmCall<'a, Arc<str>> {
        self.realm.post(session, request)
    }

    fn requests(&self) -> RealmCall<'_, Requests> {
        self.realm.requests()
    }

    fn answer<'a>(&'a self, request: &'a str, answer: &'a str) -> RealmCall<'a, bool> {
        self.realm.answer(request, answer)
    }
}

/// Appends an entry, and waits for what becomes of it.
fn append(journal: &Journal, id: &str) -> Result<(), String> {
    let (done, written) = channel();
    journal.append(&entries(&[id]), move |result| drop(done.send(result)));
    written.recv_timeout(PATIENCE).unwrap().map_err(|error| error.to_string())
}

#[test]
fn late_entry_that_was_refused_leaves_no_hole_in_the_copy() {
    let (engine, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let realm = Doubtful::new(engine.path(), usize::MAX);
    let terms = Terms {
        share: Share::All,
        takeover: Takeover::Ask,
        workspace: Workspace::Own,
        lease: LeaseTerms::default(),
        state_dir: state.path().to_owned(),
    };
    let entered = realm.clone();
    let federation = Federation::enter(move |_, _| Ok(entered as Arc<dyn Realm>), terms).unwrap();
    let store = || Store::new(state.path(), Durability::Full).unwrap();
    let journals = FederatedJournals::new(store(), federation.clone());
    let cwd = state.path().to_string_lossy().into();
    let journal = journals.create(Header { cwd, ..header("s-1") });
    let (told, moved) = channel();
    journal.listen(Box::new(move |_| {
        let _ = told.send(());
        Box::pin(async {})
    }));
    append(&journal, "a").unwrap();
    // The second try of `b` is refused, and the first one is carried out after all, before `c`.
    realm.next([Fate::Late, Fate::Refused]);
    append(&journal, "b").unwrap_err();
    let changed = append(&journal, "c").unwrap_err();
    assert!(changed.contains("in doubt"), "{changed}: it was decided without `b`");
    while !matches!(journal.ownership(), Ownership::Ours { .. }) {
        moved.recv_timeout(PATIENCE).expect("the session does not go on here");
    }
    append(&journal, "d").unwrap();
    let session = SessionId::from("s-1");
    assert_eq!(ids(&run(log(&*realm, &session))), ["a", "b", "d"]);
    let file = journal.location().into_owned();
    assert_eq!(ids(&store().read_file(Path::new(&file)).unwrap().entries), ["a", "b", "d"]);
    let kept = std::fs::read_to_string(state.path().join("lost/s-1.edn")).unwrap();
    assert!(kept.contains("text of c"), "{kept}");
    federation.leave();
}

#[test]
fn long_append_in_doubt_is_found_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let realm = Doubtful::new(folder.path(), 1);
    run(async {
        let claim = realm.create(&header("s-1")).await.unwrap();
        let mut writer = RealmWriter::new(realm.clone(), claim, &Tail::default()).unwrap();
        realm.next([Fate::Unanswered]);
        let written = writer.write(&entries(&["a", "b", "c"]), None).await.unwrap();
        assert_eq!(written, Written::Saved(Tail::at(3, "c".into())));
        assert_eq!(ids(&log(&*realm, &"s-1".into()).await), ["a", "b", "c"]);
    });
}
