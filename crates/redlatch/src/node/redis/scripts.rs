//! Our scripts, and how a command names them.

use super::resp::{Digits, write_command};
use redlatch_core::{Resource, Resources, fence};
use std::sync::LazyLock;

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

    /// The whole script, with all that it includes.
    pub(super) fn source(self) -> &'static str {
        static SOURCES: LazyLock<[String; Script::ALL.len()]> = LazyLock::new(|| {
            Script::ALL.map(|script| {
                let source = script.file().to_owned();
                INCLUDED.iter().fold(source, |source, (name, file)| {
                    source.replace(&format!("-- include {name}.lua"), file)
                })
            })
        });
        &SOURCES[self as usize]
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

/// What scripts include, in an order in which none includes one before it.
const INCLUDED: [(&str, &str); 5] = [
    ("take", include_str!("scripts/take.lua")),
    ("extend", include_str!("scripts/extend.lua")),
    ("release", include_str!("scripts/release.lua")),
    ("line", include_str!("scripts/line.lua")),
    ("number", include_str!("scripts/number.lua")),
];

/// Holds everything of ours on a server except the locks.
pub(super) const NODE_KEY: &[u8] = b"redlatch:node";

/// The hashes of our scripts, as returned by `SCRIPT LOAD`.
pub(super) type Hashes = [Box<[u8]>; Script::ALL.len()];

/// Whether a script is named by its hash, or sent in full because the server
/// has forgotten it.
#[derive(Clone, Copy)]
pub(super) enum Naming<'a> {
    Hash(&'a Hashes),
    Source,
}

impl<'a> Naming<'a> {
    /// The verb of the command, and what it calls the script.
    pub(super) fn of(self, script: Script) -> (&'static [u8], &'a [u8]) {
        match self {
            Naming::Hash(hashes) => (b"EVALSHA", &hashes[script as usize]),
            Naming::Source => (b"EVAL", script.source().as_bytes()),
        }
    }
}

/// Examines a server, and marks it if it is out.
pub(super) const WATCH: &[u8] = include_bytes!("scripts/watch.lua");

/// Writes a rarely used script that works on the node's own hash.
pub(super) fn write_node_script(out: &mut Vec<u8>, source: &[u8], arguments: &[&[u8]]) {
    let mut words: Vec<&[u8]> = vec![b"EVAL", source, b"1", NODE_KEY];
    words.extend(arguments);
    write_command(out, &words);
}

pub(super) fn write_script(
    out: &mut Vec<u8>,
    naming: Naming<'_>,
    script: Script,
    resources: &Resources,
    arguments: &[&[u8]],
) {
    let (verb, body) = naming.of(script);
    let node = script.needs_node();
    let mut digits = Digits::default();
    let count = digits.of((resources.count() + usize::from(node)) as u64);
    // Nearly every take and release: avoid a heap allocation.
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
