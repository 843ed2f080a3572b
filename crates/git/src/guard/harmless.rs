//! Which settings cannot make git run, include or send anything. Everything that is not listed counts.

use super::config::Key;

/// Sections in which no setting executes, includes or redirects. Where a branch is pushed to is looked at by the push.
const SECTIONS: &[&str] = &[
    "advice",
    "author",
    "blame",
    "branch",
    "color",
    "column",
    "committer",
    "grep",
    "i18n",
    "index",
    "log",
    "maintenance",
    "pack",
    "pretty",
    "rebase",
    "repack",
    "rerere",
    "stash",
    "status",
    "user",
    "versionsort",
];

/// Single settings of sections that have dangerous ones too.
const KEYS: &[(&str, &[&str])] = &[
    ("commit", &["cleanup", "status", "template", "verbose"]),
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "checkstat",
            "commentchar",
            "compression",
            "eol",
            "filemode",
            "fscache",
            "hidedotfiles",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "loosecompression",
            "multipackindex",
            "precomposeunicode",
            "preloadindex",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sparsecheckout",
            "sparsecheckoutcone",
            "splitindex",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
        ],
    ),
    (
        "diff",
        &[
            "algorithm",
            "colormoved",
            "colormovedws",
            "context",
            "indentheuristic",
            "interhunkcontext",
            "mnemonicprefix",
            "noprefix",
            "renamelimit",
            "renames",
            "statgraphwidth",
            "submodule",
            "suppressblankempty",
            "wordregex",
            "wserrorhighlight",
        ],
    ),
    ("fetch", &["output", "parallel", "prune", "prunetags", "showforcedupdates"]),
    (
        "gc",
        &["aggressivewindow", "auto", "autodetach", "autopacklimit", "pruneexpire", "reflogexpire"],
    ),
    ("gui", &["encoding", "geometry", "wmstate"]),
    ("init", &["defaultbranch"]),
    // What git-lfs notes for itself while it works.
    ("lfs", &["access", "locksverify", "repositoryformatversion"]),
    ("merge", &["conflictstyle", "ff", "log", "renamelimit", "renames", "stat"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default"]),
    // Of a remote whose address is pinned. GitHub's own tool notes `gh-resolved`.
    (
        "remote",
        &[
            "fetch",
            "gh-resolved",
            "prune",
            "prunetags",
            "skipdefaultupdate",
            "skipfetchall",
            "tagopt",
        ],
    ),
    ("tag", &["sort"]),
];

pub(super) fn counts(key: &Key) -> bool {
    let (section, name) = key.kind();
    let listed = |(known, names): &(&str, &[&str])| *known == section && names.contains(&name);
    !SECTIONS.contains(&section) && !KEYS.iter().any(listed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::config::parse;

    fn count(text: &str) -> Vec<String> {
        let entries = parse(text).unwrap().into_iter();
        entries.filter(|entry| counts(&entry.key)).map(|entry| entry.key.to_string()).collect()
    }

    // covers: SE-01
    #[test]
    fn what_people_and_editors_set_every_day_is_harmless() {
        let text = "[branch \"main\"]\nremote = origin\nmerge = refs/heads/main\nvscode-merge-base = x\n\
            [user]\nname = A\nemail = a@b\nsigningKey = K\n[color \"diff\"]\nmeta = red\n[color]\nui = auto\n\
            [core]\nautocrlf = input\nignoreCase = true\n[remote \"origin\"]\nfetch = +a:b\ngh-resolved = base\n\
            [pull]\nrebase = true\n[gc]\nauto = 0\n[lfs \"https://x/y\"]\naccess = basic\n[push]\ndefault = simple\n";
        assert_eq!(count(text), Vec::<String>::new());
    }

    // covers: SE-01
    #[test]
    fn what_can_run_include_or_redirect_counts() {
        let keys = [
            ("core", "fsmonitor hooksPath sshCommand askPass editor pager gitProxy attributesFile"),
            ("core", "excludesFile worktree alternateRefsCommand protectNTFS"),
            ("credential", "helper"),
            ("credential \"https://x\"", "helper useHttpPath"),
            ("filter \"x\"", "clean smudge process required"),
            ("diff", "external tool"),
            ("diff \"x\"", "command textconv"),
            ("merge \"x\"", "driver"),
            ("gpg", "program format"),
            ("gpg \"ssh\"", "program"),
            ("include", "path"),
            ("includeIf \"gitdir:x\"", "path"),
            ("remote \"x\"", "url pushurl receivepack uploadpack vcs proxy push mirror"),
            ("remote", "pushDefault"),
            ("url \"x\"", "insteadOf pushInsteadOf"),
            ("http", "proxy sslVerify extraHeader cookieFile"),
            ("protocol \"ext\"", "allow"),
            ("submodule \"x\"", "url update"),
            ("alias", "st"),
            ("init", "templateDir"),
            ("extensions", "worktreeConfig partialClone"),
            ("sequence", "editor"),
            ("lfs", "url"),
            ("lfs \"customtransfer.x\"", "path"),
            ("trailer \"x\"", "command cmd"),
            ("uploadpack", "packObjectsHook"),
            ("gc", "recentObjectsHook"),
            ("pull", "twohead"),
            ("unheardof", "of"),
        ];
        for (section, names) in keys {
            for name in names.split(' ') {
                assert_eq!(count(&format!("[{section}]\n{name} = x")).len(), 1, "{section} {name}");
            }
        }
    }
}
