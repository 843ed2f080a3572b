//! The pages with made-up facts, to look at while one works on them: `cargo run -p agency-dashboard --example preview`.
//! It prints a link that works once.
#![expect(
    clippy::print_stdout,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "made-up facts, for the eye"
)]

use agency_dashboard::view::*;
use agency_dashboard::{
    Act, Caller, Dashboard, Options, Outcome, Pending, Right, Source, Standing,
};
use chrono::TimeDelta;
use std::sync::Arc;
use std::time::Duration;

struct Made {
    calm: bool,
}

fn ago(minutes: i64) -> Time {
    agency_host::clock::wall() - TimeDelta::minutes(minutes)
}

fn proto(name: &str, kind: Kind, reason: &str, summary: &str) -> ProtocolCard {
    let (name, reason, summary) = (name.into(), reason.into(), summary.into());
    ProtocolCard { name, kind, reason, summary, ..ProtocolCard::default() }
}

fn repo(name: &str, protocols: Vec<ProtocolCard>) -> RepoCard {
    let held = protocols.iter().any(|one| matches!(one.kind, Kind::Held | Kind::Frozen));
    RepoCard {
        key: format!("{name}-1a2b3c4d"),
        name: name.into(),
        path: format!("/home/you/src/{name}"),
        attended: true,
        held,
        protocols,
        ..RepoCard::default()
    }
}

fn line(n: i64, agent: &str, task: &str, phase: &str, outcome: Option<&str>, cost: f64) -> RunLine {
    RunLine {
        id: format!("1a2b3c4d-loop-{n}"),
        repo_key: "shop-1a2b3c4d".into(),
        repo: "shop".into(),
        protocol: "loop".into(),
        agent: agent.into(),
        role: "builder".into(),
        task: task.into(),
        phase: phase.into(),
        running: outcome.is_none(),
        outcome: outcome.map(Into::into),
        started: ago(12 * n + 9),
        ended: outcome.map(|_| ago(12 * n)),
        cost: Some(cost),
        input_tokens: Some(48_200),
        output_tokens: Some(3_910),
        model: Some("opus".into()),
        ..RunLine::default()
    }
}

impl Made {
    fn repos(&self) -> Vec<RepoCard> {
        let mut working = proto(
            "loop",
            Kind::Working,
            "claude-code works on step 4, execute",
            "step 4 of 7 · round 1",
        );
        working.run = Some("1a2b3c4d-loop-0".into());
        working.agent = Some("claude-code".into());
        working.task = Some("4".into());
        working.since = Some(ago(9));
        working.last_output = Some(ago(0));
        let mut limit =
            proto("handoff", Kind::Waiting, "codex hit a usage limit", "feature-auth · review");
        limit.until = Some(ago(-95));
        let mut shop = repo("shop", vec![working]);
        shop.cost_today = 4.18;
        let mut api = repo(
            "api",
            vec![proto(
                "board",
                Kind::Working,
                "2 tasks in work",
                "3 ASSIGNED · 2 IN_PROGRESS · 14 DONE",
            )],
        );
        api.cost_today = 2.61;
        let docs = repo("docs", vec![proto("ledger", Kind::Done, "all 12 features pass", "")]);
        let infra = repo("infra", vec![proto("codifica", Kind::Idle, "no task is ready", "")]);
        let mut all = vec![shop, api, repo("mobile", vec![limit]), docs, infra];
        if !self.calm {
            let mut held = repo(
                "billing",
                vec![proto(
                    "loop",
                    Kind::Held,
                    "the gate `npm test` changed files",
                    "step 2 of 5 · round 3",
                )],
            );
            held.causes = vec![Cause {
                id: "3216a9b35407".into(), rule: "LP-22".into(), severity: Severity::Critical, protocol: "loop".into(), holds: true, count: 1,
                summary: "A gate changed files while it checked step 2".into(), first_seen: ago(47),
                what: "`npm test` left `coverage/lcov.info` changed in the tree that was judged, so its verdict is about other files than the agent's.".into(),
                did: "The result does not count; the tree is as the agent left it.".into(), wont: "Accept work on a check that changes it.".into(),
                resolve: "agency resume --repo '/home/you/src/billing'".into(), options: vec!["resume".into(), "adopt".into()],
                evidence: vec!["journal 412 gate npm test → exit 0".into(), "changed coverage/lcov.info (+214 −198)".into()], ..Cause::default()
            }];
            api_question(&mut all[1]);
            all.insert(0, held);
        }
        all
    }
}

