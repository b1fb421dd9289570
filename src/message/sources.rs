//! The web pages that an answer rests on, and the searches that led to them: made by the provider's own tools, shown to
//! people as links. Addresses and titles come from a model's server, so that they are checked here. Fetches nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::limits::{ANSWER_SEARCHES, ANSWER_SOURCES, SOURCE_TITLE_CHARS, SOURCE_URL_BYTES};
use crate::value::{Map, Value};

/// The searches and the sources of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    searches: Vec<Arc<str>>,
    links: Vec<SourceLink>,
}

/// A page that a part of an answer's text rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLink {
    /// Its address, `http` or `https`.
    pub url: Arc<str>,
    /// Its title on one line; empty for none.
    pub title: Arc<str>,
    /// The characters of the message's text that it stands for: the first, and the one after the last.
    pub span: Option<(u64, u64)>,
}

impl Sources {
    /// Whether there is neither a search nor a source.
    pub fn is_empty(&self) -> bool {
        self.searches.is_empty() && self.links.is_empty()
    }

    /// The words that were searched for, and the addresses that were looked at, in order.
    pub fn searches(&self) -> &[Arc<str>] {
        &self.searches
    }

    /// The sources, one for each place that they stand for.
    pub fn links(&self) -> &[SourceLink] {
        &self.links
    }

    /// Adds a search; a blank one, one that is there already and one too many are left out.
    pub fn search(&mut self, words: &str) {
        let words = line(words, SOURCE_TITLE_CHARS);
        let is_new = !words.is_empty() && !self.searches.iter().any(|known| **known == *words);
        if is_new && self.searches.len() < ANSWER_SEARCHES {
            self.searches.push(words.into());
        }
    }

    /// Adds a source. What is no address of the web, what is there already and one too many are left out.
    pub fn link(&mut self, url: &str, title: &str, span: Option<(u64, u64)>) {
        if !is_web(url) || self.links.len() >= ANSWER_SOURCES {
            return;
        }
        let span = span.filter(|(begin, end)| begin < end);
        let link = SourceLink { url: url.into(), title: line(title, SOURCE_TITLE_CHARS).into(), span };
        if !self.links.contains(&link) {
            self.links.push(link);
        }
    }

    /// The pages, each once, in the order in which they are numbered for people.
    pub fn pages(&self) -> impl Iterator<Item = &SourceLink> {
        let is_first = |(at, link): &(usize, &SourceLink)| {
            !self.links.iter().take(*at).any(|earlier| earlier.url == link.url)
        };
        self.links.iter().enumerate().filter(is_first).map(|(_, link)| link)
    }

