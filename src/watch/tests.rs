//! Real files, written in every way that writers use, seen with events and without.

use super::hub::{EventForwarder, Registry};
use super::*;
use crate::model::{FileState, Shape, WatchedFile, WatchedTree};
use notify::{Event, EventKind, RecursiveMode};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;
use tempfile::{TempDir, tempdir};

const DEADLINE: Duration = Duration::from_secs(60);

/// Rescans are switched off for events, so that nothing hides a lost one.
fn quick(mode: Mode) -> WatchOptions {
    WatchOptions {
        mode,
        rescan: Duration::from_secs(3600),
        settle: Duration::from_millis(50),
        unfinished: Duration::from_secs(10),
        poll: Duration::from_millis(100),
    }
}

fn impatient(mode: Mode) -> WatchOptions {
    WatchOptions { unfinished: Duration::from_millis(600), ..quick(mode) }
}

fn interest() -> Interest {
    let file =
        |path| WatchedFile { path: RelPath::fixed(path), shape: Shape::Json, limit: 1 << 20 };
    let tree = |root, ending: &str, shape| WatchedTree {
        root: RelPath::fixed(root),
        endings: vec![ending.to_owned()],
        shape,
        limit: 1 << 20,
    };
    Interest {
        files: vec![file("flag.json"), file("deep/er/state.json")],
        trees: vec![
            tree("box/in", ".json", Shape::Json),
            tree("notes", ".md", Shape::Frontmatter),
            tree("text", ".txt", Shape::Text),
        ],
    }
}

/// One watched root and everything it told.
struct Seat {
    watch: RootWatch,
    files: BTreeMap<String, Vec<FileState>>,
    degraded: Vec<String>,
    rescans: usize,
    checkouts: usize,
}

impl Seat {
    fn new(watcher: &Watcher, root: &Path, extra: Vec<PathBuf>) -> Self {
        let watch = watcher.watch(root.to_owned(), interest(), extra);
        let (files, degraded) = (BTreeMap::new(), Vec::new());
        Self { watch, files, degraded, rescans: 0, checkouts: 0 }
    }

    /// With the first rescan behind it.
    async fn ready(watcher: &Watcher, root: &Path) -> Self {
        let mut seat = Self::new(watcher, root, Vec::new());
        seat.until("the first rescan", |seat| seat.rescans > 0).await;
        seat
    }

    async fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        self.until_within(DEADLINE, what, done).await;
    }

    async fn until_within(&mut self, limit: Duration, what: &str, done: impl Fn(&Self) -> bool) {
        let end = tokio::time::Instant::now() + limit;
        while !done(self) {
            match tokio::time::timeout_at(end, self.watch.recv()).await {
                Ok(Some(sighting)) => self.note(sighting),
                Ok(None) => panic!("watching ended before {what}"),
                Err(_) => panic!(
                    "no {what} in {limit:?}; {} files, {:?}",
                    self.files.len(),
                    self.degraded
                ),
            }
        }
    }

    /// Takes what comes until the root has looked at everything once more.
    async fn once_more(&mut self) {
        let rescans = self.rescans;
        self.watch.rescan_now();
        self.until("a rescan", |seat| seat.rescans > rescans).await;
    }

    fn note(&mut self, sighting: Sighting) {
        match sighting {
            Sighting::File(file) => {
                self.files.entry(file.path.as_str().to_owned()).or_default().push(file.state);
            }
            Sighting::Checkout => self.checkouts += 1,
            Sighting::Rescanned => self.rescans += 1,
            Sighting::Degraded(text) => self.degraded.push(text),
        }
    }

    fn told(&self, path: &str) -> &[FileState] {
        self.files.get(path).map_or(&[], Vec::as_slice)
    }

    fn found(&self, path: &str) -> Option<&str> {
        match self.told(path).last()? {
            FileState::Unreadable(unreadable) => Some(&unreadable.found),
            FileState::Absent | FileState::Whole(_) => None,
        }
    }

    fn has_text(&self, path: &str, text: &str) -> bool {
        is_text(self.told(path).last(), text)
    }

    fn is_absent(&self, path: &str) -> bool {
        self.told(path).last() == Some(&FileState::Absent)
    }
}

fn is_text(state: Option<&FileState>, text: &str) -> bool {
    matches!(state, Some(FileState::Whole(file)) if *file.bytes == *text.as_bytes())
}