fn api_question(api: &mut RepoCard) {
    api.causes.push(Cause {
        id: "51c0ffee7d20".into(),
        rule: "HO-07".into(),
        severity: Severity::Warning,
        protocol: "handoff".into(),
        holds: true,
        question: true,
        count: 1,
        summary: "builder asks: which token format should the new endpoint take?".into(),
        first_seen: ago(11),
        what: "The old service signs JWTs; the plan names opaque tokens. Both fit the tests."
            .into(),
        did: "The workflow waits; nothing was changed.".into(),
        wont: "Choose for you.".into(),
        resolve: "agency answer 51c0ffee7d20 TEXT".into(),
        options: vec!["JWT".into(), "opaque".into()],
        ..Cause::default()
    });
    api.held = true;
}

impl Source for Made {
    fn overview(&self) -> Overview {
        Overview {
            daemon: "daemon: running (pid 4711, since 2026-11-18 06:02:11Z)".into(),
            isolation: "isolation: landlock. Agents cannot write outside their tree.".into(),
            repos: self.repos(),
            ..Overview::default()
        }
    }

    fn repo(&self, key: &str) -> Option<RepoPage> {
        let card = self.repos().into_iter().find(|repo| repo.key == key)?;
        let step = |n: i64, kind, row: &str, what: &str| Step {
            n: 400 - n as u64,
            at: ago(7 * n),
            protocol: "loop".into(),
            kind,
            what: what.into(),
            row: Some(row.into()).filter(|row: &String| !row.is_empty()),
        };
        let rows = [
            ["RL1", "propose", "codex", "proposed", "review"],
            ["RL2", "review", "codex", "approved", "execute"],
            ["RL3", "review", "codex", "changes-requested", "propose"],
            ["RL4", "execute", "claude-code", "executed", "verify"],
            ["RL5", "verify", "codex", "verified-clean", "next step"],
        ];
        let rows = rows.into_iter().map(|cells| TableRow {
            lit: cells[0] == "RL2",
            cells: cells.map(Into::into).to_vec(),
        });
        let day = |n: i64| {
            (
                ago(1440 * (13 - n)).format("%b %d").to_string(),
                [0.0, 1.2, 3.4, 2.2, 0.0, 0.4, 5.1, 4.4, 6.0, 3.3, 0.9, 0.0, 2.7, 4.18][n as usize],
            )
        };
        Some(RepoPage {
            timeline: vec![
                step(
                    1,
                    StepKind::Moved,
                    "RL2",
                    "codex: approved accepted (RL2), now at 4/execute; committed",
                ),
                step(2, StepKind::Ended, "", "run 1a2b3c4d-loop-1 ended: ok"),
                step(
                    3,
                    StepKind::Refused,
                    "LP-14",
                    "LP-14: found `severity: huge` in .review/comments.md, wanted critical, high, medium or low",
                ),
                step(
                    5,
                    StepKind::Asked,
                    "",
                    "owner, dashboard (127.0.0.1): resume: the key is renewed",
                ),
                step(6, StepKind::Told, "SU-10", "codex cannot sign in"),
                step(
                    8,
                    StepKind::Moved,
                    "RL1",
                    "claude-code: proposed accepted (RL1), now at 4/review; committed",
                ),
            ],
            tables: vec![RowTable {
                protocol: "loop".into(),
                head: ["row", "phase", "turn", "flag status", "next"].map(Into::into).to_vec(),
                rows: rows.collect(),
            }],
            tasks: vec![
                Task {
                    id: "T0007".into(),
                    title: "Refunds over several payments".into(),
                    status: "READY_FOR_REVIEW".into(),
                    assignee: "claude-code".into(),
                    verbs: vec!["request-changes", "done", "cancel"],
                },
                Task {
                    id: "T0009".into(),
                    title: "Receipts as PDF".into(),
                    status: "BLOCKED".into(),
                    assignee: "codex".into(),
                    verbs: vec!["unblock", "cancel"],
                },
            ],
            runs: vec![
                line(0, "claude-code", "4", "execute", None, 0.42),
                line(1, "codex", "4", "review", Some("ok"), 0.31),
                line(2, "claude-code", "4", "propose", Some("ok"), 0.77),
                line(3, "codex", "3", "verify", Some("usage-limit"), 0.05),
            ],
            cost_per_day: (0..14).map(day).collect(),
            time_per_agent: vec![
                ("claude-code".into(), 15_300.0),
                ("codex".into(), 7_260.0),
                ("gemini".into(), 900.0),
            ],
            card,
        })
    }

