//! Servers that may have forgotten locks, as an operator meets them.

mod support;

use redlatch::node::REDIS_PERMISSIONS;
use redlatch_testbed::{Server, ServerOptions, Servers};
use std::time::{Duration, Instant};
use support::{
    PATIENCE, Running, Sandbox, eventually, json_of, pty::Terminal, redlatch, says, says_all,
    shell, start,
};

/// How long a server is quarantined in a guarded [`Sandbox`].
const WINDOW: Duration = Duration::from_secs(3);
const HOUR: Duration = Duration::from_secs(3600);

fn admitted(sandbox: Sandbox) -> Sandbox {
    redlatch(&sandbox, &["admit", "--all"]).exits_with(0);
    sandbox
}

#[test]
fn servers_that_were_just_started_do_not_vote_until_somebody_vouches_for_them() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);

    for command in [&["run", "x", "--", "true"][..], &["acquire", "x"]] {
        let refused = redlatch(&sandbox, command).exits_with(122);
        says_all(
            &refused.stderr,
            &["3 of 3 nodes are new or restarted", " to go", "`redlatch admit --all`"],
        );
    }
    redlatch(&sandbox, &["status", "x"]).exits_with(122);

    redlatch(&sandbox, &["admit", "--all"]).exits_with(0);
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
}

#[test]
fn waiting_for_a_lock_outlasts_the_quarantine() {
    let (_servers, sandbox) = Sandbox::with_guarded_servers(3);

    let ended = redlatch(&sandbox, &["run", "x", "--wait", "15s", "--", "echo", "done"]);

    assert_eq!(ended.exits_with(0).stdout, "done\n");
}

#[test]
fn a_server_that_comes_back_empty_is_shown_until_somebody_vouches_for_it() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded_long(&servers));
    let name = servers[1].url();
    servers[1].restart_empty();

    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
    let seen = redlatch(&sandbox, &["status", "x"]).exits_with(0).stdout;
    let of_node = seen.lines().find(|line| line.contains(&name)).unwrap();
    says_all(of_node, &["free, quarantined for another "]);
    assert_eq!(seen.matches("quarantined").count(), 1, "{seen}");
    let seen = redlatch(&sandbox, &["status", "x", "--json"]).exits_with(0).stdout;
    says_all(
        &seen,
        &[&format!(r#""node":"{name}","quarantine":{{"reason":"it may have forgotten"#)],
    );
    let found = redlatch(&sandbox, &["doctor"]).exits_with(1).stdout;
    says_all(&found, &["quarantined for another ", &format!("redlatch admit {name}")]);
    let found = redlatch(&sandbox, &["doctor", "--json"]).exits_with(1).stdout;
    says_all(&found, &[r#""standing":"quarantined""#, r#""remaining_ms":5"#]);

    let vouched = redlatch(&sandbox, &["admit", &name]).exits_with(0).stdout;
    assert_eq!(vouched.matches("admitted").count(), 3, "{vouched}");
    redlatch(&sandbox, &["doctor"]).exits_with(0);
}

#[test]
fn the_advised_command_that_begins_a_quarantine_works_for_users_who_typed_the_nodes() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded(&servers));
    let nodes = servers.urls().join(" --node ");
    let looks = ["status x", "ls", "top --once"];
    for (at, look) in looks.iter().enumerate() {
        servers[at].restart_empty();
        let typed = |task: &str| shell(&sandbox, &format!("unset REDLATCH_NODES; {task}"));

        let seen = typed(&format!("redlatch {look} --node {nodes} 2>&1")).stdout;

        let begins = seen.split("its time has not begun: `").nth(1);
        let begins = begins.and_then(|rest| rest.split('`').next());
        let begins = begins.unwrap_or_else(|| panic!("{look}: {seen}"));
        typed(begins).exits_with(0);
        let admitted = typed(&format!("redlatch doctor --json --node {nodes}")).stdout;
        assert_eq!(admitted.matches(r#""standing":"admitted""#).count(), 3, "{begins}: {admitted}");
    }
}

#[test]
fn every_command_says_how_long_a_node_is_quarantined_while_another_is_down() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded_long(&servers));
    servers[2].kill();
    servers[1].restart_empty();
    // Nobody knows which fencing tokens it gave: it waits for twice as long.
    let refused = redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(122).stderr;
    says_all(&refused, &["1m ", " to go"]);

    let found = redlatch(&sandbox, &["doctor"]).stdout;
    let seen = redlatch(&sandbox, &["status", "x"]).exits_with(122).stdout;
    let shown = redlatch(&sandbox, &["top", "--once"]).stdout;
    let listed = redlatch(&sandbox, &["ls"]).exits_with(122).stderr;

    for said in [found, seen, shown, listed] {
        says_all(&said, &["quarantined for another 1m "]);
    }
    let waits = ["redlatch", "run", "x", "--wait", "5m", "--", "true"];
    Terminal::with(&sandbox, &waits).shows("quarantined for another 1m ");
}

#[test]
fn a_node_is_named_as_in_errors_or_by_its_address_as_given() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    let name = servers[0].url();
    let given = format!("{name}/0?allow_eviction=no");
    let other = name.replace("127.0.0.1", "localhost");
    let [a, b, c] = [&given, &servers[1].url(), &servers[2].url()].map(Clone::clone);
    let nodes = ["--node", &a, "--node", &b, "--node", &c];

    for (typed, code) in [(&given, 0), (&name, 0), (&other, 125)] {
        let args = [&["admit", typed][..], &nodes].concat();
        redlatch(&sandbox, &args).exits_with(code);
    }
}

