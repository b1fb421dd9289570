//! The citations of an answer, as the servers write them: a page's address and title, and the part of the text that rests
//! on it. Knows no protocol.

use std::sync::Arc;

use serde::Deserialize;

use super::lenient::{Lenient, LenientScalars, LenientStruct};
use super::protocol::Out;
use crate::message::Sources;
use crate::provider::Chunk;

/// A citation of a page, in the form of OpenAI's annotations. Chat Completions nest its fields.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Annotation {
    url: Lenient<String>,
    title: Lenient<String>,
    start_index: Lenient<u64>,
    end_index: Lenient<u64>,
    url_citation: LenientStruct<Nested>,
}

/// The fields of a nested one.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Nested {
    url: Lenient<String>,
    title: Lenient<String>,
    start_index: Lenient<u64>,
    end_index: Lenient<u64>,
}

/// The action of a call of the server's own search: words, or a page that was opened.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct SearchAction {
    query: Lenient<String>,
    queries: LenientScalars<String>,
    url: Lenient<String>,
}

/// The sources of one answer, as they come.
#[derive(Debug, Default)]
pub struct Citations(Sources);

impl Citations {
    /// A search for these words.
    pub fn search(&mut self, words: &str) {
        self.0.search(words);
    }

    /// A page, and the characters of the answer's text that rest on it.
    pub fn page(&mut self, url: &str, title: &str, span: Option<(u64, u64)>) {
        self.0.link(url, title, span);
    }

    /// A search, or a page that was opened.
    pub fn action(&mut self, action: SearchAction) {
        let queries = action.queries.into_iter();
        queries.chain([action.query.text()]).for_each(|words| self.search(&words));
        self.page(&action.url.text(), "", None);
    }

    /// A citation in the text of a part that begins at a character of the answer, if that is known.
    pub fn annotation(&mut self, annotation: Annotation, begin: Option<u64>) {
        let Annotation { url, title, start_index, end_index, url_citation } = annotation;
        let (url, title, start, end) = match url_citation.get() {
            Some(nested) => (nested.url, nested.title, nested.start_index, nested.end_index),
            None => (url, title, start_index, end_index),
        };
        let place = |index: Lenient<u64>| begin?.checked_add(index.get()?);
        self.page(&url.text(), &title.text(), place(start).zip(place(end)));
    }

    /// Appends the sources, if there are any, and forgets them.
    pub fn end(&mut self, out: &mut Out) {
        let sources = std::mem::take(&mut self.0);
        if !sources.is_empty() {
            out.push_back(Chunk::Sources(Arc::new(sources)));
        }
    }
}
