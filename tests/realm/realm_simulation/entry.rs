//! What a session's log says in the simulation, and what a host knows from it.
//!
//! A prompt has a key and is answered by a script that its key determines: perhaps a question and its answer, perhaps a
//! tool with effects and its result, always words of the model and the end of the turn.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use edn_bridge::message::EntryId;

/// The key of a prompt. Its question and its tool go by the same number, since a turn has at most one of each.
pub type Key = u64;

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum What {
    /// A host owns the session from here on.
    Owner {
        host: usize,
    },
    Prompt(Key),
    Question(Key),
    Answer(Key),
    /// A tool with effects is about to start.
    Call(Key),
    Result {
        tool: Key,
        is_interrupted: bool,
    },
    /// Words of the model. Only the entry's id tells two of them apart, so a turn may have any number of them; `call` says
    /// which call of the model they come from.
    Said {
        key: Key,
        call: u64,
    },
    Ended(Key),
}

/// An entry. The rules see its id only.
#[derive(Debug)]
pub struct Entry {
    pub id: EntryId,
    pub what: What,
}

/// Whether the turn of a prompt asks the user something.
pub fn asks(key: Key) -> bool {
    key.is_multiple_of(3)
}

/// Whether the turn of a prompt runs a tool with effects.
pub fn calls(key: Key) -> bool {
    key % 4 != 3
}

/// A prompt that is not answered yet.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub key: Key,
    pub is_asked: bool,
    pub is_answered: bool,
    pub is_called: bool,
    pub has_result: bool,
    pub has_said: bool,
}

/// What follows from a log: a fold over its entries.
#[derive(Default, Debug)]
pub struct View {
    ids: HashSet<EntryId>,
    pub prompts: HashSet<Key>,
    pub ended: HashSet<Key>,
    /// The first one's turn is under way.
    pub waiting: VecDeque<Waiting>,
}

impl View {
    pub fn of(log: &[Rc<Entry>]) -> Self {
        let mut view = Self::default();
        log.iter().for_each(|entry| view.apply(entry));
        view
    }

    pub fn apply(&mut self, entry: &Entry) {
        self.ids.insert(entry.id.clone());
        let of = |key: Key, waiting: &mut VecDeque<Waiting>, change: fn(&mut Waiting)| {
            if let Some(waiting) = waiting.iter_mut().find(|waiting| waiting.key == key) {
                change(waiting);
            }
        };
        match entry.what {
            What::Owner { .. } => {}
            What::Prompt(key) => {
                self.prompts.insert(key);
                self.waiting.push_back(Waiting {
                    key,
                    is_asked: false,
                    is_answered: false,
                    is_called: false,
                    has_result: false,
                    has_said: false,
                });
            }
            What::Question(key) => of(key, &mut self.waiting, |of| of.is_asked = true),
            What::Answer(key) => of(key, &mut self.waiting, |of| of.is_answered = true),
            What::Call(key) => of(key, &mut self.waiting, |of| of.is_called = true),
            What::Result { tool, .. } => of(tool, &mut self.waiting, |of| of.has_result = true),
            What::Said { key, .. } => of(key, &mut self.waiting, |of| of.has_said = true),
            What::Ended(key) => {
                self.ended.insert(key);
                self.waiting.retain(|waiting| waiting.key != key);
            }
        }
    }

    /// The decision that comes before each append: whether the log makes an entry needless. A prompt goes by its key, an
    /// answer by its question, anything else by its id.
    pub fn has(&self, entry: &Entry) -> bool {
        self.ids.contains(&entry.id)
            || match entry.what {
                What::Prompt(key) => self.prompts.contains(&key),
                What::Answer(key) => !self.asks_for(key),
                _ => false,
            }
    }

    /// Whether the question of a prompt is open.
    pub fn asks_for(&self, key: Key) -> bool {
        self.waiting.iter().any(|waiting| waiting.key == key && waiting.is_asked && !waiting.is_answered)
    }
}