fn text_of(way: &str, number: usize) -> String {
    format!("{{\"way\": \"{way}\", \"number\": {number}, \"pad\": \"{}\"}}", "x".repeat(2000))
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Every way to make a file; each makes `count` of them below `box/in`.
struct Ways<'a> {
    root: &'a Path,
    aside: &'a Path,
    count: usize,
}

impl Ways<'_> {
    fn numbers(&self) -> std::ops::Range<usize> {
        0..self.count
    }

    fn inside(&self, name: &str) -> PathBuf {
        self.root.join("box/in").join(name)
    }

    fn in_place(&self) {
        for number in self.numbers() {
            let text = text_of("place", number);
            let (first, second) = text.split_at(text.len() / 3);
            let mut file = fs::File::create(self.inside(&format!("place-{number}.json"))).unwrap();
            file.write_all(first.as_bytes()).unwrap();
            file.write_all(second.as_bytes()).unwrap();
        }
    }

    /// The pause is many settle times long: it is what the writer does, not what the test waits for.
    fn in_halves(&self) {
        let halves = self.numbers().map(|number| {
            let text = text_of("half", number);
            let mut file = fs::File::create(self.inside(&format!("half-{number}.json"))).unwrap();
            file.write_all(&text.as_bytes()[..text.len() / 2]).unwrap();
            // One writer keeps it open, the next one closes it and appends later.
            (text, (number % 2 == 0).then_some(file), number)
        });
        let halves: Vec<_> = halves.collect();
        std::thread::sleep(Duration::from_millis(800));
        for (text, file, number) in halves {
            let path = self.inside(&format!("half-{number}.json"));
            let append = || fs::OpenOptions::new().append(true).open(path).unwrap();
            let mut file = file.unwrap_or_else(append);
            file.write_all(&text.as_bytes()[text.len() / 2..]).unwrap();
        }
    }

    fn renamed_in(&self) {
        for number in self.numbers() {
            let draft = self.aside.join(format!("draft-{number}"));
            fs::write(&draft, text_of("rename", number)).unwrap();
            fs::rename(draft, self.inside(&format!("rename-{number}.json"))).unwrap();
        }
    }

    fn linked_in(&self) {
        for number in self.numbers() {
            let draft = self.aside.join(format!("link-{number}"));
            fs::write(&draft, text_of("link", number)).unwrap();
            fs::hard_link(&draft, self.inside(&format!("link-{number}.json"))).unwrap();
            if number % 10 == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
            fs::remove_file(draft).unwrap();
        }
    }

    fn in_new_folders(&self) {
        for number in self.numbers() {
            let folder = self.inside(&format!("new-{number}/a/b/c"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("x.json"), text_of("new", number)).unwrap();
        }
    }

    fn moved_in_trees(&self) {
        for number in self.numbers() {
            let folder = self.aside.join(format!("tree-{number}"));
            fs::create_dir_all(folder.join("a/b")).unwrap();
            fs::write(folder.join("a/b/x.json"), text_of("tree", number)).unwrap();
            fs::rename(folder, self.inside(&format!("tree-{number}"))).unwrap();
        }
    }

    fn all(&self) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.in_place());
            scope.spawn(|| self.in_halves());
            scope.spawn(|| self.renamed_in());
            scope.spawn(|| self.linked_in());
            scope.spawn(|| self.in_new_folders());
            scope.spawn(|| self.moved_in_trees());
        });
    }

    fn expected(&self) -> BTreeMap<String, String> {
        let names = |number| {
            [
                ("place", format!("box/in/place-{number}.json")),
                ("half", format!("box/in/half-{number}.json")),
                ("rename", format!("box/in/rename-{number}.json")),
                ("link", format!("box/in/link-{number}.json")),
                ("new", format!("box/in/new-{number}/a/b/c/x.json")),
                ("tree", format!("box/in/tree-{number}/a/b/x.json")),
            ]
        };
        self.numbers()
            .flat_map(|number| names(number).map(|(way, path)| (path, text_of(way, number))))
            .collect()
    }
}

