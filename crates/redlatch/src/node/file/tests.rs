use super::*;
#[tokio::test]
async fn conforms() {
    let dir = std::env::temp_dir().join(format!("redlatch-x-{}", std::process::id()));
    crate::node::conformance::check(&File::new(dir.join("a/b/locks.db"))).await;
}
