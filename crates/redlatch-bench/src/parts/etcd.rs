//! Beside etcd's own lock: three members in memory against three servers.

use super::{require_even, require_sound, shares};
use crate::{
    entrant::{ETCD, OURS, Role},
    field::{Field, Shape},
    setting::{Setting, servers},
    table::Table,
    team::Slice,
};
use anyhow::{Context as _, ensure};
use redlatch_testbed::{Process, Scratch, wait_until};
use std::{
    env,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};

const MEMBERS: usize = 3;
const START_LIMIT: Duration = Duration::from_secs(30);

/// In one process: the callers, not the processes, are what etcd serves.
const SHAPES: [Shape; 2] = [Shape::new(1, 16), Shape::new(1, 64)];

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let path = env::var_os("PATH").unwrap_or_default();
    if !env::split_paths(&path).any(|dir| dir.join("etcd").is_file()) {
        eprintln!("skipped etcd: no etcd on PATH (Debian's package is etcd-server)");
        return Ok(Vec::new());
    }
    let etcd = Etcd::start()?;
    setting.shapes(&SHAPES).iter().map(|shape| measure_one(setting, *shape, &etcd)).collect()
}

fn measure_one(setting: &Setting, shape: Shape, etcd: &Etcd) -> anyhow::Result<Table> {
    let servers = servers(MEMBERS)?;
    let mut field = Field::default();
    field.enter(&OURS, shape, &servers.urls())?;
    field.enter(&ETCD, shape, &etcd.urls)?;
    // Released at once: a hold would be the same for both and hide the difference.
    let turns = setting.contended();
    field.run(turns.rounds, Slice::new(shape.tasks, Duration::ZERO, turns.slice))?;

    let mut table = Table::new(format!("etcd: {shape}, {MEMBERS} nodes, released at once"));
    let ours = field.ours()?;
    for lane in field.lanes() {
        table.row(
            &lane.name,
            vec![
                ("locks/s", lane.rate().into()),
                ("x redlatch", lane.rate_over(ours).into()),
                ("uneven", shares(lane).between_callers().map(|uneven| uneven.ratio).into()),
                ("gave up", lane.gave_up().into()),
                ("broken", lane.violations().into()),
            ],
        );
    }
    if let Some(etcd) = field.with_role(Role::Peer).next() {
        table.at_least("locks per second over etcd's", ours.rate_over(etcd), 8.0);
        if let Some(theirs) = shares(etcd).between_callers() {
            require_even(
                &mut table,
                "callers, beside etcd's",
                shares(ours).between_callers(),
                theirs.ratio,
            );
        }
    }
    require_sound(&mut table, ours);
    Ok(table)
}

/// Members that end with this process.
struct Etcd {
    urls: Vec<String>,
    // The processes before their files.
    _members: Vec<Process>,
    _scratch: Scratch,
}

impl Etcd {
    fn start() -> anyhow::Result<Self> {
        let scratch = Scratch::in_memory()?;
        // All ports at once, so that none is given out twice.
        let listeners: Vec<_> = (0..2 * MEMBERS)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .collect::<Result<_, _>>()?;
        let url = |listener: &TcpListener| Ok(format!("http://{}", listener.local_addr()?));
        let urls: Vec<String> = listeners.iter().map(url).collect::<anyhow::Result<_>>()?;
        drop(listeners);
        let (clients, peers) = urls.split_at(MEMBERS);
        let cluster: Vec<String> =
            peers.iter().enumerate().map(|(index, peer)| format!("m{index}={peer}")).collect();
        let mut members = Vec::new();
        for (index, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let name = format!("m{index}");
            let mut command = Command::new("etcd");
            command.args(["--name", &name, "--data-dir"]).arg(scratch.file(&name));
            command.args(["--listen-client-urls", client, "--advertise-client-urls", client]);
            command.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
            command.args(["--initial-cluster", &cluster.join(","), "--log-level", "error"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            members.push(Process::spawn(command).context("start etcd")?);
        }
        let urls = clients.to_vec();
        let up = || urls.iter().all(|url| is_healthy(url).unwrap_or(false));
        ensure!(wait_until(START_LIMIT, up), "etcd is not healthy within {START_LIMIT:?}");
        Ok(Self { urls, _members: members, _scratch: scratch })
    }
}

fn is_healthy(url: &str) -> anyhow::Result<bool> {
    let mut socket = TcpStream::connect(url.trim_start_matches("http://"))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    socket.write_all(b"GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer.contains(r#""health":"true""#))
}