/// Every file is told whole, no file is told cut or refused, and nothing is told twice.
async fn check_every_way(mode: Mode) {
    let place = tempdir().unwrap();
    let (root, aside) = (place.path().join("root"), place.path().join("aside"));
    fs::create_dir_all(root.join("box/in")).unwrap();
    fs::create_dir_all(&aside).unwrap();
    let watcher = Watcher::start(quick(mode));
    let mut seat = Seat::ready(&watcher, &root).await;

    let (at, beside) = (root.clone(), aside.clone());
    let writers = tokio::task::spawn_blocking(move || {
        Ways { root: &at, aside: &beside, count: 200 }.all();
    });
    let expected = Ways { root: &root, aside: &aside, count: 200 }.expected();
    seat.until("every file", |seat| expected.keys().all(|path| !seat.told(path).is_empty())).await;
    writers.await.unwrap();
    seat.once_more().await;

    for (path, text) in &expected {
        let told = seat.told(path);
        assert!(told.iter().all(|state| is_text(Some(state), text)), "`{path}` was told {told:?}");
        assert_eq!(told.len(), 1, "`{path}` was told more than once: {told:?}");
    }
    assert_eq!(seat.degraded, Vec::<String>::new());
}

// covers: DM-03
#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_write_a_file_is_seen_by_events() {
    check_every_way(Mode::Events).await;
}

// covers: DM-02, DM-03
#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_write_a_file_is_seen_without_events() {
    check_every_way(Mode::Polling).await;
}

async fn check_start(mode: Mode) {
    let root = tempdir().unwrap();
    write(root.path(), "flag.json", "{}");
    write(root.path(), "box/in/a/b.json", "[1]");
    write(root.path(), "box/in/a/b.txt", "not asked for");
    write(root.path(), "box/in/cut.json", "[1");
    write(root.path(), "src/main.json", "{}");
    let watcher = Watcher::start(impatient(mode));
    let mut seat = Seat::ready(&watcher, root.path()).await;
    assert!(seat.has_text("flag.json", "{}") && seat.has_text("box/in/a/b.json", "[1]"));
    assert!(seat.has_text("box/in/cut.json", "[1"), "delivered as it is in the end");
    assert_eq!(seat.told("deep/er/state.json"), [FileState::Absent]);
    assert_eq!(seat.files.len(), 4, "{:?}", seat.files);

    seat.once_more().await;
    seat.once_more().await;
    assert!(seat.files.values().all(|told| told.len() == 1), "{:?}", seat.files);

    let path = RelPath::fixed("flag.json");
    seat.watch.forget(&path);
    seat.watch.forget(&RelPath::fixed("deep/er/state.json"));
    seat.once_more().await;
    assert_eq!(seat.told("flag.json").len(), 2, "a forgotten path is told again");
    assert_eq!(seat.told("deep/er/state.json").len(), 2);

    fs::remove_file(root.path().join("flag.json")).unwrap();
    seat.until("absence", |seat| seat.is_absent("flag.json")).await;
    write(root.path(), "flag.json", "{}");
    seat.until("the file again", |seat| seat.has_text("flag.json", "{}")).await;
    fs::create_dir_all(root.path().join("deep/er")).unwrap();
    write(root.path(), "deep/er/state.json", "1");
    seat.until("a file in new folders", |seat| seat.has_text("deep/er/state.json", "1")).await;
}

#[tokio::test]
async fn what_exists_is_told_before_the_first_rescan_is_over_by_events() {
    check_start(Mode::Events).await;
}

#[tokio::test]
async fn what_exists_is_told_before_the_first_rescan_is_over_without_events() {
    check_start(Mode::Polling).await;
}

