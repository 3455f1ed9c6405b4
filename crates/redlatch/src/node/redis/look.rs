//! Re-checks a server on an established connection.
//!
//! In:  answers to the same questions as at connect, one section of `INFO`
//! each.
//! Out: whether the server is still the one that was greeted, and still fit.
//!
//! A full re-check asks for all sections. A brief one asks only for what shows a different
//! history (`master_replid` is new with every run and every promotion) and for evicted keys,
//! and takes the rest from the last full one. It costs the server a third.
//!
//! Promise: the fault of a re-check never says that a command was not sent: commands sent
//! after the questions may have been carried out.

use super::{
    Address,
    connect::identify,
    observe::server_of,
    resp::{Value, write_command},
};
use redlatch_core::Fault;

/// Covers everything that [`identify`] reads, and costs the server half as much as a
/// whole `INFO`. Redis 6.2 accepts only one section at a time.
const SECTIONS: [&[u8]; 4] = [b"server", b"memory", b"replication", b"stats"];

/// How many sections, from the first on, a brief re-check does not ask for.
const RARE: usize = 2;

/// The fields that [`identify`] reads. The rest of an answer, 3 kB or more, is discarded:
/// searching it for each field takes ten times as long. (`cluster_enabled` is in none of
/// these sections: no server changes it while running.)
const FIELDS: [&[u8]; 10] = [
    b"redis_mode:",
    b"redis_version:",
    b"valkey_version:",
    b"run_id:",
    b"role:",
    b"master_replid:",
    b"maxmemory:",
    b"maxmemory_policy:",
    b"evicted_keys:",
    b"cluster_enabled:",
];

/// One question of a re-check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question(usize);

/// What a server answered to its re-checks.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// The answers to the last full re-check that a brief one does not ask for.
    rare: Vec<u8>,
    /// The other answers to the re-check in progress, so far.
    text: Vec<u8>,
}

impl Look {
    /// Asks the server. The first re-check has to be a full one.
    pub(super) fn write(
        out: &mut Vec<u8>,
        is_full: bool,
    ) -> impl Iterator<Item = Question> + use<> {
        let first = if is_full { 0 } else { RARE };
        for section in &SECTIONS[first..] {
            write_command(out, &[b"INFO", section]);
        }
        (first..SECTIONS.len()).map(Question)
    }

    /// Handles the answer of a server that was greeted as this run.
    pub(super) fn hear(
        &mut self,
        Question(asked): Question,
        value: &Value<'_>,
        address: &Address,
        run: &str,
    ) -> Result<(), Fault> {
        let Value::Text(part) = value else {
            return identify(value, address).map(drop).map_err(under_way);
        };
        if asked == 0 {
            self.rare.clear();
        }
        keep(if asked < RARE { &mut self.rare } else { &mut self.text }, part);
        if asked + 1 < SECTIONS.len() {
            return Ok(());
        }
        self.text.extend_from_slice(&self.rare);
        let now = identify(&Value::Text(&self.text), address).map_err(under_way)?;
        self.text.clear();
        if *now.run == *run {
            Ok(())
        } else if server_of(&now.run) == server_of(run) {
            Err(Fault::Disconnected("the server's count of evicted keys changed".into()))
        } else {
            Err(role_changed())
        }
    }
}

/// Keeps the relevant lines of an answer.
pub(super) fn keep(text: &mut Vec<u8>, part: &[u8]) {
    for line in part.split_inclusive(|byte| *byte == b'\n') {
        // Cheap: most lines differ in the first letter.
        if FIELDS.iter().any(|field| line.starts_with(field)) {
            text.extend_from_slice(line);
        }
    }
}

pub(super) fn role_changed() -> Fault {
    Fault::Disconnected("the server changed its role".into())
}

