//! What the files say of the tool `fetch`: `{:fetch {:private ["localhost:3000" "*.corp.example"] :proxy true}}`.

use crate::http::host::HostPattern;
use crate::limits::FETCH_PRIVATE_HOSTS;
use crate::value::Value;

/// What a file says of `fetch`.
#[derive(Debug, Default)]
pub(super) struct FetchSettings {
    /// The hosts that may be on this machine or in a private network.
    pub(super) private: Vec<HostPattern>,
    /// Whether it goes through the proxy that the environment names.
    pub(super) proxy: Option<bool>,
}

impl FetchSettings {
    /// Reads what a file says.
    ///
    /// # Errors
    /// What the value must be.
    pub(super) fn read(value: &Value<'_>) -> Result<Self, &'static str> {
        const SHAPE: &str = "{:private [host …]}, each host like localhost:3000, 10.0.0.7 or *.corp.example";
        let map = value.as_map().ok_or(SHAPE)?;
        let mut settings = Self::default();
        for (key, value) in map.iter() {
            match key.as_keyword() {
                Some("private") => {
                    let list = value.as_slice().filter(|list| list.len() <= FETCH_PRIVATE_HOSTS);
                    for host in list.ok_or("{:private [host …]}, with at most 100 hosts")? {
                        let host = HostPattern::read(host.as_str().ok_or(SHAPE)?).map_err(|_| SHAPE)?;
                        settings.private.push(host);
                    }
                }
                Some("proxy") => {
                    settings.proxy = Some(value.as_bool().ok_or("{:proxy true} or {:proxy false}")?)
                }
                _ => return Err("a map with no other keys than :private and :proxy"),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::layers::Layers;
    use super::super::source_position::FileText;
    use super::*;
    use crate::edn;

    #[test]
    fn proxy_is_the_users_to_switch_on() {
        let text = br#"{:fetch {:private ["a.example"] :proxy true}}"#;
        let value = edn::read_one(text).unwrap().into_owned();
        let map = value.as_map().unwrap();
        let file = FileText { path: Path::new("/config.edn"), bytes: text };
        let (mut user, mut project) = (Layers::default(), Layers::default());
        assert!(user.take_user(file, map).is_empty());
        project.take_project(file, map, true);
        assert_eq!((user.fetch_proxy, user.private_hosts.len(), user.passed_over.len()), (true, 1, 0));
        assert_eq!((project.fetch_proxy, project.private_hosts.len()), (false, 1));
        assert!(project.passed_over[0].contains("only the user's own"), "{:?}", project.passed_over);
        for wrong in ["{:proxy 1}", "{:proxies true}", "{:private \"a\"}", "[]"] {
            assert!(FetchSettings::read(&edn::read_one(wrong.as_bytes()).unwrap()).is_err(), "{wrong}");
        }
    }
}