/// Something hostile in each place, and the others go on.
async fn check_hostile(mode: Mode) {
    let place = tempdir().unwrap();
    let root = place.path().join("root");
    let at = |name: &str| root.join(name);
    write(&root, "box/in/good.json", "{}");
    write(place.path(), "secret/x.json", "{\"secret\": 1}");
    let watcher = Watcher::start(impatient(mode));
    let mut seat = Seat::ready(&watcher, &root).await;

    symlink(place.path().join("secret/x.json"), at("box/in/link.json")).unwrap();
    symlink("/dev/null", at("box/in/null.json")).unwrap();
    symlink(place.path().join("secret"), at("box/in/folder")).unwrap();
    symlink(place.path().join("secret"), at("notes")).unwrap();
    nix::unistd::mkfifo(&at("box/in/pipe.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::File::create(at("box/in/huge.json")).unwrap().set_len(10_737_418_240).unwrap();
    write(&root, "box/in/two.json", "{}");
    fs::hard_link(at("box/in/two.json"), place.path().join("second-name")).unwrap();
    fs::create_dir(at("flag.json")).unwrap();
    write(&root, "box/in/late.json", "[]");

    let wanted = [
        ("box/in/link.json", "a symbolic link"),
        ("box/in/null.json", "a symbolic link"),
        ("box/in/pipe.json", "a named pipe"),
        ("box/in/huge.json", "10737418240 bytes"),
        ("box/in/two.json", "a file with a second hard link"),
        ("flag.json", "a directory"),
    ];
    let all = |seat: &Seat| {
        seat.has_text("box/in/late.json", "[]")
            && wanted.iter().all(|(path, found)| seat.found(path) == Some(found))
    };
    seat.until_within(Duration::from_secs(20), "all refusals", all).await;
    seat.once_more().await;
    assert!(!format!("{:?}", seat.files).contains("secret"), "a link was followed");

    fs::remove_file(place.path().join("second-name")).unwrap();
    fs::remove_dir(at("flag.json")).unwrap();
    write(&root, "flag.json", "1");
    seat.once_more().await;
    seat.until("mended files", |seat| {
        seat.has_text("box/in/two.json", "{}") && seat.has_text("flag.json", "1")
    })
    .await;
}

// covers: DM-04
#[tokio::test]
async fn hostile_files_are_refused_and_the_others_go_on_by_events() {
    check_hostile(Mode::Events).await;
}

// covers: DM-04
#[tokio::test]
async fn hostile_files_are_refused_and_the_others_go_on_without_events() {
    check_hostile(Mode::Polling).await;
}

/// Folders that move, go and come back under the same name.
async fn check_folders(mode: Mode) {
    let place = tempdir().unwrap();
    let root = place.path().join("root");
    write(&root, "box/in/a/x.json", "1");
    let watcher = Watcher::start(quick(mode));
    let mut seat = Seat::ready(&watcher, &root).await;

    fs::rename(root.join("box/in/a"), root.join("box/in/b")).unwrap();
    seat.until("a renamed folder", |seat| {
        seat.is_absent("box/in/a/x.json") && seat.has_text("box/in/b/x.json", "1")
    })
    .await;
    write(&root, "box/in/b/y.json", "2");
    seat.until("a file in it", |seat| seat.has_text("box/in/b/y.json", "2")).await;

    write(place.path(), "other/in/c/z.json", "3");
    fs::rename(root.join("box"), place.path().join("old")).unwrap();
    fs::rename(place.path().join("other"), root.join("box")).unwrap();
    seat.until("a replaced folder", |seat| {
        seat.is_absent("box/in/b/x.json") && seat.has_text("box/in/c/z.json", "3")
    })
    .await;
    write(&root, "box/in/c/w.json", "4");
    seat.until("a file in the new one", |seat| seat.has_text("box/in/c/w.json", "4")).await;

    let folder = root.join("box/in/c");
    fs::rename(&folder, place.path().join("away")).unwrap();
    fs::rename(place.path().join("away"), &folder).unwrap();
    seat.once_more().await;
    write(&root, "box/in/c/back.json", "6");
    seat.until("a file in a folder that is back", |seat| seat.has_text("box/in/c/back.json", "6"))
        .await;

    fs::remove_dir_all(root.join("box")).unwrap();
    write(&root, "box/in/c/z.json", "5");
    seat.until("a folder made again", |seat| {
        seat.has_text("box/in/c/z.json", "5") && seat.is_absent("box/in/c/w.json")
    })
    .await;
    assert_eq!(seat.degraded, Vec::<String>::new());
}

// covers: DM-03
#[tokio::test]
async fn folders_that_move_and_come_back_are_followed_by_events() {
    check_folders(Mode::Events).await;
}

// covers: DM-03
#[tokio::test]
async fn folders_that_move_and_come_back_are_followed_without_events() {
    check_folders(Mode::Polling).await;
}

#[tokio::test]
async fn a_root_that_goes_away_is_said_once_and_taken_up_again() {
    let place = tempdir().unwrap();
    let root = place.path().join("root");
    write(&root, "flag.json", "1");
    let watcher = Watcher::start(quick(Mode::Events));
    let mut seat = Seat::ready(&watcher, &root).await;

    fs::rename(&root, place.path().join("moved")).unwrap();
    seat.until("word of it", |seat| !seat.degraded.is_empty()).await;
    assert!(seat.degraded[0].contains("is gone"), "{:?}", seat.degraded);
    fs::rename(place.path().join("moved"), &root).unwrap();
    let rescans = seat.rescans;
    seat.until("its return", |seat| seat.rescans > rescans).await;
    assert_eq!(seat.told("flag.json").len(), 1, "out of sight is not absent");
    write(&root, "flag.json", "2");
    seat.until("events as before", |seat| seat.has_text("flag.json", "2")).await;
    assert_eq!(seat.degraded.len(), 1);
}

async fn check_checkout(mode: Mode) {
    let place = tempdir().unwrap();
    let (root, git, ours) =
        (place.path().join("root"), place.path().join("git"), place.path().join("git/agency"));
    fs::create_dir_all(&root).unwrap();
    write(&git, "HEAD", "ref: refs/heads/main");
    fs::create_dir_all(&ours).unwrap();
    let watcher = Watcher::start(impatient(mode));
    let mut seat = Seat::new(&watcher, &root, vec![ours.clone(), git.clone()]);
    seat.until("the first rescan", |seat| seat.rescans > 0).await;
    let no_canary = || fs::read_dir(&ours).unwrap().next().is_none();
    wait_for("the canary to go", no_canary).await;
    seat.once_more().await;
    assert_eq!(seat.checkouts, 0, "the canary is not a change");

    write(&git, "HEAD", "ref: refs/heads/other");
    seat.until("a changed checkout", |seat| seat.checkouts == 1).await;
    seat.once_more().await;
    assert_eq!(seat.checkouts, 1, "told by an event and not again by the rescan");
    assert_eq!(seat.degraded, Vec::<String>::new());
}

async fn wait_for(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < end, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_changed_checkout_is_told_by_events() {
    check_checkout(Mode::Events).await;
}

#[tokio::test]
async fn a_changed_checkout_is_told_without_events() {
    check_checkout(Mode::Polling).await;
}

/// A watcher of the kind that some file systems and limits give us.
#[derive(Debug)]
enum Broken {
    Silent,
    Full,
}

impl notify::Watcher for Broken {
    fn new<F: notify::EventHandler>(_: F, _: notify::Config) -> notify::Result<Self> {
        Ok(Self::Silent)
    }

    fn watch(&mut self, _: &Path, _: RecursiveMode) -> notify::Result<()> {
        match self {
            Self::Silent => Ok(()),
            Self::Full => Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch)),
        }
    }

    fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
        Ok(())
    }

    fn kind() -> notify::WatcherKind {
        notify::WatcherKind::NullWatcher
    }
}

