//! Nodes with names of their own, and one set of servers under two sets of
//! names: production's, and those of a laptop with port forwards.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Proxy, Server, Servers};
use std::{fs, os::unix::fs::PermissionsExt};
use support::{Ended, Sandbox, says_all, start};

/// Three servers, and a port forward to each.
struct Site {
    servers: Servers,
    forwards: Vec<Proxy>,
    sandbox: Sandbox,
}

impl Site {
    /// A server that is taken over is quarantined for 3 s.
    fn new() -> Self {
        let servers = Servers::start(3).unwrap();
        let forwards = servers.iter().map(|server| Proxy::to(server).unwrap()).collect();
        let sandbox = Sandbox::guarded(&servers);
        Site { servers, forwards, sandbox }
    }

    fn forwarded(&self) -> Vec<String> {
        self.forwards.iter().map(Proxy::url).collect()
    }

    /// What the laptop is told to write.
    fn written(&self) -> Vec<String> {
        let forwards = self.forwarded().into_iter().zip(self.servers.urls());
        forwards.map(|(address, is)| format!("{address}?name={is}")).collect()
    }

    /// The command, with these nodes.
    fn with(&self, nodes: &[String], args: &[&str]) -> Ended {
        let mut command = self.sandbox.redlatch(args);
        command.env("REDLATCH_NODES", nodes.join(","));
        start(command).end()
    }

    fn production(&self, args: &[&str]) -> Ended {
        self.with(&self.servers.urls(), args)
    }

    fn laptop(&self, args: &[&str]) -> Ended {
        self.with(&self.forwarded(), args)
    }

    /// What the servers keep of the restart guard.
    fn kept(&self) -> Vec<String> {
        let ask = ["HMGET", "redlatch:node", "admitted", "agreement", "reserved", "watched"];
        self.servers.iter().map(|server| format!("{:?}", server.run(&ask))).collect()
    }
}

