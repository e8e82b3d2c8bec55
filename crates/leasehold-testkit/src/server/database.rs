//! A word to a database, apart from any engine.

use mysql_async::prelude::Queryable;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::ServerError;

/// Runs statements on a connection of their own; the first column of all rows.
///
/// # Errors
///
/// When the server cannot be reached or refuses one.
pub fn tell(url: &str, statements: &str) -> Result<Vec<String>, ServerError> {
    let (url, statements) = (url.to_owned(), statements.to_owned());
    // A runtime of its own: the caller may be inside of one.
    let told = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            if url.starts_with("postgres") {
                postgres(&url, &statements).await.map_err(failed)
            } else {
                mysql(&url, &statements).await.map_err(failed)
            }
        })
    });
    told.join().map_err(|_| ServerError("the question panicked".into()))?
}

fn failed(cause: impl std::error::Error) -> ServerError {
    let why = cause.source().map(|source| format!(": {source}")).unwrap_or_default();
    ServerError(format!("{cause}{why}"))
}

async fn postgres(url: &str, statements: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await?;
    let driver = tokio::spawn(driver);
    let said = client.simple_query(statements).await?;
    drop(client);
    let _ = driver.await;
    let first = |message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    Ok(said.into_iter().filter_map(first).collect())
}

async fn mysql(url: &str, statements: &str) -> Result<Vec<String>, mysql_async::Error> {
    let mut conn = mysql_async::Conn::new(mysql_async::Opts::from_url(url)?).await?;
    let rows: Vec<mysql_async::Row> = conn.query(statements).await?;
    conn.disconnect().await?;
    let first = |row: mysql_async::Row| row.get_opt::<String, _>(0)?.ok();
    Ok(rows.into_iter().filter_map(first).collect())
}
