//! A program in a real tmux: what a person sees of it.

use super::{PATIENCE, Sandbox, wait_until};
use redlatch_testbed::Process;
use std::{fmt::Write as _, fs, path::PathBuf, process::Command};

/// A tmux of its own, with one window.
pub struct Tmux {
    socket: PathBuf,
    _server: Process,
}

impl Tmux {
    /// Opens a window of this size, with a script in it. Its path is that of the tests.
    pub fn open(sandbox: &Sandbox, (columns, rows): (u32, u32), script: &str) -> Self {
        let (socket, config) = (sandbox.path("tmux"), sandbox.path("tmux.conf"));
        fs::write(&config, "set -g exit-empty off\nset -g status off\nset -g remain-on-exit on\n")
            .unwrap();
        // In the foreground, so that it ends with us.
        let mut server = sandbox.command("tmux");
        server.env("LC_ALL", "C.UTF-8").env_remove("TMUX").env_remove("NO_COLOR");
        server.arg("-D").arg("-S").arg(&socket).arg("-f").arg(&config);
        let server = Process::spawn(server).expect("tmux not found: run `cargo xtask servers`");
        assert!(wait_until(PATIENCE, || socket.exists()), "tmux does not start");
        let tmux = Tmux { socket, _server: server };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let mut new = tmux.command();
        let new = new.args(["new-session", "-d", "-x", &columns, "-y", &rows, script]);
        assert!(new.current_dir(sandbox.dir()).status().unwrap().success());
        tmux
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.env("LC_ALL", "C.UTF-8").env_remove("TMUX").arg("-S").arg(&self.socket);
        command
    }

    fn capture(&self, options: &[&str]) -> String {
        let captured = self.command().arg("capture-pane").args(options).output().unwrap();
        String::from_utf8(captured.stdout).unwrap()
    }

    /// Waits until all of this is on the screen at once.
    #[track_caller]
    pub fn shows(&self, texts: &[&str]) {
        let mut seen = String::new();
        let is_shown = wait_until(PATIENCE, || {
            seen = self.capture(&["-p"]);
            texts.iter().all(|text| seen.contains(text))
        });
        assert!(is_shown, "the screen never showed {texts:?}, but\n{seen}");
    }

    /// The screen with its colours, as a page.
    pub fn as_page(&self) -> String {
        let lines = self.capture(&["-e", "-p"]);
        format!(
            "<!doctype html><meta charset=utf-8><style>
             body {{ margin: 0; background: #15171c; color: #d5d8de }}
             pre {{ margin: 14px 16px; font: 14px/1.35 'DejaVu Sans Mono', monospace }}
             .c1 {{ font-weight: bold }} .c2 {{ color: #878d98 }} .c31 {{ color: #ff6b6b }}
             .c32 {{ color: #6fce7f }} .c33 {{ color: #e8b84b }}
             .c7 {{ background: #d5d8de; color: #15171c }}
             </style><pre>{}</pre>",
            coloured(lines.trim_end())
        )
    }
}

/// `ESC [ 1 ; 31 m` as `<span class="c1 c31">`.
fn coloured(text: &str) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let mut pieces = text.split("\x1b[");
    let (mut page, mut classes) = (escaped(pieces.next().unwrap_or_default()), Vec::new());
    for piece in pieces {
        let (codes, text) = piece.split_once('m').unwrap_or(("", piece));
        for code in codes.split(';') {
            match code {
                "" | "0" => classes.clear(),
                "39" => classes.retain(|class: &String| !class.starts_with("c3")),
                code => classes.push(format!("c{code}")),
            }
        }
        let _ = write!(page, "<span class=\"{}\">{}</span>", classes.join(" "), escaped(text));
    }
    page
}
