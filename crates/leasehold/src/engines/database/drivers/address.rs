//! Where a database is, as its URL says it.

use crate::engines::database::dialect::Family;
use crate::engines::kit::hosts::{ServerAddress, joined, servers};
use crate::error::{Error, Result};
use crate::url::{Url, decode};

/// Who we are. Never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct DatabaseLogin {
    pub(crate) user: String,
    pub(crate) password: Option<String>,
}

/// What stands before the options of a URL.
#[derive(Clone)]
pub(crate) struct DatabaseTarget {
    /// At least one.
    pub(crate) hosts: Vec<ServerAddress>,
    pub(crate) login: DatabaseLogin,
    pub(crate) database: String,
}

impl DatabaseTarget {
    pub(crate) fn from_url(url: &Url, family: &dyn Family) -> Result<Self> {
        let wrong = || wrong_form(family);
        let rest = url.raw.strip_prefix("//").ok_or_else(wrong)?;
        let (login, place) = rest.rsplit_once('@').ok_or_else(wrong)?;
        let (hosts, database) = place.split_once('/').ok_or_else(wrong)?;
        let database = decode(database)?;
        if database.is_empty() || database.contains('/') {
            return Err(wrong());
        }
        let hosts = servers(hosts, family.port()).ok_or_else(wrong)?;
        Ok(Self { hosts, login: DatabaseLogin::parse(login).ok_or_else(wrong)?, database })
    }

    /// Where it is, without secrets.
    pub(crate) fn endpoint(&self, family: &dyn Family) -> String {
        format!("{}://{}/{}", family.word(), joined(&self.hosts), self.database)
    }
}

impl DatabaseLogin {
    /// `user:password` or `user`. Decoded after the split, so a password may
    /// hold any separator, percent-encoded.
    fn parse(text: &str) -> Option<Self> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let user = decode(user).ok().filter(|user| !user.is_empty())?;
        let password = decode(password).ok()?;
        Some(Self { user, password: Some(password).filter(|password| !password.is_empty()) })
    }
}

/// The URL itself is not repeated: it may hold a password.
fn wrong_form(family: &dyn Family) -> Error {
    let scheme = family.word();
    Error::invalid(format!(
        "the engine URL has the form {scheme}://user[:password]@host[:port][,host[:port]]/database; \
         an IPv6 address stands in brackets, and '@', '/', ':' or '?' in a password are \
         percent-encoded"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::database::dialect::POSTGRES;

    fn target(url: &str) -> Result<DatabaseTarget> {
        DatabaseTarget::from_url(&Url::parse(url).unwrap(), POSTGRES)
    }

    #[test]
    fn hosts_login_and_database() {
        let found = target("postgres://me:p%40ss%2F@a,[::1]:7/shop?x=1").unwrap();
        assert_eq!(found.endpoint(POSTGRES), "postgres://a:5432,[::1]:7/shop");
        assert_eq!(found.login.user, "me");
        assert_eq!(found.login.password.as_deref(), Some("p@ss/"));
        assert_eq!(target("postgres://me@a/shop").unwrap().login.password, None);
    }

    #[test]
    fn what_is_wrong_is_refused_without_the_password() {
        for bad in [
            "postgres:me:hunter2@a/shop",
            "postgres://me:hunter2@a",
            "postgres://me:hunter2@a/",
            "postgres://me:hunter2@a/b/c",
            "postgres://:hunter2@a/shop",
            "postgres://me:hunter2@/shop",
            "postgres://me:hunter2@a:x/shop",
            "postgres://a/shop",
        ] {
            let Err(error) = target(bad) else { panic!("{bad} was taken") };
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
