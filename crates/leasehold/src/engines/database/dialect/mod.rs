//! What differs between the families of servers.

/// Where a server has nothing shorter, a client that pauses inside a
/// transaction, or has vanished, is cut off after so many seconds. More than the
/// time between two looks at a connection.
pub(crate) const SILENCE: u64 = 15;

/// The family of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Postgres,
    Mysql,
}

impl Dialect {
    pub(super) fn of(scheme: &str) -> Self {
        if scheme.starts_with("postgres") { Self::Postgres } else { Self::Mysql }
    }

    /// The scheme.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }

    pub(super) const fn port(self) -> u16 {
        match self {
            Self::Postgres => 5432,
            Self::Mysql => 3306,
        }
    }
}
