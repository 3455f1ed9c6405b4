//! Installing packages of the distribution, where that is allowed.

use crate::shell::{self, Outcome};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// What Debian's tools ask before they start a service: 101 means no.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs the packages, or says how to.
pub(crate) fn install(packages: &[&str]) -> Outcome {
    let names = packages.join(" ");
    if !shell::on_path("apt-get") {
        return Err(format!("no apt-get here: install {names} by hand"));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(format!(
            "not root: run `sudo apt-get install --no-install-recommends {names}`"
        ));
    }
    eprintln!("installing {names}");
    let _no_services = NoServices::begin()?;
    apt_get(&["-qq", "update"])?;
    apt_get(&[&["-qq", "install", "--yes", "--no-install-recommends"], packages].concat())
}

fn apt_get(arguments: &[&str]) -> Outcome {
    let mut command = Command::new("apt-get");
    // The words of apt and dpkg are of interest only if they fail.
    shell::output(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}

/// While it lives, an installed package does not start its service: the tests
/// start their own servers, and one on the standard port would only be in the
/// way. A policy that is there already is left alone.
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn begin() -> Outcome<Self> {
        if Path::new(POLICY).exists() {
            return Ok(Self { ours: false });
        }
        let refused = |error| format!("cannot write {POLICY}: {error}");
        fs::write(POLICY, "#!/bin/sh\nexit 101\n").map_err(refused)?;
        fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755)).map_err(refused)?;
        Ok(Self { ours: true })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}
