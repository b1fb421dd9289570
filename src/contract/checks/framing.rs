//! Checks of lines: valid and invalid ones, and that the connection continues after each.

use super::super::check::{Check, Probe, Stop, ensure, text};
use super::super::peer::{Answer, ErrorAnswer, Peer, request};
use crate::limits::{MAX_DEPTH, MAX_FRAME_VALUES, MAX_LINE_BYTES};
use crate::value::Value;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "framing.blank-line",
        about: "A line without a form is refused, and the connection continues.",
        needs: &[],
        run: |probe| refused(probe, &[b"", b"   ", b", ,", b"; comment"]),
    },
    Check {
        name: "framing.not-edn",
        about: "A line that is not EDN is refused, with reason and offset.",
        needs: &[],
        run: |probe| {
            refused(probe, &[b"{", b"]", b"{:a}", b"\"open", b"{:a 1 :a 2}", b"#{1 1}", b"\\", b"{:a #tag}"])
        },
    },
    Check {
        name: "framing.two-forms",
        about: "Two forms on a line are refused as one line; neither is served.",
        needs: &[],
        run: |probe| {
            let twice = format!("{} {}", request("a", "ping", "{}"), request("b", "ping", "{}"));
            refused(probe, &[twice.as_bytes(), b"{} {}", b"1 2"])
        },
    },
    Check {
        name: "framing.utf8",
        about: "A line that is not UTF-8 is refused.",
        needs: &[],
        run: |probe| refused(probe, &[b"{:a \"\xff\xfe\"}", b"\xc3\x28", b"\"\xed\xa0\x80\""]),
    },
    Check {
        name: "framing.too-long",
        about: "A line over the limit is refused and skipped; one at the limit is accepted.",
        needs: &[],
        run: line_length,
    },
    Check {
        name: "framing.too-deep",
        about: "A form nested over the limit is refused; one at the limit is accepted.",
        needs: &[],
        run: depth,
    },
    Check {
        name: "framing.too-many-values",
        about: "A line with more values than the limit is refused under its id; one at the limit is accepted.",
        needs: &[],
        run: values,
    },
    Check {
        name: "framing.carriage-return",
        about: "A carriage return before the line feed is not part of the line.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let id = peer.new_id();
            peer.expects(&id, "ping");
            peer.send_bytes(format!("{}\r\n", request(&id, "ping", "{}")).as_bytes());
            peer.answer_ok(&id).map(|_| ())
        },
    },
    Check {
        name: "framing.split",
        about: "A request that arrives in pieces is one request.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            let id = peer.new_id();
            peer.expects(&id, "ping");
            for byte in format!("{}\n", request(&id, "ping", "{:text \"é λ\"}")).bytes() {
                peer.send_bytes(&[byte]);
            }
            peer.answer_ok(&id).map(|_| ())
        },
    },
    Check {
        name: "framing.joined",
        about: "Many requests that arrive at once are each answered.",
        needs: &[],
        run: joined,
    },
    Check {
        name: "framing.recovers",
        about: "Bad lines between good ones do not affect the good ones.",
        needs: &[],
        run: recovers,
    },
    Check {
        name: "framing.end-in-mid-line",
        about: "Input that ends within a line ends the server like any other end.",
        needs: &[],
        run: |probe| {
            let mut peer = probe.ready()?;
            peer.send_bytes(b"{:id \"cut\" :kind :request :op");
            peer.close_input();
            let status = peer.wait_exit()?;
            ensure(status == 0, || format!("the exit status is {status}"))
        },
    },
];

/// Sends lines that must each get `transport/invalid-frame`, and a request that must be served after it.
fn refused(probe: &Probe<'_>, lines: &[&[u8]]) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    for line in lines {
        peer.send_bytes(&[line, b"\n".as_slice()].concat());
        let error = peer.stray_error("transport/invalid-frame")?;
        explained(probe, &error)?;
        peer.barrier()?;
    }
    Ok(())
}

