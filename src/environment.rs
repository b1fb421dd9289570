//! The environment variables that an engine's programs get and its keys are read from.
//!
//! An engine that runs in the process of its client uses that process's own. In the daemon, each client brings its
//! environment along: what it begins has its variables to the end; what nobody began who brought some has the newest
//! ones. Values may be keys, so nothing here shows them. Knows no process that is started with it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;

/// Variables and their values, of a process to start.
pub type Pairs = Vec<(OsString, OsString)>;

/// What a client brought. A copy is cheap.
#[derive(Clone, PartialEq, Eq)]
pub struct Variables(Arc<Pairs>);

impl From<Pairs> for Variables {
    fn from(pairs: Pairs) -> Self {
        Self(Arc::new(pairs))
    }
}

impl Variables {
    /// The variables, secret ones too.
    pub fn pairs(&self) -> &[(OsString, OsString)] {
        &self.0
    }
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} variables", self.0.len())
    }
}

/// The variables that hold keys of models or of telemetry, beside those that `providers.edn` names: programs do not inherit
/// them.
const KEYS: &[&str] = &[
    "AI21_API_KEY",
    "AIHUBMIX_API_KEY",
    "AIML_API_KEY",
    "AI_GATEWAY_API_KEY",
    "ALEPH_ALPHA_API_KEY",
    "AMP_API_KEY",
    "ANTHROPIC_ADMIN_API_KEY",
    "ANTHROPIC_ADMIN_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "ANYSCALE_API_KEY",
    "ARIZE_API_KEY",
    "ARK_API_KEY",
    "ASSEMBLYAI_API_KEY",
    "AUGMENT_API_TOKEN",
    "AUGMENT_SESSION_AUTH",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_AI_API_KEY",
    "AZURE_API_KEY",
    "AZURE_COGNITIVE_SERVICES_API_KEY",
    "AZURE_INFERENCE_CREDENTIAL",
    "AZURE_OPENAI_API_KEY",
    "BAICHUAN_API_KEY",
    "BASETEN_API_KEY",
    "BRAINTRUST_API_KEY",
    "BYTEPLUS_API_KEY",
    "CEREBRAS_API_KEY",
    "CHUTES_API_KEY",
    "CLARIFAI_API_KEY",
    "CLARIFAI_PAT",
    "CLAUDE_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLINE_API_KEY",
    "CODEIUM_API_KEY",
    "CODESTRAL_API_KEY",
    "CODEX_API_KEY",
    "COHERE_API_KEY",
    "COMET_API_KEY",
    "COPILOT_GITHUB_TOKEN",
    "CORTECS_API_KEY",
    "CO_API_KEY",
    "CURSOR_API_KEY",
    "DASHSCOPE_API_KEY",
    "DD_API_KEY",
    "DD_APP_KEY",
    "DEEPGRAM_API_KEY",
    "DEEPINFRA_API_KEY",
    "ELEVENLABS_API_KEY",
    "FACTORY_API_KEY",
    "FAL_KEY",
    "FEATHERLESS_API_KEY",
    "FIREWORKSAI_API_KEY",
    "FIREWORKS_AI_API_KEY",
    "FIREWORKS_API_KEY",
    "FRIENDLI_TOKEN",
    "GLM_API_KEY",
    "GOOGLE_AI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROK_API_KEY",
    "HELICONE_API_KEY",
    "HF_TOKEN",
    "HONEYCOMB_API_KEY",
    "HUGGINGFACEHUB_API_TOKEN",
    "HUGGINGFACE_API_KEY",
    "HUGGINGFACE_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HUNYUAN_API_KEY",
    "HYPERBOLIC_API_KEY",
    "INCEPTION_API_KEY",
    "JINA_API_KEY",
    "KILOCODE_API_KEY",
    "KILO_API_KEY",
    "KIMI_API_KEY",
    "LAMBDA_API_KEY",
    "LANGCHAIN_API_KEY",
    "LANGFUSE_SECRET_KEY",
    "LANGSMITH_API_KEY",
    "LEPTON_API_KEY",
    "LITELLM_API_KEY",
    "LITELLM_MASTER_KEY",
    "LLAMA_API_KEY",
    "LLAMA_CLOUD_API_KEY",
    "LM_STUDIO_API_KEY",
    "LOGFIRE_API_KEY",
    "LOGFIRE_TOKEN",
    "LOGFIRE_WRITE_TOKEN",
    "MINIMAX_API_KEY",
    "MODELSCOPE_API_KEY",
    "MOONSHOT_API_KEY",
    "MORPH_API_KEY",
    "NEBIUS_API_KEY",
    "NEW_RELIC_LICENSE_KEY",
    "NOVITA_API_KEY",
    "NVIDIA_API_KEY",
    "NVIDIA_NIM_API_KEY",
    "OLLAMA_API_KEY",
    "OPENAI_ADMIN_KEY",
    "OPENCODE_API_KEY",
    "OPENPIPE_API_KEY",
    "OPIK_API_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_PROFILES_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OVHCLOUD_API_KEY",
    "PERPLEXITY_API_KEY",
    "PHOENIX_API_KEY",
    "POE_API_KEY",
    "PORTKEY_API_KEY",
    "PREDIBASE_API_TOKEN",
    "QIANFAN_API_KEY",
    "QWEN_API_KEY",
    "REKA_API_KEY",
    "REPLICATE_API_KEY",
    "REPLICATE_API_TOKEN",
    "REQUESTY_API_KEY",
    "RUNPOD_API_KEY",
    "RUNWAYML_API_SECRET",
    "SAMBANOVA_API_KEY",
    "SILICONFLOW_API_KEY",
    "STABILITY_API_KEY",
    "STEPFUN_API_KEY",
    "SYNTHETIC_API_KEY",
    "TOGETHERAI_API_KEY",
    "TOGETHER_AI_API_KEY",
    "TOGETHER_API_KEY",
    "TRACELOOP_API_KEY",
    "UPSTAGE_API_KEY",
    "V0_API_KEY",
    "VENICE_API_KEY",
    "VERCEL_AI_GATEWAY_API_KEY",
    "VERTEX_API_KEY",
    "VOLCENGINE_API_KEY",
    "VOYAGE_API_KEY",
    "WANDB_API_KEY",
    "WARP_API_KEY",
    "WATSONX_APIKEY",
    "WATSONX_API_KEY",
    "WRITER_API_KEY",
    "XIAOMI_API_KEY",
    "XINFERENCE_API_KEY",
    "YI_API_KEY",
    "ZAI_API_KEY",
    "ZENMUX_API_KEY",
    "ZHIPUAI_API_KEY",
    "ZHIPU_API_KEY",
    "Z_AI_API_KEY",
];

