//! The sequence that fences come from.

use std::sync::Arc;

use crate::clock::wall_micros;
use crate::engines::database::pool::Pool;
use crate::error::Result;
use crate::url::Options;

const NAME: &str = "advisory_fence";
/// Its quoted name, if it is there or could be made: a role that may do neither
/// gets no fences that it could rely on.
pub(super) async fn find_or_make(pool: &Pool, options: &Options) -> Result<Option<String>> {
    let Some(texts) = pool.family().fence_sequence() else { return Ok(None) };
    let (prefix, schema) = (options.get("prefix")?.unwrap_or("leasehold_"), options.get("schema")?);
    let name = format!("{prefix}{NAME}");
    let path = schema.map_or_else(|| name.clone(), |schema| format!("{schema}.{name}"));
    let quoted = pool.family().dialect().table(&path)?;
    let can = |it| look(pool, texts.look, it, schema);
    if can(quoted.clone()).await? == 1 {
        // It begins at the present, so that fences of another engine stay behind.
        let make = (texts.make)(&quoted, wall_micros());
        // Another client may make it at the same time.
        let _ = pool.batch(&make).await;
    }
    Ok((can(quoted.clone()).await? == 2).then_some(quoted))
}

async fn look(pool: &Pool, sql: &str, quoted: String, schema: Option<&str>) -> Result<i64> {
    let values = vec![quoted.into(), schema.unwrap_or_default().into()];
    let reply = pool.run(&Arc::from(sql), values).await?;
    reply.rows.first().map_or(Ok(0), |row| row.int(0))
}
