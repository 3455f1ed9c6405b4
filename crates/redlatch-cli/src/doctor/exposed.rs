//! Password files that users other than their owner can read.
//!
//! In:  the addresses of the nodes. Out: a finding for each such file.

use super::Finding;
use crate::{percent, settings::quoted};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    os::unix::{ffi::OsStringExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

/// The bits of a mode that say what every user, and what its group, may do.
const ANYBODY: u32 = 0o007;
const GROUP: u32 = 0o070;

pub(super) fn exposed(urls: &[String]) -> Vec<Finding> {
    let files: BTreeSet<PathBuf> = urls.iter().filter_map(|url| password_file(url)).collect();
    files.iter().filter_map(|file| exposure(file)).collect()
}

fn exposure(file: &Path) -> Option<Finding> {
    let mode = file.metadata().ok()?.permissions().mode() & 0o777;
    let shown = file.display();
    let fix = format!("chmod 600 {}", quoted(&file.to_string_lossy()));
    if mode & ANYBODY != 0 {
        let words = format!(
            "the password file {shown} is open to every user of this machine (mode {mode:04o})"
        );
        Some(Finding::warning(words).fix(fix))
    } else if mode & GROUP != 0 {
        let words = format!("the password file {shown} is open to its group (mode {mode:04o})");
        Some(Finding::note(words).fix(format!("{fix}, unless its group needs the locks")))
    } else {
        None
    }
}

fn password_file(url: &str) -> Option<PathBuf> {
    let (_, query) = url.split_once('?')?;
    let file = query.split('&').find_map(|option| option.strip_prefix("password_file="))?;
    Some(OsString::from_vec(percent::decode(file)?).into())
}
