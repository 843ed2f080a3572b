//! Every combination of every table's columns, as a golden matrix that reviewers can read.

use agency::protocol::codifica;
use agency::protocol::review_loop::table::{self, FlagStatus, Holder, Next, Phase};
use std::fmt::Write as _;

// covers: LP-01, LP-02, LP-03
#[test]
fn the_review_loops_matrix_is_the_one_we_reviewed() {
    let mut matrix = String::new();
    let mut rows = std::collections::BTreeSet::new();
    for phase in Phase::ALL {
        for holder in Holder::ALL {
            for said in FlagStatus::ALL {
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

// covers: SU-05, SU-06
#[test]
fn the_steps_of_a_session_are_the_ones_we_reviewed() {
    use agency::engine::{StageKind, StepKind, TABLE, transition};
    let (mut matrix, mut taken) = (String::new(), 0);
    for from in StageKind::ALL {
        for step in StepKind::ALL {
            let to = transition(from, step);
            taken += usize::from(to.is_some());
            let to = to.map_or("not possible".to_owned(), |to| format!("{to:?}"));
            let (from, step) = (format!("{from:?}"), format!("{step:?}"));
            writeln!(matrix, "{from:<8} {step:<9} {to}").unwrap();
        }
    }
    assert_eq!(taken, TABLE.len(), "a row that no combination reaches");
    crate::scenarios::golden("tests/it/tables/session.txt", &matrix);
}

// covers: HO-01, HO-02, HO-13
#[test]
fn the_handoff_tables_are_the_ones_we_reviewed() {
    use agency::protocol::handoff::table::{self, Folder, Kind, MessageResult, Needs, Who};
    let mut matrix = String::new();
    let mut rows = std::collections::BTreeSet::new();
    for kind in Kind::ALL {
        let row = table::type_of(*kind);
        rows.insert(row.id);
        for from in Who::ALL {
            let to: Vec<_> =
                Who::ALL.iter().filter(|to| row.from.fits(*from) && row.to.fits(**to)).collect();
            let to: Vec<_> = to.iter().map(|to| to.word()).collect();
            let to = if to.is_empty() {
                "refused (HO-01)".to_owned()
            } else {
                format!("{} {}", row.id, to.join(", "))
            };
            writeln!(matrix, "send    {:<17} {:<13} {to}", kind.word(), from.word()).unwrap();
        }
    }
    let places = [None].into_iter().chain(Folder::ALL.iter().copied().map(Some));
    for from in places {
        for to in Folder::ALL {
            for who in [Who::Builder, Who::Orchestrator] {
                let row = table::find_move(from, *to, who);
                rows.extend(row.map(|row| row.id));
                let (from, row) = (
                    from.map_or("new", Folder::word),
                    row.map_or("put back (HO-02)", |row| row.id),
                );
                writeln!(matrix, "move    {from:<9} {:<9} for {:<13} {row}", to.word(), who.word())
                    .unwrap();
            }
        }
    }
    for who in Who::ALL {
        for said in MessageResult::ALL {
            let row = table::find_result(*who, *said);
            rows.extend(row.map(|row| row.id));
            let needs = row.map_or("refused (HO-13)".to_owned(), |row| match row.needs {
                Needs::Handoff(kind) => format!("{} with {}", row.id, kind.word()),
                Needs::Nothing => format!("{} ends the workflow", row.id),
            });
            writeln!(matrix, "result  {:<13} {:<14} {needs}", who.word(), said.word()).unwrap();
        }
    }
    let all = table::TYPES.len() + table::MOVES.len() + table::RESULTS.len();
    assert_eq!(rows.len(), all, "a row that no combination reaches");
    crate::scenarios::golden("tests/it/tables/handoff.txt", &matrix);
}

// covers: LG-04, LG-06, LG-08
#[test]
fn the_ledgers_tables_are_the_ones_we_reviewed() {
    use agency::protocol::ledger::table::{self, Action, Cycles, SessionResult};
    use agency::protocol::ledger::words::AgentType;
    let mut matrix = String::from("Who follows whom\n\n");
    let mut rows = std::collections::BTreeSet::new();
    for &agent in AgentType::ALL {
        for said in SessionResult::ALL {
            for cycles in Cycles::ALL {
                let next = table::find(agent, said, cycles).map_or("cannot be".to_owned(), |row| {
                    rows.insert(row.id);
                    format!("{:<5} {}", row.id, row.next.word())
                });
                let (agent, said, cycles) = (agent.word(), said.word(), cycles.word());
                writeln!(matrix, "{agent:<13} {said:<9} {cycles:<13} {next}").unwrap();
            }
        }
    }
    assert_eq!(rows.len(), table::TABLE.len(), "a row that no combination reaches");
    matrix.push_str("\nWho may do what\n\n");
    for action in Action::ALL {
        let words = action.words();
        writeln!(matrix, "{words:<32} {}", action.allowed()).unwrap();
    }
    crate::scenarios::golden("tests/it/tables/ledger.txt", &matrix);
}

// covers: CD-07
#[test]
fn codificas_matrix_is_the_one_we_reviewed() {
    let mut matrix = String::new();
    let mut rows = std::collections::BTreeSet::new();
    for from in codifica::State::ALL {
        for to in codifica::State::ALL {
            let row = codifica::table::find(*from, *to);
            let next = row.map_or("refused (CD-07)".to_owned(), |row| {
                rows.insert(row.id);
                format!("{:<5} {:<13} {:?}", row.id, row.who.word(), row.guards)
            });
            writeln!(matrix, "{from:<13} {to:<13} {next}").unwrap();
        }
    }
    assert_eq!(rows.len(), codifica::table::TABLE.len(), "a row that no combination reaches");
    crate::scenarios::golden("tests/it/tables/codifica.txt", &matrix);
}

// covers: AG-08
#[test]
fn the_boards_matrix_is_the_one_we_reviewed() {
    use agency::protocol::board::table::{Actor, Status, TABLE, find};
    let mut matrix = String::new();
    let mut rows = std::collections::BTreeSet::new();
    for from in Status::ALL {
        for to in Status::ALL {
            for actor in Actor::ALL {
                let row = find(from, to, actor);
                rows.extend(row.map(|row| row.id));
                let said = row.map_or("refused (AG-08)".to_owned(), |row| {
                    format!("{} {}", row.id, row.guard.words()).trim_end().to_owned()
                });
                let (from, to, actor) = (from.word(), to.word(), actor.word());
                writeln!(matrix, "{from:<16} {to:<16} {actor:<12} {said}").unwrap();
            }
        }
    }
    assert_eq!(rows.len(), TABLE.len(), "a row that no combination reaches");
    crate::scenarios::golden("tests/it/tables/board.txt", &matrix);
}

/// The table of spec 1 §1, word for word. `reviewed (CRs)` is the status `reviewed`; `advance` and `—` are the next step.
const LOOP_TABLE: &str = include_str!("../spec/loop-table.md");

// covers: LP-01
#[test]
fn each_line_of_the_review_loops_spec_table_is_a_row() {
    let lines: Vec<Vec<&str>> = LOOP_TABLE
        .lines()
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(lines.len(), 6);
    for line in lines {
        let [phase, status, next_phase, next_agent] = line[..] else { panic!("{line:?}") };
        let phase = Phase::parse(phase).unwrap();
        let said = FlagStatus::parse(status.split(' ').next().unwrap()).unwrap();
        let holder = match phase {
            Phase::Propose | Phase::Execute => Holder::Builder,
            Phase::Review | Phase::Verify | Phase::Complete => Holder::Reviewer,
        };
        let row = table::find(phase, holder, said).expect("the spec allows it");
        match row.next {
            Next::Hand(to, holder, _) => {
                assert_eq!((to.word(), holder.word()), (next_phase, next_agent), "{line:?}");
            }
            Next::Advance => assert_eq!((next_phase, next_agent), ("advance", "—"), "{line:?}"),
        }
    }
}
