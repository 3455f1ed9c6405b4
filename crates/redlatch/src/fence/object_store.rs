//! An object in S3, Google Cloud Storage or Azure that refuses stale writes.
//!
//! In:  a token and the new content. Out: the object replaced, or who was faster.
//!
//! Promise: check and write are one conditional put: the store replaces the
//! version whose token was looked at, or nothing.
//! Needs: a store with conditional puts. S3, R2, MinIO, GCS, Azure and
//! `InMemory` have them; `LocalFileSystem` has not, and some S3 look-alikes
//! accept a condition and ignore it. The first write to a new object finds out,
//! with one request more, and says [`ObjectError::Unsupported`]. For local files
//! use [`fence::File`](super::File).
//!
//! Who deletes the object deletes its fence: write empty content instead.
//!
//! # What is stored
//!
//! The token stands in the object itself, in its first [`HEADER_LEN`] bytes:
//!
//! ```text
//! redlatch-fence:0000000000000018⏎    then the content
//! redlatch-empty:0000000000000018⏎    sealed before anything was written
//! ```
//!
//! Other readers skip those bytes: `Range: bytes=32-`, `tail -c +33`.
//!
//! Why not in the object's metadata, or in an object beside it? On S3 the tag
//! that a conditional put compares is a hash of the *content*. A seal that
//! changes only metadata leaves the tag as it was, and the late write that
//! looked before the seal would still find its condition met. And two objects
//! cannot be checked and written in one step.

use super::{WriteError, admit, parse};
use crate::FencingToken;
use ::object_store::{
    Attributes, Error, GetOptions, GetRange, GetResult, ObjectStore, PutMode, PutOptions,
    PutPayload, UpdateVersion, path::Path,
};
use bytes::Bytes;
use std::mem;

/// How long the header of a fenced object is; its content follows.
pub const HEADER_LEN: usize = 32;

const FENCE: &str = "redlatch-fence:";
const EMPTY: &str = "redlatch-empty:";
/// Those of 2^53 - 1.
const DIGITS: usize = 16;
/// How often a write looks again because another one was faster. Each time is
/// somebody else's success, so this many in a row is no accident.
const TRIES: u32 = 100;

/// An object that refuses stale writes. Every write replaces all of it.
///
/// ```
/// use object_store::{memory::InMemory, path::Path};
/// use redlatch::{FencingToken, fence::object_store::Object};
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

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The store has no conditional puts, so nothing can be fenced here: nothing
    /// was written. (A store that *ignores* conditions has an empty object now.)
    #[error(
        "the store has no conditional puts, so it cannot refuse a stale write \
         (for local files use `fence::File`): {0}"
    )]
    Unsupported(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The object is there, but was not written by a fenced write: nothing was
    /// changed. [`Object::seal`] takes it over, its content kept.
    #[error("the object {0} has no fence; seal it to take it over")]
    Unfenced(Path),
    /// Others wrote all the time. Try again.
    #[error("others wrote to the object {0} all the time")]
    Contended(Path),
    /// The store failed.
    #[error(transparent)]
    Store(Error),
}

impl<S: ObjectStore> Object<S> {
    /// The object at that path. It need not exist.
    pub fn new(store: S, path: Path) -> Self {
        Self { store, path }
    }

    /// Replaces the content if the token is admitted. The object's attributes
    /// (its content type and so on) stay.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, the write may have been applied or not.
    pub async fn write(
        &self,
        token: FencingToken,
        content: impl Into<PutPayload>,
    ) -> Result<(), WriteError<ObjectError>> {
        self.replace(token, Some(content.into())).await
    }

    /// Has smaller tokens refused from now on. Do this before you read.
    ///
    /// The content is read and written again under the new token, so this costs
    /// as much as it is long. An object without a fence gets one.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, the seal may have been applied or not.
    pub async fn seal(&self, token: FencingToken) -> Result<(), WriteError<ObjectError>> {
        self.replace(token, None).await
    }

    /// The content; none if nothing was ever written.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
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

    /// Puts the content, or what is there if there is none, under the token.
    async fn replace(
        &self,
        token: FencingToken,
        content: Option<PutPayload>,
    ) -> Result<(), WriteError<ObjectError>> {
        let part = if content.is_some() { Part::Header } else { Part::Whole };
        for _ in 0..TRIES {
            let seen = self.look(part).await.map_err(WriteError::Store)?;
            if let Some(Seen { header: Some(header), .. }) = &seen {
                admit(Some(header.token()?), token)?;
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
            // An object of no bytes has no such range: then ask for all of it.
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

    /// Whether the store can refuse. Many that cannot replace on condition can
    /// create, so the first write would succeed there, and no later one. Asks to
    /// replace a version that never was.
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

/// How much of the object is of interest.
#[derive(Clone, Copy)]
enum Part {
    Header,
    Whole,
}

/// What came of a conditional put.
enum Put {
    Done,
    /// The object is not the one that was looked at.
    Beaten,
}

/// An object as it was looked at, and what a put must compare to replace it.
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
