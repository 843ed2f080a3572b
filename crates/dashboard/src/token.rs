//! Secrets of 256 bits: made, compared, and kept only as SHA-256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read as _};

/// 32 bytes in the letters of an address.
const LETTERS: usize = 43;

/// A secret on its way to its holder. It is never kept.
#[derive(Clone)]
pub(crate) struct Token(String);

/// All that is kept of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hashed([u8; 32]);

impl Token {
    pub(crate) fn fresh() -> io::Result<Self> {
        Ok(Self(URL_SAFE_NO_PAD.encode(random()?)))
    }

    /// `None`: it has not the form of one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == LETTERS && URL_SAFE_NO_PAD.decode(text).is_ok();
        fits.then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn hashed(&self) -> Hashed {
        Hashed(Sha256::digest(self.0.as_bytes()).into())
    }
}

/// The key that signs the forms of one session.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) fn fresh() -> io::Result<Self> {
        random().map(Self)
    }

    /// The parts are told apart: `ab` + `c` is not `a` + `bc`.
    pub(crate) fn sign(&self, parts: &[&str]) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(parts).finalize().into_bytes())
    }

    /// In constant time.
    pub(crate) fn verify(&self, parts: &[&str], signature: &str) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        self.mac(parts).verify_slice(&signature).is_ok()
    }

    fn mac(&self, parts: &[&str]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("BUG: any key length is fine");
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }
}

fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WB-03
    #[test]
    fn a_token_has_256_bits_and_only_its_hash_is_kept() {
        let (one, other) = (Token::fresh().unwrap(), Token::fresh().unwrap());
        assert_ne!(one.hashed(), other.hashed());
        assert_eq!(URL_SAFE_NO_PAD.decode(one.as_str()).unwrap().len(), 32);
        assert_eq!(Token::parse(one.as_str()).unwrap().hashed(), one.hashed());
        for wrong in ["", "short", &"/".repeat(LETTERS), &"a".repeat(LETTERS + 1)] {
            assert!(Token::parse(wrong).is_none(), "{wrong}");
        }
    }

    // covers: WB-02, WB-03
    #[test]
    fn a_form_is_signed_for_one_act_of_one_session() {
        let (key, other) = (Key::fresh().unwrap(), Key::fresh().unwrap());
        let signature = key.sign(&["shop-1", "ack", "a1"]);
        assert!(key.verify(&["shop-1", "ack", "a1"], &signature));
        assert!(!other.verify(&["shop-1", "ack", "a1"], &signature));
        for parts in [["shop-1", "ack", "a2"], ["shop-1", "ac", "ka1"], ["shop-1", "resume", "a1"]]
        {
            assert!(!key.verify(&parts, &signature), "{parts:?}");
        }
        assert!(!key.verify(&["shop-1", "ack", "a1"], "") && !key.verify(&[], "x y"));
    }
}
