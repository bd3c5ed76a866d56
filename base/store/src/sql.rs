//! What SQLite and PostgreSQL share.
//!
//! The statements are the same text for both, and so is the code around them. `sqlx` cannot be written
//! against generically without repeating a page of bounds on every function; instead the files in `sql/` are
//! compiled twice, once inside each engine's module, over that module's `Database` and `Connection`.

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

use crate::Error;

/// The schema version this program writes, and the newest it reads.
pub const SCHEMA_VERSION: i64 = 1;

/// A migration by its folder's number, name and text.
pub(crate) type Step = (i64, &'static str, &'static str);

/// Of one dialect's migrations.
pub(crate) fn migrator(steps: &[Step]) -> Migrator {
    let migrations = steps.iter().map(|(version, name, text)| {
        Migration::new(*version, (*name).into(), MigrationType::Simple, text.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.dangerous_set_table_name("migration");
    migrator
}

/// A refusal to migrate, in words.
pub(crate) fn migration_error(database: &str, error: MigrateError) -> Option<Error> {
    match error {
        MigrateError::VersionMissing(found) | MigrateError::VersionTooNew(found, _) => {
            Some(Error::Newer { database: database.to_owned(), found, known: SCHEMA_VERSION })
        }
        MigrateError::VersionMismatch(version) => Some(Error::Foreign {
            database: database.to_owned(),
            problem: format!("its migration {version} is not the one this program knows"),
        }),
        MigrateError::Dirty(version) => Some(Error::Foreign {
            database: database.to_owned(),
            problem: format!("its migration {version} was interrupted; restore a backup"),
        }),
        _ => None,
    }
}

/// Text that was put together from constants and checked names.
pub(crate) fn trusted(text: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(text)
}

/// Cuts rows into runs for statements of many rows. A statement is prepared once per length, so there are few
/// lengths: up to eight, and multiples of eight.
pub(crate) fn runs<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    const STEP: usize = 8;
    const LONGEST: usize = 64;
    std::iter::from_fn(move || {
        let length = match rows.len() {
            0 => return None,
            few @ 1..=STEP => few,
            many => many.min(LONGEST) / STEP * STEP,
        };
        let (run, rest) = rows.split_at(length);
        rows = rest;
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn runs_have_few_lengths_and_lose_nothing() {
        let rows: Vec<usize> = (0..600).collect();
        let mut lengths = std::collections::BTreeSet::new();
        for length in 0..600 {
            let cut: Vec<&[usize]> = runs(&rows[..length]).collect();
            lengths.extend(cut.iter().map(|run| run.len()));
            assert_eq!(cut.concat(), rows[..length]);
        }
        assert_eq!(lengths.len(), 15);
    }
}
