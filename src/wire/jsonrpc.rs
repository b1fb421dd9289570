//! Lines of JSON-RPC as a connection reads them. The UI wire and the ACP wire speak it. Knows no method.

use std::sync::Arc;

pub use crate::jsonrpc::{Misread, RpcMessage, at, flag, text};
pub use crate::jsonrpc::{id_in_head, read};
use crate::wire::lines::Line;

/// Reads a line as it came, which may have at most so many bytes.
///
/// # Errors
/// See [`Misread`]. With it comes the id of the request that the line seems to be, unless that is pending already.
pub fn read_line<'a>(
    line: &Line<'a>,
    most: usize,
    is_pending: impl Fn(&str) -> bool,
) -> Result<Option<RpcMessage<'a>>, (Option<Arc<str>>, Misread)> {
    match line {
        Line::Whole(bytes) => read(bytes).map_err(|misread| (None, misread)),
        Line::Oversize(length, head) => {
            let message = format!("The line is {length} bytes long; the maximum is {most}.");
            Err((id_in_head(head).filter(|id| !is_pending(id)), Misread::Line(message)))
        }
        Line::Unterminated(_) => {
            let message = "The input ended in the middle of a line; a message ends with a line feed.";
            Err((None, Misread::Line(message.to_owned())))
        }
    }
}
