//! Highlights strings, comments, numbers and keywords of code.
//!
//! Knows words, not grammars: one scanner serves all languages, and a table holds their differences. In an
//! unknown language it marks only strings and numbers, which look alike almost everywhere.

use super::escape::shown;

/// What the scanner needs to know about a language.
struct Language {
    names: &'static [&'static str],
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// Characters that open and close a string.
    quotes: &'static str,
    keywords: &'static [&'static str],
}

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        quotes: "\"",
        keywords: &[
            "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
            "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub",
            "ref", "return", "self", "Self", "static", "struct", "super", "trait", "true", "type", "unsafe",
            "use", "where", "while",
        ],
    },
    Language {
        names: &["python", "py"],
        line_comments: &["#"],
        block_comment: None,
        quotes: "\"'",
        keywords: &[
            "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
            "else", "except", "False", "finally", "for", "from", "global", "if", "import", "in", "is",
            "lambda", "None", "nonlocal", "not", "or", "pass", "raise", "return", "True", "try", "while",
            "with", "yield", "match", "case",
        ],
    },
    Language {
        names: &[
            "javascript",
            "js",
            "jsx",
            "typescript",
            "ts",
            "tsx",
            "java",
            "kotlin",
            "swift",
            "go",
            "c",
            "h",
            "cpp",
            "c++",
            "cc",
            "csharp",
            "cs",
            "php",
            "scala",
            "zig",
        ],
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        quotes: "\"'`",
        keywords: &[
            "abstract",
            "async",
            "await",
            "bool",
            "boolean",
            "break",
            "case",
            "catch",
            "char",
            "class",
            "const",
            "continue",
            "default",
            "defer",
            "delete",
            "do",
            "double",
            "else",
            "enum",
            "export",
            "extends",
            "extern",
            "false",
            "final",
            "finally",
            "float",
            "for",
            "fun",
            "func",
            "function",
            "go",
            "if",
            "implements",
            "import",
            "in",
            "int",
            "interface",
            "let",
            "long",
            "map",
            "namespace",
            "new",
            "nil",
            "null",
            "package",
            "private",
            "protected",
            "public",
            "range",
            "return",
            "static",
            "struct",
            "super",
            "switch",
            "template",
            "this",
            "throw",
            "true",
            "try",
            "type",
            "typedef",
            "typeof",
            "union",
            "unsigned",
            "using",
            "val",
            "var",
            "void",
            "while",
            "yield",
        ],
    },
    Language {
        names: &["bash", "sh", "shell", "zsh", "console", "makefile", "make", "dockerfile"],
        line_comments: &["#"],
        block_comment: None,
        quotes: "\"'",
        keywords: &[
            "case", "do", "done", "elif", "else", "esac", "export", "fi", "for", "function", "if", "in",
            "local", "return", "select", "set", "then", "until", "while",
        ],
    },
    Language {
        names: &["clojure", "clj", "cljs", "edn", "elisp", "emacs-lisp", "lisp", "scheme", "racket"],
        line_comments: &[";"],
        block_comment: None,
        quotes: "\"",
        keywords: &[
            "cond", "def", "defmacro", "defn", "defun", "defvar", "do", "false", "fn", "if", "lambda", "let",
            "loop", "nil", "ns", "progn", "recur", "require", "setq", "true", "unless", "when",
        ],
    },
    Language {
        names: &["sql"],
        line_comments: &["--"],
        block_comment: Some(("/*", "*/")),
        quotes: "'\"",
        keywords: &[
            "select", "from", "where", "insert", "into", "update", "delete", "create", "table", "join",
            "left", "inner", "on", "group", "by", "order", "limit", "values", "and", "or", "not", "null",
            "as", "SELECT", "FROM", "WHERE", "INSERT", "INTO", "UPDATE", "DELETE", "CREATE", "TABLE", "JOIN",
            "LEFT", "INNER", "ON", "GROUP", "BY", "ORDER", "LIMIT", "VALUES", "AND", "OR", "NOT", "NULL",
            "AS",
        ],
    },
    Language {
        names: &["toml", "yaml", "yml", "ini", "conf", "ruby", "rb", "perl", "r", "elixir", "ex"],
        line_comments: &["#"],
        block_comment: None,
        quotes: "\"'",
        keywords: &[
            "class", "def", "do", "else", "elsif", "end", "false", "if", "module", "my", "nil", "null",
            "return", "self", "sub", "then", "true", "unless", "use", "while", "yield",
        ],
    },
];

