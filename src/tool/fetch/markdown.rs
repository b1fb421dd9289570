//! HTML as Markdown, for a model: headings, lists, links, code, quotes and tables; what is not shown is left out.
//!
//! Reads tags as they come, without a tree: time and memory grow with the page and not with how its tags are nested, so
//! that no page can stall or end the process. Does not know where a page comes from.

use html5gum::emitters::default::StartTag;
use html5gum::{DefaultEmitter, Token, Tokenizer};

use crate::http::Url;
use crate::limits::{FETCH_CELLS, FETCH_LINK_BYTES, FETCH_NESTING, FETCH_PREFIXES, FETCH_TEXT_BYTES};

/// A page for a model.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Markdown {
    /// The page's title.
    pub title: String,
    /// Its text.
    pub text: String,
    /// Whether the text ends before the page does.
    pub is_cut: bool,
}

/// The text of a page at an address. If the page says which part is its main one, of that part.
pub fn of_html(html: &str, base: &Url) -> Markdown {
    let is_marked = html.as_bytes().windows(5).any(|bytes| bytes.eq_ignore_ascii_case(b"<main"));
    let main = is_marked.then(|| convert(html, base, true)).filter(|page| !page.text.is_empty());
    main.unwrap_or_else(|| convert(html, base, false))
}

fn convert(html: &str, base: &Url, only_main: bool) -> Markdown {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut writer = Writer { in_main: !only_main, ..Writer::new(base) };
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => writer.start(&tag),
            Token::EndTag(tag) => writer.end(&String::from_utf8_lossy(&tag.name)),
            Token::String(text) => writer.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        if writer.size() > FETCH_TEXT_BYTES {
            writer.is_cut = true;
            break;
        }
    }
    writer.finish()
}

/// An element that is left out with all that is in it.
struct LeftOut {
    name: String,
    /// How many of its name are open.
    open: usize,
}

/// What is around a block.
#[derive(Debug)]
enum Around {
    Quote,
    /// A list, with the number of its next item if they are numbered.
    List(Option<u64>),
    /// An item of a list, with its mark and whether that was written.
    Item {
        mark: String,
        is_begun: bool,
    },
}

/// An open mark in the line of text: a link, or what is written on both sides.
struct Mark {
    name: &'static str,
    /// The address of a link.
    link: Option<String>,
    /// Where in the line it begins.
    at: usize,
}

/// A table: its rows so far, each with its cells, and the size of all that.
#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
    size: usize,
    /// Whether a cell is open, whose text is the line.
    in_cell: bool,
    /// Whether it only places other things, which are then written as if there were no table.
    is_layout: bool,
}

struct Writer {
    base: Url,
    title: Option<String>,
    in_title: bool,
    in_main: bool,
    left_out: Option<LeftOut>,
    /// The text so far.
    out: String,
    /// Whether the last block was in an item of a list.
    after_item: bool,
    /// The block that is being read, with blanks joined.
    line: String,
    marks: Vec<Mark>,
    around: Vec<Around>,
    /// What begins the block: the signs of a heading.
    heading: &'static str,
    /// The text of a preformatted block, with its language.
    pre: Option<(String, String)>,
    tables: Vec<Table>,
    is_cut: bool,
}

/// Elements that no reader of the page sees, that are for its operation, or that lead to other pages.
const LEFT_OUT: &[&str] = &[
    "script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "select", "textarea",
    "button", "nav", "noembed", "noframes", "audio", "video", "dialog", "datalist",
];

/// Elements without content, which have no end.
const VOID: &[&str] =
    &["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];

/// Elements that begin a block of their own.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "body",
    "center",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hgroup",
    "html",
    "legend",
    "main",
    "p",
    "section",
    "summary",
    "caption",
];

impl Writer {
    fn new(base: &Url) -> Self {
        Self {
            base: base.clone(),
            title: None,
            in_title: false,
            in_main: true,
            left_out: None,
            out: String::new(),
            after_item: false,
            line: String::new(),
            marks: Vec::new(),
            around: Vec::new(),
            heading: "",
            pre: None,
            tables: Vec::new(),
            is_cut: false,
        }
    }