#[test]
fn admit_wait_vouches_for_nothing_and_returns_when_the_window_has_passed() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded(&servers));
    servers[2].restart_empty();
    let back = Instant::now();

    redlatch(&sandbox, &["admit", "--wait", "--timeout", "500ms"]).exits_with(122);
    let first = redlatch(&sandbox, &["admit", "--wait", &servers[0].url()]).exits_with(0);
    let others_are_out = first.stdout.matches("admitted").count() < 3;
    assert!(others_are_out || back.elapsed() >= WINDOW, "they need not be waited for: {first:?}");
    let waited = redlatch(&sandbox, &["admit", "--wait", &servers[2].url()]).exits_with(0);

    assert!(back.elapsed() >= WINDOW, "after {:?}", back.elapsed());
    assert_eq!(waited.stdout.matches("admitted").count(), 3, "{}", waited.stdout);
}

#[test]
fn admit_wait_for_one_node_ends_at_once_where_others_serve_another_list() {
    let servers = Servers::start(4).unwrap();
    admitted(Sandbox::first(&servers, 3));
    let wrong = Sandbox::guarded(&servers);
    let [a, b, d] = [0, 1, 3].map(|at| servers[at].url());
    let nodes = ["--node", &a, "--node", &b, "--node", &d];

    // It would wait forever: nobody who is refused by others admits this one.
    let args = [&["admit", "--wait", &d][..], &nodes].concat();
    let refused = redlatch(&wrong, &args).exits_with(122);

    says_all(&refused.stdout, &["its clients have another list of nodes", &servers[2].url()]);
    says_all(
        &refused.stderr,
        &["other nodes serve clients with another list", "waiting does not help"],
    );
}

#[test]
fn advice_does_not_forget_nodes_that_were_typed() {
    let servers = Servers::start(1).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    let node = ["--node", &servers[0].url(), "--restart-guard", "on"];
    let hint = format!("`redlatch admit --all {}`", node.join(" "));
    for args in [&["run", "x", "--", "true"][..], &["acquire", "x"]] {
        let typed = [&args[..2], &node, &args[2..]].concat();
        let typed = redlatch(&sandbox, &typed).exits_with(122).stderr;
        says_all(&typed, &[&hint]);
        let typed_elsewhere = [&args[..2], &node[2..], &args[2..]].concat();
        let said = redlatch(&sandbox, &typed_elsewhere).exits_with(122).stderr;
        assert!(!said.contains("--node"), "{said}");
    }
    let found = redlatch(&sandbox, &[&["doctor"][..], &node].concat()).exits_with(2).stdout;
    says_all(&found, &[&format!("`redlatch admit {} {}`", node[1], node.join(" "))]);
}

#[test]
fn a_person_sees_what_is_waited_for() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded(&servers));
    for guard in ["on", "strict"] {
        servers[2].restart_empty();

        let script = format!("redlatch admit --wait --restart-guard {guard}; echo status $?");
        let mut terminal = Terminal::with(&sandbox, &["bash", "-c", &script]);

        let name = servers[2].url();
        terminal.shows(&format!("waiting for 1 of 3 nodes: {name} quarantined for another 2."));
        terminal.shows("status 0");
    }
}

