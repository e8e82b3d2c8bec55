//! What the verbs share.

use super::leases::UniqueLeases;
use super::options::UserTable;
use super::sql::UniqueSql;
use super::survey::ColumnSurvey;
use crate::clock::Clock;
use crate::engines::database::pool::Pool;

/// One client of a table of the user.
#[derive(Debug)]
pub(super) struct UniqueClient {
    pub(super) pool: Pool,
    pub(super) clock: Clock,
    pub(super) form: UserTable,
    pub(super) texts: UniqueSql,
    pub(super) survey: ColumnSurvey,
    pub(super) leases: UniqueLeases,
    pub(super) owner_max: usize,
}
