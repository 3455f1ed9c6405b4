//! The name of a lock: as it was typed, as people read it, and as it is in JSON.

use crate::{exit::Exit, failure::Failure, percent, plain::plain};
use serde_json::Value;
use std::{
    ffi::OsString,
    fmt::Write as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
};

/// A name, as people read it: what is not text is shown as bytes.
pub(crate) fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.push_str(&plain(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A name as it is in JSON: exactly, if it is text.
pub(crate) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// A name exactly, with any bytes encoded: commands accept it with `--id`.
pub(crate) fn id(name: &[u8]) -> String {
    let mut id = String::new();
    percent::encode(&mut id, name);
    id
}

/// Adds the name of a lock.
pub(crate) fn add_json(json: &mut Value, name: &[u8]) {
    json["name"] = text(name).into();
    json["id"] = id(name).into();
}

/// The name that was typed, perhaps as an id.
pub(crate) fn typed(name: OsString, is_id: bool) -> Result<OsString, Failure> {
    if !is_id {
        return Ok(name);
    }
    let decoded = name.to_str().and_then(percent::decode).map(OsString::from_vec);
    decoded.ok_or_else(|| {
        let words = format!(
            "{} is not an id; --id takes what --json shows as `id`",
            shown(name.as_bytes())
        );
        Failure::new(Exit::Failed, words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_exactly_and_shown_without_harm() {
        let name = b"a\"\\\xff\n\xe2\x80\xae";

        assert_eq!(shown(name), r#"a"\\xff\n\u{202e}"#);
        assert_eq!(typed(id(name).into(), true).unwrap().as_bytes(), name);
        assert_eq!(typed("a%".into(), false).unwrap(), "a%");
        assert!(typed("a%".into(), true).is_err());
    }
}
