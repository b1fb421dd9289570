//! Formats a transcript as one self-contained page. Writes no file.

use std::fmt::Write as _;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::escape::{escape, shown};
use super::highlight;
use super::page::{begin, end};
use super::transcript::{CUT_OFF, Transcript, ended, heading};
use super::usage;
use crate::message::{Arguments, Block, Message, Role, Usage};

/// The page of a session.
pub(super) fn page(transcript: &Transcript) -> String {
    let mut out = begin(&transcript.title);
    out.push_str("<p class=\"facts\">");
    shown(&transcript.created_at, &mut out);
    out.push_str(" · <code>");
    shown(&transcript.cwd, &mut out);
    out.push_str("</code> · ");
    shown(transcript.session.as_str(), &mut out);
    let _ = write!(out, " · {} messages</p>\n<main>\n", transcript.messages.len());
    for (one, is_cut_off) in transcript.marked() {
        message(one, is_cut_off, &mut out);
    }
    let turns = transcript.usage_by_turn();
    if !turns.rows.is_empty() {
        out.push_str("<h2>Usage</h2>\n");
        usage::figure(&turns, 0, &mut out);
    }
    end(&mut out);
    out
}

fn message(message: &Message, is_cut_off: bool, out: &mut String) {
    out.push_str("<article class=\"");
    out.push_str(message.role.as_str());
    out.push_str("\" id=\"");
    escape(message.id.as_str(), out);
    out.push_str("\">\n<header><a href=\"#");
    escape(message.id.as_str(), out);
    out.push_str("\">");
    shown(&heading(message), out);
    out.push_str("</a> <time>");
    shown(&message.timestamp, out);
    out.push_str("</time></header>\n<div class=\"body\">\n");
    for one in &message.content {
        block(one, message.role, out);
    }
    if let Some(error) = &message.error_message {
        out.push_str("<p class=\"error\">");
        shown(error, out);
        out.push_str("</p>\n");
    }
    if let Some(ended) = ended(message) {
        let _ = writeln!(out, "<p class=\"error\">{ended}</p>");
    }
    if is_cut_off {
        let _ = writeln!(out, "<p class=\"error\">{CUT_OFF}</p>");
    }
    if let Some(usage) = &message.usage {
        out.push_str("<p class=\"usage\">");
        out.push_str(&figures(usage));
        out.push_str("</p>\n");
    }
    out.push_str("</div>\n</article>\n");
}

fn figures(usage: &Usage) -> String {
    let mut text = format!("{} tokens in, {} out", usage.input, usage.output);
    if usage.cache_read > 0 {
        let _ = write!(text, ", {} from the cache", usage.cache_read);
    }
    if usage.cost > 0.0 {
        let _ = write!(text, ", ${:.4}", usage.cost);
    }
    text
}

fn block(block: &Block, role: Role, out: &mut String) {
    match block {
        Block::Text(text) if role == Role::Tool => {
            let long = text.lines().nth(12).is_some();
            out.push_str(if long { "<details><summary>Output</summary>" } else { "" });
            out.push_str("<pre><code>");
            shown(text, out);
            out.push_str("</code></pre>");
            out.push_str(if long { "</details>\n" } else { "\n" });
        }
        Block::Text(text) => prose(text, out),
        Block::Thinking { text, .. } => {
            out.push_str("<details class=\"thinking\"><summary>Thinking</summary>\n");
            prose(text, out);
            out.push_str("</details>\n");
        }
        Block::ToolCall { name, arguments, .. } => {
            out.push_str("<details open><summary>");
            shown(name, out);
            out.push_str("</summary><pre><code>");
            arguments_of(arguments, out);
            out.push_str("</code></pre></details>\n");
        }
        Block::Image { mime_type, data } => image(mime_type, data, out),
        Block::Sources(sources) => prose(&sources.markdown(), out),
    }
}

/// A call's arguments, one per line. Texts stay verbatim, because they are mostly code.
fn arguments_of(arguments: &Arguments, out: &mut String) {
    let map = arguments.as_map().filter(|_| arguments.unreadable().is_none());
    let Some(map) = map else { return shown(&arguments.text(), out) };
    for (key, value) in map.iter() {
        let name = key.as_keyword().map_or_else(|| key.to_string(), str::to_owned);
        out.push_str("<span class=\"k\">");
        shown(&name, out);
        out.push_str("</span> ");
        match value.as_str() {
            Some(text) if text.contains('\n') => {
                out.push('\n');
                shown(text.trim_end(), out);
            }
            Some(text) => shown(text, out),
            None => shown(&value.to_string(), out),
        }
        out.push('\n');
    }
}