#[test]
fn the_list_grows_by_one_node_and_its_old_clients_are_never_together_with_the_new_ones() {
    let servers = Servers::start(4).unwrap();
    let old = admitted(Sandbox::first(&servers, 3));
    let new = Sandbox::guarded(&servers);
    let first = servers[0].url();
    let mut holder = old.run("x", "echo up > up; sleep 100");
    old.read("up");
    let refused = redlatch(&new, &["run", "x", "--", "true"]).exits_with(122).stderr;
    says_all(&refused, &["another list of nodes", &first, "`redlatch admit --replace --all`"]);

    // One of three is taken away: the old clients have two left, the new ones two of four.
    let began = Instant::now();
    redlatch(&new, &["admit", "--replace", &first, "--yes"]).exits_with(0);
    assert!(began.elapsed() >= WINDOW, "after {:?}", began.elapsed());
    assert!(!holder.has_ended());
    redlatch(&new, &["run", "x", "--", "true"]).exits_with(122);

    let done = redlatch(&new, &["admit", "--replace", "--all", "--yes"]).exits_with(0).stdout;
    assert_eq!(done.matches("admitted").count(), 4, "{done}");
    holder.end().exits_with(123);
    redlatch(&new, &["run", "x", "--", "true"]).exits_with(0);
    redlatch(&old, &["run", "x", "--", "true"]).exits_with(122);
}

/// Neither list would admit it: the first node serves the new one, the third the
/// old one.
#[test]
fn a_node_that_forgets_while_it_changes_over_is_taken_again() {
    let servers = Servers::start(4).unwrap();
    let _old = admitted(Sandbox::first(&servers, 3));
    let new = Sandbox::guarded(&servers);
    let [first, second] = [0, 1].map(|node| servers[node].url());
    redlatch(&new, &["admit", "--replace", &first, "--yes"]).exits_with(0);

    let replacing = start(new.redlatch(["admit", "--replace", &second, "--yes"]));
    let reserved = || servers[1].run(&["HGET", "redlatch:node", "reserved"]).text();
    eventually(PATIENCE, || reserved().is_some_and(|list| !list.is_empty()));
    // Not by a restart: it would be down for as long as this machine is busy.
    servers[1].run(&["FLUSHALL"]);

    replacing.end().exits_with(0);
}

/// The first of three nodes, of which somebody with the first two began to take it,
/// and stopped.
fn half_taken(servers: &Servers, wrong: &Sandbox) -> String {
    let taking = start(wrong.redlatch(["admit", "--replace", "--all", "--yes"]));
    let reserved = || servers[0].run(&["HGET", "redlatch:node", "reserved"]).text();
    eventually(PATIENCE, || reserved().is_some_and(|list| !list.is_empty()));
    taking.signal("INT");
    assert!(!taking.end().status.success());
    servers[0].url()
}

#[test]
fn a_node_that_others_stopped_taking_halfway_is_taken_back_by_what_doctor_says() {
    let servers = Servers::start(3).unwrap();
    let right = admitted(Sandbox::guarded(&servers));
    let node = half_taken(&servers, &Sandbox::first(&servers, 2));
    let mut found = String::new();
    eventually(PATIENCE, || {
        found = redlatch(&right, &["doctor"]).stdout;
        found.contains("began to take it, and stopped halfway")
    });

    redlatch(&right, &["doctor"]).exits_with(1);
    let (_, fix) = found.split_once("fix: take it back: ").unwrap();
    let fix = fix.lines().next().unwrap();
    assert_eq!(fix, format!("redlatch admit --replace {node}"));
    let back = start(right.shell(fix)).end().exits_with(0).stdout;

    assert_eq!(back.matches("admitted").count(), 3, "{back}");
    redlatch(&right, &["doctor"]).exits_with(0);
    let late = redlatch(&Sandbox::first(&servers, 2), &["run", "x", "--", "true"]);
    says_all(&late.exits_with(122).stderr, &["another list of nodes"]);
}

#[test]
fn a_node_is_taken_back_unasked_only_from_those_who_have_stopped() {
    let servers = Servers::start(3).unwrap();
    let right = admitted(Sandbox::guarded_long(&servers));
    let wrong = Sandbox::first(&servers, 2).with_times("30s", "30s");
    let node = half_taken(&servers, &wrong);

    let found = redlatch(&right, &["doctor"]).stdout;
    says_all(&found, &["it is being taken by clients with another list", "take it back: redlatch"]);
    let unasked = redlatch(&right, &["admit", "--replace", &node]).exits_with(125);
    says_all(&unasked.stderr, &[&node, "is being taken by clients with another list", "add --yes"]);
    let mut back = Terminal::with(&right, &["redlatch", "admit", "--replace", &node]);
    back.shows("is being taken by clients with another list");
    back.shows("[y/N]");
    back.press("y\n");

    back.shows(&format!("{node} quarantined for another "));
    let again = redlatch(&wrong, &["admit", "--replace", "--all"]).exits_with(125);
    says_all(&again.stderr, &["yet another list", "finish it with their settings"]);
}

