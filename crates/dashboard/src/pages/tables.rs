//! Lists of runs and the protocols' tables of transitions.

use super::frame::Frame;
use super::parts::{ago, cost, outcome, took};
use crate::safe::Foreign;
use crate::view::{RowTable, RunLine};
use maud::{Markup, html};

pub(super) fn runs(frame: &Frame, runs: &[RunLine], with_repo: bool) -> Markup {
    html! {
        @if runs.is_empty() { p .none { "none yet" } } @else {
            ul .runs {
                @for run in runs {
                    li {
                        a .run href={ "/repo/" (run.repo_key) "/run/" (run.id) } {
                            (outcome(run))
                            span .who { (Foreign(&run.agent)) @if !run.task.is_empty() { " on " (Foreign(&run.task)) } }
                            span .phase { (Foreign(&run.phase)) @if with_repo { " · " (Foreign(&run.repo)) } }
                            span .num { (took(run, frame.now)) " · " (cost(run)) }
                            span .when { (ago(run.started, frame.now)) }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn rows(table: &RowTable) -> Markup {
    html! {
        div .scroll tabindex="0" role="region" aria-label={ "Table of " (table.protocol) } {
            table {
                thead { tr { @for cell in &table.head { th scope="col" { (cell) } } } }
                tbody {
                    @for row in &table.rows {
                        tr .lit[row.lit] aria-current=[row.lit.then_some("step")] { @for cell in &row.cells { td { (Foreign(cell)) } } }
                    }
                }
            }
        }
    }
}
