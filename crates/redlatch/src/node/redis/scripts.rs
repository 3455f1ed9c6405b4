//! Our scripts, and how commands refer to them.

use super::resp::{Digits, write_command};
use redlatch_core::{Resource, Resources, fence};
use std::borrow::Cow;

/// One of our scripts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Script {
    Take,
    TakeFenced,
    Raise,
    Extend,
    Release,
    Inspect,
    /// Takes, extensions and releases, many in one call.
    Turn,
}

impl Script {
    pub(super) const ALL: [Script; 7] = [
        Script::Take,
        Script::TakeFenced,
        Script::Raise,
        Script::Extend,
        Script::Release,
        Script::Inspect,
        Script::Turn,
    ];

    /// The whole script, with everything it includes and without comments.
    pub(super) fn source(self) -> String {
        let mut source = String::new();
        append(&mut source, self.file());
        source
    }

    /// The hash by which servers know it.
    pub(super) fn hash(self) -> &'static [u8] {
        HASHES[self as usize].as_bytes()
    }

    fn file(self) -> &'static str {
        match self {
            Script::Take => include_str!("scripts/take.lua"),
            Script::TakeFenced => include_str!("scripts/take_fenced.lua"),
            Script::Raise => include_str!("scripts/raise.lua"),
            Script::Extend => include_str!("scripts/extend.lua"),
            Script::Release => include_str!("scripts/release.lua"),
            Script::Inspect => include_str!("scripts/inspect.lua"),
            Script::Turn => include_str!("scripts/turn.lua"),
        }
    }

    /// Whether it also uses the node's own hash.
    fn needs_node(self) -> bool {
        !matches!(self, Script::Release)
    }
}

/// Appends the lines of a file, and of the files that it includes.
fn append(source: &mut String, file: &str) {
    for line in file.lines().map(str::trim_start) {
        let included = line.strip_prefix("-- include ").and_then(included);
        match included {
            Some(file) => append(source, file),
            None if line.is_empty() || line.starts_with("--") => {}
            None => source.extend([line, "\n"]),
        }
    }
}

fn included(name: &str) -> Option<&'static str> {
    let found = INCLUDED.iter().find(|(file, _)| name.strip_suffix(".lua") == Some(file));
    found.map(|(_, file)| *file)
}

/// The files that scripts include.
const INCLUDED: [(&str, &str); 11] = [
    ("take", include_str!("scripts/take.lua")),
    ("extend", include_str!("scripts/extend.lua")),
    ("release", include_str!("scripts/release.lua")),
    ("held", include_str!("scripts/held.lua")),
    ("settle", include_str!("scripts/settle.lua")),
    ("line", include_str!("scripts/line.lua")),
    ("join", include_str!("scripts/join.lua")),
    ("read", include_str!("scripts/read.lua")),
    ("write", include_str!("scripts/write.lua")),
    ("serve", include_str!("scripts/serve.lua")),
    ("number", include_str!("scripts/number.lua")),
];

/// The key of everything that we keep on a server except the locks.
pub(super) const NODE_KEY: &[u8] = b"redlatch:node";

/// The SHA-1 of each script. If a script changes, a test fails and shows the new hash.
const HASHES: [&str; Script::ALL.len()] = [
    "9eaa5b3c5de6f36dbbff52d5099b299cd58f6f52",
    "1e147e271b7f25f6acec8fefeab70f27d3028262",
    "dbe95a6163ad26df7d07474a992e13b397e2dc3a",
    "d88c7fccffd5f9d432d40ffcca7d3d3b936d0122",
    "8b58ea4ad97a09ca204c1d982c4c8e4dab12186a",
    "08e582d9c99c91302944a9169f0acb6732ca4782",
    "3ebf2de9df4f179795a4948530d27f52c6a3e96f",
];
/// The hash of [`last`].
pub(super) const LAST: &[u8] = b"32dbf1dbdf8b54c515240fc333402953f0589c92";

/// A script that is loaded after all others: a server that knows it knows them all, so they
/// need not be sent on every connection.
pub(super) fn last() -> String {
    format!("return 1 -- {}", HASHES.join(" "))
}

