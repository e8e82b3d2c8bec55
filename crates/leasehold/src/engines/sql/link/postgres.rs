//! One connection to a PostgreSQL.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures_core::Stream;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, RowStream, Statement};

use super::address::Address;
use super::fault::{self, Fault};
use super::settings::Settings;
use super::value::{Reply, Row, Value};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};

/// A connection; it ends with its value.
pub(super) struct Wire {
    client: Client,
    driver: AbortHandle,
    prepared: HashMap<Arc<str>, Statement>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Wire {
    pub(super) async fn open(address: &Address, settings: &Settings) -> Result<Self> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let stream = stream.map_err(|cause| fault::away("cannot connect").caused_by(cause))?;
        let made = config(settings).connect_raw(stream, NoTls).await;
        let (client, driver) = made.map_err(|cause| fault::postgres(&cause).error)?;
        let driver = Handle::current().spawn(async move { drop(driver.await) }).abort_handle();
        Ok(Self { client, driver, prepared: HashMap::new() })
    }

    pub(super) async fn run(
        &mut self,
        sql: &Arc<str>,
        values: &[Value],
        clock: &Clock,
    ) -> Result<Reply, Fault> {
        let statement = self.prepare(sql, values).await?;
        let sent_at = clock.now();
        let stream = self.client.query_raw(&statement, values).await;
        let stream = stream.map_err(|cause| fault::postgres(&cause))?;
        let (rows, affected) = collect(stream).await?;
        Ok(Reply { rows, affected, sent_at })
    }

    async fn prepare(&mut self, sql: &Arc<str>, values: &[Value]) -> Result<Statement, Fault> {
        if let Some(known) = self.prepared.get(sql) {
            return Ok(known.clone());
        }
        let types: Vec<_> = values.iter().map(type_of).collect();
        let made = self.client.prepare_typed(sql, &types).await;
        let made = made.map_err(|cause| fault::postgres(&cause))?;
        self.prepared.insert(Arc::clone(sql), made.clone());
        Ok(made)
    }

    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), Fault> {
        self.client.batch_execute(sql).await.map_err(|cause| fault::postgres(&cause))
    }
}

fn config(settings: &Settings) -> Config {
    let mut config = Config::new();
    config.user(&settings.target.login.user).dbname(&settings.target.database);
    config.application_name("leasehold");
    if let Some(password) = &settings.target.login.password {
        config.password(password);
    }
    config
}

async fn collect(stream: RowStream) -> Result<(Vec<Row>, u64), Fault> {
    let mut stream = pin!(stream);
    let mut rows = Vec::new();
    while let Some(row) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
        rows.push(read(&row.map_err(|cause| fault::postgres(&cause))?)?);
    }
    Ok((rows, stream.rows_affected().unwrap_or_default()))
}

fn read(row: &tokio_postgres::Row) -> Result<Row> {
    let values = (0..row.len()).map(|at| row.try_get::<_, Value>(at));
    let values = values.collect::<Result<_, _>>();
    let wrong = |cause| {
        Error::new(ErrorKind::Unexpected, "a column has an unexpected type").caused_by(cause)
    };
    values.map(Row::new).map_err(wrong)
}

/// What a value is sent as. Without a hint the server would guess from where it
/// stands; only for a null it has to.
const fn type_of(value: &Value) -> Type {
    match value {
        Value::Null => Type::UNKNOWN,
        Value::Int(_) => Type::INT8,
        Value::Text(_) => Type::TEXT,
        Value::Bytes(_) => Type::BYTEA,
    }
}

type Failed = Box<dyn StdError + Sync + Send>;

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        match (self, ty) {
            (Self::Null, _) => Ok(IsNull::Yes),
            (Self::Int(number), &Type::INT8) => number.to_sql(ty, out),
            (Self::Int(number), &Type::INT4) => i32::try_from(*number)?.to_sql(ty, out),
            (Self::Int(number), &Type::INT2) => i16::try_from(*number)?.to_sql(ty, out),
            (Self::Text(text), ty) if <&str as ToSql>::accepts(ty) => text.to_sql(ty, out),
            (Self::Bytes(bytes), &Type::BYTEA) => bytes.to_sql(ty, out),
            (value, ty) => Err(format!("{value:?} does not fit {ty}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Failed> {
        Ok(match *ty {
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Self::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT2 => Self::Int(i16::from_sql(ty, raw)?.into()),
            Type::OID => Self::Int(u32::from_sql(ty, raw)?.into()),
            Type::BOOL => Self::Int(bool::from_sql(ty, raw)?.into()),
            Type::BYTEA => Self::Bytes(raw.to_vec()),
            // What functions without a result have.
            Type::VOID => Self::Null,
            _ => Self::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Failed> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        const PLAIN: [Type; 7] =
            [Type::INT8, Type::INT4, Type::INT2, Type::OID, Type::BOOL, Type::BYTEA, Type::VOID];
        PLAIN.contains(ty) || <String as FromSql<'_>>::accepts(ty)
    }
}
