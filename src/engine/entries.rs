//! A session's entries as a tree, and the branch that the session continues with. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use crate::message::EntryId;
use crate::store::{Entry, EntryBody};

/// All entries of a session.
#[derive(Default)]
pub struct EntryTree {
    /// In the order of the file.
    all: imbl::Vector<Arc<Entry>>,
    /// Where each entry stands in `all`.
    places: HashMap<EntryId, usize>,
    /// The entries from the first to the leaf.
    branch: imbl::Vector<Arc<Entry>>,
}

impl EntryTree {
    /// Adds an entry that is on disk. Returns whether the branch has changed in another way than by this entry at
    /// its end.
    pub fn push(&mut self, entry: &Arc<Entry>) -> bool {
        let follows = self.last() == entry.parent.as_ref();
        if !follows {
            self.branch = self.path_to(entry.parent.as_ref());
        }
        self.places.insert(entry.id.clone(), self.all.len());
        self.all.push_back(entry.clone());
        if let EntryBody::Leaf(leaf) = &entry.body {
            self.branch = self.path_to(Some(leaf));
            return true;
        }
        self.branch.push_back(entry.clone());
        !follows
    }

    /// All entries, in the order of the file.
    pub fn all(&self) -> &imbl::Vector<Arc<Entry>> {
        &self.all
    }

    /// The number of entries, which is the session's offset.
    pub fn offset(&self) -> u64 {
        u64::try_from(self.all.len()).unwrap_or(u64::MAX)
    }

    /// The entries from the first to the leaf.
    pub fn branch(&self) -> &imbl::Vector<Arc<Entry>> {
        &self.branch
    }

    /// The entry that the next one follows.
    pub fn last(&self) -> Option<&EntryId> {
        self.branch.last().map(|entry| &entry.id)
    }

    /// The number of messages on the branch.
    pub fn messages(&self) -> usize {
        self.branch.iter().filter(|entry| matches!(entry.body, EntryBody::Message(_))).count()
    }

    /// The entries up to and including one, on whichever branch it stands.
    pub fn up_to(&self, entry: &EntryId) -> Option<imbl::Vector<Arc<Entry>>> {
        self.places.contains_key(entry).then(|| self.path_to(Some(entry)))
    }

    /// The entries from the first to `leaf`. A parent that is not there ends the path: what can be
    /// shown is shown.
    fn path_to(&self, leaf: Option<&EntryId>) -> imbl::Vector<Arc<Entry>> {
        let mut path = Vec::new();
        let mut next = leaf.cloned();
        while let Some(entry) =
            next.and_then(|id| self.places.get(&id)).and_then(|place| self.all.get(*place))
        {
            next = entry.parent.clone();
            path.push(entry.clone());
            // A damaged file could claim a cycle.
            if path.len() > self.all.len() {
                break;
            }
        }
        path.into_iter().rev().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, parent: Option<&str>, leaf: Option<&str>) -> Arc<Entry> {
        let body = match leaf {
            Some(leaf) => EntryBody::Leaf(leaf.into()),
            None => EntryBody::Name(id.into()),
        };
        Arc::new(Entry {
            id: id.into(),
            parent: parent.map(EntryId::from),
            ts: "".into(),
            request: None,
            body,
        })
    }

    fn branch(tree: &EntryTree) -> Vec<&str> {
        tree.branch().iter().map(|entry| entry.id.as_str()).collect()
    }

    #[test]
    fn branch_goes_on_after_parent_of_each_entry() {
        let mut tree = EntryTree::default();
        for (entry, moved, expected) in [
            (entry("a", None, None), false, &["a"][..]),
            (entry("b", Some("a"), None), false, &["a", "b"]),
            (entry("c", Some("a"), None), true, &["a", "c"]),
            (entry("d", Some("c"), Some("b")), true, &["a", "b"]),
            (entry("e", Some("gone"), None), true, &["e"]),
        ] {
            assert_eq!(tree.push(&entry), moved, "{}", entry.id);
            assert_eq!(branch(&tree), expected);
        }
        assert_eq!(tree.up_to(&"c".into()).map(|path| path.len()), Some(2));
        assert_eq!(tree.up_to(&"gone".into()).map(|path| path.len()), None);
        assert_eq!(tree.offset(), 5);
    }
}
