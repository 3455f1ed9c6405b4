//! Checks that the core needs no `std`: builds it, dependencies, features and
//! all, with a sysroot that has none.
//!
//! Building for a bare-metal target would show the same, but such a target has
//! to be installed first. A sysroot with `core` and `alloc` alone is made from
//! what every toolchain has.

use crate::{
    metadata::Metadata,
    msrv,
    shell::{self, Outcome},
};
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

const CORE: &str = "redlatch-core";
/// All that a crate without `std` may see.
const LIBRARIES: [&str; 3] = ["libcore-", "liballoc-", "libcompiler_builtins-"];

pub(crate) fn check() -> Outcome {
    let host = msrv::host()?;
    let real = shell::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let dir = Metadata::of(&["--no-deps"])?.target_dir()?.join("no-std");
    let sysroot = dir.join("sysroot");
    let libraries = Path::new("lib/rustlib").join(&host).join("lib");
    let real = Path::new(real.trim()).join(&libraries);
    link_libraries(&real, &sysroot.join(&libraries))
        .map_err(|error| format!("cannot make a sysroot in {}: {error}", sysroot.display()))?;
    // With `--target`, build scripts and macros are built with the real one.
    let check = ["check", "--lib", "--all-features", "--locked", "--package", CORE];
    shell::run(
        shell::cargo(check)
            .args(["--target", &host, "--target-dir"])
            .arg(dir.join("build"))
            .env("RUSTFLAGS", format!("--sysroot={}", sysroot.display()))
            .env_remove("CARGO_ENCODED_RUSTFLAGS"),
    )
}

fn link_libraries(from: &Path, to: &Path) -> std::io::Result<()> {
    // Made anew: the links of an older toolchain would point nowhere.
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_wanted = |prefix: &&str| name.to_string_lossy().starts_with(prefix);
        if LIBRARIES.iter().any(is_wanted) {
            symlink(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}
