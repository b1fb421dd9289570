//! What every page has around its content: its head, its style and its first heading. Does not know what it is about.

use std::fmt::Write as _;

use super::escape::{escape, shown};
use crate::visible;

/// The start of every page. A newer export may replace a file that starts with it.
pub const MARK: &str = "<!doctype html>\n<!-- edn-bridge session -->\n";

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d1d1f; --dim: #6b6b70; --line: #dcdce0; --paper: #fff;
  --soft: #f5f5f7; --you: #eaf2fd; --k: #8430a0; --s: #a13a1f; --n: #1c5fb8; --c: #6b7a6b; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ea; --dim: #9a9aa0; --line: #3a3a3e;
  --paper: #18181a; --soft: #222225; --you: #1f2c3d; --k: #d19be6; --s: #f0a184; --n: #8ab9f5; --c: #93a693;
  --bad: #f2938c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 52rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2, h3, h4 { line-height: 1.3; }
.facts, time { color: var(--dim); font-size: .85rem; }
article { border-top: 1px solid var(--line); padding: .8rem 0; }
article > header { display: flex; justify-content: space-between; gap: 1rem; font-weight: 600; }
article > header a { color: inherit; text-decoration: none; }
.user > .body { background: var(--you); border-radius: .6rem; padding: .1rem 1rem; margin-top: .4rem; }
pre { background: var(--soft); border-radius: .4rem; padding: .7rem .9rem; overflow-x: auto; }
code, pre { font: .88rem/1.45 ui-monospace, monospace; } p code, li code { background: var(--soft);
  padding: .1rem .3rem; border-radius: .25rem; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--dim); }
details.thinking { font-style: italic; color: var(--dim); }
blockquote { margin: .5rem 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--dim); }
table { border-collapse: collapse; } th, td { border: 1px solid var(--line); padding: .25rem .6rem; }
img { max-width: 100%; } .error { color: var(--bad); } .usage { color: var(--dim); font-size: .8rem; }
.k { color: var(--k); } .s { color: var(--s); } .n { color: var(--n); } .c { color: var(--c); }
.a { color: #1a7f37; } .d { color: var(--bad); }
figure { margin: 1rem 0; } svg.plot { width: 100%; height: auto; } svg.plot text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.in { fill: var(--n); } .ca { fill: var(--dim); } .ou { fill: var(--k); } .co { fill: var(--s); }
figure td + td { text-align: right; font-variant-numeric: tabular-nums; }
.x { color: var(--bad); border: 1px solid; border-radius: .2rem; font: .75rem ui-monospace, monospace; }
";

/// A page to the end of its first heading.
pub(super) fn begin(title: &str) -> String {
    let mut out = String::from(MARK);
    out.push_str("<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Even text that evades the escaping could neither run nor load anything.
    out.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>",
    );
    escape(&visible::line(title), &mut out);
    let _ = write!(out, "</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>");
    shown(title, &mut out);
    out.push_str("</h1>\n");
    out
}

/// The end of a page, from that of its main part.
pub(super) fn end(out: &mut String) {
    out.push_str("</main>\n</body>\n</html>\n");
}
