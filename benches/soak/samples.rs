//! Memory and descriptors of one process, over time.

use std::path::PathBuf;

/// What counts as flat: the last third beside the first one, once the start is over. Of memory the most counts; of descriptors the
/// middle, since a git that runs just then has some.
const GROWTH_MAX: f64 = 1.10;
const SLACK_KIB: f64 = 1024.0;
const DESCRIPTORS_SLACK: u64 = 2;

#[derive(Default)]
pub(crate) struct Samples {
    rss_kib: Vec<u64>,
    descriptors: Vec<u64>,
}

impl Samples {
    pub(crate) const HEAD: &str =
        "            first      last      most   (MiB RSS)    first  last  most   (descriptors)";

    pub(crate) fn take(&mut self, pid: u32) {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let status = std::fs::read_to_string(proc.join("status")).expect("it lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("it has memory");
        let kib = line.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        self.rss_kib.push(kib.expect("a number"));
        let open = std::fs::read_dir(proc.join("fd")).expect("it is our own").count();
        self.descriptors.push(open as u64);
    }

    /// Prints one line; true: it stayed flat.
    pub(crate) fn report(&self, name: &str) -> bool {
        let (memory, open) = (summary(&self.rss_kib), summary(&self.descriptors));
        let flat = memory.late.most as f64 <= memory.early.most as f64 * GROWTH_MAX + SLACK_KIB
            && open.late.middle <= open.early.middle + DESCRIPTORS_SLACK;
        let mib = |kib: u64| kib as f64 / 1024.0;
        println!(
            "{name:<8} {:>8.1}  {:>8.1}  {:>8.1}               {:>5} {:>5} {:>5}                   {}",
            mib(memory.first),
            mib(memory.last),
            mib(memory.most),
            open.first,
            open.last,
            open.most,
            if flat { "flat" } else { "NOT FLAT" }
        );
        flat
    }
}

struct Summary {
    first: u64,
    last: u64,
    most: u64,
    early: Third,
    late: Third,
}

struct Third {
    middle: u64,
    most: u64,
}

impl Third {
    fn of(values: &[u64]) -> Self {
        let mut values = values.to_vec();
        values.sort_unstable();
        Self { middle: values[values.len() / 2], most: values[values.len() - 1] }
    }
}

fn summary(values: &[u64]) -> Summary {
    assert!(values.len() >= 3, "too short to say anything");
    let third = values.len() / 3;
    Summary {
        first: values[0],
        last: values[values.len() - 1],
        most: Third::of(values).most,
        early: Third::of(&values[..third]),
        late: Third::of(&values[values.len() - third..]),
    }
}
