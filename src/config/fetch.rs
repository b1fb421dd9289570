//! What the files say of the tool `fetch`: `{:fetch {:private ["localhost:3000" "*.corp.example"]}}`.

use crate::http::host::HostPattern;
use crate::limits::FETCH_PRIVATE_HOSTS;
use crate::value::Value;

/// The hosts that may be on this machine or in a private network.
///
/// # Errors
/// What the value must be.
pub(super) fn private_hosts(value: &Value<'_>) -> Result<Vec<HostPattern>, &'static str> {
    const SHAPE: &str = "{:private [host …]}, each host like localhost:3000, 10.0.0.7 or *.corp.example";
    let map = value.as_map().ok_or(SHAPE)?;
    let mut hosts = Vec::new();
    for (key, value) in map.iter() {
        match key.as_keyword() {
            Some("private") => {
                let list = value.as_slice().filter(|list| list.len() <= FETCH_PRIVATE_HOSTS);
                for host in list.ok_or("{:private [host …]}, with at most 100 hosts")? {
                    hosts.push(HostPattern::read(host.as_str().ok_or(SHAPE)?).map_err(|_| SHAPE)?);
                }
            }
            _ => return Err("a map with no other key than :private"),
        }
    }
    Ok(hosts)
}
