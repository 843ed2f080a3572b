//! Names that look like secrets. A new file of such a name is never committed by us (LP-19).

use crate::model::RelPath;

const NAMES: &[&str] = &[
    ".env",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "credentials",
    "credentials.json",
    "secrets.json",
    "secrets.yaml",
    "secrets.yml",
    "service-account.json",
];
const ENDINGS: &[&str] = &[".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk"];
/// Templates are meant to be shared.
const TEMPLATES: &[&str] = &[".env.example", ".env.sample", ".env.template"];

pub(super) fn looks_secret(path: &RelPath) -> bool {
    let name = path.file_name().to_ascii_lowercase();
    if TEMPLATES.contains(&name.as_str()) {
        return false;
    }
    NAMES.contains(&name.as_str())
        || name.starts_with(".env.")
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_are_known_and_templates_are_not() {
        for secret in [".env", "app/.env.production", "deploy.PEM", "keys/id_ed25519"] {
            assert!(looks_secret(&RelPath::new(secret).unwrap()), "{secret}");
        }
        for plain in [".env.example", "src/key.rs", "environment.md", "credentials.md"] {
            assert!(!looks_secret(&RelPath::new(plain).unwrap()), "{plain}");
        }
    }
}
