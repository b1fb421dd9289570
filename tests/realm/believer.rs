//! A process that believes that it owns a session, and writes for as long as it lives: this test program, started again.
//!
//! It says each thing on a line: what it wrote and heard acknowledged, what its lease lets it do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use edn_bridge::clock::since_boot;
use edn_bridge::realm::rules::{LeaseStanding, LeaseTerms};
use edn_bridge::realm::{LeaseState, Realm, RealmError, RealmWriter, Tail, Written, connect, keep};
use edn_bridge::secret::Secret;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::promises::{entry, host, run};
use crate::server::PATIENCE;

const URL: &str = "EDN_BRIDGE_TEST_REALM";
const WHO: &str = "EDN_BRIDGE_TEST_HOST";
const TOOLS: &str = "EDN_BRIDGE_TEST_TOOLS";

/// Its lease.
pub fn terms() -> LeaseTerms {
    LeaseTerms::new(Duration::from_secs(3))
}

/// One process.
pub struct Believer {
    process: Child,
    lines: Receiver<String>,
}

impl Drop for Believer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What it was acknowledged: the number in the log, and the entry's id.
pub fn acknowledged(line: &str) -> Option<(u64, String)> {
    let (seq, id) = line.strip_prefix("saved ")?.split_once(' ')?;
    Some((seq.parse().ok()?, id.to_owned()))
}

/// A tool that it started. Times are those of the clock since boot, which all processes share.
#[derive(Debug)]
pub struct Tool {
    pub started: Duration,
    /// When its lease was over, as it counted then.
    pub lease_ends: Duration,
}

/// What a line says of a tool.
pub fn tool(line: &str) -> Option<Tool> {
    let (started, ends) = line.strip_prefix("tool ")?.split_once(' ')?;
    let time = |nanos: &str| nanos.parse().ok().map(Duration::from_nanos);
    Some(Tool { started: time(started)?, lease_ends: time(ends)? })
}

impl Believer {
    /// Starts one: a host's name, its run, which begins the ids of what it writes, and whether it starts tools.
    pub fn start(url: &Secret, name: &str, generation: &str, tools: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "believer::believer", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(URL, url.expose()).env(WHO, format!("{name} {generation}"));
        if tools {
            command.env(TOOLS, "yes");
        }
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (to, lines) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        Self { process, lines }
    }

    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.process), signal);
    }

    /// Its next line.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// Its lines up to one that begins so.
    pub fn until(&self, begin: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.starts_with(begin)) {
            lines.push(self.line());
        }
        lines
    }

    /// Its next lines: as many acknowledgements as are wanted.
    pub fn saved(&self, count: usize) -> Vec<(u64, String)> {
        let mut saved = Vec::new();
        while saved.len() < count {
            saved.extend(acknowledged(&self.line()));
        }
        saved
    }

    /// Kills it, and returns what it had still been told.
    pub fn kill(mut self) -> Vec<(u64, String)> {
        self.signal(Signal::KILL);
        self.process.wait().unwrap();
        self.lines.iter().filter_map(|line| acknowledged(&line)).collect()
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Starts a tool again and again, beside what is written: as long as the lease is there, and no claim has to be made again.
async fn start_tools(kept: watch::Receiver<LeaseState>, lapses: u64) {
    let mut beat = tokio::time::interval(Duration::from_millis(5));
    while kept.borrow().lapses == lapses {
        if kept.borrow().standing() == LeaseStanding::Held {
            let started = since_boot();
            let ends = kept.borrow().ends_at().unwrap();
            say(&format!("tool {} {}", started.as_nanos(), ends.as_nanos()));
        }
        beat.tick().await;
    }
}

/// Writes, whatever happens: claims the session, appends, claims it again once it is fenced off.
#[test]
#[ignore = "started by other tests"]
fn believer() {
    let (Ok(url), Ok(who)) = (std::env::var(URL), std::env::var(WHO)) else { return };
    let (name, generation) = who.split_once(' ').unwrap();
    let starts_tools = std::env::var_os(TOOLS).is_some();
    let me = host(name, generation);
    run(async {
        let realm: Arc<dyn Realm> = connect(&Secret::new(url), me, "test", terms()).unwrap();
        let kept = keep(realm.clone(), terms());
        let session = "s-1".into();
        let mut known = Tail::default();
        let mut count = 0u64;
        'claims: loop {
            let lapses = kept.borrow().lapses;
            let claim = match realm.claim(&session, Path::new("/project"), &known).await {
                Ok(claim) => claim,
                Err(RealmError::Behind { .. } | RealmError::Diverged { .. }) => return say("stopped"),
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            known = claim.tail.clone();
            say(&format!("owns {}", claim.epoch));
            let mut writer = RealmWriter::new(realm.clone(), claim, &known).unwrap();
            // They end with the claim.
            let mut tools = JoinSet::new();
            if starts_tools {
                tools.spawn(start_tools(kept.clone(), lapses));
            }
            loop {
                // One thing is wanted, until it is there: with one id.
                let wanted =
                    [entry(&format!("{generation}-{count}"), &format!("{generation} wants {count}"))];
                if kept.borrow().standing() == LeaseStanding::Over {
                    say("over");
                }
                match writer.write(&wanted, None).await {
                    Ok(Written::Saved(tail)) => {
                        say(&format!("saved {} {}", tail.seq, wanted[0].id));
                        known = tail;
                        count += 1;
                    }
                    // It is still wanted.
                    Ok(Written::DecideAnew(_)) => known = writer.tail().clone(),
                    Err(RealmError::Fenced { .. }) => {
                        say("fenced");
                        // What was in doubt is in the log or not: whoever claims the session reads it.
                        let page = loop {
                            match realm.read(&session, &known, 512).await {
                                Ok(page) => break page,
                                Err(error) if error.may_pass() => {}
                                Err(_) => return say("stopped"),
                            }
                        };
                        if page.entries.iter().any(|entry| entry.id == wanted[0].id) {
                            count += 1;
                        }
                        continue 'claims;
                    }
                    Err(RealmError::Behind { .. } | RealmError::Diverged { .. }) => return say("stopped"),
                    Err(_) => say("away"),
                }
                if kept.borrow().lapses != lapses {
                    say("lapsed");
                    continue 'claims;
                }
            }
        }
    });
}