#[test]
fn a_node_is_found_by_its_name_and_by_its_address_and_is_shown_with_both() {
    let site = Site::new();
    let urls = site.servers.urls();
    let nodes: Vec<String> =
        urls.iter().zip(["a", "b", "c"]).map(|(url, name)| format!("{url}?name={name}")).collect();
    let label = format!("b ({})", urls[1]);

    for typed in ["a", &urls[1], &nodes[2]] {
        site.with(&nodes, &["admit", typed]).exits_with(0);
    }
    let refused = site.with(&nodes, &["admit", "d"]).exits_with(125);
    says_all(&refused.stderr, &["d is not one of the nodes: a (", &label]);
    site.with(&nodes, &["admit", &format!("{}?name=d", urls[0])]).exits_with(125);
    for args in [&["status", "x"][..], &["doctor"], &["admit", "--wait"]] {
        says_all(&site.with(&nodes, args).exits_with(0).stdout, &[&label]);
    }
    let both = format!(r#""address":"{}""#, urls[1]);
    for args in [&["status", "x", "--json"][..], &["doctor", "--json"], &["admit", "a", "--json"]] {
        says_all(&site.with(&nodes, args).exits_with(0).stdout, &[&both, r#""node":"b""#]);
    }
    site.servers.kill(&[1, 2]);
    let refused = site.with(&nodes, &["run", "x", "--", "true"]).exits_with(122);
    says_all(&refused.stderr, &["do not answer", &label]);
    let refused = site.with(&nodes, &["ls"]).exits_with(122);
    says_all(&refused.stderr, &[&label]);
}

/// The command that would be refused is no advice.
#[test]
fn a_laptop_whose_list_differs_by_more_than_one_node_is_told_what_works_there() {
    let site = Site::new();
    site.production(&["admit", "--all"]).exits_with(0);
    let other = Server::start().unwrap();
    let swapped = [site.forwarded()[..2].to_vec(), vec![other.url()]].concat();
    let one = &site.forwarded()[..1];
    let stopped =
        "stop all other clients first, then `redlatch admit --replace --all --all-stopped`";

    let far = site.with(&swapped, &["doctor"]).exits_with(2).stdout;
    let short = |args: &[&str]| site.with(one, &[args, &["--restart-guard", "on"]].concat());
    let told = [
        short(&["doctor"]).exits_with(2).stdout,
        short(&["top", "--once", "--json"]).exits_with(0).stdout,
        short(&["admit", "--wait"]).exits_with(122).stderr,
        short(&["run", "x", "--", "true"]).exits_with(122).stderr,
    ];
    let renamed = site.laptop(&["doctor"]).exits_with(2).stdout;

    says_all(&far, &[stopped, "this server is admitted as"]);
    assert!(!far.contains("--replace --all`"), "{far}");
    for told in told {
        says_all(&told, &["this client names 1 of 3 nodes: give it the list that the others have"]);
        assert!(!told.contains("--replace"), "{told}");
    }
    says_all(&renamed, &["`redlatch admit --replace --all`"]);
    site.with(&swapped, &["admit", "--replace", "--all", "--yes"]).exits_with(125);
}

#[test]
fn names_stand_in_the_config_file_as_well() {
    let site = Site::new();
    let [a, b, c] = [0, 1, 2].map(|at| site.servers[at].url());
    let config = format!("nodes = [\"{a}?name=a\", {{ url = \"{b}?name=b\" }}, \"{c}?name=c\"]\n");
    fs::write(site.sandbox.path("redlatch.toml"), config).unwrap();
    let redlatch = |args: &[&str]| {
        let mut command = site.sandbox.redlatch(args);
        command.env_remove("REDLATCH_NODES");
        start(command).end()
    };

    redlatch(&["admit", "a", "b", "c"]).exits_with(0);

    redlatch(&["run", "x", "--", "true"]).exits_with(0);
}

#[test]
fn a_laptop_with_other_addresses_takes_no_server_and_is_told_what_to_write() {
    let site = Site::new();
    site.production(&["admit", "--all"]).exits_with(0);
    site.production(&["run", "x", "--", "true"]).exits_with(0);
    let kept = site.kept();
    let (is, address, write) = (&site.servers[0].url(), &site.forwarded()[0], &site.written()[0]);
    let advice =
        format!("this server is admitted as {is}; if {address} leads to it, write {write}");

    for args in [&["run", "x", "--", "true"][..], &["acquire", "x"]] {
        let [known, urls] = [site.servers.urls().join(", "), site.written().join(",")];
        let all = format!("admitted as {known}; if your addresses lead to them, write {urls}");
        says_all(&site.laptop(args).exits_with(122).stderr, &[&all]);
    }
    // The error names this command: who follows it without a thought is stopped.
    let refused = site.laptop(&["admit", "--replace", "--all"]).exits_with(125);
    says_all(&refused.stderr, &["these servers are admitted as", "add --yes"]);
    for args in [&["admit", "--wait"][..], &["admit", "--all"]] {
        says_all(&site.laptop(args).exits_with(122).stdout, &[&advice]);
    }
    says_all(&site.laptop(&["doctor"]).exits_with(2).stdout, &[&advice]);
    let json = site.laptop(&["admit", "--wait", "--json"]).exits_with(122).stdout;
    says_all(&json, &[&format!(r#""admitted_as":"{is}""#)]);
    assert_eq!(site.kept(), kept);

    site.with(&site.written(), &["run", "x", "--", "true"]).exits_with(0);
    site.production(&["run", "x", "--", "true"]).exits_with(0);
}

#[test]
fn servers_that_a_laptop_was_the_first_to_use_are_taken_back_by_one_command() {
    let site = Site::new();
    site.laptop(&["admit", "--all"]).exits_with(0);
    site.laptop(&["run", "x", "--", "true"]).exits_with(0);

    let refused = site.production(&["run", "x", "--", "true"]).exits_with(122);
    let claimed = format!("these servers are admitted as {}", site.forwarded().join(", "));
    says_all(&refused.stderr, &[&claimed, "`redlatch admit --replace --all`"]);
    site.production(&["admit", "--replace", "--all", "--yes"]).exits_with(0);

    site.production(&["run", "x", "--", "true"]).exits_with(0);
    site.laptop(&["run", "x", "--", "true"]).exits_with(122);
}

#[test]
fn the_nodes_in_use_are_shown_with_names_and_addresses() {
    let site = Site::new();
    let named = [format!("{}?name=a", site.servers.urls()[0]), site.servers.urls()[1].clone()];
    let [a, b] = [0, 1].map(|at| site.servers.urls()[at].clone());

    let words = site.with(&named, &["ls", "-v"]).stderr;
    let event = site.with(&named, &["ls", "--json"]).stderr;

    says_all(&words, &[&format!("nodes, by REDLATCH_NODES: a ({a}), {b}\n")]);
    says_all(&event, &[&format!(r#""nodes":["a","{b}"],"addresses":["{a}","{b}"]"#)]);
}

#[test]
fn what_a_host_with_other_addresses_is_told_to_write_keeps_the_options_and_asks_for_the_login() {
    let options = Server::options().password("sesame").user("ada", "sesame", "+@all ~* &*");
    let servers = Servers::start_with(3, &options).unwrap();
    let sandbox = Sandbox::guarded(&servers);
    start(sandbox.redlatch(["admit", "--all", "--yes"])).end().exits_with(0);
    let password = sandbox.path("password");
    fs::write(&password, "sesame\n").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    let file = format!("password_file={}", password.display());
    let elsewhere = |login: &str, options: &str| {
        let of = |server: &Server| format!("redis://{login}localhost:{}?{options}", server.port());
        servers.iter().map(of).collect::<Vec<_>>().join(",")
    };
    let run = |nodes: &str| {
        let mut command = sandbox.redlatch(["run", "x", "--", "true"]);
        command.env("REDLATCH_NODES", nodes);
        start(command).end()
    };

    let said = run(&elsewhere("", &format!("{file}&allow_eviction=yes"))).exits_with(122).stderr;
    let named = run(&elsewhere("ada:sesame@", "allow_eviction=yes")).exits_with(122).stderr;

    let written = said.split("lead to them, write ").nth(1).unwrap();
    let written = written.split('\'').nth(1).expect(written);
    for part in [&*file, "allow_eviction=yes", "&name="] {
        assert_eq!(written.matches(part).count(), 3, "{said}");
    }
    run(written).exits_with(0);
    says_all(
        &named,
        &["allow_eviction=yes&name=redis", "(add the logins; they are not shown here)"],
    );
    assert!(!named.contains("sesame"), "{named}");
}
