//! Finds the owner's configuration file. It does not read it.

use super::{ConfigError, Env};
use std::io;
use std::path::{Path, PathBuf};

/// In the order of DESIGN §6. A file that somebody named must be there; the usual places may be empty.
pub(super) fn find(explicit: Option<&Path>, env: &Env) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(path) = explicit {
        return named(path, "--config").map(Some);
    }
    if let Some(path) = env.get("AGENCY_CONFIG") {
        return named(Path::new(path), "$AGENCY_CONFIG").map(Some);
    }
    let own = env.base("XDG_CONFIG_HOME", ".config").map(|base| base.join("agency/agency.yaml"));
    let usual = own.into_iter().chain([PathBuf::from("/etc/agency/agency.yaml")]);
    first_of(usual)
}

fn named(path: &Path, by: &'static str) -> Result<PathBuf, ConfigError> {
    match exists(path)? {
        true => Ok(path.to_owned()),
        false => Err(ConfigError::Missing { path: path.to_owned(), by }),
    }
}

fn first_of(paths: impl Iterator<Item = PathBuf>) -> Result<Option<PathBuf>, ConfigError> {
    for path in paths {
        if exists(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// A file that we may not see is an error, not an absence: the owner's limits must not vanish silently.
fn exists(path: &Path) -> Result<bool, ConfigError> {
    match path.metadata() {
        Ok(_) => Ok(true),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(false)
        }
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(home: &Path, extra: &[(&str, &Path)]) -> Env {
        let home = [("HOME", home)];
        home.iter().chain(extra).map(|(name, path)| (*name, path.as_os_str())).collect()
    }

    fn file(path: &Path) -> &Path {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
        path
    }

    // covers: DM-12
    #[test]
    fn the_order_is_flag_variable_xdg() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        assert_eq!(find(None, &env(&home, &[])).unwrap(), first_of_etc());

        let usual = home.join(".config/agency/agency.yaml");
        file(&usual);
        assert_eq!(find(None, &env(&home, &[])).unwrap(), Some(usual));

        let xdg = dir.path().join("xdg");
        let own = xdg.join("agency/agency.yaml");
        file(&own);
        let extra: &[(&str, &Path)] = &[("XDG_CONFIG_HOME", &xdg)];
        assert_eq!(find(None, &env(&home, extra)).unwrap(), Some(own));

        let named = dir.path().join("named.yaml");
        let extra: &[(&str, &Path)] = &[("XDG_CONFIG_HOME", &xdg), ("AGENCY_CONFIG", file(&named))];
        assert_eq!(find(None, &env(&home, extra)).unwrap(), Some(named.clone()));

        let flag = dir.path().join("flag.yaml");
        assert_eq!(find(Some(file(&flag)), &env(&home, extra)).unwrap(), Some(flag));
    }

    /// The machine's own file, if this machine has one.
    fn first_of_etc() -> Option<PathBuf> {
        Some(PathBuf::from("/etc/agency/agency.yaml")).filter(|path| path.exists())
    }

    #[test]
    fn a_named_file_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone.yaml");
        let error = find(Some(&gone), &Env::default()).unwrap_err();
        assert!(error.to_string().contains("--config"), "{error}");
        let error = find(None, &env(dir.path(), &[("AGENCY_CONFIG", &gone)])).unwrap_err();
        assert!(error.to_string().contains("$AGENCY_CONFIG"), "{error}");
    }
}
