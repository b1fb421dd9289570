//! Tokens and cost as a figure: bars as an image that needs no script and follows the page's light or dark colours, with
//! the same numbers in a table for those who do not see it. Sums nothing.

use std::fmt::Write as _;

use super::escape::shown;
use super::page::{begin, end};
use crate::limits::PLOT_ROWS;
use crate::message::{Usage, short};
use crate::visible;

/// The tokens and the cost of one thing.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// What it is, such as a day or a model.
    pub label: String,
    /// The model calls.
    pub calls: u64,
    /// Their tokens and cost.
    pub usage: Usage,
}

/// The rows of one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageFigure {
    /// What it is about, such as `By day`.
    pub heading: String,
    /// Its rows, in their order.
    pub rows: Vec<UsageRow>,
}

/// A page with figures.
pub fn page(title: &str, figures: &[UsageFigure]) -> String {
    let mut out = begin(title);
    out.push_str("<main>\n");
    for (place, one) in figures.iter().enumerate() {
        out.push_str("<h2>");
        shown(&one.heading, &mut out);
        out.push_str("</h2>\n");
        figure(one, place, &mut out);
    }
    end(&mut out);
    out
}

/// Widths and heights of the image.
const WIDTH: f64 = 720.0;
const LABELS: f64 = 190.0;
const BAR: f64 = 400.0;
const ROW: f64 = 30.0;
const TOP: f64 = 26.0;

/// Characters of a label that fit in front of its bar; the table has all of it.
const LABEL_CHARS: usize = 26;

/// One figure. `place` tells those of a page apart.
pub(super) fn figure(figure: &UsageFigure, place: usize, out: &mut String) {
    // The newest or last ones, if not all fit; the table has all.
    let skipped = figure.rows.len().saturating_sub(PLOT_ROWS);
    let drawn: Vec<&UsageRow> = figure.rows.iter().skip(skipped).collect();
    let most = |of: &dyn Fn(&UsageRow) -> f64| drawn.iter().map(|row| of(row)).fold(0.0, f64::max);
    let tokens = most(&|row| real(row.usage.total()));
    let cost = most(&|row| row.usage.cost);
    let height = ROW.mul_add(real(u64::try_from(drawn.len()).unwrap_or_default()), TOP);
    let _ = write!(
        out,
        "<figure>\n<svg class=\"plot\" role=\"img\" aria-labelledby=\"plot-{place}\" viewBox=\"0 0 {WIDTH} {height}\">\n\
         <title id=\"plot-{place}\">Tokens and cost: "
    );
    shown(&figure.heading, out);
    out.push_str("; the same numbers are in the table below</title>\n");
    let mut at = LABELS;
    for (class, name) in [("in", "input"), ("ca", "cached"), ("ou", "output"), ("co", "cost")] {
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{at}\" y=\"4\" width=\"10\" height=\"10\"/><text x=\"{}\" y=\"13\">{name}</text>",
            at + 14.0
        );
        at += 90.0;
    }
    let part = |count: f64, of: f64| if of > 0.0 { BAR * count / of } else { 0.0 };
    let mut top = TOP;
    for row in drawn {
        let Usage { input, output, cache_read, cache_write, .. } = row.usage;
        let _ = write!(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">", LABELS - 8.0, top + 13.0);
        shown(&visible::end_of(&row.label, LABEL_CHARS), out);
        out.push_str("</text>\n");
        let mut left = LABELS;
        for (class, count) in [("in", input.saturating_add(cache_write)), ("ca", cache_read), ("ou", output)]
        {
            let wide = part(real(count), tokens);
            let _ = writeln!(
                out,
                "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{}\" width=\"{wide:.1}\" height=\"12\"/>",
                top + 2.0
            );
            left += wide;
        }
        if row.usage.cost > 0.0 {
            let wide = part(row.usage.cost, cost);
            let _ = writeln!(
                out,
                "<rect class=\"co\" x=\"{LABELS}\" y=\"{}\" width=\"{wide:.1}\" height=\"6\"/>",
                top + 16.0
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\">{}{}</text>",
            left + 6.0,
            top + 13.0,
            short(row.usage.total()),
            if row.usage.cost > 0.0 { format!(" · ${:.4}", row.usage.cost) } else { String::new() }
        );
        top += ROW;
    }
    out.push_str("</svg>\n");
    table(figure, skipped, out);
    out.push_str("</figure>\n");
}

fn table(figure: &UsageFigure, skipped: usize, out: &mut String) {
    out.push_str("<details><summary>The numbers");
    if skipped > 0 {
        let _ = write!(out, " (the image leaves out the first {skipped} rows)");
    }
    out.push_str("</summary>\n<table><thead><tr><th>");
    shown(figure.heading.strip_prefix("By ").unwrap_or(&figure.heading), out);
    out.push_str("</th>");
    for heading in ["calls", "input", "cached", "output", "cost in $"] {
        let _ = write!(out, "<th>{heading}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &figure.rows {
        let Usage { input, output, cache_read, cache_write, cost } = row.usage;
        out.push_str("<tr><td>");
        shown(&row.label, out);
        let _ = writeln!(
            out,
            "</td><td>{}</td><td>{}</td><td>{cache_read}</td><td>{output}</td><td>{cost:.4}</td></tr>",
            row.calls,
            input.saturating_add(cache_write)
        );
    }
    out.push_str("</tbody></table></details>\n");
}

/// As precise as an image needs.
#[allow(clippy::cast_precision_loss, reason = "a length in an image")]
const fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, input: u64, cost: f64) -> UsageRow {
        UsageRow {
            label: label.to_owned(),
            calls: 2,
            usage: Usage { input, output: 5, cache_read: 7, cost, ..Usage::default() },
        }
    }

    #[test]
    fn figure_has_bars_and_the_same_numbers_in_a_table() {
        let rows = vec![row("2026-01-01", 100, 0.5), row("<b>&\"2026-01-02", 12, 0.0)];
        let text = page("Usage", &[UsageFigure { heading: "By day".to_owned(), rows }]);
        for part in [
            "role=\"img\" aria-labelledby=\"plot-0\"",
            // The longest bar has the whole width: 100, 7 and 5 of 112 tokens.
            "<rect class=\"in\" x=\"190.0\" y=\"28\" width=\"357.1\" height=\"12\"/>",
            "<rect class=\"co\" x=\"190\" y=\"42\" width=\"400.0\" height=\"6\"/>",
            "112 · $0.5000",
            "<td>2026-01-01</td><td>2</td><td>100</td><td>7</td><td>5</td><td>0.5000</td>",
            "&lt;b&gt;",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("<b>") && !text.contains("<script") && !text.contains("http:"), "{text}");
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
        // Without a cost there is no bar of it but in the legend.
        assert_eq!(text.matches("class=\"co\"").count(), 2);
    }

    #[test]
    fn image_is_bounded_and_the_table_is_whole() {
        let rows: Vec<_> = (0..PLOT_ROWS + 40).map(|day| row(&format!("day {day}"), 1, 0.0)).collect();
        let text = page("Usage", &[UsageFigure { heading: "By day".to_owned(), rows }]);
        assert!(text.contains("leaves out the first 40 rows") && text.contains("<td>day 0</td>"));
        assert_eq!(text.matches("text-anchor").count(), PLOT_ROWS);
    }
}
