//! Values as PostgreSQL has them.

use std::error::Error as StdError;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::super::fault;
use super::super::value::{ReplyRow, Value};
use crate::error::Result;

pub(super) fn read(row: &tokio_postgres::Row) -> Result<ReplyRow> {
    let values = (0..row.len()).map(|at| row.try_get::<_, Value>(at));
    let wrong = |cause| fault::odd("a column has an unexpected type").caused_by(cause);
    values.collect::<Result<_, _>>().map(ReplyRow::new).map_err(wrong)
}

/// What a value is sent as. Without a hint the server would guess from where it
/// stands; only for a null it has to.
pub(super) const fn type_of(value: &Value) -> Type {
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

/// Besides everything that is text.
const PLAIN: [Type; 7] =
    [Type::INT8, Type::INT4, Type::INT2, Type::OID, Type::BOOL, Type::BYTEA, Type::VOID];

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
        PLAIN.contains(ty) || <String as FromSql<'_>>::accepts(ty)
    }
}
