//! A look at the user's table: is it fit to be a lock?

use std::sync::Arc;

use super::options::UserTable;
use crate::engine::{Finding, Severity};
use crate::engines::database::dialect::Family;
use crate::engines::database::dialect::unique::UserColumn;
use crate::engines::database::drivers::{ReplyRow, Value};
use crate::engines::database::pool::Pool;
use crate::error::{Error, Result};
use crate::name::NAME_MAX;

/// The columns that a form names, as they are.
#[derive(Debug)]
pub(super) struct ColumnSurvey {
    family: &'static dyn Family,
    columns: Vec<UserColumn>,
}

impl ColumnSurvey {
    pub(super) async fn of(form: &UserTable, pool: &Pool) -> Result<Self> {
        let family = pool.family();
        let (sql, values) = family.survey(&form.table)?;
        let values = values.into_iter().map(Value::from).collect();
        let rows = pool.run(&Arc::from(sql), values).await?.rows;
        let columns = rows.iter().map(read).collect::<Result<_>>()?;
        let survey = Self { family, columns };
        survey.check(form)?;
        Ok(survey)
    }

    fn check(&self, form: &UserTable) -> Result<()> {
        for name in form.columns() {
            self.column(name).ok_or_else(|| missing(form, name))?;
        }
        let key = self.column(&form.column);
        if !key.is_some_and(|it| it.unique) {
            return Err(Error::invalid(format!(
                "{}.{} is not unique, so two could hold one lock; \
                 make it the primary key or add a UNIQUE index",
                form.table, form.column
            )));
        }
        let texts = [Some(&form.column), form.token.as_ref(), form.owner.as_ref()];
        for name in texts.into_iter().flatten() {
            self.check_text(name)?;
        }
        self.check_token(form)?;
        form.expires.as_ref().map_or(Ok(()), |name| self.check_time(name))
    }

    /// Other characters would be replaced, and two names become one.
    fn check_text(&self, name: &str) -> Result<()> {
        let fits = self.column(name).is_some_and(|it| self.family.fits_text(it));
        let wants = self.family.text_kinds();
        check(fits, || format!("the column {name:?} must be {wants}"))
    }

    fn check_token(&self, form: &UserTable) -> Result<()> {
        let token = form.token.as_ref().and_then(|name| self.column(name));
        check(token.is_none_or(|it| it.length == 0 || it.length >= 32), || {
            "the token column is too short: it takes 32 characters".into()
        })
    }

    /// Whole seconds are rounded, and a lease would end before its time.
    fn check_time(&self, name: &str) -> Result<()> {
        let fits = self.column(name).is_some_and(|it| self.family.fits_time(it));
        let wants = self.family.time_kinds();
        check(fits, || format!("the column {name:?} must be {wants}"))
    }

    fn column(&self, name: &str) -> Option<&UserColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The longest name, in bytes: no more than there are characters.
    pub(super) fn name_max(&self, form: &UserTable) -> usize {
        self.length(&form.column).unwrap_or(NAME_MAX).min(NAME_MAX)
    }

    /// The longest label, in characters.
    pub(super) fn owner_max(&self, form: &UserTable) -> usize {
        form.owner.as_ref().and_then(|name| self.length(name)).unwrap_or(usize::MAX)
    }

    fn length(&self, name: &str) -> Option<usize> {
        let length = self.column(name)?.length;
        usize::try_from(length).ok().filter(|length| *length > 0)
    }

    /// What an operator should know of this table.
    pub(super) fn findings(&self, form: &UserTable) -> Vec<Finding> {
        let folds = self.column(&form.column).is_some_and(|it| self.family.folds(it));
        let mut found = Vec::new();
        if folds {
            found.push(Finding::new(
                Severity::Warning,
                format!("{} compares names without case, accents or blanks", form.column),
                "names that look alike exclude each other; use VARBINARY to tell them apart",
            ));
        }
        if form.expires.is_none() {
            found.push(Finding::new(
                Severity::Warning,
                "rows do not expire: a holder that dies keeps its lock",
                "name an expiry column with token=..&expires=.., or evict by hand",
            ));
        }
        found
    }
}

fn read(row: &ReplyRow) -> Result<UserColumn> {
    Ok(UserColumn {
        name: row.text(0)?.to_owned(),
        kind: row.text(1)?.to_owned(),
        length: row.int(2)?,
        unique: row.int(3)? != 0,
        collation: row.text(4)?.to_owned(),
    })
}

fn missing(form: &UserTable, column: &str) -> Error {
    Error::invalid(format!(
        "there is no table {:?} with a column {column:?} that this user can see; create it first",
        form.table
    ))
}

fn check(fits: bool, text: impl FnOnce() -> String) -> Result<()> {
    if fits { Ok(()) } else { Err(Error::invalid(text())) }
}
