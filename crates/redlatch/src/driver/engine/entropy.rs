//! Randomness from the operating system.

use redlatch_core::Entropy;

/// The system's CSPRNG, read in blocks: one system call for many tokens.
///
/// An engine's buffer is never shared: a forked child has no engine, since
/// neither threads nor runtimes survive a fork.
#[derive(Debug)]
pub(crate) struct SystemEntropy {
    buffer: [u8; 1024],
    used: usize,
}

impl Default for SystemEntropy {
    fn default() -> Self {
        SystemEntropy { buffer: [0; 1024], used: 1024 }
    }
}

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        if self.buffer.len() - self.used < bytes.len() {
            // Linux provides randomness or blocks until it can; without it no
            // lock is safe.
            getrandom::fill(&mut self.buffer).expect("the system has no source of randomness");
            self.used = 0;
        }
        let end = self.used + bytes.len();
        bytes.copy_from_slice(&self.buffer[self.used..end]);
        // Keep no copy of a token.
        self.buffer[self.used..end].fill(0);
        self.used = end;
    }
}
