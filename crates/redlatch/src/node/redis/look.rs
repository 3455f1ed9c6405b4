//! Re-checks a server on an established connection.
//!
//! In:  answers to the same questions as at connect, one section of `INFO`
//! each.
//! Out: whether the server is still the one that was greeted, and still fit.
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

/// Covers everything that [`identify`] reads, at half the cost to the server of a whole
/// `INFO`. Redis 6.2 accepts only one section at a time.
const SECTIONS: [&[u8]; 4] = [b"server", b"replication", b"memory", b"stats"];

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

/// The answers to the re-check in progress, so far.
#[derive(Debug, Default)]
pub(super) struct Look {
    parts: usize,
    text: Vec<u8>,
}

impl Look {
    /// The number of answers.
    pub(super) const PARTS: usize = SECTIONS.len();

    pub(super) fn write(out: &mut Vec<u8>) {
        for section in SECTIONS {
            write_command(out, &[b"INFO", section]);
        }
    }

    /// Handles one answer of a server that was greeted as this run.
    pub(super) fn hear(
        &mut self,
        value: &Value<'_>,
        address: &Address,
        run: &str,
    ) -> Result<(), Fault> {
        let Value::Text(part) = value else {
            return identify(value, address).map(drop).map_err(under_way);
        };
        keep(&mut self.text, part);
        self.parts += 1;
        if self.parts < Self::PARTS {
            return Ok(());
        }
        let now = identify(&Value::Text(&self.text), address).map_err(under_way)?;
        self.parts = 0;
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

    /// Re-checks a server that was greeted as `run` and now answers this.
    fn look(run: &str, said: [&str; 4]) -> Result<(), Fault> {
        let address = Address::new(Transport::Unix("/nowhere".into()));
        let mut look = Look::default();
        said.iter().try_for_each(|part| look.hear(&Value::Text(part.as_bytes()), &address, run))
    }

    fn lost(outcome: Result<(), Fault>) -> String {
        let Err(fault) = outcome else { panic!("nothing was noticed") };
        assert!(!fault.never_sent(), "what went out behind the look must be undone: {fault}");
        fault.to_string()
    }

    const SERVER: &str = "redis_version:7.0.1\r\nrun_id:abc\r\n";
    const MASTER: &str = "role:master\r\nmaster_replid:def\r\n";
    const ROOMY: &str = "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n";
    const NONE: &str = "evicted_keys:0\r\n";

    #[test]
    fn a_server_is_who_it_was_until_it_is_a_replica_evicts_or_has_evicted() {
        let replica = "role:slave\r\nmaster_replid:def\r\n";
        let promoted = "role:master\r\nmaster_replid:fed\r\n";
        let evicting = "maxmemory:9\r\nmaxmemory_policy:volatile-lru\r\n";

        assert_eq!(look("abcdef", [SERVER, MASTER, ROOMY, NONE]), Ok(()));
        let was = |said| lost(look("abcdef", said));
        assert!(was([SERVER, replica, ROOMY, NONE]).contains("it is a replica"));
        assert!(was([SERVER, promoted, ROOMY, NONE]).contains("changed its role"));
        assert!(was([SERVER, MASTER, evicting, NONE]).contains("maxmemory-policy volatile-lru"));
        assert!(was([SERVER, MASTER, ROOMY, "evicted_keys:5\r\n"]).contains("evicted keys"));
        let reset = look("abcdef+5", [SERVER, MASTER, ROOMY, NONE]);
        assert!(lost(reset).contains("evicted keys"));
    }

    #[test]
    fn a_server_that_no_longer_tells_is_left() {
        let address = Address::new(Transport::Unix("/nowhere".into()));

        lost(Look::default().hear(&Value::Error(b"NOPERM no"), &address, "abc"));
    }
}