#[test]
fn nobody_takes_nodes_from_clients_of_a_longer_list_unasked() {
    let servers = Servers::start(3).unwrap();
    let right = admitted(Sandbox::guarded_long(&servers));
    let wrong = Sandbox::first(&servers, 2).with_times("30s", "30s");
    let missing = servers[2].url();
    let words = format!("have 3 nodes, and this host's list has 2, without {missing}");

    let unasked = redlatch(&wrong, &["admit", "--replace", "--all"]).exits_with(125);
    says_all(&unasked.stderr, &[&words, "give all clients the same settings", "add --yes"]);
    let mut terminal = Terminal::with(&wrong, &["redlatch", "admit", "--replace", "--all"]);
    terminal.shows(&words);
    terminal.shows("[y/N]");
    terminal.press("n\n");

    assert_eq!(terminal.end(), Some(125));
    redlatch(&right, &["doctor"]).exits_with(0);
}

#[test]
fn nobody_takes_nodes_from_clients_unasked_while_a_lock_is_to_be_seen() {
    let servers = Servers::start(4).unwrap();
    let old = admitted(Sandbox::first(&servers, 3));
    let new = Sandbox::guarded(&servers);
    let script = "echo up > up; sleep 100";
    let args = ["run", "x", "--owner", "ada", "--", "sh", "-c", script];
    let mut holder = start(old.redlatch(args));
    old.read("up");

    for which in ["--all", &servers[0].url()] {
        let refused = redlatch(&new, &["admit", "--replace", which]).exits_with(125);
        let words = ["1 lock ", "x ", "ada ", "give all clients the same settings", "--yes"];
        says_all(&refused.stderr, &words);
        says_all(&refused.stderr, &[&servers[0].url()]);
    }
    let mut terminal = Terminal::with(&new, &["redlatch", "admit", "--replace", "--all"]);
    terminal.shows("HELD BY");
    terminal.shows("ada");
    terminal.shows("[y/N]");
    terminal.press("n\n");
    assert_eq!(terminal.end(), Some(125));

    assert!(!holder.has_ended());
    let standings = redlatch(&old, &["admit", "--all"]).exits_with(0).stdout;
    assert_eq!(standings.matches("admitted").count(), 3, "{standings}");
}

#[test]
fn a_list_that_grows_by_two_is_refused_unless_all_clients_are_stopped() {
    let servers = Servers::start(5).unwrap();
    admitted(Sandbox::first(&servers, 3));
    let new = Sandbox::guarded(&servers);

    let refused = redlatch(&new, &["admit", "--replace", "--all"]).exits_with(125);
    says_all(&refused.stderr, &["one node at a time", "--all-stopped"]);
    for server in &servers {
        says_all(&refused.stderr, &[&server.url()]);
    }
    redlatch(&Sandbox::first(&servers, 3), &["run", "x", "--", "true"]).exits_with(0);

    redlatch(&new, &["admit", "--replace", "--all", "--all-stopped"]).exits_with(0);
    redlatch(&new, &["run", "x", "--", "true"]).exits_with(0);
}

/// The errors of a client that forgot two of three nodes show this very command.
#[test]
fn a_host_that_lacks_nodes_does_not_take_the_others_unasked_even_if_all_are_said_to_be_stopped() {
    let servers = Servers::start(3).unwrap();
    admitted(Sandbox::first(&servers, 3));
    let short = Sandbox::first(&servers, 1);
    let replace = ["admit", "--replace", "--all", "--all-stopped", "--restart-guard", "on"];

    let refused = redlatch(&short, &replace).exits_with(125);

    says_all(&refused.stderr, &["have 3 nodes, and this host's list has 1, without ", "--yes"]);
    redlatch(&Sandbox::first(&servers, 3), &["run", "x", "--", "true"]).exits_with(0);
    redlatch(&short, &[&replace[..], &["--yes"]].concat()).exits_with(0);
}

