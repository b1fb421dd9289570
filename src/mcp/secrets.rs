//! The values of variables and headers, looked up when a server is started.

use super::server_context::ServerContext;
use super::settings::{Server, ServerTransport};
use crate::peer::{self, Variable, names_key};
use crate::secret::Secret;

/// The values of a server's variables and headers.
pub(super) struct Values {
    /// Variables of its program.
    pub(super) environment: Vec<(String, Secret)>,
    /// Headers of its requests.
    pub(super) headers: Vec<(String, Secret)>,
}

impl Values {
    /// Looks them up.
    ///
    /// # Errors
    /// What is missing, as a sentence.
    pub(super) async fn of(server: &Server, place: &ServerContext) -> Result<Self, String> {
        let mut all = [Vec::new(), Vec::new()];
        for (values, variables) in all.iter_mut().zip([&server.environment, &server.headers]) {
            for (name, variable) in variables {
                let value = peer::value(name, variable, &place.environment, &*place.keys).await?;
                values.push((name.clone(), value));
            }
        }
        let [environment, headers] = all;
        Ok(Self { environment, headers })
    }

    /// Those that hold a key wherever they are met, and those that only may: a path in a variable is none.
    pub(super) fn secrets(&self, server: &Server) -> (Vec<Secret>, Vec<Secret>) {
        let mut certain: Vec<Secret> = self.headers.iter().map(|(_, value)| value.clone()).collect();
        let bare =
            |value: &Secret| value.expose().rsplit(' ').next().map(|bare| Secret::new(bare.to_owned()));
        certain.extend(self.headers.iter().filter_map(|(_, value)| bare(value)));
        // A key stands for itself, also without what is written before it.
        let variables = server.environment.iter().chain(&server.headers);
        let values = self.environment.iter().chain(&self.headers);
        certain.extend(values.zip(variables).filter_map(|((_, value), (_, variable))| {
            let (Variable::Variable { prefix, .. } | Variable::KeyOf { prefix, .. }) = variable else {
                return None;
            };
            let bare = value.expose().strip_prefix(prefix.as_str())?;
            (!prefix.is_empty()).then(|| Secret::new(bare.to_owned()))
        }));
        let mut possible = Vec::new();
        for ((name, value), (_, variable)) in self.environment.iter().zip(&server.environment) {
            let is_key = !matches!(variable, Variable::Text(_)) || names_key(name);
            if is_key { certain.push(value.clone()) } else { possible.push(value.clone()) }
        }
        if let ServerTransport::Http(url) = &server.way {
            certain.extend(url.password().map(|password| Secret::new(password.to_owned())));
            certain.extend(url.query_pairs().map(|(_, value)| Secret::new(value.into_owned())));
        }
        (certain, possible)
    }
}