    fn run(&self, _: &str, _: &str) -> Option<RunPage> {
        let said = |kind, text: &str| Said { kind, text: text.into() };
        Some(RunPage {
            line: line(1, "claude-code", "4", "execute", Some("ok"), 0.77), why: "step 4 was approved; the builder executes it".into(),
            argv: vec!["claude".into(), "-p".into(), "--output-format".into(), "stream-json".into()], dir: "/home/you/src/shop".into(),
            prompt: Some("# Step 4: refunds over several payments\n\nRead CODEBASE.md first.".into()),
            transcript: vec![
                said(SaidKind::Message, "I will split the refund across the payments in the order in which they were made."),
                said(SaidKind::Tool, "→ Read src/refund.ts"), said(SaidKind::Tool, "← export function refund(order: Order, amount: Money) {"), said(SaidKind::Tool, "→ Bash npm test"),
                said(SaidKind::Failure, "✗ 1 failing: refund() › keeps the rest of a payment"),
                said(SaidKind::Message, "The remainder of the first payment was lost. I add it to the next one."),
                said(SaidKind::Tool, "→ Edit src/refund.ts"), said(SaidKind::Tool, "→ Bash npm test"), said(SaidKind::Tool, "← 48 passing"),
                said(SaidKind::Message, "= done; turns: 9; the session has cost $0.7700"),
            ],
            diff: Some(DiffView { title: "judged tree 8f1c2a9d0b3e against 41d9ce72a610".into(), cut: false, text: "diff --git a/src/refund.ts b/src/refund.ts\n--- a/src/refund.ts\n+++ b/src/refund.ts\n@@ -12,6 +12,9 @@ export function refund(order: Order, amount: Money) {\n   for (const payment of order.payments) {\n-    const part = min(amount, payment.amount);\n+    const part = min(amount, payment.rest());\n+    if (part.isZero()) continue;\n     payment.refund(part);\n     amount = amount.minus(part);\n   }".into() }),
            gates: vec![Gate { run: line(1, "gate", "4", "gate", Some("ok"), 0.0), line: "npm test".into(), output: "48 passing (2 s)".into() }, Gate { run: line(1, "gate", "4", "gate", Some("failed"), 0.0), line: "npm run lint".into(), output: "src/refund.ts:14:5 error  'part' is never reassigned".into() }],
            ..RunPage::default()
        })
    }

    fn history(&self, _: &HistoryQuery) -> HistoryPage {
        let causes = vec![PastCause {
            repo_key: "shop-1a2b3c4d".into(),
            repo: "shop".into(),
            id: "a".into(),
            rule: "SU-10".into(),
            severity: Severity::Critical,
            summary: "codex cannot sign in".into(),
            state: "resolved".into(),
            first_seen: ago(180),
        }];
        HistoryPage {
            runs: (0..8)
                .map(|n| {
                    line(
                        n,
                        ["claude-code", "codex"][n as usize % 2],
                        "4",
                        "execute",
                        Some(["ok", "ok", "crash"][n as usize % 3]),
                        0.4,
                    )
                })
                .collect(),
            causes,
            more: true,
        }
    }

    fn machine(&self) -> Vec<Finding> {
        let one = |name: &str, fine, found: &str, fix: Option<&str>| Finding {
            name: name.into(),
            fine,
            found: found.into(),
            fix: fix.map(Into::into),
        };
        vec![
            one("channels", true, "team, owner", None),
            one("git", true, "git version 2.47.3", None),
            one(
                "inotify",
                false,
                "8192 watches",
                Some("sysctl fs.inotify.max_user_watches=524288"),
            ),
        ]
    }

    fn stamp(&self) -> u64 {
        0
    }

    fn act(&self, _: &str, act: Act, _: Caller) -> Pending {
        Box::pin(async move { Outcome::Accepted(format!("{act:?}")) })
    }
}

#[tokio::main]
async fn main() {
    let calm = std::env::args().any(|word| word == "calm");
    let socket = std::env::temp_dir().join(format!("agency-preview-{}.sock", std::process::id()));
    let options = Options {
        socket,
        listen: Some("127.0.0.1:0".parse().unwrap()),
        hosts: Vec::new(),
        proxies: Vec::new(),
        who: "owner".into(),
        identify: Arc::new(|_| Standing::Outside),
    };
    let dashboard = Dashboard::start(Arc::new(Made { calm }), options).await.unwrap();
    println!("{}", dashboard.link(Right::Act).unwrap());
    tokio::time::sleep(Duration::from_secs(3600)).await;
}