#[test]
fn a_client_that_counts_one_of_three_nodes_gets_no_lock_and_is_told_why() {
    let servers = Servers::start(3).unwrap();
    admitted(Sandbox::guarded(&servers));
    let one = Sandbox::first(&servers, 1);

    let refused = redlatch(&one, &["run", "x", "--", "true"]).exits_with(122);
    let status = redlatch(&one, &["status", "x"]).exits_with(122);

    for server in &servers {
        says_all(&refused.stderr, &["another list of nodes", &server.url()]);
    }
    says_all(&status.stdout, &["x: unclear", "its clients have other settings"]);
}

#[test]
fn commands_to_paste_have_the_options_that_say_where_the_nodes_are() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded_long(&servers));
    redlatch(&sandbox, &["acquire", "x"]).exits_with(0);
    let urls = servers.urls();
    let nodes = |urls: &[String]| {
        let nodes = urls.iter().flat_map(|url| ["--node".to_owned(), url.clone()]);
        nodes.chain(["--nodes-required".into(), urls.len().to_string()]).collect::<Vec<_>>()
    };
    let typed = |words: &[&str], urls: &[String]| {
        let words = words.iter().map(|word| (*word).to_owned());
        words.chain(nodes(urls)).collect::<Vec<_>>()
    };
    let (two, all) = (&urls[..2], &urls[..]);

    let run = redlatch(&sandbox, &typed(&["acquire", "y"], two)).exits_with(122).stderr;
    let status = redlatch(&sandbox, &typed(&["status", "x"], two)).exits_with(121).stdout;
    servers[1].run(&["FLUSHALL"]);
    let admit = typed(&["redlatch", "admit", "--all"], all).join(" ");
    let question = Terminal::script(&sandbox, &admit).shown_before("[y/N]");

    says_all(&run, &["`redlatch admit --replace", &format!(" {}`", nodes(two).join(" "))]);
    says_all(&status, &[&format!("(`redlatch doctor {}`)", nodes(two).join(" "))]);
    says_all(&question, &[&format!("`redlatch admit --wait {}` is safe", nodes(all).join(" "))]);
}

#[test]
fn a_lock_that_may_outlive_a_window_is_refused_though_its_client_has_no_guard() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded(&servers));
    let run = |times: &[&str]| {
        let off = ["run", "x", "--restart-guard", "off"];
        redlatch(&sandbox, &[&off, times, &["--", "true"]].concat())
    };

    let refused = run(&["--max-ttl", "10m", "--ttl", "10m"]).exits_with(122);
    run(&[]).exits_with(0);

    says_all(&refused.stderr, &["clients with max_ttl ", " instead of 600s"]);
}

#[test]
fn a_client_that_names_one_of_three_nodes_is_told_that_the_list_is_wrong() {
    let servers = Servers::start(3).unwrap();
    let three = admitted(Sandbox::guarded_long(&servers));
    let one = Sandbox::first(&servers, 1).with_times("30s", "30s");

    let refused = redlatch(&one, &["run", "x", "--", "true"]).exits_with(122).stderr;
    let found = redlatch(&one, &["doctor"]).exits_with(2).stdout;
    says_all(&refused, &["this client names 1 of 3 nodes: give it the list that the others have"]);
    says_all(
        &found,
        &["fix: this client names 1 of 3 nodes: give it the list that the others have"],
    );
    for said in [refused, found] {
        assert!(!said.contains("--replace"), "it would be refused: {said}");
    }

    // They watch it, and have not written down yet which nodes they use.
    servers[0].run(&["FLUSHALL"]);
    redlatch(&three, &["run", "x", "--", "true"]).exits_with(0);
    let refused = redlatch(&one, &["run", "x", "--", "true"]).exits_with(122).stderr;
    let found = redlatch(&one, &["doctor"]).exits_with(2).stdout;
    let seen = redlatch(&one, &["status", "x"]).exits_with(122).stdout;
    says_all(&refused, &["the only node was marked by a client with the restart guard"]);
    for said in [&refused, &found] {
        says_all(said, &["if such clients are running, name the nodes that they name"]);
    }
    for said in [&found, &seen] {
        says_all(said, &["a client with the restart guard has marked it"]);
    }
    assert!(!found.contains("being taken"), "{found}");
}

