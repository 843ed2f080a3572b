//! The lookup engine of every transition table. It knows no columns: rows say themselves whether they match.

/// What a lookup found. Exactly one row may match.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a, Row> {
    One(&'a Row),
    None,
}

/// Finds the one row that matches.
///
/// # Panics
/// Two rows that match are a bug in the table, which the exhaustive test of each table rules out.
pub fn lookup<Row>(table: &[Row], matches: impl Fn(&Row) -> bool) -> Lookup<'_, Row> {
    let mut hits = table.iter().filter(|row| matches(row));
    let first = hits.next();
    assert!(hits.next().is_none(), "BUG: two rows of a transition table match the same facts");
    first.map_or(Lookup::None, Lookup::One)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_one_row_or_none() {
        assert_eq!(lookup(&[1, 2, 3], |n| *n == 2), Lookup::One(&2));
        assert_eq!(lookup(&[1, 2, 3], |n| *n == 9), Lookup::None);
    }

    #[test]
    #[should_panic(expected = "BUG: two rows")]
    fn two_rows_are_a_bug() {
        lookup(&[1, 1], |n| *n == 1);
    }
}
