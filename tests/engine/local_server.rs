//! A real model server on this machine, opt-in; CONTRIBUTING.md says how to start one.

use crate::support;

use edn_bridge::value::Value;
use support::{Setup, at, text};

#[test]
#[ignore = "needs a server; name it with EDN_BRIDGE_LOCAL_SERVER"]
fn a_real_local_server_answers() {
    let url = std::env::var("EDN_BRIDGE_LOCAL_SERVER")
        .expect("EDN_BRIDGE_LOCAL_SERVER, such as http://127.0.0.1:8080/v1");
    let model = std::env::var("EDN_BRIDGE_LOCAL_MODEL").unwrap_or_else(|_| "default".to_owned());
    let setup = Setup::new().arg("--provider").arg("local").arg("--model").arg(&model);
    let config = setup.dir.path().join("config.edn");
    let listed =
        format!("{{:provider \"local\" :id {model:?} :context-window 8192 :max-output 64 :tools false}}");
    let text_of = format!("{{:providers {{\"local\" {{:base-url {url:?}}}}} :models [{listed}]}}");
    std::fs::write(&config, text_of).unwrap();
    let mut bridge = setup.arg("--config").arg(config.to_str().unwrap()).ready();
    bridge.request("p", "prompt", "{:message \"Say hello.\"}");
    let (mut deltas, mut said) = (0, String::new());
    let last = loop {
        let frame = bridge.frame();
        let data =
            |key: &str| at(&frame, &["data", key]).and_then(Value::as_str).unwrap_or_default().to_owned();
        match text(&frame, "event") {
            "assistant/delta" => {
                deltas += 1;
                said.push_str(&data("text"));
            }
            "assistant/message" => break frame,
            _ => {}
        }
    };
    let whole = at(&last, &["data", "text"]).and_then(Value::as_str).unwrap_or_default();
    assert!(deltas > 1 && said == whole, "{deltas} deltas\n{}", bridge.told());
}
