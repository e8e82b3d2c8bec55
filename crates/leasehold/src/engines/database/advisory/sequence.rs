//! The sequence that fences come from.

use std::sync::Arc;

use crate::clock::wall_micros;
use crate::engines::database::pool::Pool;
use crate::error::Result;
use crate::sql::Dialect;
use crate::url::Options;

const NAME: &str = "advisory_fence";
/// 2: it can be used; 1: it can be created; 0: neither.
const LOOK: &str = "\
SELECT CASE WHEN to_regclass($1) IS NOT NULL THEN \
CASE WHEN has_sequence_privilege(CAST(to_regclass($1) AS oid), 'USAGE') THEN 2 ELSE 0 END \
WHEN has_schema_privilege(COALESCE(NULLIF($2, ''), current_schema()), 'CREATE') THEN 1 \
ELSE 0 END";

/// Its quoted name, if it is there or could be made: a role that may do neither
/// gets no fences that it could rely on.
pub(super) async fn find_or_make(pool: &Pool, options: &Options) -> Result<Option<String>> {
    let (prefix, schema) = (options.get("prefix")?.unwrap_or("leasehold_"), options.get("schema")?);
    let name = format!("{prefix}{NAME}");
    let path = schema.map_or_else(|| name.clone(), |schema| format!("{schema}.{name}"));
    let quoted = Dialect::Postgres.table(&path)?;
    let can = |it| look(pool, it, schema);
    if can(quoted.clone()).await? == 1 {
        // It begins at the present, so that fences of another engine stay behind.
        let start = wall_micros();
        let make = format!("CREATE SEQUENCE IF NOT EXISTS {quoted} START WITH {start}");
        // Another client may make it at the same time.
        let _ = pool.batch(&make).await;
    }
    Ok((can(quoted.clone()).await? == 2).then_some(quoted))
}

async fn look(pool: &Pool, quoted: String, schema: Option<&str>) -> Result<i64> {
    let values = vec![quoted.into(), schema.unwrap_or_default().into()];
    let reply = pool.run(&Arc::from(LOOK), values).await?;
    reply.rows.first().map_or(Ok(0), |row| row.int(0))
}
