//! Forced releases, for users who have the password.

use crate::{
    cli::WebArgs,
    config::Config,
    exit::Exit,
    failure::Failure,
    force::{Outcome, take_away},
    http::{Answer, Question},
    percent,
    plain::plain,
    say::Say,
    trace::{About, Place, Task},
};
use redlatch::{GrantId, observer::Observer};
use serde::Deserialize;
use std::{
    ffi::OsString,
    fs::File,
    io::Read as _,
    os::unix::{ffi::OsStringExt as _, fs::PermissionsExt as _},
    path::Path,
};
use subtle::ConstantTimeEq as _;

/// A shorter password could be guessed.
const SHORTEST: usize = 16;
const LONGEST: u64 = 1024;

/// Who may release locks, and where that is recorded.
pub(super) struct Releases {
    password: String,
    place: Place,
    say: Say,
}

/// What a page sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    id: String,
    /// What the page showed.
    grants: Vec<String>,
}

impl Wish {
    /// The lock's name, and the grants that were shown.
    fn read(body: &[u8]) -> Option<(Vec<u8>, Vec<GrantId>)> {
        let Wish { id, grants } = serde_json::from_slice(body).ok()?;
        let grants = grants.iter().map(|grant| grant.parse().ok()).collect::<Option<_>>()?;
        Some((percent::decode(&id)?, grants))
    }
}

impl Releases {
    pub(super) fn new(path: &Path, args: &WebArgs, say: Say) -> Result<Self, Failure> {
        let refused = |words: String| Failure::new(Exit::Failed, words);
        let password = read(path).map_err(|why| {
            refused(format!("the password file {} cannot be used: {why}", path.display()))
        })?;
        let config = Config::load(args.place.config.as_deref());
        let config = config.map_err(|error| refused(error.to_string()))?;
        let place = Place::new(&args.trace, &config).map_err(refused)?;
        Ok(Releases { password, place, say })
    }

    pub(super) async fn answer(&self, question: &Question, observer: &Observer) -> Answer {
        let given = question.bearer.as_deref().unwrap_or_default();
        // Takes the same time, however much of the password is right.
        if !bool::from(self.password.as_bytes().ct_eq(given.as_bytes())) {
            return Answer::text("401 Unauthorized", "this is not the password");
        }
        let Some((name, grants)) = Wish::read(&question.body) else {
            return Answer::text("400 Bad Request", "this cannot be read");
        };
        match self.release(name, &grants, observer).await {
            Ok(words) => Answer::text("200 OK", &plain(&words)),
            Err((status, words)) => Answer::text(status, &plain(&words)),
        }
    }

    /// Releases the grants that were shown, and nothing else.
    async fn release(
        &self,
        name: Vec<u8>,
        grants: &[GrantId],
        observer: &Observer,
    ) -> Result<String, (&'static str, String)> {
        const CONFLICT: &str = "409 Conflict";
        let status = observer.status(&name).await;
        let status = status.map_err(|error| ("400 Bad Request", error.to_string()))?;
        let shown = OsString::from_vec(name.clone());
        let mut trace =
            About::new(Task::ForceRelease, std::slice::from_ref(&shown)).begin(self.place.clone());
        let taken = take_away(observer, &name, &status, grants).await;
        let Outcome { words, exit, .. } = taken.map_err(|failure| (CONFLICT, failure.message))?;
        if exit == Exit::Done {
            trace.succeeded();
        }
        trace.note(&format!("{words}; through the web page"));
        let say = self.say;
        // The disk may be slow, and others want to look.
        let _ = tokio::task::spawn_blocking(move || trace.write_end(exit, say)).await;
        match exit {
            Exit::Done => Ok(words),
            Exit::Held => Err((CONFLICT, words)),
            _ => Err(("502 Bad Gateway", words)),
        }
    }
}

/// Reads the password from a file that nobody else may read.
fn read(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err("others can read it; chmod 600".into());
    }
    let mut password = String::new();
    file.take(LONGEST).read_to_string(&mut password).map_err(|error| error.to_string())?;
    let password = password.trim();
    if password.len() < SHORTEST {
        return Err(format!(
            "it is too short, and could be guessed: write at least {SHORTEST} characters into it, \
             like those of `openssl rand -hex 16`"
        ));
    }
    if !password.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("it must be one line of letters, digits and punctuation".into());
    }
    Ok(password.to_owned())
}
