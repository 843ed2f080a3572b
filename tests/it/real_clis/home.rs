//! The home and the environment in which a real CLI finds a scripted provider, for tests under the real daemon.

use super::room::{Ports, codex_config, environment};
use crate::stage::Stage;
use std::ffi::OsStr;
use std::fs;

pub(super) fn settled(stage: Stage, ports: Ports, path: &OsStr) -> Stage {
    let home = stage.at("home");
    for (file, text) in [
        (".codex/config.toml", codex_config(ports.codex)),
        (
            ".gemini/settings.json",
            r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#.to_owned(),
        ),
    ] {
        fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
        fs::write(home.join(file), text).unwrap();
    }
    environment(ports, path.to_str().unwrap(), &home)
        .iter()
        .fold(stage, |stage, (name, value)| stage.with_env(name, value))
}
