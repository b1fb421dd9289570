//! What holds of any line of the UI wire: it is read within its bounds or refused with a code, an id is found in the
//! start of a long line only if it can be echoed, and the checks of the table take any params. The fuzz target `ui_line`
//! uses it too.

use edn_bridge::json;
use edn_bridge::wire::jsonrpc::{self, RpcMessage};
use edn_bridge::wire::ui::methods::{self, METHODS};
use edn_bridge::wire::ui::shape;

/// Checks a line.
pub fn check(line: &[u8]) {
    if let Some(id) = jsonrpc::id_in_head(line) {
        json::read(id.as_bytes()).expect("an id is JSON");
        assert!(!id.contains('\n'));
    }
    match jsonrpc::read(line) {
        Ok(Some(RpcMessage::Request { id, method, params })) => {
            json::read(id.as_bytes()).expect("an id is JSON");
            let _ = methods::find(&method);
            for method in METHODS {
                if let Err(misfit) = shape::check(method.params, &params) {
                    assert!(!misfit.expected.is_empty());
                }
            }
        }
        Ok(_) => {}
        Err(misread) => assert!(!misread.to_string().is_empty()),
    }
}
