//! Objects in stores.

use super::{
    beaten_by,
    suite::{self, Target},
    token,
};
use ::object_store::{
    Attribute, Attributes, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result as StoreResult, local::LocalFileSystem, memory::InMemory, path::Path,
};
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use redlatch::FencingToken;
use redlatch_fence::{
    WriteError,
    object_store::{HEADER_LEN, Object, ObjectError},
};
use redlatch_testbed::Scratch;
use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};
use tokio::sync::Mutex;

impl<S: ObjectStore + Clone> Target for Object<S> {
    type Error = WriteError<ObjectError>;

    async fn another(&mut self) -> Self {
        self.clone()
    }

    async fn write(
        &mut self,
        token: FencingToken,
        value: &[u8],
    ) -> Result<(), WriteError<ObjectError>> {
        Object::write(self, token, value.to_vec()).await
    }

    async fn seal(&mut self, token: FencingToken) -> Result<(), WriteError<ObjectError>> {
        Object::seal(self, token).await
    }

    async fn read(&mut self) -> Option<Vec<u8>> {
        Object::read(self).await.expect("read").map(Vec::from)
    }
}

/// A store whose tags are hashes of the content, as they are on S3.
#[derive(Debug, Default)]
struct Hashed {
    objects: InMemory,
    /// Puts come one after the other.
    putting: Mutex<()>,
    /// Before each put somebody else writes this to the object.
    meddler: Mutex<Option<(Meddling, Arc<InMemory>)>>,
    /// Whether it does not look at conditions.
    careless: bool,
}

#[derive(Debug, Clone, Copy)]
enum Meddling {
    SealsOnce(u64),
    DeletesOnce,
    WritesAlways,
}

impl fmt::Display for Hashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashed")
    }
}

impl Hashed {
    async fn tag(&self, path: &Path) -> StoreResult<String> {
        let content = self.objects.get(path).await?.bytes().await?;
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        Ok(format!("\"{:x}\"", hasher.finish()))
    }
}

