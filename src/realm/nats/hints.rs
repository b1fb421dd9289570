//! Hints, told to all hosts of the user after what they tell of is on disk. A subscription to the stream itself would see
//! an entry before that.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::{REALM_RECONNECT, REALM_WATCH};
use crate::realm::error::RealmError;
use crate::realm::nats::link::{EngineLink, Line};
use crate::realm::nats::records::{NEWS, said};
use crate::realm::subscriptions::{Desks, Listening, RealmSubscriptions, Standing, Telling, lock};

/// Hints that are told at once.
const BATCH: usize = 256;

/// Starts both tasks; they end with the token.
pub(super) fn start(way: Arc<EngineLink>, end: CancellationToken) -> RealmSubscriptions {
    let (board, to_tell, to_listen) = RealmSubscriptions::new(said);
    let teller = tell_all(way.clone(), to_tell);
    let stop = end.clone();
    tokio::spawn(async move { stop.run_until_cancelled(teller).await });
    let listener = listen_always(way, to_listen, board.desks());
    tokio::spawn(async move { end.run_until_cancelled(listener).await });
    board
}

/// Tells all that waits, again and again. What cannot be told is dropped.
async fn tell_all(way: Arc<EngineLink>, mut from: mpsc::Receiver<Telling>) {
    let mut standing = Standing::default();
    let mut waiting = Vec::new();
    loop {
        waiting.clear();
        if from.recv_many(&mut waiting, BATCH).await == 0 {
            return;
        }
        match tell(&way, waiting.drain(..)).await {
            Ok(()) => standing.works("told"),
            Err(error) => standing.fails("told", &error),
        }
    }
}

async fn tell(way: &EngineLink, waiting: impl Iterator<Item = Telling>) -> Result<(), RealmError> {
    let line = way.line().await?;
    for one in waiting {
        let (subject, text) = match one {
            Telling::News(news) => (NEWS.to_owned(), news.text()),
            Telling::Said(channel, text) => (channel, text.to_string()),
        };
        line.client.publish(subject, text.into()).await.map_err(|_| lost())?;
    }
    Ok(())
}

fn lost() -> RealmError {
    RealmError::Unreachable("the connection was lost".into())
}

/// Listens, and again on the next connection.
async fn listen_always(way: Arc<EngineLink>, mut asked: mpsc::Receiver<Listening>, desks: Arc<Mutex<Desks>>) {
    let mut standing = Standing::default();
    loop {
        if let Err(error) = listen_once(&way, &mut asked, &desks, &mut standing).await {
            standing.fails("heard", &error);
        }
        if asked.is_closed() {
            return;
        }
        sleep(REALM_RECONNECT).await;
    }
}

async fn listen_once(
    way: &EngineLink,
    asked: &mut mpsc::Receiver<Listening>,
    desks: &Arc<Mutex<Desks>>,
    standing: &mut Standing,
) -> Result<(), RealmError> {
    let line = way.line().await?;
    let mut news = line.client.subscribe(NEWS).await.map_err(|_| lost())?;
    let mut hearing = HashMap::new();
    let heard = lock(desks).channels();
    for channel in heard {
        let ear = hear(&line, &channel, desks).await?;
        hearing.insert(channel, ear);
    }
    // The server has the subscriptions once it has answered what follows them.
    line.now_ms().await?;
    // What was told before this is lost.
    lock(desks).miss();
    let mut look = interval_at(Instant::now() + REALM_WATCH, REALM_WATCH);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            asked = asked.recv() => {
                let Some(Listening { channel, done }) = asked else { return Ok(()) };
                if let Entry::Vacant(place) = hearing.entry(channel) {
                    let ear = hear(&line, place.key(), desks).await?;
                    place.insert(ear);
                }
                line.now_ms().await?;
                let _ = done.send(());
            }
            told = news.next() => {
                let told = told.ok_or_else(lost)?;
                lock(desks).hint(&String::from_utf8_lossy(&told.payload));
            }
            () = line.is_left.cancelled() => return Ok(()),
            _ = look.tick() => {
                let gone = lock(desks).sweep();
                hearing.retain(|channel, _| !gone.contains(channel));
                // Not before: a connection that is lost again and again does not work.
                standing.works("heard");
            }
        }
    }
}

/// Takes in what is said in a channel, until what it returns is dropped.
async fn hear(line: &Line, channel: &str, desks: &Arc<Mutex<Desks>>) -> Result<DropGuard, RealmError> {
    let heard = line.client.subscribe(channel.to_owned()).await;
    let mut heard = heard.map_err(|_| lost())?;
    let (end, desks, channel) = (CancellationToken::new(), desks.clone(), channel.to_owned());
    let guard = end.clone().drop_guard();
    tokio::spawn(async move {
        let take_in = async {
            while let Some(said) = heard.next().await {
                lock(&desks).said(&channel, &String::from_utf8_lossy(&said.payload));
            }
        };
        end.run_until_cancelled(take_in).await;
    });
    Ok(guard)
}