    /// The bytes that it holds.
    fn size(&self) -> usize {
        let pre = self.pre.as_ref().map_or(0, |(text, _)| text.len());
        let tables: usize = self.tables.iter().map(|table| table.size).sum();
        let title = self.title.as_ref().map_or(0, String::len);
        [self.out.len(), self.line.len(), pre, tables, title].into_iter().fold(0, usize::saturating_add)
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = String::from_utf8_lossy(&tag.name);
        let name = &*name;
        let attribute =
            |key: &[u8]| tag.attributes.get(key).map(|value| String::from_utf8_lossy(value).into_owned());
        if let Some(left_out) = &mut self.left_out {
            if left_out.name == name {
                left_out.open = left_out.open.saturating_add(1);
            }
            return;
        }
        let is_void = VOID.contains(&name) || tag.self_closing && name == "svg";
        let is_hidden = attribute(b"hidden").is_some()
            || attribute(b"aria-hidden").is_some_and(|value| value == "true")
            || attribute(b"style").is_some_and(|style| {
                let style: String = style.split_whitespace().collect();
                let style = style.to_ascii_lowercase();
                style.contains("display:none") || style.contains("visibility:hidden")
            });
        if !is_void && (LEFT_OUT.contains(&name) || is_hidden && name != "body" && name != "html") {
            self.left_out = Some(LeftOut { name: name.to_owned(), open: 1 });
            return;
        }
        match name {
            "title" if self.title.is_none() => {
                self.title = Some(String::new());
                self.in_title = true;
            }
            "base" => {
                if let Some(base) = attribute(b"href").and_then(|href| self.base.join(&href).ok()) {
                    self.base = base;
                }
            }
            "main" => self.in_main = true,
            _ => {}
        }
        if !self.in_main {
            return;
        }
        match name {
            "br" => match self.pre.as_mut() {
                Some((text, _)) => text.push('\n'),
                None => self.line.push('\n'),
            },
            "hr" => {
                self.flush();
                self.block("---");
            }
            "img" => self.image(attribute(b"alt"), attribute(b"src")),
            "a" => self.open("a", self.address(attribute(b"href").as_deref())),
            "b" | "strong" => self.open("**", None),
            "i" | "em" => self.open("*", None),
            "s" | "del" => self.open("~~", None),
            "code" | "kbd" | "samp" | "tt" if self.pre.is_none() => self.open("`", None),
            "code" => {
                let language = language(attribute(b"class"));
                let pre =
                    self.pre.as_mut().filter(|(text, known)| known.is_empty() && text.trim().is_empty());
                if let Some((_, known)) = pre {
                    *known = language;
                }
            }
            "h1" => self.begin_heading("# "),
            "h2" => self.begin_heading("## "),
            "h3" => self.begin_heading("### "),
            "h4" => self.begin_heading("#### "),
            "h5" => self.begin_heading("##### "),
            "h6" => self.begin_heading("###### "),
            "pre" => {
                self.no_table();
                self.flush();
                self.pre = Some((String::new(), language(attribute(b"class"))));
            }
            "blockquote" => self.enter(Around::Quote),
            "ul" | "menu" | "dir" => self.enter(Around::List(None)),
            "ol" => {
                let first = attribute(b"start").and_then(|start| start.parse().ok());
                self.enter(Around::List(Some(first.unwrap_or(1))));
            }
            "li" => self.item(),
            "table" => {
                self.no_table();
                self.flush();
                if self.tables.len() < FETCH_NESTING {
                    self.tables.push(Table::default());
                }
            }
            "tr" => self.row(),
            "td" | "th" => self.cell(),
            name if BLOCKS.contains(&name) => self.flush_or_blank(),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(left_out) = &mut self.left_out {
            if left_out.name == name {
                left_out.open = left_out.open.saturating_sub(1);
                if left_out.open == 0 {
                    self.left_out = None;
                }
            }
            return;
        }
        if name == "title" {
            self.in_title = false;
        }
        if !self.in_main {
            return;
        }
        match name {
            "a" => self.close("a"),
            "b" | "strong" => self.close("**"),
            "i" | "em" => self.close("*"),
            "s" | "del" => self.close("~~"),
            "code" | "kbd" | "samp" | "tt" if self.pre.is_none() => self.close("`"),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.flush_or_blank();
                self.heading = "";
            }
            "pre" => self.end_pre(),
            "blockquote" => self.leave(|around| matches!(around, Around::Quote)),
            "ul" | "menu" | "dir" | "ol" => self.leave(|around| matches!(around, Around::List(_))),
            "li" => self.leave_item(),
            "table" => self.end_table(),
            "td" | "th" => self.end_cell(),
            "tr" => self.row(),
            name if BLOCKS.contains(&name) => self.flush_or_blank(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.left_out.is_some() {
            return;
        }
        if self.in_title {
            self.title.get_or_insert_default().push_str(text);
            return;
        }
        if !self.in_main {
            return;
        }
        if let Some((pre, _)) = &mut self.pre {
            pre.push_str(text);
            return;
        }
        for (place, word) in text.split(is_blank).enumerate() {
            if place > 0 && !self.line.is_empty() && !self.line.ends_with([' ', '\n']) {
                self.line.push(' ');
            }
            self.line.push_str(word);
        }
    }

    /// A link's address, if a reader of the text could use it.
    fn address(&self, href: Option<&str>) -> Option<String> {
        let href = href?.trim();
        if href.starts_with('#') || href.len() > FETCH_LINK_BYTES {
            return None;
        }
        let url = self.base.join(href).ok()?;
        let is_usable = matches!(url.scheme(), "http" | "https" | "mailto");
        let text = String::from(url);
        (is_usable && text.len() <= FETCH_LINK_BYTES).then(|| text.replace('(', "%28").replace(')', "%29"))
    }

    fn image(&mut self, alt: Option<String>, src: Option<String>) {
        let alt: String = alt.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        if alt.is_empty() || self.pre.is_some() {
            return;
        }
        match self.address(src.as_deref()) {
            Some(address) => self.line.push_str(&format!("![{alt}]({address})")),
            None => self.line.push_str(&alt),
        }
    }

    fn open(&mut self, name: &'static str, link: Option<String>) {
        // A line that closes them looks at its text once for each.
        if self.pre.is_none() && self.marks.len() < FETCH_PREFIXES {
            self.marks.push(Mark { name, link, at: self.line.len() });
        }
    }

    /// Writes the innermost open mark of that name, and what was opened in it and not closed.
    fn close(&mut self, name: &str) {
        if let Some(place) = self.marks.iter().rposition(|mark| mark.name == name) {
            while self.marks.len() > place {
                if let Some(mark) = self.marks.pop() {
                    self.mark(&mark);
                }
            }
        }
    }

    /// Writes a mark around the end of the line.
    fn mark(&mut self, mark: &Mark) {
        let inside = self.line.get(mark.at..).unwrap_or_default();
        let text = inside.trim();
        if text.is_empty() || mark.name == "a" && mark.link.is_none() {
            return;
        }
        let start = mark.at.saturating_add(inside.len().saturating_sub(inside.trim_start().len()));
        let (text, after) = (text.to_owned(), inside.ends_with(is_blank));
        self.line.truncate(start);
        match &mark.link {
            Some(link) => self.line.push_str(&format!("[{}]({link})", text.replace('\n', " "))),
            None => self.line.push_str(&format!("{0}{text}{0}", mark.name)),
        }
        if after {
            self.line.push(' ');
        }
    }

    fn begin_heading(&mut self, signs: &'static str) {
        self.flush_or_blank();
        self.heading = signs;
    }

    fn enter(&mut self, around: Around) {
        self.no_table();
        self.flush();
        if self.around.len() < FETCH_NESTING {
            self.around.push(around);
        }
    }

    /// Leaves the innermost of that kind, with all that is in it.
    fn leave(&mut self, is_it: fn(&Around) -> bool) {
        self.flush();
        if let Some(place) = self.around.iter().rposition(is_it) {
            self.around.truncate(place);
        }
    }

    /// Leaves an item of the innermost list.
    fn leave_item(&mut self) {
        self.flush();
        let list = self.around.iter().rposition(|around| matches!(around, Around::List(_)));
        let inside = list.map_or(0, |list| list.saturating_add(1));
        let item = self.around.iter().skip(inside).position(|around| matches!(around, Around::Item { .. }));
        if let Some(item) = item {
            self.around.truncate(inside.saturating_add(item));
        }
    }

    fn item(&mut self) {
        self.no_table();
        self.leave_item();
        let list = self.around.iter_mut().rev().find_map(|around| match around {
            Around::List(number) => Some(number),
            _ => None,
        });
        let mark = match list {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "- ".to_owned(),
        };
        self.enter(Around::Item { mark, is_begun: false });
    }

    /// The table whose cells are read, if one is.
    fn table(&mut self) -> Option<&mut Table> {
        self.tables.last_mut().filter(|table| !table.is_layout)
    }

    /// The innermost table only places what comes now: what was read of it is written.
    fn no_table(&mut self) {
        let Some(table) = self.table() else { return };
        table.is_layout = true;
        table.in_cell = false;
        table.size = 0;
        let rows = std::mem::take(&mut table.rows);
        // The line of the open cell comes after them.
        let (line, marks) = (std::mem::take(&mut self.line), std::mem::take(&mut self.marks));
        for cell in rows.into_iter().flatten().filter(|cell| !cell.is_empty()) {
            self.block(&cell);
        }
        (self.line, self.marks) = (line, marks);
    }

    fn row(&mut self) {
        self.end_cell();
        match self.table() {
            Some(table) => {
                if table.rows.last().is_none_or(|row| !row.is_empty()) {
                    table.rows.push(Vec::new());
                }
            }
            None => self.flush(),
        }
    }

    fn cell(&mut self) {
        self.end_cell();
        let Some(table) = self.table() else { return self.flush() };
        table.in_cell = true;
        // What stands between cells is in none.
        self.line.clear();
        self.marks.clear();
    }

    fn end_cell(&mut self) {
        if !self.table().is_some_and(|table| table.in_cell) {
            if self.table().is_none() {
                self.flush();
            }
            return;
        }
        self.close_all();
        let line = std::mem::take(&mut self.line);
        let text = line.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let Some(table) = self.table() else { return };
        table.in_cell = false;
        table.size = table.size.saturating_add(text.len()).saturating_add(size_of::<String>());
        if table.rows.is_empty() {
            table.rows.push(Vec::new());
        }
        if let Some(row) = table.rows.last_mut() {
            let row_is_full = row.len() >= FETCH_CELLS;
            match row.last_mut() {
                Some(last) if row_is_full => {
                    last.push(' ');
                    last.push_str(&text);
                }
                _ => row.push(text),
            }
        }
    }

    fn end_table(&mut self) {
        self.end_cell();
        let Some(table) = self.tables.pop() else { return };
        if table.is_layout {
            return self.flush();
        }
        let rows: Vec<Vec<String>> =
            table.rows.into_iter().filter(|row| row.iter().any(|cell| !cell.is_empty())).collect();
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        if width <= 1 {
            for cell in rows.into_iter().flatten() {
                self.block(&cell);
            }
            return;
        }
        let mut text = String::new();
        for (place, row) in rows.iter().enumerate() {
            text.push('|');
            for cell in 0..width.min(row.len().max(if place == 0 { width } else { 0 })) {
                text.push_str(&format!(" {} |", row.get(cell).map_or("", String::as_str)));
            }
            text.push('\n');
            if place == 0 {
                text.push('|');
                text.push_str(&"---|".repeat(width));
                text.push('\n');
            }
        }
        self.line.clear();
        self.block(text.trim_end());
    }

    fn end_pre(&mut self) {
        let Some((text, language)) = self.pre.take() else { return };
        let text = text.strip_prefix('\n').unwrap_or(&text).trim_end();
        if text.is_empty() {
            return;
        }
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.saturating_add(1).max(3));
        self.block(&format!("{fence}{language}\n{text}\n{fence}"));
    }

    /// Ends the block, or in a cell of a table goes on after a blank.
    fn flush_or_blank(&mut self) {
        match self.table() {
            Some(_) => {
                if !self.line.is_empty() && !self.line.ends_with([' ', '\n']) {
                    self.line.push(' ');
                }
            }
            None => self.flush(),
        }
    }

    /// Writes the open marks; what they were on goes on without them.
    fn close_all(&mut self) {
        while let Some(mark) = self.marks.pop() {
            self.mark(&mark);
        }
    }

    /// Writes the block that was read. Open marks go on in the next one.
    fn flush(&mut self) {
        let marks = std::mem::take(&mut self.marks);
        for mark in marks.iter().rev() {
            self.mark(mark);
        }
        self.marks = marks.into_iter().map(|mark| Mark { at: 0, ..mark }).collect();
        let line = std::mem::take(&mut self.line);
        let text = line.trim();
        if !text.is_empty() {
            match self.heading {
                "" => self.block(text),
                signs => self.block(&format!("{signs}{}", text.replace('\n', " "))),
            }
        }
    }

    /// Writes a block, with what is around it before each of its lines.
    fn block(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut first = String::new();
        let mut later = String::new();
        let (mut begins_item, mut in_item) = (false, false);
        // Deeper ones are written as if they were less deep, so that a line is not mostly what comes before it.
        for around in self.around.iter_mut().take(FETCH_PREFIXES) {
            match around {
                Around::Quote => {
                    first.push_str("> ");
                    later.push_str("> ");
                }
                Around::List(_) => {}
                Around::Item { mark, is_begun } => {
                    in_item = true;
                    let blanks = " ".repeat(mark.len());
                    match std::mem::replace(is_begun, true) {
                        true => first.push_str(&blanks),
                        false => {
                            begins_item = true;
                            first.push_str(mark);
                        }
                    }
                    later.push_str(&blanks);
                }
            }
        }
        if !self.out.is_empty() {
            self.out.push('\n');
            if !(begins_item && self.after_item) {
                self.out.push('\n');
            }
        }
        for (place, line) in text.split('\n').enumerate() {
            if place > 0 {
                self.out.push('\n');
            }
            let before = if place == 0 { &first } else { &later };
            match line.trim_end().is_empty() {
                true => self.out.push_str(before.trim_end()),
                false => {
                    self.out.push_str(before);
                    self.out.push_str(line.trim_end());
                }
            }
        }
        self.after_item = in_item;
    }

    fn finish(mut self) -> Markdown {
        while !self.tables.is_empty() {
            self.end_table();
        }
        if self.pre.is_some() {
            self.end_pre();
        }
        self.flush();
        let title = self.title.unwrap_or_default();
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        Markdown { title, text: self.out, is_cut: self.is_cut }
    }
}

/// A blank that HTML joins; not the one that keeps words together.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\t' | '\r' | '\u{c}')
}