fn broken(backend: Broken, options: WatchOptions) -> (Watcher, Arc<Registry>) {
    let registry = Arc::new(Registry::default());
    let hub = Hub::with(Box::new(backend), Arc::clone(&registry));
    (Watcher::with(options, Ok(Some(Arc::new(hub)))), registry)
}

/// A flag and the folder for the canary.
fn prepared() -> (TempDir, PathBuf, PathBuf) {
    let place = tempdir().unwrap();
    let (root, ours) = (place.path().join("root"), place.path().join("ours"));
    write(&root, "flag.json", "1");
    fs::create_dir(&ours).unwrap();
    (place, root, ours)
}

// covers: DM-02
#[tokio::test]
async fn with_all_events_lost_the_next_rescan_sees_every_file() {
    let (_place, root, _) = prepared();
    let options = WatchOptions { rescan: Duration::from_millis(200), ..quick(Mode::Events) };
    let (watcher, _registry) = broken(Broken::Silent, options);
    let mut seat = Seat::ready(&watcher, &root).await;
    write(&root, "flag.json", "2");
    write(&root, "box/in/a/b/c.json", "3");
    seat.until("both files", |seat| {
        seat.has_text("flag.json", "2") && seat.has_text("box/in/a/b/c.json", "3")
    })
    .await;
}

// covers: DM-02
#[tokio::test]
async fn a_root_whose_canary_stays_silent_is_polled_and_says_so() {
    let (_place, root, ours) = prepared();
    let (watcher, _registry) = broken(Broken::Silent, impatient(Mode::Events));
    let mut seat = Seat::new(&watcher, &root, vec![ours.clone()]);
    seat.until("word of it", |seat| !seat.degraded.is_empty()).await;
    assert!(seat.degraded[0].contains("do not arrive"), "{:?}", seat.degraded);
    write(&root, "flag.json", "2");
    seat.until("a file", |seat| seat.has_text("flag.json", "2")).await;
    assert_eq!(seat.degraded.len(), 1);
    assert_eq!(fs::read_dir(ours).unwrap().count(), 0, "the canary was removed");
}

