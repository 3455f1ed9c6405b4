//! What `--help` and the man pages say besides the arguments: examples and exit status.

use crate::exit;

/// What to type, and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) typed: &'static str,
    pub(crate) what: &'static str,
}

const fn example(typed: &'static str, what: &'static str) -> Example {
    Example { typed, what }
}

/// The end of `--help`.
pub(crate) fn after(command: &str) -> String {
    let examples = examples(command);
    let title = if examples.len() == 1 { "Example:\n" } else { "Examples:\n" };
    let line = |example: &Example| format!("  {}\n      {}\n", example.typed, example.what);
    let lines: String = examples.iter().map(line).collect();
    let title = if examples.is_empty() { "" } else { title };
    format!("{title}{lines}\n{}", exit::help(command)).trim_start().to_owned()
}

/// The examples of a command; those of `redlatch` are for a start.
pub(crate) fn examples(command: &str) -> &'static [Example] {
    match command {
        "redlatch" => &START,
        "run" => &RUN,
        "acquire" => &ACQUIRE,
        "extend" => &EXTEND,
        "release" => &RELEASE,
        "status" => &STATUS,
        "ls" => &LS,
        "doctor" => &DOCTOR,
        "admit" => &ADMIT,
        "log" => &LOG,
        "top" => &TOP,
        "web" => &WEB,
        "exporter" => &EXPORTER,
        "completions" => &COMPLETIONS,
        "man" => &MAN,
        _ => &[],
    }
}

const START: [Example; 3] = [
    example("redlatch run backup -- ./backup.sh", "Runs it, unless another one runs."),
    example("redlatch doctor", "Says whether the nodes are fit for locks."),
    example("redlatch log backup --failed", "Says why a job did not run."),
];

const RUN: [Example; 4] = [
    example("redlatch run backup -- ./backup.sh", "Exits with 121 if another one runs."),
    example(
        "redlatch run backup --wait 10m --max-hold 2h -- ./backup.sh",
        "Waits in line for up to ten minutes, and ends the command after two hours.",
    ),
    example(
        "redlatch run nightly --quiet -E 0 --at-least 1m -- /usr/local/bin/nightly",
        "For cron on many hosts: one of them runs it, the others are silent.",
    ),
    example("redlatch run web db --wait forever -- ./migrate.sh", "Takes both locks, or none."),
];

const ACQUIRE: [Example; 2] = [
    example("redlatch acquire deploy --ttl 30s --wait 1m", "Prints the handle of the lock."),
    example("redlatch acquire web db", "Takes both locks, or none."),
];

const EXTEND: [Example; 1] =
    [example(r#"redlatch extend "$lock" --ttl 20s"#, "Prints the new handle.")];

const RELEASE: [Example; 2] = [
    example(r#"redlatch release "$lock""#, "Releases what `acquire` took."),
    example("redlatch release --force deploy", "Takes the lock from its holder, after asking."),
];

const STATUS: [Example; 2] = [
    example("redlatch status deploy", "Shows what each node says."),
    example("redlatch status deploy --watch --every 5s", "Keeps looking."),
];

const LS: [Example; 1] =
    [example("redlatch ls 'deploy:*' --json", "Lists the locks with such names.")];

const DOCTOR: [Example; 2] = [
    example("redlatch doctor --json", "Checks the nodes, for a script."),
    example("redlatch doctor --prefix deploy:", "For a user who may only lock such names."),
];

const ADMIT: [Example; 2] = [
    example("redlatch admit --wait --timeout 5m", "Waits until all nodes may vote."),
    example("redlatch admit --all", "Vouches for new servers, after asking."),
];

const LOG: [Example; 2] = [
    example("redlatch log --since 8h", "Shows the outcome of every attempt since then."),
    example("redlatch log backup --failed --last 1", "Shows the last failure of one job."),
];

const TOP: [Example; 3] = [
    example("redlatch top", "Shows nodes and locks until you press q."),
    example("redlatch top --once", "Prints one snapshot, for a script or a mail."),
    example("redlatch top --json --every 10s", "Prints one line of JSON per snapshot."),
];

const WEB: [Example; 3] = [
    example("redlatch web", "Then open http://127.0.0.1:9735/."),
    example("redlatch web --listen 127.0.0.1:0", "Takes a free port, and prints it."),
    example(
        "redlatch web --allow-release-with password",
        "Lets those who know what is in the file `password` release locks; make it with \
         `(umask 077; openssl rand -hex 16 > password)`.",
    ),
];

const EXPORTER: [Example; 1] = [example(
    "redlatch exporter --listen 10.0.0.5:9734 --host metrics.internal",
    "Serves http://metrics.internal:9734/metrics.",
)];

const COMPLETIONS: [Example; 1] = [example(
    "d=~/.local/share/bash-completion/completions; mkdir -p $d; redlatch completions bash > $d/redlatch",
    "Installs them; also for zsh, fish, elvish and powershell.",
)];

const MAN: [Example; 2] = [
    example("redlatch man run | man -l -", "Shows one page."),
    example("redlatch man --into ~/.local/share/man/man1", "Installs them all."),
];
