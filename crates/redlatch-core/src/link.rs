//! The timeouts of a connection to a node, shared by the library and the simulator.

use core::time::Duration;

/// How long connecting may take until the server is ready to vote. Callers wait only for
/// their own node timeout; this timeout ends the attempt to connect.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection without an answer for this long is dropped, even if every byte is
/// acknowledged: something in between may be acknowledging them. A server that was only
/// frozen still receives everything that was sent, in order.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(30);

const FIRST_REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The pause after a failed connect, during which commands fail at once: 20 ms,
/// doubled after every further failure, at most a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest(Duration);

impl Default for Rest {
    fn default() -> Self {
        Rest(FIRST_REST)
    }
}

impl Rest {
    /// Records a failed connect and returns how long to pause.
    pub fn begin(&mut self) -> Duration {
        let rest = self.0;
        self.0 = (rest * 2).min(LONGEST_REST);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_doubles_up_to_a_second_and_no_further() {
        let mut rest = Rest::default();

        let rests = [(); 8].map(|()| rest.begin().as_millis());

        assert_eq!(rests, [20, 40, 80, 160, 320, 640, 1000, 1000]);
    }
}
