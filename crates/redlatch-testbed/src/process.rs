//! A child process that dies with us, however we end.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::{
    io,
    process::{Child, Command},
    sync::{LazyLock, mpsc},
    thread,
};

type Job = (Command, mpsc::Sender<io::Result<Child>>);

/// A running child. Killed and reaped on drop, even if frozen.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts the command. If this process dies, so does the child.
    pub fn spawn(command: Command) -> io::Result<Self> {
        // The kernel sends the death signal when the *thread* that started the
        // child ends, and test threads end early, so one thread starts them all.
        static SPAWNER: LazyLock<mpsc::Sender<Job>> = LazyLock::new(|| {
            let (jobs, inbox) = mpsc::channel::<Job>();
            thread::spawn(move || {
                for (mut command, reply) in inbox {
                    let _ = reply.send(die_with_parent(&mut command).spawn());
                }
            });
            jobs
        });
        let (reply, answer) = mpsc::channel();
        let gone = |_| io::Error::other("the thread that starts processes is gone");
        SPAWNER
            .send((command, reply))
            .map_err(|_| io::Error::other("no thread to start processes"))?;
        Ok(Self { child: answer.recv().map_err(gone)?? })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether it has exited by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to quit (`SIGQUIT`).
    pub(crate) fn quit(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(Pid::from_child(&self.child), Signal::QUIT)?)
    }

    /// Stops it wherever it is; returns once it has stopped.
    pub fn freeze(&self) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, Signal::STOP)?;
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(pid), stopped)?;
        Ok(())
    }

    pub fn thaw(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        crate::faketime::sweep(self.child.id());
    }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "std offers no safe way to run code between fork and exec")]
fn die_with_parent(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;

    let parent = rustix::process::getpid();
    let in_child = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the signal was set.
        if rustix::process::getppid() != Some(parent) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed.
    // The closure makes two system calls, takes no lock and allocates nothing.
    unsafe { command.pre_exec(in_child) }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(command: &mut Command) -> &mut Command {
    command
}
