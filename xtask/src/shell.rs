//! Running other programs.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

/// Why a step failed, in words for the person at the terminal.
pub(crate) type Outcome<T = ()> = Result<T, String>;

pub(crate) fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// The cargo that started us, in the workspace.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let program = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace());
    command
}

/// Runs to the end; output goes to the terminal.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| not_started(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", name(command))) }
}

/// Runs to the end and returns what was printed on stdout.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| not_started(command, &error))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&stderr);
    Err(format!("{}: {status}\n{}", name(command), words.trim_end()))
}

/// Runs to the end, but kills the program when it takes longer than `limit`.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Outcome {
    const LOOK_EVERY: Duration = Duration::from_millis(20);
    let mut child = command.spawn().map_err(|error| not_started(command, &error))?;
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        match child.try_wait().map_err(|error| format!("{}: {error}", name(command)))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{}: {status}", name(command))),
            None => std::thread::sleep(LOOK_EVERY),
        }
    }
    // Both fail only if it has just ended.
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("{}: not done within {limit:?}", name(command)))
}

/// Whether a program of this name is on `PATH`.
pub(crate) fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn not_started(command: &Command, error: &io::Error) -> String {
    format!("cannot start {}: {error}", name(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_a_failure() {
        assert!(run(&mut Command::new("true")).is_ok());
        assert!(run(&mut Command::new("false")).is_err());
        assert!(run(&mut Command::new("no-such-program")).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_killed_at_its_limit() {
        let begin = Instant::now();

        let outcome = run_within(Duration::from_millis(50), Command::new("sleep").arg("600"));

        assert!(outcome.is_err_and(|why| why.contains("not done within")));
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}
