//! A list of a server while it is read: page by page, so that no more is held than is kept.

use std::collections::HashSet;
use std::sync::Arc;

use super::lenient::LeftOut;
use super::settings::Server;
use crate::limits::{MCP_LIST_BYTES, MCP_LISTED};
use crate::peer::{Redactor, shown};

/// What a server lists, as the protocol has it.
pub(super) trait ServerItem: Sized {
    /// What is kept of it.
    type Kept;
    /// What it is, in a sentence.
    const WHAT: &'static str;
    /// As many are kept.
    const MOST: usize;

    /// Its name or address, as the server has it.
    fn called(&self) -> &str;

    /// Whether the settings want one of that name.
    fn is_wanted(_name: &str, _: &Server) -> bool {
        true
    }

    /// What is kept, without the server's keys; otherwise why it is passed over.
    fn read(self, server: &Server, noted: &Redactor) -> Result<Item<Self::Kept>, String>;
}

/// One thing of a list.
pub(super) struct Item<T> {
    pub(super) kept: T,
    /// By what it is called here, where that must be unique.
    pub(super) key: Option<Arc<str>>,
    /// The bytes of its texts.
    pub(super) bytes: usize,
}

/// What is kept so far.
pub(super) struct Reading<'a, M: ServerItem> {
    server: &'a Server,
    noted: &'a Redactor,
    pub(super) kept: Vec<M::Kept>,
    pub(super) passed_over: Vec<String>,
    keys: HashSet<Arc<str>>,
    seen: usize,
    bytes: usize,
    is_full: bool,
}

impl<'a, M: ServerItem> Reading<'a, M> {
    pub(super) fn new(server: &'a Server, noted: &'a Redactor) -> Self {
        Self {
            server,
            noted,
            kept: Vec::new(),
            passed_over: Vec::new(),
            keys: HashSet::new(),
            seen: 0,
            bytes: 0,
            is_full: false,
        }
    }

    /// Takes a page, and what was left out of it. Returns whether another one is of use.
    pub(super) fn page(&mut self, page: Vec<M>, left_out: Vec<LeftOut>) -> bool {
        for LeftOut { name, why } in left_out {
            if M::is_wanted(&name, self.server) && self.passed_over.len() < MCP_LISTED {
                let name = shown(self.noted, &name, 100);
                self.passed_over.push(format!("{} {name:?}: {why}", M::WHAT));
            }
        }
        for item in page {
            if self.is_full {
                break;
            }
            self.item(item);
        }
        !self.is_full
    }

    fn item(&mut self, item: M) {
        let what = M::WHAT;
        if self.seen >= MCP_LISTED {
            self.is_full = true;
            self.passed_over.push(format!("its list of {what}s is read to the {MCP_LISTED}th"));
            return;
        }
        self.seen = self.seen.saturating_add(1);
        if !M::is_wanted(item.called(), self.server) {
            return;
        }
        let name = shown(self.noted, item.called(), 100);
        if self.kept.len() >= M::MOST {
            self.is_full = true;
            self.passed_over
                .push(format!("{what} {name:?}: at most {} {what}s of a server are offered", M::MOST));
            return;
        }
        let read = match self.noted.is_in(item.called()) {
            true => Err("its name has a key in it that the server was given".to_owned()),
            false => item.read(self.server, self.noted),
        };
        match read {
            Err(why) => self.passed_over.push(format!("{what} {name:?}: {why}")),
            Ok(item) if self.bytes.saturating_add(item.bytes) > MCP_LIST_BYTES => {
                self.is_full = true;
                self.passed_over.push(format!(
                    "{what} {name:?}, and what comes after it: the {what}s of a server have at most \
                     {MCP_LIST_BYTES} bytes"
                ));
            }
            Ok(Item { key: Some(key), .. }) if !self.keys.insert(key.clone()) => {
                self.passed_over.push(format!("{what} {name:?}: there are two of that name"));
            }
            Ok(item) => {
                self.bytes = self.bytes.saturating_add(item.bytes);
                self.kept.push(item.kept);
            }
        }
    }
}
