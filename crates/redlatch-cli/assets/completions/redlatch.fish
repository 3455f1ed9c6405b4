# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_redlatch_global_optspecs
    string join \n h/help V/version
end

function __fish_redlatch_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_redlatch_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_redlatch_using_subcommand
    set -l cmd (__fish_redlatch_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c redlatch -n "__fish_redlatch_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_needs_command" -s V -l version -d 'Print version'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "run" -d 'Runs a command while holding a lock'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "acquire" -d 'Takes a lock and leaves it behind for `extend` and `release`'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "extend" -d 'Extends a lock that `acquire` took, and prints its new handle'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "release" -d 'Releases a lock that `acquire` took; with --force, anyone\'s'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "status" -d 'Shows who holds a lock, node by node, and who waits for it, without taking it'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "ls" -d 'Lists the locks of Redlatch that are held: by whom, since when, and how many wait for them'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "doctor" -d 'Checks every node and reports what could cause trouble'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "admit" -d 'Waits for quarantined nodes, or vouches for them'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "log" -d 'Shows the outcome of every attempt: why a job did not run last night'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "top" -d 'Shows nodes, locks and what is wrong, live'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "web" -d 'Serves what `top` shows as a web page, live'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "exporter" -d 'Serves metrics of the nodes and their locks to Prometheus'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "completions" -d 'Prints completions for a shell'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "man" -d 'Prints a man page, or writes all of them'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l ttl -d 'How long the lock outlives a crashed holder [default: 30s, at most --max-ttl]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l wait -d 'How long to wait for the lock, or `forever` [default: 0s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l owner -d 'The label that others see on the lock [default: HOST/PID]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l max-hold -d 'Ends the command after this long, or `forever`; with --on-lost warn, only the lock ends' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l at-least -d 'Keeps the lock for at least this long, even if the command is done sooner; must be shorter than --max-hold' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l grace -d 'How long the command has between SIGTERM and SIGKILL [default: 5s, at most TTL/6]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l on-lost -d 'What to do with the command when its lock is about to be lost' -r -f -a "term\t'SIGTERM, then SIGKILL after --grace'
kill\t'SIGKILL at once'
warn\t'Print a warning and let it keep running without the lock'"
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l on-skip-run -d 'A shell command to run if there is no lock, so that COMMAND is not run' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l on-lost-run -d 'A shell command to run when the lock is lost, at once and beside COMMAND' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l hook-timeout -d 'How long these may take before they are killed' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l metrics-dir -d 'Writes metrics of all runs into this directory, for node_exporter\'s textfile collector [default: REDLATCH_METRICS_DIR, or none]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -s E -l conflict-exit-code -d 'The exit status if another owner has the lock, instead of 121' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l log -d 'The log that `redlatch log` reads, or `off` [default: REDLATCH_LOG, or ~/.local/state/redlatch/runs.jsonl; root: /var/log/redlatch/runs.jsonl]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l log-size -d 'How large the log may grow before it replaces its predecessor, FILE.1 [default: REDLATCH_LOG_SIZE, or 5MB]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l syslog -d 'The socket of syslog or journald, or `off` [default: REDLATCH_SYSLOG, or /dev/log]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l no-wait -d 'Doesn\'t wait, whatever the config file says'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l pass-secrets -d 'Lets the command see the nodes\' passwords in its environment'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l no-log-command -d 'Keeps the command\'s name out of the log, out of syslog and out of the lock'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l ttl -d 'How long the lock outlives a crashed holder [default: 30s, at most --max-ttl]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l wait -d 'How long to wait for the lock, or `forever` [default: 0s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l owner -d 'The label that others see on the lock [default: HOST/PID]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l log -d 'The log that `redlatch log` reads, or `off` [default: REDLATCH_LOG, or ~/.local/state/redlatch/runs.jsonl; root: /var/log/redlatch/runs.jsonl]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l log-size -d 'How large the log may grow before it replaces its predecessor, FILE.1 [default: REDLATCH_LOG_SIZE, or 5MB]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l syslog -d 'The socket of syslog or journald, or `off` [default: REDLATCH_SYSLOG, or /dev/log]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l no-wait -d 'Doesn\'t wait, whatever the config file says'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l no-log-command -d 'Keeps the command\'s name out of the log, out of syslog and out of the lock'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l ttl -d 'The new TTL, from now [default: the TTL it was taken with]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l log -d 'The log that `redlatch log` reads, or `off` [default: REDLATCH_LOG, or ~/.local/state/redlatch/runs.jsonl; root: /var/log/redlatch/runs.jsonl]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l log-size -d 'How large the log may grow before it replaces its predecessor, FILE.1 [default: REDLATCH_LOG_SIZE, or 5MB]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l syslog -d 'The socket of syslog or journald, or `off` [default: REDLATCH_SYSLOG, or /dev/log]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l no-log-command -d 'Keeps the command\'s name out of the log, out of syslog and out of the lock'
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l log -d 'The log that `redlatch log` reads, or `off` [default: REDLATCH_LOG, or ~/.local/state/redlatch/runs.jsonl; root: /var/log/redlatch/runs.jsonl]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l log-size -d 'How large the log may grow before it replaces its predecessor, FILE.1 [default: REDLATCH_LOG_SIZE, or 5MB]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l syslog -d 'The socket of syslog or journald, or `off` [default: REDLATCH_SYSLOG, or /dev/log]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l force -d 'Releases the lock NAME by force, after showing who holds it and asking'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l id -d 'With --force: NAME is an `id`, as JSON has it'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l yes -d 'Doesn\'t ask for confirmation'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l no-log-command -d 'Keeps the command\'s name out of the log, out of syslog and out of the lock'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l every -d 'How often --watch looks' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l id -d 'Each NAME is an `id`, as JSON has it'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l watch -d 'Keeps looking until interrupted'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l prefix -d 'How the name of the test lock starts' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l ttl -d 'The TTL to judge response times by' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l timeout -d 'How long --wait or --replace may take [default: until it is done]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l log -d 'The log that `redlatch log` reads, or `off` [default: REDLATCH_LOG, or ~/.local/state/redlatch/runs.jsonl; root: /var/log/redlatch/runs.jsonl]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l log-size -d 'How large the log may grow before it replaces its predecessor, FILE.1 [default: REDLATCH_LOG_SIZE, or 5MB]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l syslog -d 'The socket of syslog or journald, or `off` [default: REDLATCH_SYSLOG, or /dev/log]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l wait -d 'Waits until the nodes (all, if you name none) may vote again and have back the locks that are held'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l all -d 'All nodes'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l yes -d 'Doesn\'t ask for confirmation, even if the nodes have locks, or keys that may be locks'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l replace -d 'Takes the nodes from clients with another list of nodes or other times, one by one'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l all-stopped -d 'With --replace: says that all clients with the other list are stopped, so the lists may differ by more'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l no-log-command -d 'Keeps the command\'s name out of the log, out of syslog and out of the lock'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand log" -l since -d 'Only attempts since then: 8h (ago), 01:00 or "2026-11-17 01:00"' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand log" -l last -d 'Only the last N of them' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand log" -l log -d 'The log, as for `run`; another user\'s, if you may read it' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand log" -l config -d 'The config file, which may name the log [default: as for `run`]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand log" -l id -d 'Each NAME is an `id`, as JSON has it'
complete -c redlatch -n "__fish_redlatch_using_subcommand log" -l failed -d 'Only those that did not run their command to a successful end'
complete -c redlatch -n "__fish_redlatch_using_subcommand log" -l json -d 'Prints JSON: one object per attempt'
complete -c redlatch -n "__fish_redlatch_using_subcommand log" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l every -d 'The pause between two looks at the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l once -d 'Prints one snapshot as plain text, or as JSON with --json'
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l listen -d 'The address to listen at; port 0 is any free one' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l host -d 'A host name by which browsers may ask, besides localhost and IP addresses; repeat it for each' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l every -d 'How often the page looks at the nodes, however many look at the page' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l allow-release-with -d 'Lets anyone with the password in this file release locks by force' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l log -d 'The log that `redlatch log` reads, or `off` [default: REDLATCH_LOG, or ~/.local/state/redlatch/runs.jsonl; root: /var/log/redlatch/runs.jsonl]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l log-size -d 'How large the log may grow before it replaces its predecessor, FILE.1 [default: REDLATCH_LOG_SIZE, or 5MB]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l syslog -d 'The socket of syslog or journald, or `off` [default: REDLATCH_SYSLOG, or /dev/log]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l no-log-command -d 'Keeps the command\'s name out of the log, out of syslog and out of the lock'
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand web" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l listen -d 'The address to listen at' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l host -d 'A host name by which Prometheus may ask, besides localhost and IP addresses; repeat it for each' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l every -d 'How long an answer is good for: the nodes are not asked more often than this' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l node -d 'A server that votes; repeat this option for each server' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l nodes-required -d 'Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l max-ttl -d 'The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks have expired: for --max-ttl plus --skew'
strict\t'The same, without trusting the nodes\' own clocks'"
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l node-timeout -d 'How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -s q -l quiet -d 'Prints only failures. A lock that another owner holds is not one'
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -s v -l verbose -d 'Prints what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand exporter" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand completions" -s h -l help -d 'Print help'
complete -c redlatch -n "__fish_redlatch_using_subcommand man" -l into -d 'Writes all pages into this directory' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand man" -s h -l help -d 'Print help'