/// The variables that commands need, so that they are hidden only at `:hidden`, though an MCP server gets their value too.
const NEEDED: &[&str] = &[
    "ALL_PROXY",
    "DISPLAY",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LOGNAME",
    "NO_PROXY",
    "PATH",
    "PWD",
    "SHELL",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "WAYLAND_DISPLAY",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// An environment that all its clones share, and the variables that programs do not inherit from it.
#[derive(Clone, Default)]
pub struct Environment {
    brought: Arc<Brought>,
    /// The variables of what a client began; `None` for the newest.
    own: Option<Variables>,
    /// Variables that hold keys.
    hidden: Arc<[String]>,
}

/// What clients brought.
#[derive(Default)]
struct Brought {
    /// The newest; `None` for the process's own variables.
    newest: ArcSwapOption<Variables>,
    /// Those of each client that is there.
    clients: Mutex<HashMap<u64, Variables>>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("brought", &self.variables())
            .field("hidden", &self.hidden)
            .finish()
    }
}

impl Environment {
    /// Notes the variables of a client, which are the newest now.
    pub fn bring(&self, client: u64, variables: Variables) {
        self.clients().insert(client, variables.clone());
        self.brought.newest.store(Some(Arc::new(variables)));
    }

    /// Forgets the variables of a client that has left. What it began keeps them.
    pub fn forget(&self, client: u64) {
        self.clients().remove(&client);
    }

    /// The variables that a client brought.
    pub fn of_client(&self, client: u64) -> Option<Variables> {
        self.clients().get(&client).cloned()
    }

    /// The same environment with these variables, whatever is brought later; with `None`, the newest.
    #[must_use]
    pub fn with(&self, own: Option<Variables>) -> Self {
        Self { own, ..self.clone() }
    }

    /// The same without the variables that hold keys, for programs: the known ones, those that the configuration says are
    /// the keys of providers or the values of servers (`named`), but for those that commands need, and those at `:hidden`.
    #[must_use]
    pub fn hiding(&self, named: impl IntoIterator<Item = String>, hidden: &[String]) -> Self {
        let is_needed = |name: &String| NEEDED.iter().any(|needed| needed.eq_ignore_ascii_case(name));
        let named = named.into_iter().filter(|name| !is_needed(name));
        let known = KEYS.iter().map(|name| (*name).to_owned());
        Self { hidden: known.chain(named).chain(hidden.iter().cloned()).collect(), ..self.clone() }
    }