fn under_way(fault: Fault) -> Fault {
    match fault {
        Fault::Unfit(reason) | Fault::Unreachable(reason) | Fault::WrongAddress(reason) => {
            Fault::Disconnected(reason)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Transport, *};

    const SERVER: &str = "redis_version:7.0.1\r\nrun_id:abc\r\n";
    const ROOMY: &str = "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n";
    const MASTER: &str = "role:master\r\nmaster_replid:def\r\n";
    const NONE: &str = "evicted_keys:0\r\n";

    const REPLICA: &str = "role:slave\r\nmaster_replid:def\r\n";
    const PROMOTED: &str = "role:master\r\nmaster_replid:fed\r\n";

    /// Re-checks a server that was greeted as `run`, and answers this to each section.
    fn ask(look: &mut Look, is_full: bool, run: &str, said: [&str; 4]) -> Result<(), Fault> {
        let address = Address::new(Transport::Unix("/nowhere".into()));
        let mut asked = Look::write(&mut Vec::new(), is_full);
        asked.try_for_each(|question| {
            let said = Value::Text(said[question.0].as_bytes());
            look.hear(question, &said, &address, run)
        })
    }

    fn lost(outcome: Result<(), Fault>) -> String {
        let Err(fault) = outcome else { panic!("nothing was noticed") };
        assert!(!fault.never_sent(), "what went out behind the look must be undone: {fault}");
        fault.to_string()
    }

    #[test]
    fn a_server_is_who_it_was_until_it_is_a_replica_evicts_or_has_evicted() {
        let look = |run, said| ask(&mut Look::default(), true, run, said);
        let evicting = "maxmemory:9\r\nmaxmemory_policy:volatile-lru\r\n";

        assert_eq!(look("abcdef", [SERVER, ROOMY, MASTER, NONE]), Ok(()));
        let was = |said| lost(look("abcdef", said));
        assert!(was([SERVER, ROOMY, REPLICA, NONE]).contains("it is a replica"));
        assert!(was([SERVER, ROOMY, PROMOTED, NONE]).contains("changed its role"));
        assert!(was([SERVER, evicting, MASTER, NONE]).contains("maxmemory-policy volatile-lru"));
        assert!(was([SERVER, ROOMY, MASTER, "evicted_keys:5\r\n"]).contains("evicted keys"));
        let reset = look("abcdef+5", [SERVER, ROOMY, MASTER, NONE]);
        assert!(lost(reset).contains("evicted keys"));
    }

    #[test]
    fn a_brief_look_tells_another_history_and_evicted_keys() {
        let was = |then| {
            let mut look = Look::default();
            assert_eq!(ask(&mut look, true, "abcdef", [SERVER, ROOMY, MASTER, NONE]), Ok(()));
            for _ in 0..2 {
                assert_eq!(ask(&mut look, false, "abcdef", ["", "", MASTER, NONE]), Ok(()));
            }
            lost(ask(&mut look, false, "abcdef", then))
        };

        assert!(was(["", "", REPLICA, NONE]).contains("it is a replica"));
        assert!(was(["", "", PROMOTED, NONE]).contains("changed its role"));
        assert!(was(["", "", MASTER, "evicted_keys:5\r\n"]).contains("evicted keys"));
    }

    #[test]
    fn a_full_look_replaces_what_an_earlier_one_was_told() {
        let mut look = Look::default();
        let said = [SERVER, ROOMY, MASTER, NONE];
        assert_eq!(ask(&mut look, true, "abcdef", said), Ok(()));
        assert_eq!(ask(&mut look, true, "abcdef", said), Ok(()));
        assert!(look.rare.len() < 2 * (SERVER.len() + ROOMY.len()), "it grows");

        let other = "redis_version:7.0.1\r\nrun_id:bcd\r\n";
        lost(ask(&mut look, true, "abcdef", [other, ROOMY, MASTER, NONE]));
    }

    #[test]
    fn a_server_that_no_longer_tells_is_left() {
        let address = Address::new(Transport::Unix("/nowhere".into()));

        for question in Look::write(&mut Vec::new(), true) {
            let refused = Value::Error(b"NOPERM no");
            lost(Look::default().hear(question, &refused, &address, "abc"));
        }
    }
}
