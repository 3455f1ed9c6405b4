//! A value in memory.

use super::{
    suite::{self, Target},
    token,
};
use redlatch::{
    FencingToken,
    fence::{Register, Stale},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

struct Memory(Arc<Register<Option<Vec<u8>>>>);

impl Target for Memory {
    type Error = Stale;

    async fn another(&mut self) -> Self {
        Memory(self.0.clone())
    }

    async fn write(&mut self, token: FencingToken, value: &[u8]) -> Result<(), Stale> {
        self.0.write(token, |held| *held = Some(value.to_vec()))
    }

    async fn seal(&mut self, token: FencingToken) -> Result<(), Stale> {
        self.0.seal(token)
    }

    async fn read(&mut self) -> Option<Vec<u8>> {
        self.0.read(Clone::clone)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_register_passes_the_suite() {
    suite::passes(async || Memory(Arc::new(Register::new(None)))).await;
}

#[test]
fn a_stale_closure_is_not_run() {
    let register = Register::new(());
    register.seal(token(5)).expect("sealed");

    let stale = register.write(token(4), |()| panic!("run")).expect_err("stale");

    assert_eq!(stale.to_string(), "stale: 4 was beaten by 5");
    assert_eq!(register.greatest(), Some(token(5)));
}

#[test]
fn a_closure_that_panics_leaves_the_fence_raised() {
    let register = Register::new("old");

    let panicked = catch_unwind(AssertUnwindSafe(|| register.write(token(5), |_| panic!("oops"))));

    assert!(panicked.is_err());
    assert_eq!(register.write(token(4), |_| ()).expect_err("stale").beaten_by, token(5));
    assert_eq!(register.write(token(5), |value| *value), Ok("old"));
}