/// Whether a script is referred to by its hash, or sent in full because the server has
/// forgotten it.
#[derive(Clone, Copy)]
pub(super) enum Naming {
    Hash,
    Source,
}

impl Naming {
    /// The command's verb, and how it refers to the script.
    pub(super) fn of(self, script: Script) -> (&'static [u8], Cow<'static, [u8]>) {
        match self {
            Naming::Hash => (b"EVALSHA", Cow::Borrowed(script.hash())),
            Naming::Source => (b"EVAL", Cow::Owned(script.source().into_bytes())),
        }
    }
}

/// Examines a server, and marks it if it is quarantined.
pub(super) const WATCH: &[u8] =
    concat!(include_str!("scripts/disown.lua"), include_str!("scripts/watch.lua")).as_bytes();
/// Admits a marked server.
pub(super) const ADMIT: &[u8] =
    concat!(include_str!("scripts/disown.lua"), include_str!("scripts/admit.lua")).as_bytes();

/// Writes a rarely used script that works on the node's own hash.
pub(super) fn write_node_script(out: &mut Vec<u8>, source: &[u8], arguments: &[&[u8]]) {
    let mut words: Vec<&[u8]> = vec![b"EVAL", source, b"1", NODE_KEY];
    words.extend(arguments);
    write_command(out, &words);
}

pub(super) fn write_script(
    out: &mut Vec<u8>,
    naming: Naming,
    script: Script,
    resources: &Resources,
    arguments: &[&[u8]],
) {
    let (verb, body) = naming.of(script);
    let body = &*body;
    let node = script.needs_node();
    let mut digits = Digits::default();
    let count = digits.of((resources.count() + usize::from(node)) as u64);
    // Nearly every take and release; avoids a heap allocation.
    match (resources.single(), script, arguments) {
        (Some(only), Script::Release, [token]) => {
            return write_command(out, &[verb, body, count, only.as_bytes(), token]);
        }
        (Some(only), Script::TakeFenced, [marker, token, ttl, proposed, skew, place]) => {
            let (key, mut register) = (only.as_bytes(), Digits::default());
            let register = register.of(fence::register(only).into());
            let words = [
                verb, body, count, key, NODE_KEY, marker, token, ttl, proposed, skew, place,
                register,
            ];
            return write_command(out, &words);
        }
        _ => {}
    }
    let fenced = match script {
        Script::TakeFenced | Script::Raise => true,
        Script::Extend => arguments.len() == 4,
        Script::Take | Script::Release | Script::Inspect | Script::Turn => false,
    };
    let registers: Vec<String> = if fenced {
        fence::registers(resources).iter().map(u32::to_string).collect()
    } else {
        Vec::new()
    };
    let mut words = Vec::with_capacity(4 + resources.count() + arguments.len() + registers.len());
    words.extend([verb, body, count]);
    words.extend(resources.iter().map(Resource::as_bytes));
    words.extend(node.then_some(NODE_KEY));
    words.extend(arguments);
    words.extend(registers.iter().map(String::as_bytes));
    write_command(out, &words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha1_smol::Sha1;

    #[test]
    fn scripts_are_called_by_their_hashes() {
        let hash = |source: String| Sha1::from(source).digest().to_string();

        assert_eq!(Script::ALL.map(|script| hash(script.source())), HASHES);
        assert_eq!(hash(last()).as_bytes(), LAST, "{}", hash(last()));
    }

    #[test]
    fn what_a_script_includes_is_in_it_and_comments_are_not() {
        for script in Script::ALL {
            let source = script.source();
            assert!(!source.lines().any(|line| line.starts_with("--") || line.is_empty()));
            let included = script
                .file()
                .lines()
                .filter_map(|line| included(line.trim_start().strip_prefix("-- include ")?));
            for file in included {
                let last = file.lines().rfind(|line| !line.trim_start().starts_with("--"));
                assert!(source.contains(last.unwrap().trim_start()), "{script:?}");
            }
        }
    }
}
