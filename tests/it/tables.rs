//! Every combination of every table's columns, as a golden matrix that reviewers can read.

use agency::protocol::review_loop::table::{self, Holder, Next, Phase, Said};
use std::fmt::Write as _;

// covers: LP-01, LP-02, LP-03
#[test]
fn the_review_loops_matrix_is_the_one_we_reviewed() {
    let mut matrix = String::new();
    let mut rows = std::collections::BTreeSet::new();
    for phase in Phase::ALL {
        for holder in Holder::ALL {
            for said in Said::ALL {
                let row = table::find(phase, holder, said);
                let next = row.map_or("refused, held (LP-03)".to_owned(), |row| {
                    rows.insert(row.id);
                    match row.next {
                        Next::Hand(phase, holder, round) => {
                            format!("{:<5} {} {} {round:?}", row.id, phase.word(), holder.word())
                        }
                        Next::Advance => format!("{:<5} advance", row.id),
                    }
                });
                let (phase, holder, said) = (phase.word(), holder.word(), said.word());
                writeln!(matrix, "{phase:<9} {holder:<12} {said:<15} {next}").unwrap();
            }
        }
    }
    assert_eq!(rows.len(), table::TABLE.len(), "a row that no combination reaches");
    crate::scenarios::golden("tests/it/tables/review_loop.txt", &matrix);
}
