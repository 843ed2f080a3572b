//! All tests of the whole in one binary. Unit tests live beside the code they test.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say so and stop")]

mod board;
mod board_sim;
mod causes;
mod clocks;
mod codifica;
mod compat;
mod cost;
mod e2e;
mod escalate;
mod leases;
mod ledger;
mod loop_examples;
mod marks;
mod phrases;
mod profiles;
mod relay;
mod runs;
mod scenarios;
mod sheets;
mod sim;
mod tables;
mod tidy;
mod world;