#[async_trait]
impl ObjectStore for Hashed {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> StoreResult<PutResult> {
        // Others get a turn between reading and putting.
        tokio::task::yield_now().await;
        let _one_by_one = self.putting.lock().await;
        self.meddle(path).await;
        if let PutMode::Update(expected) = &options.mode {
            let tag = self.tag(path).await;
            if let (Err(error @ Error::NotFound { .. }), false) = (&tag, self.careless) {
                return Err(Error::NotFound {
                    path: path.to_string(),
                    source: error.to_string().into(),
                });
            }
            if tag.ok() != expected.e_tag && !self.careless {
                let source = "the object has another tag".into();
                return Err(Error::Precondition { path: path.to_string(), source });
            }
            options.mode = PutMode::Overwrite;
        }
        self.objects.put_opts(path, payload, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> StoreResult<GetResult> {
        let _one_by_one = self.putting.lock().await;
        let mut got = self.objects.get_opts(path, options).await?;
        got.meta.e_tag = Some(self.tag(path).await?);
        Ok(got)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.objects.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

impl Hashed {
    /// A store where somebody meddles.
    async fn meddled(meddling: Meddling) -> Arc<Self> {
        let store = Arc::new(Hashed::default());
        // The same objects, past the meddler.
        let objects = Arc::new(store.objects.clone());
        *store.meddler.lock().await = Some((meddling, objects));
        store
    }

    async fn meddle(&self, path: &Path) {
        let mut meddler = self.meddler.lock().await;
        let Some((meddling, objects)) = meddler.clone() else { return };
        let object = Object::new(objects.clone(), path.clone());
        match meddling {
            Meddling::SealsOnce(number) => {
                *meddler = None;
                object.seal(token(number)).await.expect("sealed");
            }
            Meddling::DeletesOnce => {
                *meddler = None;
                objects.delete(path).await.expect("deleted");
            }
            Meddling::WritesAlways => {
                let length = objects.get(path).await.map_or(0, |got| got.meta.size);
                let value = vec![b'x'; usize::try_from(length).expect("short")];
                object.write(token(1), value).await.expect("written");
            }
        }
    }
}

fn path() -> Path {
    Path::from("reports/total")
}

fn memory() -> (Arc<InMemory>, Object<Arc<InMemory>>) {
    let store = Arc::new(InMemory::new());
    (store.clone(), Object::new(store, path()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_object_in_memory_passes_the_suite() {
    suite::passes(async || memory().1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_object_whose_tag_is_a_hash_passes_the_suite() {
    suite::passes(async || Object::new(Arc::new(Hashed::default()), path())).await;
}

#[tokio::test]
async fn any_kind_of_store_behind_a_pointer_will_do() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());

    Object::new(store, path()).write(token(1), "a").await.expect("written");
}

#[tokio::test]
async fn the_token_stands_before_the_content() {
    let (store, object) = memory();
    let content = async || store.get(&path()).await.unwrap().bytes().await.unwrap();

    object.seal(token(5)).await.unwrap();
    assert_eq!(content().await, "redlatch-empty:0000000000000005\n");
    object.write(token(FencingToken::MAX), "a\n").await.unwrap();

    assert_eq!(content().await, "redlatch-fence:9007199254740991\na\n");
    assert_eq!(content().await.slice(HEADER_LEN..), "a\n");
}

/// The write has looked, and then the seal comes: the tag must not be the one
/// that the write has looked at, though the content is the same.
#[tokio::test]
async fn a_seal_between_look_and_put_refuses_the_put_though_the_tag_is_a_hash() {
    for sealed in [6, 4] {
        let store = Hashed::meddled(Meddling::SealsOnce(sealed)).await;
        let before = Object::new(store.objects.clone(), path());
        before.write(token(4), "old").await.unwrap();
        let object = Object::new(store, path());

        let result = object.write(token(5), "new").await;

        match sealed {
            6 => assert_eq!(beaten_by(result), 6),
            _ => result.expect("nobody beats it"),
        }
        let left = if sealed == 6 { "old" } else { "new" };
        assert_eq!(before.read().await.unwrap().as_deref(), Some(left.as_bytes()));
    }
}

#[tokio::test]
async fn a_write_that_never_gets_a_turn_says_so() {
    let store = Hashed::meddled(Meddling::WritesAlways).await;
    let object = Object::new(store.clone(), path());

    let error = object.write(token(5), "new").await.expect_err("others are faster");

    assert!(matches!(error, WriteError::Store(ObjectError::Contended(_))), "{error}");
}

#[tokio::test]
async fn an_object_without_a_fence_is_left_alone_until_it_is_sealed() {
    for content in ["", "plain", &"plain".repeat(20)] {
        let (store, object) = memory();
        let attributes = Attributes::from_iter([(Attribute::ContentType, "text/plain")]);
        let options = PutOptions::from(attributes.clone());
        store.put_opts(&path(), content.to_owned().into(), options).await.unwrap();

        let error = object.write(token(5), "new").await.expect_err("unfenced");
        assert!(matches!(error, WriteError::Store(ObjectError::Unfenced(_))), "{error}");
        assert!(matches!(object.read().await, Err(ObjectError::Unfenced(_))));
        object.seal(token(5)).await.expect("taken over");

        assert_eq!(object.read().await.unwrap().as_deref(), Some(content.as_bytes()));
        assert_eq!(beaten_by(object.write(token(4), "late").await), 5);
        object.write(token(5), "new").await.expect("fenced");
        assert_eq!(store.get(&path()).await.unwrap().attributes, attributes);
    }
}

#[tokio::test]
async fn a_damaged_fence_lets_nobody_in() {
    for damage in ["", "5", "5\n", "0000000000000000\n", "000000000000000x\n", "0000000000000005 "]
    {
        let (store, object) = memory();
        store.put(&path(), format!("redlatch-fence:{damage}").into()).await.unwrap();

        for result in [object.write(token(6), "new").await, object.seal(token(6)).await] {
            let error = result.expect_err("damaged");
            assert!(matches!(error, WriteError::Damaged { .. }), "{damage:?}: {error}");
        }
    }
}

#[tokio::test]
async fn a_deleted_object_is_a_new_one() {
    let (store, object) = memory();
    object.write(token(5), "old").await.unwrap();

    store.delete(&path()).await.unwrap();

    assert_eq!(object.read().await.unwrap(), None);
    object.write(token(4), "new").await.expect("its fence went with it");
}

#[tokio::test]
async fn a_store_that_cannot_refuse_says_so_before_anything_is_written() {
    let scratch = Scratch::new().unwrap();
    let store = LocalFileSystem::new_with_prefix(scratch.path()).unwrap();
    let object = Object::new(store, path());

    for result in [object.write(token(1), "old").await, object.seal(token(1)).await] {
        let error = result.expect_err("it cannot replace");
        assert!(matches!(error, WriteError::Store(ObjectError::Unsupported(_))), "{error}");
    }

    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_store_that_ignores_conditions_is_found_out() {
    let object = Object::new(Hashed { careless: true, ..Hashed::default() }, path());

    let error = object.write(token(1), "old").await.expect_err("it replaces anything");

    assert!(matches!(error, WriteError::Store(ObjectError::Unsupported(_))), "{error}");
    assert_eq!(object.read().await.unwrap(), None);
}

/// Between the look and the put the object goes.
#[tokio::test]
async fn an_object_that_is_deleted_under_a_write_is_written_all_the_same() {
    let store = Hashed::meddled(Meddling::DeletesOnce).await;
    Object::new(store.objects.clone(), path()).write(token(4), "old").await.unwrap();
    let object = Object::new(store, path());

    object.write(token(5), "new").await.expect("written");

    assert_eq!(object.read().await.unwrap().as_deref(), Some(&b"new"[..]));
}