    /// As Markdown: the searches on a line, then a numbered list of links.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        if !self.searches.is_empty() {
            let searches: Vec<String> = self.searches.iter().map(|words| escaped(words)).collect();
            let _ = writeln!(text, "Searched the web: {}", searches.join("; "));
        }
        for (number, link) in (1..).zip(self.pages()) {
            if number == 1 {
                text.push_str(if text.is_empty() { "Sources:\n\n" } else { "\nSources:\n\n" });
            }
            let _ = writeln!(text, "{number}. [{}](<{}>)", escaped(link.name()), link.url);
        }
        text
    }

    /// As plain text for a model, a source in each line.
    pub fn plain(&self) -> String {
        let searches = self.searches.iter().map(|words| format!("Searched the web: {words}"));
        let links = self.pages().map(|link| format!("Source: {} {}", link.title, link.url));
        searches.chain(links).collect::<Vec<_>>().join("\n")
    }

    /// Its approximate size in bytes.
    pub fn weight(&self) -> usize {
        let links = self.links.iter().map(|link| link.url.len().saturating_add(link.title.len()));
        let searches = self.searches.iter().map(|words| words.len());
        links.chain(searches).fold(0, |sum, bytes| sum.saturating_add(bytes).saturating_add(64))
    }

    /// `{:type :sources :searches ["…"] :sources [{:url "…" :title "…" :start n :end n} …]}`, with `:start` and `:end` where
    /// they are known.
    pub(super) fn to_value(&self) -> Value<'static> {
        let place = |place: u64| Value::int(i64::try_from(place).unwrap_or(i64::MAX));
        let links = self.links.iter().map(|link| {
            let mut map = Map::new().with("url", link.url.to_string()).with("title", link.title.to_string());
            map.put_some("start", link.span.map(|(start, _)| place(start)));
            map.put_some("end", link.span.map(|(_, end)| place(end)));
            Value::from(map)
        });
        let mut map = Map::new();
        map.put("type", Value::keyword("sources"));
        map.put("searches", Value::vector(self.searches.iter().map(|words| Value::from(words.to_string()))));
        map.put("sources", Value::vector(links));
        Value::from(map)
    }

    /// Reads them back; what is none is left out.
    pub(super) fn from_value(value: &Value<'_>) -> Self {
        let list = |key: &str| value.get(key).and_then(Value::as_slice).unwrap_or_default();
        let mut sources = Self::default();
        list("searches").iter().filter_map(Value::as_str).for_each(|words| sources.search(words));
        for link in list("sources") {
            let text = |key: &str| link.get(key).and_then(Value::as_str).unwrap_or_default();
            let place = |key: &str| link.get(key).and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok());
            sources.link(text("url"), text("title"), place("start").zip(place("end")));
        }
        sources
    }
}

impl SourceLink {
    /// Its title, or else its address.
    pub fn name(&self) -> &str {
        if self.title.is_empty() { &self.url } else { &self.title }
    }
}

/// Whether a text is an address of the web, without anything that ends a link in a page or in Markdown.
fn is_web(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let is_plain =
        |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '<' | '>' | '"' | '\\' | '`');
    rest.is_some_and(|rest| !rest.is_empty()) && url.len() <= SOURCE_URL_BYTES && url.chars().all(is_plain)
}

/// A text on one line, in at most so many characters.
fn line(text: &str, most: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(most).collect()
}

/// A text in which nothing is markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '!' | '|' | '~' | '&') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Block, sources_below};
    use super::*;

    fn sources() -> Sources {
        let mut sources = Sources::default();
        sources.search("rust  1.92\nrelease");
        sources.search(" ");
        sources.link("https://a.example/x", "A [title]", Some((0, 4)));
        sources.link("https://a.example/x", "A [title]", Some((0, 4)));
        sources.link("https://a.example/x", "A [title]", Some((6, 9)));
        sources.link("http://b.example", "", None);
        sources
    }

    #[test]
    fn sources_are_numbered_by_page_and_read_back() {
        let sources = sources();
        assert_eq!(
            sources.markdown(),
            "Searched the web: rust 1.92 release\n\nSources:\n\n1. [A \\[title\\]](<https://a.example/x>)\n\
             2. [http://b.example](<http://b.example>)\n"
        );
        assert_eq!(sources.links().len(), 3);
        assert_eq!(Sources::from_value(&sources.to_value()), sources);
        let block = Block::Sources(Arc::new(sources));
        assert_eq!(Block::from_value(&block.to_value()), Some(block.clone()));
        assert!(sources_below(&[Block::Text("t".into()), block]).starts_with("\n\nSearched"));
        assert_eq!(sources_below(&[]), "");
    }

    #[test]
    fn only_addresses_of_the_web_are_sources() {
        for url in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://",
            "https://a b",
            "https://a/>x",
            "https://a/\u{1b}[0m",
            "HTTPS//a",
            "",
        ] {
            let mut sources = Sources::default();
            sources.link(url, "t", None);
            assert!(sources.is_empty(), "{url}");
        }
        let mut many = Sources::default();
        for n in 0..=ANSWER_SOURCES {
            many.link(&format!("https://a/{n}"), "", Some((5, 5)));
        }
        assert_eq!((many.links().len(), many.links()[0].span), (ANSWER_SOURCES, None));
    }
}
