//! The policy of control: which teams there are, and what their members may do. Denied is what it does not name.
//!
//! Only the user's own file has it: a project that names a team could let others in.

use std::path::{Path, PathBuf};

use crate::limits::{
    CONTROL_ACK_MS, CONTROL_AGE_MS, CONTROL_ID_BYTES, CONTROL_SKEW_MS, CONTROL_TEXT_BYTES,
    CONTROL_TEXT_MAX_BYTES, IDEMPOTENCY_WINDOW_MS,
};
use crate::value::Value;

/// The policy of control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPolicy {
    /// The teams. Without one, nothing is served.
    pub teams: Vec<Team>,
    /// The folders of files with texts, besides the program's own.
    pub content_folders: Vec<PathBuf>,
    /// The size in bytes of a text beyond which it must be in a file.
    pub hard_limit_bytes: u64,
    /// The oldest request that is taken, in milliseconds.
    pub max_age_ms: u64,
    /// How far in the future the time of a request may be, in milliseconds.
    pub max_skew_ms: u64,
    /// How long the key of a request is known at least, in milliseconds.
    pub dedupe_ms: u64,
    /// How long a session has for an acknowledgement, in milliseconds.
    pub ack_timeout_ms: u64,
    /// Whether the audit has the texts.
    pub log_text: bool,
    /// A further path of the socket.
    pub socket: Option<PathBuf>,
}

/// A team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// Its name.
    pub name: String,
    /// Its sessions are those of these folders and of what is below them; of every folder if there are none.
    pub folders: Vec<PathBuf>,
    /// Its members.
    pub members: Vec<Member>,
}

/// A member of a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// What it may do: `stdin`, `interrupt`, `answer`.
    pub may: Vec<String>,
}

/// What a member may do.
const POWERS: [&str; 3] = ["stdin", "interrupt", "answer"];

/// What a member may do that is named alone. Answers are for those of whom it is said.
const USUAL_POWERS: [&str; 2] = ["stdin", "interrupt"];

impl Default for ControlPolicy {
    fn default() -> Self {
        Self {
            teams: Vec::new(),
            content_folders: Vec::new(),
            hard_limit_bytes: CONTROL_TEXT_BYTES,
            max_age_ms: CONTROL_AGE_MS,
            max_skew_ms: CONTROL_SKEW_MS,
            dedupe_ms: IDEMPOTENCY_WINDOW_MS,
            ack_timeout_ms: CONTROL_ACK_MS,
            log_text: false,
            socket: None,
        }
    }
}

