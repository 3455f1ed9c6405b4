//! An object in S3, Google Cloud Storage or Azure that refuses stale writes.
//!
//! In:  a token and the new content. Out: the object replaced, or the token
//! that beat it.
//!
//! Promise: check and write are one conditional put: the store replaces the
//! version whose token was checked, or nothing.
//! Needs: a store with conditional puts. S3, R2, MinIO, GCS, Azure and
//! `InMemory` have them; `LocalFileSystem` does not, and some S3 look-alikes
//! accept a condition and ignore it. The first write to a new object detects
//! this with one extra request and fails with [`ObjectError::Unsupported`]. For
//! local files use
//! [`redlatch::fence::File`](https://docs.rs/redlatch/latest/redlatch/fence/struct.File.html).
//!
//! Deleting the object deletes its fence: write empty content instead.
//!
//! # What is stored
//!
//! The token is in the object itself, in its first [`HEADER_LEN`] bytes:
//!
//! ```text
//! redlatch-fence:0000000000000018⏎    then the content
//! redlatch-empty:0000000000000018⏎    sealed before anything was written
//! ```
//!
//! Other readers skip those bytes: `Range: bytes=32-`, `tail -c +33`.
//!
//! Why not in the object's metadata, or in a second object? On S3 the tag that a
//! conditional put compares is a hash of the *content*. A seal that changed only
//! metadata would leave the tag unchanged, and a late write that read the tag before
//! the seal would still meet its condition. And two objects cannot be checked and
//! written in one step.

use crate::write_error::{WriteError, parse};
use ::object_store::{
    Attributes, Error, GetOptions, GetRange, GetResult, ObjectStore, PutMode, PutOptions,
    PutPayload, UpdateVersion, path::Path,
};
use bytes::Bytes;
use redlatch_core::{FencingToken, fence::accept};
use std::mem;

/// Length of a fenced object's header, in bytes. The content follows.
pub const HEADER_LEN: usize = 32;

const FENCE: &str = "redlatch-fence:";
const EMPTY: &str = "redlatch-empty:";
/// Enough for 2^53 - 1.
const DIGITS: usize = 16;
/// How often a write retries because another one got in first. Every retry
/// means another write succeeded, so this many in a row is no accident.
const TRIES: u32 = 100;

/// An object that refuses stale writes. Every write replaces the whole object.
///
/// ```
/// use object_store::{memory::InMemory, path::Path};
/// use redlatch::FencingToken;
/// use redlatch_fence::object_store::Object;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let [late, token] = [17, 18].map(|number| FencingToken::new(number).unwrap());
/// let store = InMemory::new(); // or AmazonS3, an Arc<dyn ObjectStore>, …
/// let report = Object::new(store, Path::from("report.json"));
///
/// report.seal(token).await?;
/// assert_eq!(report.read().await?, None);
/// report.write(token, r#"{"total": 70}"#).await?;
///
/// let refused = report.write(late, "{}").await.unwrap_err();
/// assert_eq!(refused.to_string(), "stale: 17 was beaten by 18");
/// assert_eq!(report.read().await?.as_deref(), Some(&br#"{"total": 70}"#[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Object<S> {
    store: S,
    path: Path,
}

/// Why the object could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The store has no conditional puts, so it cannot refuse stale writes.
    /// Nothing was written (except that a store that *ignores* conditions now
    /// has an empty object).
    #[error(
        "the store has no conditional puts, so it cannot refuse a stale write \
         (for local files use `redlatch::fence::File`): {0}"
    )]
    Unsupported(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The object exists but was not created by a fenced write. Nothing was
    /// changed. [`Object::seal`] adds a fence and keeps the content.
    #[error("the object {0} has no fence; seal it to take it over")]
    Unfenced(Path),
    /// Other writers kept getting in first. Try again.
    #[error("other writers kept replacing the object {0}")]
    Contended(Path),
    /// The store failed.
    #[error(transparent)]
    Store(Error),
}

impl<S: ObjectStore> Object<S> {
    /// Refers to the object at `path`. It need not exist.
    pub fn new(store: S, path: Path) -> Self {
        Self { store, path }
    }

    /// Replaces the content if the token is accepted, and keeps the object's
    /// attributes (such as its content type).
    ///
    /// # Errors
    ///
    /// [`WriteError::Stale`] if a greater token came first.
    ///
    /// # Cancel safety
    ///
    /// If dropped before it completes, the write may or may not have been applied.
    pub async fn write(
        &self,
        token: FencingToken,
        content: impl Into<PutPayload>,
    ) -> Result<(), WriteError<ObjectError>> {
        self.replace(token, Some(content.into())).await
    }

    /// Refuses smaller tokens from now on. Call it before you read.
    ///
    /// This reads the content and writes it back under the new token, so the
    /// cost grows with its length. An object without a fence gets one.
    ///
    /// # Errors
    ///
    /// [`WriteError::Stale`] if a greater token came first.
    ///
    /// # Cancel safety
    ///
    /// If dropped before it completes, the seal may or may not have been applied.
    pub async fn seal(&self, token: FencingToken) -> Result<(), WriteError<ObjectError>> {
        self.replace(token, None).await
    }