// covers: DM-02
#[tokio::test]
async fn a_root_beyond_the_watch_limit_is_polled_and_says_so() {
    let (_place, root, ours) = prepared();
    let (watcher, _registry) = broken(Broken::Full, quick(Mode::Events));
    let mut seat = Seat::new(&watcher, &root, vec![ours]);
    seat.until("word of it", |seat| !seat.degraded.is_empty()).await;
    assert!(seat.degraded[0].contains("max_user_watches"), "{:?}", seat.degraded);
    write(&root, "flag.json", "2");
    seat.until("a file", |seat| seat.has_text("flag.json", "2")).await;
    assert_eq!(seat.degraded.len(), 1);
}

// covers: DM-02
#[tokio::test]
async fn when_the_watcher_dies_its_roots_are_polled_and_say_so() {
    let (_place, root, _) = prepared();
    let (watcher, registry) = broken(Broken::Silent, quick(Mode::Events));
    let mut seat = Seat::ready(&watcher, &root).await;
    drop(EventForwarder(registry));
    seat.until("word of it", |seat| !seat.degraded.is_empty()).await;
    assert!(seat.degraded[0].contains("ended"), "{:?}", seat.degraded);
    write(&root, "flag.json", "2");
    seat.until("a file", |seat| seat.has_text("flag.json", "2")).await;
}

// covers: DM-02
#[tokio::test]
async fn without_a_watcher_every_root_is_polled_and_says_so() {
    let (_place, root, _) = prepared();
    let watcher = Watcher::with(quick(Mode::Events), Err("there are no file events".to_owned()));
    let mut seat = Seat::ready(&watcher, &root).await;
    assert_eq!(seat.degraded.len(), 1, "{:?}", seat.degraded);
    write(&root, "flag.json", "2");
    seat.until("a file", |seat| seat.has_text("flag.json", "2")).await;
}

// covers: DM-02
#[tokio::test]
async fn an_overflow_makes_every_root_look_again_and_watch_again() {
    let (_place, root, _) = prepared();
    let (_other_place, other, _) = prepared();
    let hub = Arc::new(Hub::start().unwrap());
    let watcher = Watcher::with(quick(Mode::Events), Ok(Some(Arc::clone(&hub))));
    let mut seats = [Seat::ready(&watcher, &root).await, Seat::ready(&watcher, &other).await];
    for root in [&root, &other] {
        hub.go_deaf(&root.canonicalize().unwrap());
        write(root, "flag.json", "2");
    }
    let overflow = Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
    hub.registry().hear(Ok(overflow.clone()));
    for (seat, root) in seats.iter_mut().zip([&root, &other]) {
        seat.until("what was missed", |seat| seat.has_text("flag.json", "2")).await;
        write(root, "flag.json", "3");
        seat.until("new events", |seat| seat.has_text("flag.json", "3")).await;
        assert_eq!(seat.degraded.len(), 1, "{:?}", seat.degraded);
    }
    hub.registry().hear(Ok(overflow));
    seats[0].once_more().await;
    assert_eq!(seats[0].degraded.len(), 1, "it is said once");
}

#[tokio::test]
async fn a_dropped_root_leaves_no_watch_behind() {
    let (_place, root, ours) = prepared();
    let hub = Arc::new(Hub::start().unwrap());
    let watcher = Watcher::with(quick(Mode::Events), Ok(Some(Arc::clone(&hub))));
    let mut seat = Seat::new(&watcher, &root, vec![ours]);
    seat.until("the first rescan", |seat| seat.rescans > 0).await;
    assert!(!hub.registry().is_empty());
    drop(seat);
    wait_for("the watches to go", || hub.registry().is_empty()).await;
}

#[tokio::test]
async fn roots_that_share_a_folder_are_both_told_and_one_may_leave() {
    let (_place, root, _) = prepared();
    let watcher = Watcher::start(quick(Mode::Events));
    let mut first = Seat::ready(&watcher, &root).await;
    let second = Seat::ready(&watcher, &root).await;
    drop(second);
    let mut third = Seat::ready(&watcher, &root).await;
    write(&root, "flag.json", "2");
    for seat in [&mut first, &mut third] {
        seat.until("the file", |seat| seat.has_text("flag.json", "2")).await;
    }
}