/// An image, if its type allows nothing else; otherwise a note.
fn image(mime_type: &str, data: &str, out: &mut String) {
    let known = matches!(mime_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    let plain = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    if known && plain {
        let _ = writeln!(out, "<p><img alt=\"image\" src=\"data:{mime_type};base64,{data}\"></p>");
    } else {
        out.push_str("<p class=\"facts\">An image (");
        shown(mime_type, out);
        out.push_str(") that is not shown.</p>\n");
    }
}

/// Markdown as HTML. Raw HTML in it is text.
fn prose(text: &str, out: &mut String) {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Prose { out, code: None, columns: Vec::new(), column: 0, in_head: false };
    for event in Parser::new_ext(text, options) {
        writer.event(event);
    }
    writer.out.push('\n');
}

/// The writer of Markdown's events.
struct Prose<'o> {
    out: &'o mut String,
    /// The language and the text of the open code block.
    code: Option<(String, String)>,
    columns: Vec<Alignment>,
    column: usize,
    in_head: bool,
}

impl Prose<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => shown(&text, self.out),
            },
            Event::Html(text) | Event::InlineHtml(text) => shown(&text, self.out),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.out.push_str("<code>");
                shown(&text, self.out);
                self.out.push_str("</code>");
            }
            // A person's line break is intended.
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>\n"),
            Event::Rule => self.out.push_str("<hr>\n"),
            Event::TaskListMarker(done) => self.out.push_str(if done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(name) => shown(&name, self.out),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.out.push_str("<p>"),
            Tag::Heading { level, .. } => {
                let _ = write!(self.out, "<h{}>", below(level));
            }
            Tag::BlockQuote(_) => self.out.push_str("<blockquote>"),
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => "text".to_owned(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(None) => self.out.push_str("<ul>\n"),
            Tag::List(Some(first)) => {
                let _ = writeln!(self.out, "<ol start=\"{first}\">");
            }
            Tag::Item => self.out.push_str("<li>"),
            Tag::Emphasis => self.out.push_str("<em>"),
            Tag::Strong => self.out.push_str("<strong>"),
            Tag::Strikethrough => self.out.push_str("<s>"),
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            // Loading a picture from elsewhere would reveal that the page was read.
            Tag::Image { dest_url, .. } => {
                self.out.push('[');
                shown(&dest_url, self.out);
                self.out.push(' ');
            }
            Tag::Table(columns) => {
                self.columns = columns;
                self.out.push_str("<table>\n");
            }
            Tag::TableHead => {
                self.in_head = true;
                self.column = 0;
                self.out.push_str("<tr>");
            }
            Tag::TableRow => {
                self.column = 0;
                self.out.push_str("<tr>");
            }
            Tag::TableCell => {
                let align = match self.columns.get(self.column) {
                    Some(Alignment::Right) => " align=\"right\"",
                    Some(Alignment::Center) => " align=\"center\"",
                    _ => "",
                };
                self.column = self.column.saturating_add(1);
                let cell = if self.in_head { "th" } else { "td" };
                let _ = write!(self.out, "<{cell}{align}>");
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.out.push_str("</p>\n"),
            TagEnd::Heading(level) => {
                let _ = writeln!(self.out, "</h{}>", below(level));
            }
            TagEnd::BlockQuote(_) => self.out.push_str("</blockquote>\n"),
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code.take() {
                    self.out.push_str("<pre><code>");
                    highlight::code(&language, &code, self.out);
                    self.out.push_str("</code></pre>\n");
                }
            }
            TagEnd::List(ordered) => self.out.push_str(if ordered { "</ol>\n" } else { "</ul>\n" }),
            TagEnd::Item => self.out.push_str("</li>\n"),
            TagEnd::Emphasis => self.out.push_str("</em>"),
            TagEnd::Strong => self.out.push_str("</strong>"),
            TagEnd::Strikethrough => self.out.push_str("</s>"),
            TagEnd::Link => self.out.push_str("</a>"),
            TagEnd::Image => self.out.push(']'),
            TagEnd::Table => self.out.push_str("</table>\n"),
            TagEnd::TableHead => {
                self.in_head = false;
                self.out.push_str("</tr>\n");
            }
            TagEnd::TableRow => self.out.push_str("</tr>\n"),
            TagEnd::TableCell => self.out.push_str(if self.in_head { "</th>" } else { "</td>" }),
            _ => {}
        }
    }

    /// A link that can do no more than open a page.
    fn link(&mut self, to: &str) {
        let harmless = ["https://", "http://", "mailto:"]
            .iter()
            .any(|scheme| to.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
        if harmless {
            self.out.push_str("<a rel=\"noopener noreferrer nofollow\" href=\"");
            escape(to, self.out);
            self.out.push_str("\">");
        } else {
            self.out.push_str("<a>");
        }
    }
}

/// Message headings rank below the page's own.
fn below(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 2,
        HeadingLevel::H2 => 3,
        _ => 4,
    }
}
