//! The wires that the runner speaks: how a request is written, how a client introduces itself, and which rules look at
//! what comes. Knows no check.

use std::rc::Rc;

use edn_bridge_client::frame;
use edn_codec::value::Map;
use edn_codec::{self as edn, Value};

use crate::catalogue::Catalogue;
use crate::expression::Form;
use crate::json;
use crate::rules::{self, Frame, Ledger, Witness};
use crate::ui_rules::{self, UiWitness};

/// A wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    /// EDN maps, one a line.
    #[default]
    Edn,
    /// JSON-RPC lines of the UI protocol.
    Ui,
}

/// A name that is no wire.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0:?} is not a wire; edn and ui-protocol are")]
pub struct UnknownWire(String);

impl std::str::FromStr for Wire {
    type Err = UnknownWire;

    fn from_str(name: &str) -> Result<Self, UnknownWire> {
        match name {
            "edn" => Ok(Self::Edn),
            "ui-protocol" => Ok(Self::Ui),
            other => Err(UnknownWire(other.to_owned())),
        }
    }
}

impl Wire {
    /// A request as a line, without its end. `params` is a map in EDN.
    pub(crate) fn request(self, id: &str, op: &str, params: &str) -> String {
        match self {
            Self::Edn => frame::request(id, op, params),
            Self::Ui => {
                let params = edn::read_one(params.as_bytes()).map_or(Value::Nil, Value::into_owned);
                let mut message = Map::new();
                message.put("jsonrpc", "2.0");
                message.put("id", id.to_owned());
                message.put("method", op.to_owned());
                message.put("params", params);
                json::write(&Value::from(message))
            }
        }
    }

    /// The first request of a client, with its params: these features are requested, or can be shown.
    pub(crate) fn greeting(self, features: Form) -> (&'static str, Form) {
        match self {
            Self::Edn => ("handshake", client_info("1.0", features)),
            Self::Ui => {
                let client =
                    Value::map([("name", "contract"), ("version", "1")].map(|(key, value)| pair(key, value)));
                let can = features.as_slice().unwrap_or_default().iter().filter_map(Value::as_str);
                let can = Value::map(can.map(|name| pair(name, true)));
                let params =
                    [pair("protocol_version", "0"), pair("client", client), pair("ui_capabilities", can)];
                ("initialize", Value::map(params))
            }
        }
    }

    /// A request whose answer follows all that came before. On the UI wire no method is served everywhere, so it is
    /// one that is served nowhere.
    pub(crate) const fn barrier(self) -> &'static str {
        match self {
            Self::Edn => "ping",
            Self::Ui => "contract.barrier",
        }
    }

    /// A line as a value.
    pub(crate) fn read(self, line: &[u8]) -> Result<Form, String> {
        match self {
            Self::Edn => edn::read_one(line).map(Value::into_owned).map_err(|error| error.to_string()),
            Self::Ui => json::read(line),
        }
    }

    pub(crate) fn watcher(self, catalogue: Rc<Catalogue>) -> Watcher {
        match self {
            Self::Edn => Watcher::Edn(Witness::new(catalogue)),
            Self::Ui => Watcher::Ui(UiWitness::new(catalogue)),
        }
    }

    /// All rules of this wire, each with its requirement.
    pub fn rules(self, catalogue: &Catalogue) -> Vec<(String, String)> {
        match self {
            Self::Edn => rules::rules(catalogue),
            Self::Ui => ui_rules::rules(catalogue),
        }
    }
}

fn pair(key: &str, value: impl Into<Form>) -> (Form, Form) {
    (Value::keyword(key.to_owned()), value.into())
}

/// The params of a handshake.
pub(crate) fn client_info(version: &str, features: Form) -> Form {
    let info = [
        pair("name", "contract"),
        pair("version", "1"),
        pair("protocol-version", version.to_owned()),
        pair("features", features),
    ];
    Value::map([pair("client-info", Value::map(info))])
}

/// The witness of one connection.
#[derive(Debug)]
pub(crate) enum Watcher {
    Edn(Witness),
    Ui(UiWitness),
}

impl Watcher {
    /// Registers a sent request.
    pub(crate) fn sends(&mut self, id: &str, op: &str) {
        match self {
            Self::Edn(witness) => witness.sends(id, op),
            Self::Ui(witness) => witness.sends(id, op),
        }
    }

    /// The pending requests.
    pub(crate) fn pending(&self) -> usize {
        match self {
            Self::Edn(witness) => witness.pending(),
            Self::Ui(witness) => witness.pending(),
        }
    }

    /// Examines a line from the server.
    pub(crate) fn receives(&mut self, line: &[u8], ledger: &mut Ledger) -> Frame {
        match self {
            Self::Edn(witness) => witness.receives(line, ledger),
            Self::Ui(witness) => witness.receives(line, ledger),
        }
    }
}
