//! Which jobs run on this machine: locks on bytes of a file, one byte for each name. A
//! lock ends with the process that has it.
//!
//! Promise: a job that was killed, or whose machine restarted, does not count as
//! running.

use nix::{
    fcntl::{FcntlArg, fcntl},
    libc::{self, flock},
};
use std::{fs::File, io, sync::OnceLock};

/// Closing the file would end the locks.
static OURS: OnceLock<File> = OnceLock::new();

/// Marks the job with these names as running until this process ends. A process has only
/// one job.
pub(super) fn begin(file: File, names: &[String]) -> io::Result<()> {
    if OURS.get().is_none() {
        for name in names {
            fcntl(&file, FcntlArg::F_OFD_SETLK(&byte_of(name)))?;
        }
        let _ = OURS.set(file);
    }
    Ok(())
}

/// Whether the job with this name runs, in another process.
pub(super) fn is_running(file: &File, name: &str) -> bool {
    let mut asked = byte_of(name);
    let told = fcntl(file, FcntlArg::F_OFD_GETLK(&mut asked));
    told.is_ok() && i32::from(asked.l_type) != libc::F_UNLCK
}

/// A lock on the byte whose position is the name's FNV hash.
#[expect(clippy::cast_possible_truncation, reason = "small constants, which libc has as `c_int`")]
fn byte_of(name: &str) -> flock {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: (hash >> 2).cast_signed(),
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_others_and_a_file_that_is_closed_from_an_open_one() {
        let path = std::env::temp_dir().join(format!("redlatch-running-{}", std::process::id()));
        let open = || File::create(&path).unwrap();
        let asked = open();

        begin(open(), &["x".into()]).unwrap();
        let other = open();
        fcntl(&other, FcntlArg::F_OFD_SETLK(&byte_of("y"))).unwrap();

        assert_eq!(["x", "y", "z"].map(|name| is_running(&asked, name)), [true, true, false]);
        drop(other);
        assert!(!is_running(&asked, "y"));
        std::fs::remove_file(&path).unwrap();
    }
}
