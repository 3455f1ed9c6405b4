//! The password for a server: given in the address, or in a file that may change.
//!
//! In:  what the address says. Out: the password to log in with.
//!
//! A file is read when its address is parsed, and again whenever a server refuses the
//! password. So file and server may change in either order, and connections whose password
//! still works read nothing.
//!
//! Promise: a file that is missing, empty or unreadable while it is being replaced does no
//! harm: the last known password is kept. No error shows what is in the file. Only a
//! regular file is read: a pipe could block us, and cannot be read a second time.

use std::{
    fmt,
    fs::{FileType, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};
use tokio::sync::watch;

/// A longer file is not a password file.
const LARGEST: u64 = 64 * 1024;

/// A password, which never appears in logs or errors.
pub(in crate::node) struct Password {
    known: Mutex<Arc<str>>,
    file: Option<Arc<PasswordFile>>,
}

struct PasswordFile {
    path: PathBuf,
    /// Where the thread that reads the file reports its contents. At most one such thread
    /// at a time, however long a file system hangs.
    reading: Mutex<Option<watch::Receiver<Said>>>,
}

/// What the file says, once known.
type Said = Option<Result<String, String>>;

impl Password {
    /// The password in this file.
    pub(in crate::node) fn in_file(path: &str) -> Result<Self, String> {
        let path = PathBuf::from(path);
        let known = read(&path)?;
        let file = PasswordFile { path, reading: Mutex::default() };
        Ok(Password { known: Mutex::new(known.into()), file: Some(Arc::new(file)) })
    }

    /// The file that it is in, if any.
    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| &*file.path)
    }

    /// The password as last read.
    pub(in crate::node) fn reveal(&self) -> Arc<str> {
        Arc::clone(&self.known())
    }

    /// Looks for a different password from the one that a server refused. Returns whether
    /// there is one; an error says why the file could not be read.
    pub(super) async fn look_again(&self, refused: &str) -> Result<bool, String> {
        // Another connection may have read the file in the meantime.
        if **self.known() != *refused {
            return Ok(true);
        }
        let Some(file) = &self.file else { return Ok(false) };
        let read = PasswordFile::read_aside(file).await?;
        let is_another = read != refused;
        *self.known() = read.into();
        Ok(is_another)
    }

    fn known(&self) -> MutexGuard<'_, Arc<str>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Password { known: Mutex::new(text.into()), file: None }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl PasswordFile {
    /// Reads the file. Concurrent callers wait for the same answer.
    async fn read_aside(file: &Arc<Self>) -> Result<String, String> {
        let mut reading = PasswordFile::reading(file)?;
        let said = reading.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
        said.unwrap_or_else(|| Err(unreadable(&file.path, &"its reader panicked")))
    }

    /// Reads the file on its own thread: a hanging file system must delay neither the locks
    /// nor the shutdown of a runtime.
    fn reading(file: &Arc<Self>) -> Result<watch::Receiver<Said>, String> {
        let mut reading = file.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // A finished answer may be older than the question.
        let is_open = |answer: &&watch::Receiver<Said>| {
            answer.borrow().is_none() && answer.has_changed().is_ok()
        };
        if let Some(answer) = reading.as_ref().filter(is_open) {
            return Ok(answer.clone());
        }
        let (tell, answer) = watch::channel(None);
        let path = file.path.clone();
        let thread = thread::Builder::new().name("redlatch-password".into());
        thread
            .spawn(move || tell.send(Some(read(&path))))
            .map_err(|error| unreadable(&file.path, &error))?;
        *reading = Some(answer.clone());
        Ok(answer)
    }
}

