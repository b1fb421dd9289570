//! Grants: permissions for one call outside a stage's tools. Each covers exactly the call of its question.
//!
//! A grant is bound to five things: the execution of the stage, the attempt, the proposal, the tool and a
//! digest of the arguments. A call may use it if all five match, and only once. Grants live in memory and
//! belong to the attempt that asked for them; none outlives it. Does not know who asks.

use crate::edn;
use crate::sha256;
use crate::value::Value;

/// The call that a grant covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The execution of the stage, unique per run.
    pub stage_execution: String,
    /// The attempt, from 0.
    pub attempt: u32,
    /// The model's proposal of the call.
    pub proposal: String,
    /// The tool.
    pub tool: String,
    /// [`digest`] of the arguments.
    pub args_digest: String,
}

/// The unused grants of one attempt.
#[derive(Debug, Default)]
pub struct Grants(Vec<Binding>);

impl Grants {
    /// Keeps a grant until it is used.
    pub fn mint(&mut self, binding: Binding) {
        self.0.push(binding);
    }

    /// Uses a grant; `false` if none covers exactly this call.
    #[must_use]
    pub fn consume(&mut self, binding: &Binding) -> bool {
        match self.0.iter().position(|granted| granted == binding) {
            Some(place) => {
                self.0.swap_remove(place);
                true
            }
            None => false,
        }
    }
}

/// A digest of a call's arguments. It is made from their canonical EDN, so that the order of keys and the
/// notation of numbers have no effect. Use it only for comparisons.
pub fn digest(arguments: &Value<'_>) -> String {
    let mut bytes = Vec::new();
    edn::write_canonical(arguments, &mut bytes);
    sha256::hex(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding() -> Binding {
        Binding {
            stage_execution: "x-1".to_owned(),
            attempt: 0,
            proposal: "p-1".to_owned(),
            tool: "bash".to_owned(),
            args_digest: digest(&edn::read_one(b"{:command \"ls\" :timeout-seconds 5}").unwrap()),
        }
    }

    #[test]
    fn a_grant_is_used_once() {
        let mut grants = Grants::default();
        assert!(!grants.consume(&binding()), "none was given");
        grants.mint(binding());
        assert!(grants.consume(&binding()));
        assert!(!grants.consume(&binding()));
    }

    #[test]
    fn grant_covers_nothing_else() {
        let other = |change: fn(&mut Binding)| {
            let mut binding = binding();
            change(&mut binding);
            binding
        };
        let mut grants = Grants::default();
        grants.mint(binding());
        for wrong in [
            other(|binding| binding.stage_execution = "x-2".to_owned()),
            other(|binding| binding.attempt = 1),
            other(|binding| binding.proposal = "p-2".to_owned()),
            other(|binding| binding.tool = "write".to_owned()),
            other(|binding| binding.args_digest = digest(&edn::read_one(b"{:command \"rm\"}").unwrap())),
        ] {
            assert!(!grants.consume(&wrong), "{wrong:?}");
        }
        assert!(grants.consume(&binding()), "the right one is still there");
    }

    #[test]
    fn digest_ignores_notation() {
        let of = |text: &str| digest(&edn::read_one(text.as_bytes()).unwrap());
        assert_eq!(of("{:a 1 :b [2 3]}"), of("{:b [2, 3], :a 1}"));
        for other in ["{:a 1 :b [3 2]}", "{:a 1}", "{:a 1 :b (2 3) :c nil}", "{:a \"1\" :b [2 3]}"] {
            assert_ne!(of("{:a 1 :b [2 3]}"), of(other), "{other}");
        }
    }
}
