//! `schema`: which database, and which part of what is stored there.

use clap::{Args, ValueEnum};
use leasehold::sql;

/// Print the tables of a database engine, or triggers that guard your own
///
/// The engine creates its tables itself, if it may. Print them to have them
/// created by your migrations, for a role that may only use them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold schema postgres | psql shop
  leasehold schema mysql --prefix app_ | mysql shop
  leasehold schema postgres --names               a table for sql::lock_in
  leasehold schema postgres --once                keys for Once::in_transaction
  leasehold schema postgres --guard goods         refuse fences that are older
  leasehold schema mysql --guard goods --column version
  leasehold schema sqlite --guard goods --column revision --rule version

A guard is a trigger on your own table. It refuses updates that come late, also
those of programs that know nothing of leases.")]
pub(crate) struct Schema {
    /// The database
    #[arg(value_enum)]
    pub(crate) database: Database,

    /// What the names of the tables begin with [default: leasehold_]
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["names", "once", "guard"])]
    pub(crate) prefix: Option<String>,

    /// The schema (PostgreSQL) or database (MySQL) of the tables
    #[arg(long, value_name = "NAME", conflicts_with_all = ["names", "once", "guard"])]
    pub(crate) schema: Option<String>,

    /// Print the table of names that `sql::lock_in` locks
    #[arg(long, value_name = "TABLE", num_args = 0..=1, default_missing_value = "leasehold_name_locks")]
    #[arg(conflicts_with = "guard")]
    pub(crate) names: Option<String>,

    /// Print the table of keys that `Once::in_transaction` uses
    #[arg(long, value_name = "TABLE", num_args = 0..=1, default_missing_value = "leasehold_once")]
    #[arg(conflicts_with_all = ["guard", "names"])]
    pub(crate) once: Option<String>,

    /// Print a trigger that refuses late writers of this table
    #[arg(long, value_name = "TABLE")]
    pub(crate) guard: Option<String>,

    /// The column that the guard looks at [default: fence]
    #[arg(long, value_name = "NAME", requires = "guard")]
    pub(crate) column: Option<String>,

    /// What the column holds [default: version for a column of that name, else fence]
    #[arg(long, value_enum, requires = "guard")]
    pub(crate) rule: Option<Rule>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Database {
    Postgres,
    Mysql,
    Sqlite,
}

impl From<Database> for sql::Dialect {
    fn from(database: Database) -> Self {
        match database {
            Database::Postgres => Self::Postgres,
            Database::Mysql => Self::Mysql,
            Database::Sqlite => Self::Sqlite,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rule {
    /// Fences: never smaller than before
    Fence,
    /// Versions: always one more than before
    Version,
}
