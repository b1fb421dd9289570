//! A small HTTP server on loopback. It sends the answers of a test, piece by piece, and records the requests.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::request_rules::{self, Refusal};

/// A received request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The header lines, with lower-case names.
    pub head: Vec<(String, String)>,
    /// The body, as text.
    pub body: String,
    /// The body.
    pub bytes: Vec<u8>,
}

impl Asked {
    /// A header line; empty if it is missing.
    pub fn line(&self, name: &str) -> &str {
        self.head.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// The end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A proper end.
    Well,
    /// The connection is closed in the middle.
    Dropped,
    /// Nothing more is sent, and the connection stays open.
    Silent,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header lines.
    pub head: Vec<(String, String)>,
    /// The body; each part is sent separately.
    pub parts: Vec<Vec<u8>>,
    /// Its end.
    pub end: End,
}

impl Answer {
    /// A stream of events in one part.
    pub fn events(body: impl Into<Vec<u8>>) -> Self {
        let head = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        Self { status: 200, head, parts: vec![body.into()], end: End::Well }
    }

    /// A JSON document.
    pub fn json(status: u16, body: &str) -> Self {
        let head = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status, head, parts: vec![body.as_bytes().to_vec()], end: End::Well }
    }

    /// Adds a header line.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.head.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same body in pieces of that many bytes, cut anywhere.
    pub fn cut(mut self, size: usize) -> Self {
        let whole = self.parts.concat();
        self.parts = whole.chunks(size).map(<[u8]>::to_vec).collect();
        self
    }

    /// The same with another end.
    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

/// A running server. It ends with the process. It refuses a request to a model that the real servers refuse, and the test
/// fails, unless it looks at the refusals itself.
pub struct Server {
    port: u16,
    asked: Receiver<Asked>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    judge: Arc<Judge>,
}

/// Judges the requests to models.
#[derive(Default)]
struct Judge {
    /// The provider whose rules count besides those of the protocol.
    provider: Mutex<String>,
    refusals: Mutex<Vec<Refusal>>,
}

impl Judge {
    fn refusal(&self, asked: &Asked) -> Option<Answer> {
        let refusal = request_rules::judge(asked, &self.provider.lock().unwrap()).err()?;
        let answer = refusal.answer();
        self.refusals.lock().unwrap().push(refusal);
        Some(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let refusals = self.refusals();
            assert!(refusals.is_empty(), "the real server would have refused: {refusals:#?}");
        }
    }
}

/// Finds the answer to a request; without one the connection is closed.
type Answers = dyn Fn(&Asked) -> Option<Answer> + Send + Sync;

impl Server {
    /// A server with these answers, one per request; it repeats the last one.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers: Arc<Mutex<VecDeque<Answer>>> = Arc::new(Mutex::new(answers.into_iter().collect()));
        let (plan, last) = (answers.clone(), Mutex::new(None));
        let next = move |_: &Asked| {
            let mut last: MutexGuard<'_, Option<Answer>> = last.lock().unwrap();
            if let Some(next) = plan.lock().unwrap().pop_front() {
                *last = Some(next);
            }
            last.clone()
        };
        Self::start(answers, Arc::new(next))
    }

    /// A server that finds each answer by its request.
    pub fn of(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(Arc::default(), Arc::new(move |asked: &Asked| Some(answer(asked))))
    }

    fn start(answers: Arc<Mutex<VecDeque<Answer>>>, find: Arc<Answers>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, asked) = channel();
        let judge = Arc::<Judge>::default();
        let at_door = judge.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (sender, find, judge) = (sender.clone(), find.clone(), at_door.clone());
                std::thread::spawn(move || {
                    serve(stream, &sender, &|asked: &Asked| judge.refusal(asked).or_else(|| find(asked)));
                });
            }
        });
        Self { port, asked, answers, judge }
    }

    /// Judges requests by the rules of that provider too.
    pub fn stands_for(&self, provider: &str) {
        provider.clone_into(&mut self.judge.provider.lock().unwrap());
    }

    /// The refusals since the last call.
    pub fn refusals(&self) -> Vec<Refusal> {
        std::mem::take(&mut *self.judge.refusals.lock().unwrap())
    }

    /// Its address, without a path.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Adds further answers.
    pub fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// The next request.
    pub fn asked(&self) -> Asked {
        self.asked.recv_timeout(super::PATIENCE).expect("nothing was asked")
    }

    /// The requests so far.
    pub fn all_asked(&self) -> Vec<Asked> {
        self.asked.try_iter().collect()
    }
}

fn serve(stream: TcpStream, sender: &Sender<Asked>, find: &dyn Fn(&Asked) -> Option<Answer>) {
    let _ = stream.set_nodelay(true);
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        let _ = sender.send(asked.clone());
        let answer = find(&asked);
        let Some(answer) = answer else { return };
        if write(&mut writer, &answer).is_err() || answer.end == End::Dropped {
            let _ = writer.shutdown(std::net::Shutdown::Both);
            return;
        }
        if answer.end == End::Silent {
            // Until the other side has had enough.
            let _ = reader.read(&mut [0]);
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        head.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = head.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { method, path, head, body: String::from_utf8_lossy(&body).into_owned(), bytes: body })
}

fn write(writer: &mut TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Status\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.head {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    writer.write_all(format!("{head}\r\n").as_bytes())?;
    for part in &answer.parts {
        // In one write with its frame, so that it arrives as a separate part.
        let framed = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
        writer.write_all(&framed)?;
        writer.flush()?;
    }
    if answer.end == End::Well {
        writer.write_all(b"0\r\n\r\n")?;
    }
    writer.flush()
}

/// Requests a page and returns the response's head and body: the browser's part of a login.
pub fn get(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}
