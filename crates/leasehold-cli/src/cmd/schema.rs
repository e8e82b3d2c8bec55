//! `schema`: SQL for those who run it themselves.

use leasehold::sql::{self, Dialect, NameTable, OnceTable};

use crate::args::{Rule, Schema};
use crate::failure::Failure;
use crate::output;

pub(crate) fn schema(args: &Schema) -> Result<(), Failure> {
    let dialect = args.database.into();
    let text = match (&args.guard, &args.names, &args.once) {
        (Some(table), ..) => guard(dialect, table, args)?,
        (None, Some(table), _) => names(dialect, table)?,
        (None, None, Some(table)) => once(dialect, table)?,
        (None, None, None) => {
            leasehold::schema(dialect, args.prefix.as_deref(), args.schema.as_deref())?
        }
    };
    output::print(&text)
}

fn names(dialect: Dialect, table: &str) -> Result<String, Failure> {
    if dialect == Dialect::Sqlite {
        let text = "SQLite has no row locks, and needs no names; use BEGIN IMMEDIATE";
        return Err(Failure::usage(text));
    }
    Ok(NameTable::new(table)?.schema(dialect))
}

fn once(dialect: Dialect, table: &str) -> Result<String, Failure> {
    if dialect == Dialect::Sqlite {
        let text = "keys in your own transaction are for postgres and mysql";
        return Err(Failure::usage(text));
    }
    Ok(OnceTable::new(table)?.schema(dialect))
}

fn guard(dialect: Dialect, table: &str, args: &Schema) -> Result<String, Failure> {
    let column = args.column.as_deref().unwrap_or("fence");
    let counts = args.rule.map_or(column == "version", |rule| rule == Rule::Version);
    let rule = if counts { sql::Rule::Version } else { sql::Rule::Fence };
    let trigger = sql::guard(dialect, table, column, rule)?;
    Ok(match dialect {
        // The trigger has semicolons of its own, at which the client would cut it.
        Dialect::Mysql => format!("DELIMITER //\n{trigger}//\nDELIMITER ;\n"),
        _ => trigger,
    })
}
