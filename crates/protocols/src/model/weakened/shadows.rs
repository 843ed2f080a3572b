//! New files that a check's tools read although no one names them, and that come before the project's own (LP-34).

use super::RelPath;

/// Names that take effect by being there, in any folder.
pub const SHADOWS: &[&str] = &[
    "GNUmakefile",
    "makefile",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "bunfig.toml",
    "sitecustomize.py",
    "usercustomize.py",
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pip.conf",
    ".eslintignore",
    ".prettierignore",
    ".nycrc",
    ".mocharc.js",
    ".mocharc.json",
    ".mocharc.yml",
    ".coveragerc",
    "rust-toolchain",
    "rust-toolchain.toml",
    "go.work",
];

/// Folders that setup commands fill; what comes by a change in one of them replaces what they would bring.
const FILLED: [&str; 4] = ["node_modules", ".venv", "__pycache__", ".cargo"];

pub(super) fn is_shadow(path: &RelPath) -> bool {
    SHADOWS.contains(&path.file_name()) || filled(path).is_some()
}

fn filled(path: &RelPath) -> Option<&str> {
    path.as_str().split('/').find(|part| FILLED.contains(part))
}

/// Why a new file may change what a check does.
pub(super) fn why_new<'a>(
    path: &RelPath,
    mut lines: impl Iterator<Item = &'a str>,
) -> Option<String> {
    if SHADOWS.contains(&path.file_name()) {
        return Some(format!("`{path}` is new and changes what a check does"));
    }
    if let Some(folder) = filled(path) {
        return Some(format!("`{path}` is new in `{folder}`, from where checks run their tools"));
    }
    let module = lines.find_map(|line| modules(line).find(|module| is_module(path, module)))?;
    Some(format!("`{path}` is new and would run in the place of `python -m {module}`"))
}

/// `python3 -m pytest -q` runs the module `pytest`, and looks for it in the current folder first.
fn modules(line: &str) -> impl Iterator<Item = &str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let named = words.windows(2).filter(|pair| pair[0] == "-m").map(|pair| pair[1]);
    named.map(|module| module.split('.').next().unwrap_or(module)).collect::<Vec<_>>().into_iter()
}

fn is_module(path: &RelPath, module: &str) -> bool {
    let first = path.as_str().split('/').next().unwrap_or_default();
    first == module || first.strip_suffix(".py") == Some(module)
}