impl ControlPolicy {
    /// Reads the value of `:control`.
    ///
    /// # Errors
    /// What the value must be.
    pub fn read(value: &Value<'_>) -> Result<Self, &'static str> {
        let map = value.as_map().ok_or("a map")?;
        let mut policy = Self::default();
        for (key, value) in map.iter() {
            let number = |most: u64| {
                let number = value.as_i64().and_then(|number| u64::try_from(number).ok());
                number.filter(|number| (1..=most).contains(number))
            };
            const HOUR: u64 = 3_600_000;
            match key.as_keyword().ok_or("a map with keywords as keys")? {
                "teams" => {
                    let teams = value.as_slice().ok_or("a map with :teams [{:name … :members […]} …]")?;
                    policy.teams = teams.iter().map(Team::read).collect::<Result<_, _>>()?;
                }
                "content-folders" => policy.content_folders = folders(value)?,
                "socket" => policy.socket = Some(path(value).ok_or("a map with :socket \"/a/path\"")?),
                "log-text" => {
                    policy.log_text = value.as_bool().ok_or("a map with :log-text true or false")?
                }
                "hard-limit-bytes" => {
                    let number = number(CONTROL_TEXT_MAX_BYTES);
                    policy.hard_limit_bytes =
                        number.ok_or("a map with :hard-limit-bytes of at most 4 MiB")?;
                }
                "max-age-ms" => {
                    policy.max_age_ms = number(HOUR).ok_or("a map with :max-age-ms of at most an hour")?;
                }
                "max-skew-ms" => {
                    policy.max_skew_ms = number(HOUR).ok_or("a map with :max-skew-ms of at most an hour")?;
                }
                "dedupe-ms" => {
                    let number = number(24 * HOUR);
                    policy.dedupe_ms = number.ok_or("a map with :dedupe-ms of at most a day")?;
                }
                "ack-timeout-ms" => {
                    let number = number(60_000);
                    policy.ack_timeout_ms = number.ok_or("a map with :ack-timeout-ms of at most a minute")?;
                }
                _ => {
                    return Err("a map of :teams, :content-folders, :hard-limit-bytes, :max-age-ms, \
                        :max-skew-ms, :dedupe-ms, :ack-timeout-ms, :log-text and :socket");
                }
            }
        }
        // A request that is still young enough must find its key.
        if policy.dedupe_ms <= policy.max_age_ms.saturating_add(policy.max_skew_ms) {
            return Err("a map with a :dedupe-ms greater than :max-age-ms and :max-skew-ms together");
        }
        Ok(policy)
    }

    /// The team of a name.
    pub fn team(&self, name: &str) -> Option<&Team> {
        self.teams.iter().find(|team| team.name == name)
    }

    /// The team of the sessions of a folder: the first whose folders have it, else the first without folders.
    pub fn team_of(&self, cwd: &Path) -> Option<&Team> {
        let has = |team: &&Team| team.folders.iter().any(|folder| cwd.starts_with(folder));
        self.teams.iter().find(has).or_else(|| self.teams.iter().find(|team| team.folders.is_empty()))
    }
}

impl Team {
    fn read(value: &Value<'_>) -> Result<Self, &'static str> {
        const SHAPE: &str = "a map with :teams [{:name \"team\" :members [\"name\" {:name … :may […]}]}]";
        let members = value.get("members").and_then(Value::as_slice).ok_or(SHAPE)?;
        Ok(Self {
            name: name(value.get("name")).ok_or(SHAPE)?,
            folders: value.get("folders").map_or(Ok(Vec::new()), folders)?,
            members: members.iter().map(Member::read).collect::<Result<_, _>>()?,
        })
    }

    /// The member of a name, which may have `@` and the team's name behind it.
    pub fn member(&self, name: &str) -> Option<&Member> {
        let name = name.strip_suffix(&self.name).and_then(|name| name.strip_suffix('@')).unwrap_or(name);
        self.members.iter().find(|member| member.name == name)
    }
}

impl Member {
    fn read(value: &Value<'_>) -> Result<Self, &'static str> {
        const SHAPE: &str =
            "a map of teams with :members such as \"name\" or {:name \"name\" :may [:stdin :answer]}";
        if let Some(name) = name(Some(value)) {
            return Ok(Self { name, may: USUAL_POWERS.map(str::to_owned).to_vec() });
        }
        let may = match value.get("may") {
            None => USUAL_POWERS.map(str::to_owned).to_vec(),
            Some(may) => {
                let powers = may.as_slice().ok_or(SHAPE)?.iter().map(|power| {
                    let power = power.as_keyword().or_else(|| power.as_str()).unwrap_or_default();
                    POWERS.contains(&power).then(|| power.to_owned()).ok_or(SHAPE)
                });
                powers.collect::<Result<_, _>>()?
            }
        };
        Ok(Self { name: name(value.get("name")).ok_or(SHAPE)?, may })
    }
}

fn name(value: Option<&Value<'_>>) -> Option<String> {
    let name = value?.as_str()?;
    (!name.trim().is_empty() && name.len() <= CONTROL_ID_BYTES).then(|| name.to_owned())
}

/// A path, with `~` for the home folder. A link in it is resolved now: later a command may have made it.
fn path(value: &Value<'_>) -> Option<PathBuf> {
    let text = value.as_str()?;
    let path = match text.strip_prefix("~/") {
        Some(below) => dirs::home_dir()?.join(below),
        None => PathBuf::from(text),
    };
    path.is_absolute().then(|| path.canonicalize().unwrap_or(path))
}

fn folders(value: &Value<'_>) -> Result<Vec<PathBuf>, &'static str> {
    const SHAPE: &str = "a map with folders such as [\"~/work\" \"/srv/in\"]";
    value.as_slice().ok_or(SHAPE)?.iter().map(|folder| path(folder).ok_or(SHAPE)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ControlPolicy, &'static str> {
        ControlPolicy::read(&crate::edn::read_one(text.as_bytes()).unwrap())
    }

    #[test]
    fn team_of_a_folder_is_the_nearest_named_one() {
        let policy = read(
            r#"{:teams [{:name "all" :members ["a"]} {:name "w" :folders ["/w"] :members [{:name "b" :may [:answer]}]}]}"#,
        )
        .unwrap();
        let team = |cwd: &str| policy.team_of(Path::new(cwd)).map(|team| team.name.as_str());
        assert_eq!((team("/w/x"), team("/wx"), team("/")), (Some("w"), Some("all"), Some("all")));
        let all = policy.team("all").unwrap();
        assert_eq!(all.member("a@all").unwrap().may, ["stdin", "interrupt"]);
        assert_eq!((all.member("a@w"), all.member("b")), (None, None));
        assert_eq!(policy.team("w").unwrap().member("b").unwrap().may, ["answer"]);
    }

    #[test]
    fn wrong_policy_is_refused() {
        for wrong in [
            "[]",
            "{:team []}",
            "{:teams [{:name \"\" :members []}]}",
            "{:teams [{:name \"t\"}]}",
            "{:teams [{:name \"t\" :members [{:name \"m\" :may [:all]}]}]}",
            "{:teams [{:name \"t\" :members [] :folders [\"relative\"]}]}",
            "{:hard-limit-bytes 0}",
            "{:hard-limit-bytes 4194305}",
            "{:dedupe-ms 360000}",
            "{:log-text 1}",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read("{:dedupe-ms 360001}").unwrap().dedupe_ms, 360_001);
    }
}