fn read(path: &Path) -> Result<String, String> {
    let mut options = OpenOptions::new();
    // Opening a pipe must not wait for its writer.
    options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let mut text = String::new();
    let read = options.open(path).and_then(|file| match kind(file.metadata()?.file_type()) {
        Some(kind) => Err(io::Error::other(format!("it is {kind}, and must be a file"))),
        None => file.take(LARGEST + 1).read_to_string(&mut text),
    });
    read.map_err(|error| unreadable(path, &error))?;
    let shown = path.display();
    match text.trim_end_matches(['\r', '\n']) {
        _ if text.len() as u64 > LARGEST => {
            Err(format!("the password file {shown} is larger than {} KiB", LARGEST / 1024))
        }
        "" => Err(format!("the password file {shown} is empty")),
        password => Ok(password.into()),
    }
}

/// What kind of file it is, if not a regular one.
fn kind(found: FileType) -> Option<&'static str> {
    match found {
        found if found.is_file() => None,
        found if found.is_dir() => Some("a directory"),
        found if found.is_fifo() => Some("a pipe"),
        _ => Some("a device"),
    }
}

fn unreadable(path: &Path, why: &dyn fmt::Display) -> String {
    format!("the password file {} cannot be read: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use redlatch_testbed::Scratch;
    use std::fs;

    fn in_file(scratch: &Scratch, text: &str) -> (String, Password) {
        let path = scratch.file("password").to_str().unwrap().to_owned();
        fs::write(&path, text).unwrap();
        let password = Password::in_file(&path).unwrap();
        (path, password)
    }

    #[tokio::test]
    async fn a_password_that_is_refused_is_looked_up_again() {
        let scratch = Scratch::new().unwrap();
        let (path, password) = in_file(&scratch, "old\n");

        assert_eq!(password.look_again("old").await, Ok(false), "it is still in the file");
        fs::write(&path, "new\r\n").unwrap();
        assert_eq!(password.look_again("old").await, Ok(true));
        assert_eq!(&*password.reveal(), "new");
        assert_eq!(password.look_again("old").await, Ok(true), "another connection knows it");
        assert_eq!(password.look_again("new").await, Ok(false));
    }

    #[tokio::test]
    async fn all_who_look_at_once_learn_what_the_file_says() {
        let scratch = Scratch::new().unwrap();
        let (_, password) = in_file(&scratch, "old");
        let look = || password.look_again("old");

        let told = tokio::join!(look(), look(), look());

        assert_eq!(told, (Ok(false), Ok(false), Ok(false)));
    }

    #[tokio::test]
    async fn a_file_that_is_being_replaced_costs_nothing_and_shows_nothing() {
        let scratch = Scratch::new().unwrap();
        let (path, password) = in_file(&scratch, "S3cret");
        let mut told = Vec::new();

        fs::write(&path, "\n").unwrap();
        told.push(password.look_again("S3cret").await.unwrap_err());
        fs::write(&path, "S3cret".repeat(20_000)).unwrap();
        told.push(password.look_again("S3cret").await.unwrap_err());
        fs::write(&path, b"S3cret\xff").unwrap();
        told.push(password.look_again("S3cret").await.unwrap_err());
        fs::remove_file(&path).unwrap();
        told.push(password.look_again("S3cret").await.unwrap_err());

        assert_eq!(&*password.reveal(), "S3cret");
        for why in told {
            assert!(why.contains(&path) && !why.contains("S3c"), "{why}");
        }
        assert_eq!(format!("{password:?}"), "(secret)");
    }

    #[tokio::test]
    async fn what_is_no_file_is_refused_at_once_and_keeps_no_connection_waiting() {
        let scratch = Scratch::new().unwrap();
        let (path, password) = in_file(&scratch, "old");
        fs::remove_file(&path).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(pipe.success());

        let told = password.look_again("old").await.unwrap_err();

        assert!(told.ends_with(": it is a pipe, and must be a file"), "{told}");
        let refused = |path: &str| Password::in_file(path).unwrap_err();
        assert_eq!(refused(&path), told);
        let dir = scratch.path().to_str().unwrap();
        assert!(refused(dir).ends_with(": it is a directory, and must be a file"));
        assert!(refused("/dev/zero").ends_with(": it is a device, and must be a file"));
    }
}