#[test]
fn a_server_that_a_single_guarded_run_has_marked_is_given_back_by_the_command_that_is_shown() {
    let servers = Servers::start(1).unwrap();
    let one = Sandbox::first(&servers, 1).with_times("30s", "30s");
    let run =
        |options: &[&str]| redlatch(&one, &[&["run", "x"], options, &["--", "true"]].concat());
    run(&[]).exits_with(0);
    run(&["--restart-guard", "on"]).exits_with(122);

    let refused = run(&[]).exits_with(122).stderr;
    let found = redlatch(&one, &["doctor"]).exits_with(2).stdout;
    let command = "redlatch admit --all --restart-guard on";
    for said in [&refused, &found] {
        says_all(said, &[&format!("if none is, `{command}`")]);
    }
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    redlatch(&one, &words).exits_with(0);

    run(&[]).exits_with(0);
}

/// Hosts that only run nightly jobs have no client that admits them meanwhile.
#[test]
fn restarted_nodes_whose_time_is_over_are_no_outage_though_nobody_has_admitted_them_yet() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded(&servers));
    servers.iter().skip(1).for_each(Server::restart_empty);
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(122);

    let found = || redlatch(&sandbox, &["doctor"]).stdout;
    assert!(found().contains("No lock can be taken"), "they are quarantined");
    eventually(PATIENCE, || !found().contains("No lock can be taken"));

    redlatch(&sandbox, &["status", "x"]).exits_with(0);
    redlatch(&sandbox, &["ls"]).exits_with(0);
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
}

#[test]
fn what_a_client_without_the_guard_is_told_to_paste_turns_it_on() {
    let servers = Servers::start(2).unwrap();
    let _two = admitted(Sandbox::guarded_long(&servers));
    let one = Sandbox::first(&servers, 1).with_times("30s", "30s");
    let command = "redlatch admit --replace --all --restart-guard on";

    let refused = redlatch(&one, &["run", "x", "--", "true"]).exits_with(122).stderr;
    let found = redlatch(&one, &["doctor"]).exits_with(2).stdout;

    for said in [refused, found] {
        says_all(&said, &[&format!("`{command}`")]);
    }
    let pasted = start(one.shell(command)).end().exits_with(125).stderr;
    says_all(&pasted, &["have 2 nodes, and this host's list has 1", "add --yes"]);
}

#[test]
fn a_run_that_did_not_wait_does_not_say_that_it_gave_up_after_the_wait() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    let words = "; did not wait for 10s, which would not have helped";

    for command in
        [&["run", "x", "--wait", "10s", "--", "true"][..], &["acquire", "x", "--wait", "10s"]]
    {
        let refused = redlatch(&sandbox, command).exits_with(122).stderr;
        says_all(&refused, &[" to go", words]);
        assert!(!refused.contains("gave up"), "{refused}");
    }
    let events = redlatch(&sandbox, &["run", "x", "--wait", "10s", "--json", "--", "true"]).stderr;
    let record = redlatch(&sandbox, &["log", "--json"]).exits_with(0).stdout;
    for said in [events, record] {
        says_all(&said, &[words]);
        assert!(!said.contains("gave up"), "{said}");
    }
}

#[test]
fn doctor_says_first_that_no_lock_can_be_taken_and_what_helps() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded(&servers));
    servers[2].kill();
    servers[1].restart_empty();

    let found = redlatch(&sandbox, &["doctor"]).exits_with(2).stdout;

    let fix = format!("redlatch admit --wait {}", servers[1].url());
    let first = "No lock can be taken: 1 of 3 nodes may vote, 2 must.";
    assert!(found.starts_with(&format!("{first}\n  fix: {fix}\n")), "{found}");
    assert!(!found.contains("work without it"), "{found}");
    start(sandbox.shell(&fix)).end().exits_with(0);
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
}

#[test]
fn doctor_says_first_that_the_nodes_serve_others() {
    let servers = Servers::start(4).unwrap();
    let _three = admitted(Sandbox::first(&servers, 3));

    let found = redlatch(&Sandbox::guarded(&servers), &["doctor"]).exits_with(2).stdout;

    assert!(found.starts_with("No lock can be taken: 0 of 4 nodes may vote, 3 must.\n"), "{found}");
}

