//! Signatures after the Standard Webhooks convention, with as many keys as the owner rotates. It sends nothing.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

const PREFIX: &str = "whsec_";

/// The keys of one webhook: during a rotation the new one and the old one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SigningKeys(Vec<Vec<u8>>);

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKeys({})", self.0.len())
    }
}

impl SigningKeys {
    /// `whsec_<base64>`, several separated by spaces. `None` when one of them is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let key = |word: &str| {
            let key = STANDARD.decode(word.strip_prefix(PREFIX)?).ok()?;
            (!key.is_empty()).then_some(key)
        };
        let keys: Vec<Vec<u8>> = text.split_whitespace().map(key).collect::<Option<_>>()?;
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// The value of `webhook-signature`: one signature for each key.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let one = |key: &Vec<u8>| signature(key, id, timestamp, body);
        self.0.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

/// `v1,<base64 of HMAC-SHA256("id.timestamp.body")>`
pub fn signature(key: &[u8], id: &str, timestamp: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ES-04
    #[test]
    fn the_example_of_the_convention_is_signed_as_it_says() {
        let keys = SigningKeys::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed =
            keys.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    // covers: ES-04
    #[test]
    fn two_keys_give_two_signatures() {
        let both = SigningKeys::parse("whsec_bmV3 whsec_b2xk").unwrap().sign("m", 1, b"x");
        let (new, old) = (signature(b"new", "m", 1, b"x"), signature(b"old", "m", 1, b"x"));
        assert_eq!(both, format!("{new} {old}"));
        for bad in ["", "bmV3", "whsec_", "whsec_***", "whsec_bmV3 plain"] {
            assert_eq!(SigningKeys::parse(bad), None, "{bad}");
        }
    }
}
