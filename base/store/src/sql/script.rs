//! Statements that go to the database together, where it takes them so.
//!
//! SQLite runs on a thread of its own. Each statement that is handed over and waited for costs two changes of threads, which on
//! a busy machine is more than the statement.

use sqlx::QueryBuilder;

use super::{Connection, Database, TOGETHER};

pub(super) struct Script<'a> {
    connection: &'a mut Connection,
    query: QueryBuilder<Database>,
    is_empty: bool,
}

impl<'a> Script<'a> {
    pub(super) fn new(connection: &'a mut Connection) -> Self {
        Self { connection, query: QueryBuilder::new(""), is_empty: true }
    }

    /// Begins the next statement.
    pub(super) async fn statement(&mut self) -> Result<&mut QueryBuilder<Database>, sqlx::Error> {
        if !self.is_empty && TOGETHER {
            self.query.push("; ");
        } else {
            self.run().await?;
        }
        self.is_empty = false;
        Ok(&mut self.query)
    }

    /// Runs what has not run yet.
    pub(super) async fn run(&mut self) -> Result<(), sqlx::Error> {
        if !std::mem::replace(&mut self.is_empty, true) {
            let mut query = std::mem::replace(&mut self.query, QueryBuilder::new(""));
            query.build().execute(&mut *self.connection).await?;
        }
        Ok(())
    }
}