/// `:data {:reason … :offset …}`
fn explained(probe: &Probe<'_>, error: &ErrorAnswer) -> Result<(), Stop> {
    let Some(data) = error.frame.get("data") else {
        probe.note("transport/invalid-frame carries no :data with :reason and :offset.");
        return Ok(());
    };
    ensure(!text(data, "reason").is_empty(), || ":data :reason is missing".to_owned())?;
    let offset = data.get("offset").and_then(Value::as_i64);
    ensure(offset.is_some_and(|offset| offset >= 0), || format!(":data :offset is {offset:?}"))
}

/// A `ping` whose line is exactly `length` bytes long.
fn padded(peer: &mut Peer, length: usize) -> (String, String) {
    let id = peer.new_id();
    let bare = request(&id, "ping", "{:pad \"\"}").len();
    let pad = "x".repeat(length.saturating_sub(bare));
    let line = request(&id, "ping", &format!("{{:pad \"{pad}\"}}"));
    (id, line)
}

fn line_length(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    let (id, line) = padded(&mut peer, MAX_LINE_BYTES);
    peer.expects(&id, "ping");
    peer.send_line(&line);
    peer.answer(&id)?;
    let (_, line) = padded(&mut peer, MAX_LINE_BYTES.saturating_add(1));
    peer.send_line(&line);
    let error = peer.stray_error("transport/invalid-frame")?;
    explained(probe, &error)?;
    peer.barrier()
}

fn depth(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    // The request and its params are two of the levels.
    let nested = |levels: usize| {
        let inside = levels.saturating_sub(2);
        format!("{{:deep {}{}}}", "[".repeat(inside), "]".repeat(inside))
    };
    let id = peer.send("ping", &nested(MAX_DEPTH));
    peer.answer(&id)?;
    let deep = request("deep", "ping", &nested(MAX_DEPTH.saturating_add(1)));
    peer.send_line(&deep);
    let error = peer.stray_error("transport/invalid-frame")?;
    explained(probe, &error)?;
    for hostile in ["[".repeat(100_000), "#_".repeat(100_000), "{:a ".repeat(100_000)] {
        peer.send_line(&hostile);
        peer.stray_error("transport/invalid-frame")?;
    }
    peer.barrier()
}

fn values(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    // The keys and values of the request and of its params are ten.
    let filled = |values: usize| format!("{{:values [{}]}}", "[]".repeat(values.saturating_sub(10)));
    let id = peer.send("ping", &filled(MAX_FRAME_VALUES));
    peer.answer(&id)?;
    for many in [MAX_FRAME_VALUES.saturating_add(1), MAX_LINE_BYTES / 4] {
        let id = peer.send("ping", &filled(many));
        match peer.answer(&id)? {
            Answer::Error(error) if error.code == "transport/invalid-frame" => explained(probe, &error)?,
            Answer::Error(error) => {
                return Err(Stop::failed(format!("transport/invalid-frame was due and {} came", error.code)));
            }
            // This bound is a server's own: the contract only knows those on bytes and depth.
            Answer::Ok(_) => {
                return Err(Stop::NotApplicable("the server takes lines of more values".to_owned()));
            }
        }
    }
    peer.barrier()
}

fn joined(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    let ids: Vec<String> = (0..100).map(|_| peer.new_id()).collect();
    let mut bytes = String::new();
    for id in &ids {
        peer.expects(id, "ping");
        bytes.push_str(&request(id, "ping", "{}"));
        bytes.push('\n');
    }
    peer.send_bytes(bytes.as_bytes());
    ids.iter().try_for_each(|id| peer.answer_ok(id).map(|_| ()))
}

fn recovers(probe: &Probe<'_>) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    let good: Vec<String> = (0..20).map(|_| peer.new_id()).collect();
    let bad: [&[u8]; 4] = [b"{", b"\xff", b"", b"#inst \"never\""];
    for (id, bad) in good.iter().zip(bad.iter().cycle()) {
        peer.send_bytes(&[bad, b"\n".as_slice()].concat());
        peer.send_as(id, "ping", "{}");
    }
    good.iter().try_for_each(|id| peer.answer_ok(id).map(|_| ()))?;
    good.iter().try_for_each(|_| peer.stray_error("transport/invalid-frame").map(|_| ()))
}
