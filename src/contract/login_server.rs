//! A login server on loopback, for checks of logins. It issues a code, and a token after the code was entered.
//! Knows the few HTTP messages of a device login.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::stop::Stop;

/// A running server.
pub struct LoginServer {
    url: String,
    entered: Arc<AtomicBool>,
}

impl LoginServer {
    /// Starts one.
    ///
    /// # Errors
    /// If this machine lends no port.
    pub fn start() -> Result<Self, Stop> {
        let failed = |error: std::io::Error| Stop::failed(format!("no login server can be started: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let url = format!("http://{}", listener.local_addr().map_err(failed)?);
        let entered = Arc::new(AtomicBool::new(false));
        let seen = entered.clone();
        // It ends with the runner; a failed connection is the tested server's problem.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &seen);
            }
        });
        Ok(Self { url, entered })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Plays the person who enters the code.
    pub fn enter(&self) {
        self.entered.store(true, Ordering::Release);
    }
}

fn answer(mut stream: TcpStream, entered: &AtomicBool) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    let (status, body) = match (head.contains(" /device "), entered.load(Ordering::Acquire)) {
        (true, _) => (
            "200 OK",
            r#"{"device_code":"d","user_code":"WDJB-MJHT","verification_uri":"https://p.example/device","expires_in":600,"interval":0}"#,
        ),
        (false, false) => ("400 Bad Request", r#"{"error":"authorization_pending"}"#),
        (false, true) => ("200 OK", r#"{"access_token":"at","token_type":"Bearer","expires_in":3600}"#),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