    /// A variable's value, hidden or not, if it is text.
    pub fn get(&self, name: &str) -> Option<String> {
        match self.variables() {
            None => std::env::var(name).ok(),
            Some(variables) => {
                let (_, value) = variables.pairs().iter().find(|(known, _)| known == OsStr::new(name))?;
                value.to_str().map(str::to_owned)
            }
        }
    }

    /// Those of the variables that `names` lists, without hidden ones.
    pub fn only(&self, names: &[&str]) -> Pairs {
        let wanted = |(name, _): &(OsString, OsString)| {
            name.to_str().is_some_and(|name| names.contains(&name)) && !self.hides(name)
        };
        match self.variables() {
            None => std::env::vars_os().filter(wanted).collect(),
            Some(variables) => {
                variables.pairs().iter().filter(|variable| wanted(variable)).cloned().collect()
            }
        }
    }

    /// What a client brought, without hidden variables; `None` if programs inherit the process's own.
    pub fn brought(&self) -> Option<Pairs> {
        let variables = self.variables()?;
        Some(variables.pairs().iter().filter(|(name, _)| !self.hides(name)).cloned().collect())
    }

    /// All that a client brought; `None` for the process's own variables.
    pub fn variables(&self) -> Option<Variables> {
        self.own.clone().or_else(|| self.brought.newest.load().as_deref().cloned())
    }

    /// Whether programs do not inherit a variable. The case of letters does not count: some programs do not look at it.
    pub fn hides(&self, name: &OsStr) -> bool {
        self.hidden.iter().any(|hidden| name.eq_ignore_ascii_case(hidden))
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Variables>> {
        self.brought.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brought_variables_replace_own_ones_without_hidden() {
        let environment = Environment::default();
        let view = environment.hiding(["KEY".to_owned()], &[]);
        assert_eq!(view.brought(), None);
        assert_eq!(view.get("PATH"), std::env::var("PATH").ok());
        let brought = vec![("KEY".into(), "secret".into()), ("TERM".into(), "dumb".into())];
        environment.bring(1, brought.into());
        assert_eq!(view.get("KEY").as_deref(), Some("secret"));
        assert_eq!(view.get("PATH"), None);
        assert_eq!(view.brought(), Some(vec![("TERM".into(), "dumb".into())]));
        assert_eq!(view.only(&["TERM", "KEY", "HOME"]), vec![("TERM".into(), "dumb".into())]);
        assert!(!format!("{view:?}").contains("secret"));
    }

    #[test]
    fn keys_are_hidden_in_any_case_and_needed_ones_stay() {
        let named = ["MY_TOKEN", "GITHUB_TOKEN", "PATH"].map(str::to_owned);
        let view = Environment::default().hiding(named.clone(), &[]);
        for name in ["MY_TOKEN", "my_token", "Anthropic_Auth_Token", "OTEL_EXPORTER_OTLP_HEADERS"] {
            assert!(view.hides(OsStr::new(name)), "{name}");
        }
        for name in [
            "AMP_API_KEY",
            "ANTHROPIC_ADMIN_KEY",
            "CODESTRAL_API_KEY",
            "COPILOT_GITHUB_TOKEN",
            "FACTORY_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "HUGGINGFACE_API_KEY",
            "HUGGINGFACE_TOKEN",
            "LOGFIRE_TOKEN",
            "NVIDIA_NIM_API_KEY",
            "OTEL_EXPORTER_OTLP_PROFILES_HEADERS",
            "REPLICATE_API_KEY",
            "TOGETHERAI_API_KEY",
            "Z_AI_API_KEY",
        ] {
            assert!(view.hides(OsStr::new(name)), "{name}");
        }
        for name in ["GITHUB_TOKEN", "https_proxy", "PATH", "MY_TOKENS"] {
            assert!(!view.hides(OsStr::new(name)), "{name}");
        }
        let view = Environment::default().hiding(named, &["github_token".to_owned()]);
        assert!(view.hides(OsStr::new("GITHUB_TOKEN")));
    }

    #[test]
    fn what_a_client_began_keeps_its_variables() {
        let environment = Environment::default();
        environment.bring(1, vec![("A".into(), "one".into())].into());
        let first = environment.with(environment.of_client(1));
        environment.bring(2, vec![("A".into(), "two".into())].into());
        assert_eq!(environment.get("A").as_deref(), Some("two"));
        assert_eq!(first.get("A").as_deref(), Some("one"));
        environment.forget(1);
        assert_eq!(environment.of_client(1), None);
        assert_eq!(first.hiding(["B".to_owned()], &[]).get("A").as_deref(), Some("one"));
        // A guest brings none.
        assert_eq!(environment.with(environment.of_client(3)).get("A").as_deref(), Some("two"));
    }
}