const UNKNOWN: Language = Language {
    names: &[],
    line_comments: &[],
    block_comment: None,
    quotes: "\"",
    keywords: &["true", "false", "null", "nil"],
};

/// Appends code as HTML, highlighted for the named language.
pub(super) fn code(language: &str, text: &str, out: &mut String) {
    let name = language.to_ascii_lowercase();
    let name = name.split([' ', ',', '{']).next().unwrap_or_default();
    if matches!(name, "diff" | "patch") {
        return diff(text, out);
    }
    if matches!(name, "text" | "txt" | "plain") {
        return shown(text, out);
    }
    let language = LANGUAGES.iter().find(|language| language.names.contains(&name)).unwrap_or(&UNKNOWN);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (class, length) = token(language, rest, first);
        let (token, after) = rest.split_at_checked(length.max(first.len_utf8())).unwrap_or((rest, ""));
        match class {
            Some(class) => marked(class, token, out),
            None => shown(token, out),
        }
        rest = after;
    }
}

/// The class of the next token and its length in bytes.
fn token(language: &Language, rest: &str, first: char) -> (Option<&'static str>, usize) {
    if language.line_comments.iter().any(|mark| rest.starts_with(mark)) {
        return (Some("c"), rest.find('\n').unwrap_or(rest.len()));
    }
    if let Some((open, close)) = language.block_comment
        && let Some(inside) = rest.strip_prefix(open)
    {
        let length = inside.find(close).map(|end| end.saturating_add(open.len()).saturating_add(close.len()));
        return (Some("c"), length.unwrap_or(rest.len()));
    }
    if language.quotes.contains(first) {
        return (Some("s"), string(rest, first));
    }
    if first.is_ascii_digit() {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
        return (Some("n"), end.unwrap_or(rest.len()));
    }
    if first.is_alphabetic() || first == '_' {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        return (language.keywords.contains(&word).then_some("k"), end);
    }
    (None, first.len_utf8())
}

/// The length of a string with its quotes. An unclosed string ends with its line, so that an apostrophe does
/// not colour the rest; one in backquotes may continue.
fn string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' if quote != '`' => return at,
            c if c == quote => return at.saturating_add(c.len_utf8()),
            _ => {}
        }
    }
    text.len()
}

fn diff(text: &str, out: &mut String) {
    for line in text.split_inclusive('\n') {
        match line.chars().next() {
            Some('+') => marked("a", line, out),
            Some('-') => marked("d", line, out),
            Some('@') => marked("c", line, out),
            _ => shown(line, out),
        }
    }
}

fn marked(class: &str, text: &str, out: &mut String) {
    out.push_str("<span class=\"");
    out.push_str(class);
    out.push_str("\">");
    shown(text, out);
    out.push_str("</span>");
}

#[cfg(test)]
mod tests {
    use super::code;

    fn check(language: &str, text: &str, expected: &str) {
        let mut out = String::new();
        code(language, text, &mut out);
        assert_eq!(out, expected);
    }

    #[test]
    fn code_is_highlighted_and_escaped() {
        check(
            "rust",
            "let x = \"<b>\\\"\"; // 1 & 2\n",
            "<span class=\"k\">let</span> x = <span class=\"s\">&quot;&lt;b&gt;\\&quot;&quot;</span>; \
             <span class=\"c\">// 1 &amp; 2</span>\n",
        );
        check("python", "it's 0x1F\n2", "it<span class=\"s\">&#39;s 0x1F</span>\n<span class=\"n\">2</span>");
        check("c", "/* a", "<span class=\"c\">/* a</span>");
        check("diff", "+a\n b\n", "<span class=\"a\">+a\n</span> b\n");
        check("text", "\"a\" 1", "&quot;a&quot; 1");
        check("none", "λ <1", "λ &lt;<span class=\"n\">1</span>");
        check("rust", "", "");
    }
}
