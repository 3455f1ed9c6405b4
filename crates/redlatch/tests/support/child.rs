//! Runs a test in a separate process, which can be stopped, exit, or count what it
//! has open.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{self, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// What the parent hands over, as `name=value` of the environment.
const HANDED_OVER: &str = "REDLATCH_TEST_CHILD";
/// Prefix of what a child says, because the test harness prints, too.
const MARK: &str = "child says: ";

/// A child: one `#[ignore]`d test of the same file, run by its name.
pub(crate) struct Child {
    process: process::Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts the test of that name, which can read `handed` there.
    pub(crate) fn start(test: &str, handed: &str) -> Self {
        Self::start_with(test, handed, |command| command)
    }

    /// The same, with changes to how it is started.
    pub(crate) fn start_with(
        test: &str,
        handed: &str,
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(HANDED_OVER, handed).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = change(&mut command).spawn().expect("a child");
        let input = process.stdin.take().expect("its input");
        let output = process.stdout.take().expect("its output");
        Child { process, input, output: BufReader::new(output).lines() }
    }

    /// In the child: what the parent handed over; `None` if it was started by hand.
    pub(crate) fn handed() -> Option<String> {
        std::env::var(HANDED_OVER).ok()
    }

    /// In the child: tells the parent.
    pub(crate) fn say(words: &str) {
        println!("\n{MARK}{words}");
    }

    /// In the child: waits for a word from the parent, to go on or in answer.
    pub(crate) fn wait_for_word() -> String {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("a word from the parent");
        line.trim_end().to_string()
    }

    /// What the child says next; `None` once it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let lines = self.output.by_ref().map_while(Result::ok);
        lines.into_iter().find_map(|line| line.strip_prefix(MARK).map(str::to_string))
    }

    /// Lets a child that waits for a word go on.
    pub(crate) fn go_on(&mut self) {
        self.tell("go on");
    }

    /// Says something to a child that waits for a word.
    pub(crate) fn tell(&mut self, word: &str) {
        writeln!(self.input, "{word}").expect("the child listens");
    }

    /// Freezes the process; returns once it has stopped.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(self.pid()), stopped).expect("a child that stands");
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> ExitStatus {
        while self.hear().is_some() {}
        self.process.wait().expect("its end")
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("a child that lives");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
