//! The view as text of a width, and a terminal that shows it. Asks nobody.

use std::io::{self, Write as _};

use edn_bridge::{message, visible};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::super::style::{Meaning, Painter};
use super::super::table::{Table, fitting};
use super::view::{SessionRow, View, real};

/// Another screen, without lines that go on in the next row, and without a cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?7l\u{1b}[?25l\u{1b}[2J";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?7h\u{1b}[?1049l";

/// The size of a terminal that does not say it.
const SIZE: (usize, usize) = (80, 24);

/// A terminal whose keys come one by one. Dropped, it is as it was.
pub(super) struct Screen {
    before: Termios,
    painter: Painter,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        let screen = Self { before, painter: Painter::stdout() };
        put(ENTER)?;
        Ok(screen)
    }

    /// Shows the view, and which keys there are.
    pub(super) fn draw(&mut self, view: &View) -> io::Result<()> {
        let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (columns, rows) = size.map_or(SIZE, |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let text = text(view, self.painter, columns);
        let mut lines: Vec<&str> = text.lines().collect();
        let room = rows.saturating_sub(1);
        let left_out = lines.len().saturating_sub(room);
        let more = format!("… {} more lines", left_out.saturating_add(1));
        if left_out > 0 {
            lines.truncate(room.saturating_sub(1));
            lines.push(&more);
        }
        let keys = format!(
            "q quit   s sort: {}   p {}",
            view.sort.as_str(),
            match view.is_paused {
                true => "go on (paused)",
                false => "pause",
            }
        );
        let keys = self.painter.paint(Meaning::Faint, &fitting(&keys, columns));
        let mut all = String::from("\u{1b}[H");
        for line in lines {
            all.push_str(line);
            all.push_str("\u{1b}[K\r\n");
        }
        all.push_str("\u{1b}[J");
        // The keys stand in the last row.
        all.push_str(&format!("\u{1b}[{rows};1H{keys}\u{1b}[K"));
        put(&all)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = put(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The view for so many columns.
pub(super) fn text(view: &View, painter: Painter, columns: usize) -> String {
    let mut all = String::new();
    let mut line = |meaning: Option<Meaning>, line: &str| {
        let line = fitting(&visible::line(line), columns);
        let line = meaning.map_or_else(|| line.clone(), |meaning| painter.paint(meaning, &line));
        all.push_str(&line);
        all.push('\n');
    };
    let sessions = view.sessions();
    let count = |fits: fn(&SessionRow) -> bool| sessions.iter().filter(|one| fits(one)).count();
    let sum = |of: fn(&SessionRow) -> i64| sessions.iter().map(|one| of(one)).fold(0, i64::saturating_add);
    line(
        Some(Meaning::Heading),
        &format!(
            "sessions {} (working {}, asking {}) · queued {} · clients {}",
            sessions.len(),
            count(SessionRow::is_working),
            count(|one| one.asks.is_some()),
            sum(|one| one.queue),
            view.clients.len(),
        ),
    );
    let cost: f64 = sessions.iter().map(|one| one.cost).sum();
    line(
        None,
        &format!(
            "tokens {} in, {} cached, {} out · cost {} · {}",
            short(sum(|one| one.input)),
            short(sum(|one| one.cached)),
            short(sum(|one| one.output)),
            money(cost),
            view.now.get(11..19).unwrap_or("-"),
        ),
    );
    if view.processes.is_empty() && !view.is_new {
        line(Some(Meaning::Note), "No bridge runs.");
    }
    for process in &view.processes {
        let memory = process.resident_bytes.map_or_else(|| "-".to_owned(), megabytes);
        let processor =
            process.processor.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0));
        line(
            Some(Meaning::Faint),
            &format!(
                "{} {} · {memory} · cpu {processor} % · up {} · projects {} · threads {} · events {} · {}",
                if process.is_daemon { "daemon" } else { "bridge" },
                process.pid,
                span(process.uptime_ms),
                process.projects,
                process.threads.unwrap_or_default(),
                process.events,
                process.version,
            ),
        );
    }
    for problem in &view.problems {
        line(Some(Meaning::Bad), problem);
    }
    let tables = [sessions_table(&sessions, columns), clients_table(view, columns)];
    for table in tables.iter().filter(|table| !table.is_empty()) {
        all.push('\n');
        all.push_str(&table.laid_out(painter, Some(columns)));
    }
    all
}

fn sessions_table(sessions: &[&SessionRow], columns: usize) -> Table {
    let (is_wide, is_narrow) = (columns >= 130, columns < 80);
    let mut headings = vec!["STATE", "NAME"];
    headings.extend_from_slice(match (is_narrow, is_wide) {
        (true, _) => &["TURN", "QUEUE", "TOKENS", "COST"],
        (_, false) => &["MODEL", "TURN", "QUEUE", "IN", "OUT", "WINDOW", "COST"],
        (_, true) => {
            &["PROJECT", "MODEL", "TURN", "QUEUE", "IN", "CACHED", "OUT", "WINDOW", "COST", "SESSION"]
        }
    });
    let texts = ["STATE", "NAME", "PROJECT", "MODEL", "SESSION"];
    let right = (0..headings.len()).filter(|at| headings.get(*at).is_some_and(|name| !texts.contains(name)));
    let mut table = Table::new(&headings, 1, &right.collect::<Vec<_>>());
    for one in sessions {
        let (state, meaning) = match (&one.asks, one.is_working()) {
            (Some(_), _) => ("asks", Meaning::Note),
            (None, true) => (one.phase.as_str(), Meaning::Well),
            (None, false) => (one.phase.as_str(), Meaning::Faint),
        };
        let cell = |heading: &&str| match *heading {
            "STATE" => (state.to_owned(), Some(meaning)),
            "NAME" => {
                // A subagent stands below whatever is above it; the sign says that it is one.
                let sign = if one.depth > 0 { "↳ " } else { "" };
                (
                    format!("{sign}{}", if one.name.is_empty() { &one.id } else { &one.name }),
                    Some(Meaning::Name),
                )
            }
            "PROJECT" => (visible::end_of(&one.project, 30).into_owned(), None),
            "MODEL" => (fitting(&one.model, 24), None),
            "TURN" => (one.turn_ms.map_or_else(|| "-".to_owned(), span), None),
            "QUEUE" => (one.queue.to_string(), None),
            "TOKENS" => (short(one.tokens()), None),
            "IN" => (short(one.input), None),
            "CACHED" => (short(one.cached), None),
            "OUT" => (short(one.output), None),
            "WINDOW" => {
                let part =
                    one.context.map_or_else(|| "-".to_owned(), |part| format!("{:.0} %", part * 100.0));
                (part, None)
            }
            "COST" => (money(one.cost), None),
            _ => (one.id.clone(), Some(Meaning::Faint)),
        };
        table.row(headings.iter().map(cell));
    }
    table
}

fn clients_table(view: &View, columns: usize) -> Table {
    let mut headings = vec!["CLIENT", "OVER", "SINCE", "ANSWERS", "PENDING", "OUTBOX"];
    if columns >= 130 {
        headings.extend_from_slice(&["BYTES", "PROCESS", "SESSION"]);
    }
    let mut table = Table::new(&headings, 0, &[2, 4, 5, 6, 7]);
    for one in &view.clients {
        let cells = [
            (if one.name.is_empty() { "(no handshake)" } else { &one.name }.to_owned(), Some(Meaning::Name)),
            (one.transport.clone(), None),
            (one.connected_ms.map_or_else(|| "-".to_owned(), span), None),
            (if one.answers { "yes" } else { "no" }.to_owned(), None),
            (one.pending.to_string(), None),
            (one.waiting.to_string(), None),
            (one.bytes.to_string(), None),
            (one.pid.to_string(), None),
            (one.session.clone(), Some(Meaning::Faint)),
        ];
        table.row(cells.into_iter().take(headings.len()));
    }
    table
}

/// A count of the graph, as a footer has it.
fn short(count: i64) -> String {
    message::short(u64::try_from(count).unwrap_or_default())
}

fn money(cost: f64) -> String {
    if cost > 0.0 { format!("${cost:.4}") } else { "-".to_owned() }
}

fn megabytes(bytes: i64) -> String {
    format!("{:.1} MB", real(bytes) / 1e6)
}

/// A time span with its two greatest units.
pub(super) fn span(millis: i64) -> String {
    let seconds = millis.saturating_div(1000);
    match seconds {
        ..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use edn_bridge::edn;
    use unicode_width::UnicodeWidthStr as _;

    use super::super::bridges::BridgeState;
    use super::super::view::Sort;
    use super::*;

    /// Two bridges: one with a session that asks, one that costs, one that is idle and one of a subagent; and a stopped one.
    fn told() -> Vec<BridgeState> {
        let session = |id: &str, name: &str, phase: &str, rest: &str| {
            format!(
                "{{:psi.agent-session/session-id {id:?} :psi.agent-session/session-display-name {name:?} \
                  :psi.agent-session/phase {phase} :psi.agent-session/worktree-path \"/home/me/a/long/way/to/the/project\" \
                  :psi.agent-session/model-id \"model-1\" :psi.agent-session/usage-cache-write 0 {rest}}}"
            )
        };
        let sessions = [
            session(
                "s-1",
                "beta",
                ":idle",
                ":psi.agent-session/usage-input 90000 :psi.agent-session/usage-output 12 :psi.agent-session/usage-cost-total 0.5",
            ),
            session(
                "s-2",
                "A very long name of a session 日本語の名前です that fits nowhere",
                ":streaming",
                ":psi.agent-session/turn-started-at \"2026-01-01T11:58:59Z\" :psi.agent-session/pending-message-count 2",
            ),
            session(
                "s-3",
                "alpha\\u001b[2J",
                ":streaming",
                ":psi.agent-session/depth 1 :psi.agent-session/usage-cost-total 1.25",
            ),
        ];
        let facts = format!(
            "{{:psi.process/pid 7 :psi.process/version \"0.1.0\" :psi.process/now \"2026-01-01T12:00:00Z\" \
              :psi.process/uptime-ms 3720000 :psi.process/resident-bytes 61000000 :psi.process/cpu-ms 1000 \
              :psi.process/outlives-clients true :psi.process/event-count 5 \
              :psi.connection/list [{{:psi.connection/client-name \"Emacs\" :psi.connection/transport :stdio :psi.connection/is-interactor true \
                :psi.connection/outbox-waiting 3}}] \
              :psi.interaction/list [{{:psi.interaction/kind :approve :psi.agent-session/session-id \"s-3\"}}] \
              :psi.session/live [{}]}}",
            sessions.join(" ")
        );
        let facts = edn::read_one(facts.as_bytes()).unwrap().into_owned();
        vec![
            BridgeState { socket: PathBuf::from("/run/a.sock"), facts: Ok(facts) },
            BridgeState {
                socket: PathBuf::from("/run/b.sock"),
                facts: Err("/run/b.sock: it does not answer".to_owned()),
            },
        ]
    }

    fn view(sort: Sort) -> View {
        let mut view = View::new(sort);
        view.take(&told());
        view
    }

    #[test]
    fn view_fits_every_width() {
        for columns in 60..=220 {
            let text = text(&view(Sort::Activity), Painter::bare(), columns);
            let widest = text.lines().map(|line| line.width()).max().unwrap();
            assert!(widest <= columns, "{columns}: {widest}\n{text}");
        }
        let wide = text(&view(Sort::Activity), Painter::bare(), 200);
        for part in [
            "sessions 3 (working 2, asking 1) · queued 2 · clients 1",
            "tokens 90k in, 0 cached, 12 out · cost $1.7500 · 12:00:00",
            "daemon 7 · 61.0 MB · cpu - % · up 1h02m · projects 1",
            "/run/b.sock: it does not answer",
            "1m01s",
            "Emacs",
            "…/me/a/long/way/to/the/project",
            "s-2",
        ] {
            assert!(wide.contains(part), "{part}\n{wide}");
        }
    }

    #[test]
    fn sessions_are_sorted_as_asked_for() {
        let order = |sort: Sort| {
            let view = view(sort);
            view.sessions().iter().map(|one| one.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(order(Sort::Activity), ["s-3", "s-2", "s-1"]);
        assert_eq!(order(Sort::Tokens), ["s-1", "s-2", "s-3"]);
        assert_eq!(order(Sort::Cost), ["s-3", "s-1", "s-2"]);
        assert_eq!(order(Sort::Queue), ["s-2", "s-3", "s-1"]);
        assert_eq!(order(Sort::Name), ["s-2", "s-3", "s-1"]);
        let mut sort = Sort::default();
        for _ in 0..5 {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::Activity);
    }

    #[test]
    fn figures_are_short() {
        for (millis, expected) in
            [(999, "0s"), (61_000, "1m01s"), (3_720_000, "1h02m"), (90_000_000, "1d01h")]
        {
            assert_eq!(span(millis), expected);
        }
    }
}