#[test]
fn fault_20_doctor_says_whose_clock_is_an_hour_ahead() {
    let options = ServerOptions::default().fake_clock();
    let servers = Servers::start_with(3, &options).unwrap();
    let sandbox = admitted(Sandbox::guarded_long(&servers));

    servers[1].clock_ahead(HOUR);

    let name = servers[1].url();
    let mut found = String::new();
    let shown = support::wait_until(PATIENCE, || {
        found = redlatch(&sandbox, &["doctor"]).stdout;
        found.contains(&format!("warning  the clock of {name} is 3"))
    });
    assert!(shown, "{found}");
    says_all(&found, &["locks work, since clocks need not show the same time"]);
    redlatch(&sandbox, &["doctor"]).exits_with(1);
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
}

#[test]
fn a_user_with_no_more_permissions_than_documented_can_do_all_of_it() {
    let options = ServerOptions::default().user("ada", "pw", &format!("{REDIS_PERMISSIONS} ~*"));
    let servers = Servers::start_with(3, &options).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    let urls: Vec<String> = servers.iter().map(|server| server.url_as("ada", "pw")).collect();
    let nodes: Vec<&str> = urls.iter().flat_map(|url| ["--node", url]).collect();
    let done = |args: &[&str]| redlatch(&sandbox, &[args, &nodes].concat()).exits_with(0);

    done(&["admit", "--all"]);
    let mut run = vec!["run", "x"];
    run.extend(&nodes);
    run.extend(["--", "true"]);
    redlatch(&sandbox, &run).exits_with(0);
    done(&["status", "x"]);
    done(&["doctor"]);
    done(&["admit", "--wait"]);
    servers[0].restart_empty();
    let vouched = done(&["admit", &urls[0]]);
    assert!(!vouched.stdout.contains("pw"), "{}", vouched.stdout);
}

/// Fault 21: the clock of a server is set back, and its keys live on.
#[test]
fn a_key_that_lives_on_for_longer_than_any_client_may_ask_for_is_pointed_out() {
    let options = ServerOptions::default().fake_clock();
    let servers = Servers::start_with(3, &options).unwrap();
    let sandbox = admitted(Sandbox::guarded_long(&servers));
    redlatch(&sandbox, &["acquire", "x"]).exits_with(0);
    let usual = redlatch(&sandbox, &["status", "x"]).exits_with(121);
    assert!(!usual.stdout.contains("set back"), "{}", usual.stdout);

    servers[0].clock_behind(HOUR);

    let shown = redlatch(&sandbox, &["status", "x"]).exits_with(121);
    assert_eq!(shown.stdout.matches("was its clock set back?").count(), 1, "{}", shown.stdout);
    let json = redlatch(&sandbox, &["status", "--json", "x"]).exits_with(121);
    assert_eq!(json.stdout.matches("\"above_max_ttl\":true").count(), 1, "{}", json.stdout);
}

/// Two of three servers were restarted under a job.
fn two_restarted_under_a_job() -> (Servers, Sandbox, Running) {
    let servers = Servers::start(3).expect("three servers");
    let sandbox = admitted(Sandbox::guarded_long(&servers));
    let script = "echo up > up; sleep 100";
    let args = ["run", "x", "--owner", "ada", "--", "sh", "-c", script];
    let holder = start(sandbox.redlatch(args));
    sandbox.read("up");
    servers[0].restart_empty();
    servers[1].restart_empty();
    (servers, sandbox, holder)
}

#[test]
fn nobody_vouches_for_nodes_unasked_while_a_lock_is_to_be_seen() {
    let (servers, sandbox, _holder) = two_restarted_under_a_job();
    let name = servers[1].url();

    for which in [&["admit", "--all"][..], &["admit", &name]] {
        let refused = redlatch(&sandbox, which).exits_with(125);
        says_all(&refused.stderr, &["1 lock ", "x ", "ada ", "1 of 3", "--yes", "admit --wait"]);
    }
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(122);

    redlatch(&sandbox, &["admit", "--all", "--yes"]).exits_with(0);
    redlatch(&sandbox, &["run", "other", "--", "true"]).exits_with(0);
}

#[test]
fn a_person_is_shown_the_locks_before_vouching_for_nodes() {
    let (_servers, sandbox, _holder) = two_restarted_under_a_job();
    for (answer, code) in [("n\n", 125), ("y\n", 0)] {
        let mut terminal = Terminal::with(&sandbox, &["redlatch", "admit", "--all"]);
        terminal.shows("HELD BY");
        terminal.shows("ada");
        terminal.shows("[y/N]");
        terminal.press(answer);
        assert_eq!(terminal.end(), Some(code));
    }
}

