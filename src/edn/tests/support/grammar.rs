//! Grammars in the notation of `grammar/*.ebnf`: read, turned into sentences, drawn.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::Random;

/// What a production is made of.
#[derive(Debug)]
pub enum Part {
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Optional(Box<Part>),
    Repeated(Box<Part>),
    Text(String),
    Class(String),
    Name(String),
}

/// The productions in their order.
pub struct Grammar {
    pub names: Vec<String>,
    pub productions: BTreeMap<String, Part>,
}

/// Compares the file at `path` with the diagram of the grammar; `EDN_BLESS=1` draws it anew.
pub fn assert_drawn(source: &str, path: &Path) {
    let drawn = railroads(&parse(source));
    if std::env::var_os("EDN_BLESS").is_some() {
        fs::write(path, &drawn).expect("the diagram can be written");
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(found, drawn, "draw {} anew with EDN_BLESS=1", path.display());
}

pub fn parse(source: &str) -> Grammar {
    let mut text = source.to_owned();
    while let Some(start) = text.find("(*") {
        let end = text[start..].find("*)").expect("a comment ends") + start + 2;
        text.replace_range(start..end, "");
    }
    let mut tokens = tokens(&text).into_iter().peekable();
    let (mut names, mut productions) = (Vec::new(), BTreeMap::new());
    while let Some(name) = tokens.next() {
        assert_eq!(tokens.next().as_deref(), Some("="), "after {name}");
        let part = choice(&mut tokens);
        assert_eq!(tokens.next().as_deref(), Some(";"), "at the end of {name}");
        names.push(name.clone());
        assert!(productions.insert(name.clone(), part).is_none(), "{name} stands twice");
    }
    Grammar { names, productions }
}

type Tokens = std::iter::Peekable<std::vec::IntoIter<String>>;

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' | '?' => rest[1..].find(first).expect("a closing mark") + 2,
            'a'..='z' => rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

fn choice(tokens: &mut Tokens) -> Part {
    let mut parts = vec![sequence(tokens)];
    while tokens.next_if(|it| it == "|").is_some() {
        parts.push(sequence(tokens));
    }
    if parts.len() == 1 { parts.remove(0) } else { Part::Choice(parts) }
}

fn sequence(tokens: &mut Tokens) -> Part {
    let mut parts = vec![factor(tokens)];
    while tokens.next_if(|it| it == ",").is_some() {
        parts.push(factor(tokens));
    }
    if parts.len() == 1 { parts.remove(0) } else { Part::Sequence(parts) }
}

fn factor(tokens: &mut Tokens) -> Part {
    let token = tokens.next().expect("a part");
    let mut closed = |close: &str| {
        let part = choice(tokens);
        assert_eq!(tokens.next().as_deref(), Some(close));
        part
    };
    match token.as_str() {
        "(" => closed(")"),
        "[" => Part::Optional(Box::new(closed("]"))),
        "{" => Part::Repeated(Box::new(closed("}"))),
        text if text.starts_with(['"', '\'']) => Part::Text(text[1..text.len() - 1].to_owned()),
        class if class.starts_with('?') => Part::Class(class[1..class.len() - 1].trim().to_owned()),
        name => Part::Name(name.to_owned()),
    }
}

impl Grammar {
    /// The productions that no other one names.
    pub fn unused(&self) -> Vec<&str> {
        let parts: Vec<String> = self.productions.values().map(|part| format!("{part:?}")).collect();
        let used = |name: &&str| parts.iter().any(|part| part.contains(&format!("Name({name:?})")));
        self.names.iter().map(String::as_str).filter(|name| !used(name)).collect()
    }

    /// The words of a production that begin like keywords: those that stand in it, not in what it names.
    pub fn keys(&self, name: &str) -> std::collections::BTreeSet<String> {
        fn look(part: &Part, found: &mut std::collections::BTreeSet<String>) {
            match part {
                Part::Sequence(parts) | Part::Choice(parts) => {
                    parts.iter().for_each(|part| look(part, found))
                }
                Part::Optional(part) | Part::Repeated(part) => look(part, found),
                Part::Text(text) if text.starts_with(':') && text.len() > 1 => {
                    found.insert(text.clone());
                }
                Part::Text(_) | Part::Class(_) | Part::Name(_) => {}
            }
        }
        let mut found = std::collections::BTreeSet::new();
        look(&self.productions[name], &mut found);
        found
    }

    /// A random sentence of the production `name`. Blanks are never left out, so that words do not touch.
    pub fn sentence(&self, name: &str, random: &mut Random) -> String {
        let mut out = String::new();
        self.name(name, random, 0, &mut out);
        out
    }

    fn name(&self, name: &str, random: &mut Random, depth: usize, out: &mut String) {
        if name == "blanks" {
            out.push(' ');
        }
        self.part(&self.productions[name], random, depth + 1, out);
    }

    fn part(&self, part: &Part, random: &mut Random, depth: usize, out: &mut String) {
        const DEEP: usize = 14;
        const LONG: usize = 150;
        let depth = if out.len() > LONG { DEEP + 1 } else { depth };
        match part {
            Part::Sequence(parts) => parts.iter().for_each(|part| self.part(part, random, depth, out)),
            Part::Choice(parts) => {
                // The first ones of a form are words.
                let at = random.below(if depth > DEEP { parts.len().min(6) } else { parts.len() });
                self.part(&parts[at], random, depth, out);
            }
            Part::Optional(part) if depth <= DEEP && random.below(2) == 0 => {
                self.part(part, random, depth, out)
            }
            Part::Repeated(part) if depth <= DEEP => {
                for _ in 0..random.below(4) {
                    self.part(part, random, depth, out);
                }
            }
            Part::Optional(_) | Part::Repeated(_) => {}
            Part::Text(text) => out.push_str(text),
            Part::Class(class) => out.push_str(member(class, random)),
            Part::Name(name) => self.name(name, random, depth, out),
        }
    }
}

/// A member of a set of characters.
fn member<'a>(class: &str, random: &mut Random) -> &'a str {
    let (members, size): (&str, usize) = match class {
        "white space or comma" => (" ,\t\n\r\u{c}\u{b}\u{1c}\u{2003}\u{2028}", 1),
        "any character but a line end" | "any character but a quote or a backslash" => {
            ("az(]{;#':0é中😀\u{85}\u{7f}\0", 1)
        }
        "line end" => ("\n\r", 1),
        "letter below U+0100" => ("abzXÿµ", 1),
        "first character of a name" => ("abz.*!_?$%&=<>|'é中😀\u{a0}", 1),
        "character of a name" => ("abz019.*!_?$%&=<>|'+-#é中😀", 1),
        "any character of the first plane" => ("abzuo019()[]{}\"\\;^@~`#:,/'é中\u{ffff}", 1),
        "digit" => ("0123456789", 1),
        "digit but zero" => ("123456789", 1),
        "octal digit" => ("01234567", 1),
        "octal digit below four" => ("0123", 1),
        "binary digit" => ("01", 1),
        "hexadecimal digit" => ("0123456789abcdefABCDEF", 1),
        "hexadecimal digit below D" => ("0123456789abcABC", 1),
        "letter" => ("abcxyz", 1),
        "character of a text" => ("az 0,;:#()[]'é中😀", 1),
        "letter or digit" => ("0129azAZN", 1),
        "blank or delimiter in a string" => (" ,()[]{};^#", 1),
        "four digits" => ("0000197019991600158220009999", 4),
        "month" => ("010212", 2),
        "day" => ("010928", 2),
        "hour" => ("000923", 2),
        "minute or second" => ("000959", 2),
        other => panic!("no members of {other}"),
    };
    let chars: Vec<(usize, char)> = members.char_indices().collect();
    let at = random.below(chars.len() / size) * size;
    let start = chars[at].0;
    let end = chars.get(at + size).map_or(members.len(), |(end, _)| *end);
    &members[start..end]
}

/// A part of a railroad diagram: its width, how far it reaches above and below its line, and what draws it.
struct Track {
    width: i32,
    up: i32,
    down: i32,
    svg: String,
}

const ROW: i32 = 12;
const GAP: i32 = 10;

fn boxed(text: &str, class: &str) -> Track {
    let width = 9 * i32::try_from(text.chars().count()).unwrap() + 16;
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let round = if class == "t" { 11 } else { 0 };
    let svg = format!(
        "<rect class=\"{class}\" y=\"-11\" width=\"{width}\" height=\"22\" rx=\"{round}\"/><text x=\"{}\" y=\"4\">{text}</text>",
        width / 2
    );
    Track { width, up: ROW, down: ROW, svg }
}

fn at(x: i32, y: i32, svg: &str) -> String {
    format!("<g transform=\"translate({x} {y})\">{svg}</g>")
}

fn line(path: &str) -> String {
    format!("<path d=\"{path}\"/>")
}

/// `first` on the line, the others below it, joined on both sides.
fn branches(tracks: Vec<Track>) -> Track {
    let inner = tracks.iter().map(|it| it.width).max().unwrap();
    let width = inner + 4 * GAP;
    let up = tracks[0].up;
    let (mut y, mut svg) = (0, String::new());
    let mut below = 0;
    for (index, track) in tracks.iter().enumerate() {
        if index > 0 {
            y += below + track.up + 4;
            svg += &line(&format!("M0 0h{GAP}V{y}h{GAP}M{width} 0h-{GAP}V{y}h-{GAP}"));
        } else {
            svg += &line(&format!("M0 0h{}M{width} 0h-{}", 2 * GAP, 2 * GAP));
        }
        svg += &line(&format!("M{} {y}h{}", 2 * GAP + track.width, inner - track.width));
        svg += &at(2 * GAP, y, &track.svg);
        below = track.down;
    }
    Track { width, up, down: y + below, svg }
}

fn track(part: &Part) -> Track {
    match part {
        Part::Text(text) => boxed(text, "t"),
        Part::Class(class) => boxed(class, "c"),
        Part::Name(name) => boxed(name, "n"),
        Part::Sequence(parts) => {
            let (mut svg, mut width, mut up, mut down) = (String::new(), 0, 0, 0);
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    svg += &line(&format!("M{width} 0h{GAP}"));
                    width += GAP;
                }
                let track = track(part);
                svg += &at(width, 0, &track.svg);
                width += track.width;
                up = up.max(track.up);
                down = down.max(track.down);
            }
            Track { width, up, down, svg }
        }
        Part::Choice(parts) => branches(parts.iter().map(track).collect()),
        Part::Optional(part) => {
            branches(vec![Track { width: 0, up: 4, down: 4, svg: String::new() }, track(part)])
        }
        Part::Repeated(part) => {
            // The way back leads through the part, from right to left.
            let back = track(part);
            let y = back.up + 6;
            let width = back.width + 4 * GAP;
            let svg = line(&format!("M0 0h{width}M{GAP} 0V{y}h{GAP}M{} 0V{y}h-{GAP}", width - GAP))
                + &line(&format!("M{} {}l-6 -4v8z", width / 2, y + back.down))
                + &at(2 * GAP, y, &back.svg);
            Track { width, up: 4, down: y + back.down + 4, svg }
        }
    }
}

/// The productions as railroad diagrams, one below the other.
fn railroads(grammar: &Grammar) -> String {
    let (mut body, mut y, mut width) = (String::new(), 20, 0);
    for name in &grammar.names {
        let track = track(&grammar.productions[name]);
        let _ = writeln!(body, "<text class=\"name\" x=\"20\" y=\"{y}\">{name}</text>");
        y += track.up + 14;
        let end = 40 + track.width;
        let _ = writeln!(
            body,
            "{}",
            line(&format!("M20 {y}h20M20 {}v12M{end} {y}h20M{} {}v12", y - 6, end + 20, y - 6))
        );
        let _ = writeln!(body, "{}", at(40, y, &track.svg));
        y += track.down + 34;
        width = width.max(end + 40);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" viewBox=\"0 0 {width} {y}\">\n\
         <style>svg{{background:#fff}}path{{fill:none;stroke:#333;stroke-width:1.5}}rect{{stroke:#333}}.t{{fill:#dceefb}}\
         .n{{fill:#fff3d6}}.c{{fill:#eee;stroke-dasharray:3}}text{{font:14px monospace;text-anchor:middle}}\
         .name{{font-weight:bold;text-anchor:start}}</style>\n{body}</svg>\n"
    )
}