    /// Returns the content, or `None` if nothing was ever written.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Unfenced`] if the object was not created by a fenced write.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    pub async fn read(&self) -> Result<Option<Bytes>, ObjectError> {
        let Some(Seen { header, body, .. }) = self.look(Part::Whole).await? else {
            return Ok(None);
        };
        match header {
            None => Err(self.unfenced()),
            Some(Header { magic: EMPTY, .. }) => Ok(None),
            Some(_) => Ok(Some(body)),
        }
    }

    /// Writes the content, or rewrites the existing content if `None`, under the token.
    async fn replace(
        &self,
        token: FencingToken,
        content: Option<PutPayload>,
    ) -> Result<(), WriteError<ObjectError>> {
        let part = if content.is_some() { Part::Header } else { Part::Whole };
        for _ in 0..TRIES {
            let seen = self.look(part).await.map_err(WriteError::Store)?;
            if let Some(Seen { header: Some(header), .. }) = &seen {
                accept(Some(header.token()?), token)?;
            }
            let magic = if content.is_some() { FENCE } else { EMPTY };
            let (object, attributes, mode) = match (seen, content.clone()) {
                (None, content) => {
                    self.probe(token).await.map_err(WriteError::Store)?;
                    let content = content.unwrap_or_default();
                    (fenced(magic, token, content), Attributes::new(), PutMode::Create)
                }
                (Some(Seen { header: None, .. }), Some(_)) => {
                    return Err(WriteError::Store(self.unfenced()));
                }
                (Some(seen), Some(content)) => {
                    (fenced(magic, token, content), seen.attributes, PutMode::Update(seen.version))
                }
                (Some(seen), None) => {
                    let magic = seen.header.map_or(FENCE, |header| header.magic);
                    let content = seen.body.into();
                    (fenced(magic, token, content), seen.attributes, PutMode::Update(seen.version))
                }
            };
            match self.put(object, attributes, mode).await.map_err(WriteError::Store)? {
                Put::Done => return Ok(()),
                Put::Beaten => {}
            }
        }
        Err(WriteError::Store(ObjectError::Contended(self.path.clone())))
    }

    async fn look(&self, part: Part) -> Result<Option<Seen>, ObjectError> {
        let header = GetRange::Bounded(0..HEADER_LEN as u64);
        let header = GetOptions { range: Some(header), ..GetOptions::default() };
        let got = match part {
            Part::Whole => self.store.get_opts(&self.path, GetOptions::default()).await,
            // An empty object has no such range: then request all of it.
            Part::Header => match self.store.get_opts(&self.path, header).await {
                Ok(got) => Ok(got),
                Err(gone @ Error::NotFound { .. }) => Err(gone),
                Err(_) => self.store.get_opts(&self.path, GetOptions::default()).await,
            },
        };
        match got {
            Ok(got) => Ok(Some(Seen::from(got).await.map_err(ObjectError::Store)?)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(ObjectError::Store(error)),
        }
    }

    /// Checks that the store refuses a failed condition, by replacing a version that
    /// never existed. Many stores that cannot replace conditionally can create
    /// conditionally: the first write would succeed there, and no later one.
    async fn probe(&self, token: FencingToken) -> Result<(), ObjectError> {
        let never = UpdateVersion { e_tag: Some("\"never\"".into()), version: Some("1".into()) };
        let object = fenced(EMPTY, token, PutPayload::new());
        match self.put(object, Attributes::new(), PutMode::Update(never)).await? {
            Put::Beaten => Ok(()),
            Put::Done => {
                let ignored = "it replaced an object of another version than asked for";
                Err(ObjectError::Unsupported(ignored.into()))
            }
        }
    }

    async fn put(
        &self,
        object: PutPayload,
        attributes: Attributes,
        mode: PutMode,
    ) -> Result<Put, ObjectError> {
        let options = PutOptions { mode, attributes, ..PutOptions::default() };
        match self.store.put_opts(&self.path, object, options).await {
            Ok(_) => Ok(Put::Done),
            Err(
                Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotFound { .. },
            ) => Ok(Put::Beaten),
            Err(error @ (Error::NotImplemented { .. } | Error::NotSupported { .. })) => {
                Err(ObjectError::Unsupported(error.into()))
            }
            Err(error) => Err(ObjectError::Store(error)),
        }
    }

    fn unfenced(&self) -> ObjectError {
        ObjectError::Unfenced(self.path.clone())
    }
}

/// How much of the object to read.
#[derive(Clone, Copy)]
enum Part {
    Header,
    Whole,
}

/// The result of a conditional put.
enum Put {
    Done,
    /// The object has changed since we looked.
    Beaten,
}

/// The object as we saw it, and the version a put must match to replace it.
struct Seen {
    header: Option<Header>,
    body: Bytes,
    attributes: Attributes,
    version: UpdateVersion,
}

impl Seen {
    async fn from(mut got: GetResult) -> Result<Self, Error> {
        let attributes = mem::take(&mut got.attributes);
        let version =
            UpdateVersion { e_tag: got.meta.e_tag.take(), version: got.meta.version.take() };
        let mut body = got.bytes().await?;
        let header = Header::of(&body);
        if header.is_some() {
            body = body.split_off(HEADER_LEN.min(body.len()));
        }
        Ok(Self { header, body, attributes, version })
    }
}

/// The first bytes of a fenced object.
struct Header {
    magic: &'static str,
    rest: Box<str>,
}

impl Header {
    fn of(object: &[u8]) -> Option<Self> {
        let header = object.get(..HEADER_LEN).unwrap_or(object);
        [FENCE, EMPTY].into_iter().find_map(|magic| {
            let rest = header.strip_prefix(magic.as_bytes())?;
            Some(Self { magic, rest: String::from_utf8_lossy(rest).into() })
        })
    }

    fn token<E>(&self) -> Result<FencingToken, WriteError<E>> {
        let digits = self.rest.strip_suffix('\n').filter(|digits| digits.len() == DIGITS);
        digits.map_or_else(|| Err(WriteError::damaged(&*self.rest)), parse)
    }
}

fn fenced(magic: &str, token: FencingToken, content: PutPayload) -> PutPayload {
    let header = Bytes::from(format!("{magic}{:0DIGITS$}\n", token.get()));
    [header].into_iter().chain(content).collect()
}
