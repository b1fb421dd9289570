//! `edn-bridge top`: what runs in the bridges of a state folder, live on a terminal or once. A client of their graphs,
//! and of nothing else: every figure is an attribute that a query can ask for.

mod bridges;
mod screen;
mod view;

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::Duration;

use clap::Args;
use edn_bridge::value::{Map, Value};
use tokio::signal::unix::{SignalKind, signal};

use super::failure::{Exit, Failure};
use super::options::Options;
use super::out;
use super::style::{Painter, width};
use bridges::{BridgeFolder, BridgeState, Bridges};
use screen::Screen;
use view::{Sort, View};

#[derive(Args)]
pub(super) struct TopArguments {
    /// Only the bridge at this socket, instead of every bridge of the state folder.
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// What sessions are sorted by.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    sort: Sort,
    /// The seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Prints it once, as happens without a terminal.
    #[arg(long)]
    once: bool,
    /// As JSON, once: for each bridge its socket and what its graph says.
    #[arg(long)]
    json: bool,
}

/// What the view waits for.
enum Happening {
    /// The bridges were asked.
    Told(Vec<BridgeState>),
    /// A key was pressed.
    Key(u8),
    /// The terminal has another size.
    Resized,
    /// The process is to end, or there is no terminal any more.
    End,
}

/// Messages for a terminal that is not read, queued. Who sends more of them waits.
const WAITING: usize = 8;

/// The keys that end it: q, Q, and C-c.
const QUIT: [u8; 3] = [b'q', b'Q', 3];

pub(super) fn run(options: &Options, arguments: &TopArguments) -> Exit {
    let place = match &arguments.socket {
        Some(socket) => BridgeFolder::Socket(socket.clone()),
        None => BridgeFolder::Folder(options.state_folder()?),
    };
    let every = Duration::from_secs(arguments.every);
    let mut bridges = Bridges::new(place, every);
    let is_live = std::io::stdin().is_terminal() && Painter::stdout().is_live();
    if is_live && !arguments.once && !arguments.json {
        return live(bridges, every, arguments.sort);
    }
    let told = bridges.ask();
    if let (Some(_), [BridgeState { facts: Err(error), .. }]) = (&arguments.socket, told.as_slice()) {
        return Err(Failure::Failed(error.clone()));
    }
    if arguments.json {
        return out::print(&json(&told));
    }
    if told.is_empty() {
        return out::note("No bridge runs.");
    }
    let mut view = View::new(arguments.sort);
    view.take(&told);
    // Without a terminal nothing is cut.
    let columns = width().unwrap_or(usize::MAX);
    out::show(&screen::text(&view, Painter::stdout(), columns))
}

/// `[{"socket": …, "facts": {…}}]`, with the graph's own names.
fn json(told: &[BridgeState]) -> String {
    let all = told.iter().map(|told| {
        let map = Map::new().with("socket", told.socket.to_string_lossy().into_owned());
        Value::from(match &told.facts {
            Ok(facts) => map.with("facts", facts.clone()),
            Err(error) => map.with("error", error.clone()),
        })
    });
    let mut text = Vec::new();
    edn_bridge::json::write(&Value::vector(all), &mut text);
    format!("{}\n", String::from_utf8_lossy(&text))
}

/// Shows it until a key ends it.
fn live(bridges: Bridges, every: Duration, sort: Sort) -> Exit {
    let (sender, happenings) = sync_channel(WAITING);
    let (pace, paced) = channel();
    let start = |name: &str, task: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(task).map_err(Failure::start)
    };
    let looks = sender.clone();
    start("look", Box::new(move || look(bridges, every, &paced, &looks)))?;
    let signals = sender.clone();
    start("signals", Box::new(move || watch_signals(&signals)))?;
    let mut screen = Screen::open().map_err(Failure::io("the terminal"))?;
    start("keys", Box::new(move || read_keys(&sender)))?;
    let mut view = View::new(sort);
    screen.draw(&view).map_err(Failure::io("the terminal"))?;
    for happening in happenings {
        match happening {
            Happening::Told(told) => view.take(&told),
            Happening::Resized => {}
            Happening::End => break,
            Happening::Key(key) if QUIT.contains(&key) => break,
            Happening::Key(b's' | b'S') => view.sort = view.sort.next(),
            Happening::Key(b'p' | b'P' | b' ') => {
                view.is_paused = !view.is_paused;
                let _ = pace.send(view.is_paused);
            }
            Happening::Key(_) => continue,
        }
        screen.draw(&view).map_err(Failure::io("the terminal"))?;
    }
    drop(screen);
    Ok(std::process::ExitCode::SUCCESS)
}

/// Asks the bridges again and again. While it is paused, nobody is asked.
fn look(mut bridges: Bridges, every: Duration, paced: &Receiver<bool>, told: &SyncSender<Happening>) {
    loop {
        if told.send(Happening::Told(bridges.ask())).is_err() {
            return;
        }
        let mut pause = match paced.recv_timeout(every) {
            Ok(pause) => pause,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        while pause {
            match paced.recv() {
                Ok(next) => pause = next,
                Err(_) => return,
            }
        }
    }
}

fn read_keys(keys: &SyncSender<Happening>) {
    let mut key = [0];
    while let Ok(1) = std::io::stdin().lock().read(&mut key) {
        if keys.send(Happening::Key(key[0])).is_err() {
            return;
        }
    }
    let _ = keys.send(Happening::End);
}

/// Tells of signals. Without a way to wait for them, a size is noticed with the next look.
fn watch_signals(told: &SyncSender<Happening>) {
    let Ok(executor) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    executor.block_on(async {
        let of = |kind| signal(kind).ok();
        let (Some(mut size), Some(mut end), Some(mut gone)) =
            (of(SignalKind::window_change()), of(SignalKind::terminate()), of(SignalKind::hangup()))
        else {
            return;
        };
        loop {
            let happening = tokio::select! {
                Some(()) = size.recv() => Happening::Resized,
                Some(()) = end.recv() => Happening::End,
                Some(()) = gone.recv() => Happening::End,
                else => return,
            };
            if told.send(happening).is_err() {
                return;
            }
        }
    });
}