#[test]
fn nobody_vouches_for_nodes_unasked_while_another_cannot_be_looked_at() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded_long(&servers));
    servers[0].restart_empty();
    servers[2].kill();

    let refused = redlatch(&sandbox, &["admit", &servers[0].url()]).exits_with(125);

    says_all(&refused.stderr, &[&servers[2].url(), "--yes"]);
    redlatch(&sandbox, &["admit", &servers[0].url(), "--yes"]).exits_with(0);
}

#[test]
fn nodes_that_vote_already_need_no_word_and_no_question() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded_long(&servers));
    redlatch(&sandbox, &["acquire", "x"]).exits_with(0);

    redlatch(&sandbox, &["admit", "--all"]).exits_with(0);
}

/// The guide's own commands, between the restarts of all servers.
#[test]
fn fault_55_a_lease_survives_a_rolling_restart_by_the_commands_of_the_guide() {
    let servers = Servers::start(3).unwrap();
    // Long enough that a busy machine does not lose the lock by itself.
    let sandbox = admitted(Sandbox::guarded(&servers).with_times("5s", "1s"));
    let script = "echo $REDLATCH_FENCING_TOKEN > token; until [ -e stop ]; do sleep 0.05; done";
    let mut holder = sandbox.run("x", script);
    let token = sandbox.read("token");

    for server in &servers {
        server.restart_empty();
        redlatch(&sandbox, &["admit", "--wait", "--timeout", "5m", &server.url()]).exits_with(0);
        assert!(!holder.has_ended(), "{:?}", holder.end());
        let status = redlatch(&sandbox, &["status", "x"]).exits_with(121).stdout;
        says_all(&status, &[&format!("fencing token {token}\n")]);
    }

    std::fs::write(sandbox.path("stop"), "").unwrap();
    holder.end().exits_with(0);
    let later = redlatch(&sandbox, &["run", "x", "--", "sh", "-c", "echo $REDLATCH_FENCING_TOKEN"]);
    let later: u64 = later.exits_with(0).stdout.trim().parse().unwrap();
    assert!(later > token.parse().unwrap(), "{later} after {token}");
}

/// A lock that nobody extends is not planted again: it is waited for no longer
/// than it can live.
#[test]
fn admit_wait_waits_for_a_lock_that_is_never_planted_again_until_it_must_be_over() {
    let servers = Servers::start(3).unwrap();
    let sandbox = admitted(Sandbox::guarded(&servers));
    servers[2].restart_empty();
    redlatch(&sandbox, &["admit", "--yes", &servers[2].url()]).exits_with(0);
    servers[2].freeze();
    redlatch(&sandbox, &["acquire", "x"]).exits_with(0);
    servers[2].thaw();

    let waited = redlatch(&sandbox, &["admit", "--wait", "--timeout", "300ms"]).exits_with(122);
    says_all(&waited.stderr, &["x is not on "]);
    redlatch(&sandbox, &["admit", "--wait"]).exits_with(0);

    redlatch(&sandbox, &["status", "x"]).exits_with(0);
}

#[test]
fn admit_wait_that_may_not_list_locks_says_what_to_grant() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded(&servers).with_times("30s", "1s");
    start(sandbox.redlatch(["admit", "--all", "--yes"])).end().exits_with(0);
    for server in &servers {
        server.run(&["ACL", "SETUSER", "locks", "on", ">pw", "~*", "+@all", "-scan"]);
    }

    let urls: Vec<_> = servers.iter().map(|server| server.url_as("locks", "pw")).collect();
    let nodes = urls.iter().flat_map(|url| ["--node", url]);
    let ended =
        start(sandbox.redlatch(["admit", "--wait", "--timeout", "3s"].into_iter().chain(nodes)));

    let ended = ended.end().exits_with(122);
    assert!(ended.stderr.contains("restart no other node yet"), "{}", ended.stderr);
    assert!(ended.stderr.contains("+scan"), "{}", ended.stderr);
}

#[test]
fn admit_calls_a_node_that_answers_and_cannot_be_used_neither_down_nor_quarantined() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    servers[0].run(&["CONFIG", "SET", "requirepass", "another"]);

    let told = redlatch(&sandbox, &["admit", "--all", "--yes", "--json"]).exits_with(122);

    let nodes = json_of(&told.stdout)["nodes"].clone();
    assert_eq!(nodes[0]["standing"], "unusable", "{nodes}");
    assert!(nodes[0]["reason"].as_str().unwrap().starts_with("it wants a password"), "{nodes}");
    says(&told.stderr, "1 of 3 nodes does not vote");
}