/// The language of code, by the usual classes: `language-rust`, `lang-rust`, `highlight-source-rust`.
fn language(class: Option<String>) -> String {
    let class = class.unwrap_or_default();
    let named = class.split_whitespace().find_map(|class| {
        ["language-", "lang-", "highlight-source-"].iter().find_map(|prefix| class.strip_prefix(prefix))
    });
    let is_word = |text: &&str| {
        text.len() <= 20
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '#' | '-' | '_'))
    };
    named.filter(is_word).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        Url::parse("https://docs.example/guide/start?x=1").unwrap()
    }

    fn text(html: &str) -> String {
        of_html(html, &base()).text
    }

    #[test]
    fn elements_become_their_markdown() {
        for (html, expected) in [
            ("<p>One\n  two <b> bold </b>and<i>it</i>.</p><p>Next", "One two **bold** and*it*.\n\nNext"),
            ("<h2>A <code>b</code><br>c</h2>text<h3>d</h3>", "## A `b` c\n\ntext\n\n### d"),
            ("<a href='../a?b#c'>to <b>a</b></a>", "[to **a**](https://docs.example/a?b#c)"),
            ("<a href='javascript:x()'>run</a> <a href=#s>here</a> <a href=/x></a>", "run here"),
            ("<a href='/x_(y)'>p</a>", "[p](https://docs.example/x_%28y%29)"),
            (
                "<a href=/c><h3>Card</h3><p>More</p></a>",
                "### [Card](https://docs.example/c)\n\n[More](https://docs.example/c)",
            ),
            (
                "<ul><li>a<li>b<ol start=3><li>c</li><li><p>d</p><p>e</p></ol><li>f</ul>g",
                "- a\n- b\n  3. c\n  4. d\n\n     e\n- f\n\ng",
            ),
            ("<blockquote><p>q</p><ul><li>x</ul></blockquote>", "> q\n\n> - x"),
            (
                "<pre><code class='x language-rust'>fn a() {\n    b &lt; c\n}\n</code></pre>",
                "```rust\nfn a() {\n    b < c\n}\n```",
            ),
            ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
            ("<li><pre>a\n\nb</pre></li>", "- ```\n  a\n\n  b\n  ```"),
            (
                "<table><tr><th>A<th>B|</tr><tr><td>1<br>2<td><p>x</p><p>y</p></table>after",
                "| A | B\\| |\n|---|---|\n| 1 2 | x y |\n\nafter",
            ),
            (
                "<table><tr><td>left<td><table><tr><td>a<td>b</table>right</table>",
                "left\n\n| a | b |\n|---|---|\n\nright",
            ),
            ("<table><tr><td><ul><li>a</ul></table>", "- a"),
            (
                "<img src=/i.png alt='An  image'><img src=x><img alt=y src='data:image/png;base64,AAAA'>",
                "![An image](https://docs.example/i.png)y",
            ),
            ("a<hr>b", "a\n\n---\n\nb"),
            ("x &amp;&nbsp;y &lt;b&gt;", "x &\u{a0}y <b>"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    #[test]
    fn text_that_no_reader_sees_is_left_out() {
        for html in [
            "<script>if (a < b) { '<p>no</p>' }</script>yes",
            "<style>p{}</style><noscript>no</noscript><template><p>no</template>yes",
            "<div hidden>no<div>no</div></div>yes",
            "<span aria-hidden=true>no</span>yes<p style='color:red; DISPLAY : none'>no",
            "<nav><ul><li>no</ul></nav>yes<!-- no --><select><option>no</select><svg><text>no</text></svg>",
            "<p>no</p><main>yes</main>",
        ] {
            let found = text(html);
            assert!(
                found.starts_with("yes") && !found.contains("no<") && found.len() <= 6,
                "{html}: {found}"
            );
        }
        let page = of_html(
            "<title> A\n b </title><base href='https://b.example/'><nav><a href=c>c</a></nav>",
            &base(),
        );
        assert_eq!((page.title.as_str(), page.text.as_str()), ("A b", ""));
        assert_eq!(text("<p>all</p><main></main>"), "all", "an empty main part is none");
    }

    #[test]
    fn hostile_pages_end_in_time_and_bounds() {
        let size = 256 * 1024;
        let filled = |part: &str| part.repeat(size / part.len());
        let mut pages: Vec<String> = [
            "<div>",
            "<b>",
            "<b><p>",
            "<table><tr><td>",
            "<ul><li>x",
            "<blockquote>x<p>",
            "<a href=x>y",
            "<pre>`",
            "</p>",
            "<td>x",
            "<svg>",
            "&amp;",
            "<",
            "<a ",
            "<!--",
            "<h1>x<br>",
            "<table><tr><td>x</td></tr></table>",
        ]
        .into_iter()
        .map(filled)
        .collect();
        // Elements that are told apart, which a tree would open again in every paragraph.
        let marks: String = (0..20_000).map(|n| format!("<b c{n}>")).collect();
        pages.push(format!("{marks}{}", filled("<p>x")));
        let attributes: String = (0..50_000).map(|n| format!(" a{n}=b")).collect();
        pages.push(format!("<p{attributes}>x"));
        // Short links below a long address.
        let far = Url::parse(&format!("https://docs.example/{}/", "d".repeat(900))).unwrap();
        for page in pages {
            let markdown = of_html(&page, &far);
            assert!(markdown.text.len() <= FETCH_TEXT_BYTES + 64 * 1024, "{}", markdown.text.len());
        }
        assert!(of_html(&filled("<a href=x>y</a>"), &far).is_cut);
    }
}
