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
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "release" -d 'Releases a lock that `acquire` took; with --force, anybody\'s'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "status" -d 'Says who holds a lock, by every node, without taking it'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "ls" -d 'Lists the locks that are held'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "doctor" -d 'Reads every node and says what would hurt'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "admit" -d 'Waits for nodes that are quarantined, or vouches for them'
complete -c redlatch -n "__fish_redlatch_needs_command" -f -a "completions" -d 'Prints completions for a shell'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l ttl -d 'How long the lock outlives a holder that crashed [default: 30s, at most --max-ttl]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l wait -d 'How long to wait for the lock, or `forever` [default: 0s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l owner -d 'The label that others see on the lock [default: HOST/PID]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l max-hold -d 'Ends the command after this long, or `forever`' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l at-least -d 'Keeps the lock for at least this long, also if the command is done sooner' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l grace -d 'How long the command has after SIGTERM, before SIGKILL [default: 5s, at most TTL/6]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l on-lost -d 'What to do with the command when its lock is about to be lost' -r -f -a "term\t'SIGTERM, and SIGKILL after the grace'
kill\t'SIGKILL at once'
warn\t'Say so and let it run on, without the lock'"
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -s E -l conflict-exit-code -d 'The exit status if another owner has the lock, instead of 121' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l node -d 'A server that votes; repeat it for each of them' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l max-ttl -d 'The longest TTL that may be asked for [default: REDLATCH_MAX_TTL, or 30s]. All who share the nodes must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. All must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on, and off for one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks are over: for --max-ttl and --skew'
strict\t'The same, and their own clocks are not trusted'"
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l node-timeout -d 'How long one node may take to answer [default: TTL/20, between 5ms and 500ms; with files alone TTL/6, at most 5s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l no-wait -d 'Does not wait, whatever the config file says'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l pass-secrets -d 'Lets the command see the nodes\' passwords in its environment'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -s q -l quiet -d 'Says nothing but failures of redlatch itself'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -s v -l verbose -d 'Says what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l ttl -d 'How long the lock outlives a holder that crashed [default: 30s, at most --max-ttl]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l wait -d 'How long to wait for the lock, or `forever` [default: 0s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l owner -d 'The label that others see on the lock [default: HOST/PID]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l node -d 'A server that votes; repeat it for each of them' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l max-ttl -d 'The longest TTL that may be asked for [default: REDLATCH_MAX_TTL, or 30s]. All who share the nodes must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. All must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on, and off for one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks are over: for --max-ttl and --skew'
strict\t'The same, and their own clocks are not trusted'"
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l node-timeout -d 'How long one node may take to answer [default: TTL/20, between 5ms and 500ms; with files alone TTL/6, at most 5s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l no-wait -d 'Does not wait, whatever the config file says'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -s q -l quiet -d 'Says nothing but failures of redlatch itself'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -s v -l verbose -d 'Says what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand acquire" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l ttl -d 'For how long, from now [default: the TTL it was taken with]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l node -d 'A server that votes; repeat it for each of them' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l max-ttl -d 'The longest TTL that may be asked for [default: REDLATCH_MAX_TTL, or 30s]. All who share the nodes must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. All must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on, and off for one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks are over: for --max-ttl and --skew'
strict\t'The same, and their own clocks are not trusted'"
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l node-timeout -d 'How long one node may take to answer [default: TTL/20, between 5ms and 500ms; with files alone TTL/6, at most 5s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -s q -l quiet -d 'Says nothing but failures of redlatch itself'
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -s v -l verbose -d 'Says what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l force -d 'Takes this lock away from whoever holds it, after asking' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l node -d 'A server that votes; repeat it for each of them' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l max-ttl -d 'The longest TTL that may be asked for [default: REDLATCH_MAX_TTL, or 30s]. All who share the nodes must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. All must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on, and off for one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks are over: for --max-ttl and --skew'
strict\t'The same, and their own clocks are not trusted'"
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l node-timeout -d 'How long one node may take to answer [default: TTL/20, between 5ms and 500ms; with files alone TTL/6, at most 5s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l yes -d 'Does not ask'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -s q -l quiet -d 'Says nothing but failures of redlatch itself'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -s v -l verbose -d 'Says what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l every -d 'How often --watch looks' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l node -d 'A server that votes; repeat it for each of them' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l max-ttl -d 'The longest TTL that may be asked for [default: REDLATCH_MAX_TTL, or 30s]. All who share the nodes must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. All must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on, and off for one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks are over: for --max-ttl and --skew'
strict\t'The same, and their own clocks are not trusted'"
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l node-timeout -d 'How long one node may take to answer [default: TTL/20, between 5ms and 500ms; with files alone TTL/6, at most 5s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l watch -d 'Looks again and again until interrupted'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -s q -l quiet -d 'Says nothing but failures of redlatch itself'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -s v -l verbose -d 'Says what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l node -d 'A server that votes; repeat it for each of them' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l max-ttl -d 'The longest TTL that may be asked for [default: REDLATCH_MAX_TTL, or 30s]. All who share the nodes must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. All must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on, and off for one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks are over: for --max-ttl and --skew'
strict\t'The same, and their own clocks are not trusted'"
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l node-timeout -d 'How long one node may take to answer [default: TTL/20, between 5ms and 500ms; with files alone TTL/6, at most 5s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -s q -l quiet -d 'Says nothing but failures of redlatch itself'
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -s v -l verbose -d 'Says what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l prefix -d 'The start of the name of the lock that is tried' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l ttl -d 'The TTL that the round trips must suit' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l node -d 'A server that votes; repeat it for each of them' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l max-ttl -d 'The longest TTL that may be asked for [default: REDLATCH_MAX_TTL, or 30s]. All who share the nodes must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. All must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on, and off for one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks are over: for --max-ttl and --skew'
strict\t'The same, and their own clocks are not trusted'"
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l node-timeout -d 'How long one node may take to answer [default: TTL/20, between 5ms and 500ms; with files alone TTL/6, at most 5s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -s q -l quiet -d 'Says nothing but failures of redlatch itself'
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -s v -l verbose -d 'Says what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l timeout -d 'How long to wait with --wait or --replace [default: until it is done]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l node -d 'A server that votes; repeat it for each of them' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l config -d 'The config file [default: redlatch.toml here, or in the user\'s or the system\'s config directory]' -r -F
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l max-ttl -d 'The longest TTL that may be asked for [default: REDLATCH_MAX_TTL, or 30s]. All who share the nodes must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l skew -d 'How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. All must agree on it' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l restart-guard -d 'What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on, and off for one node]' -r -f -a "off\t'They vote'
on\t'They do not vote until those locks are over: for --max-ttl and --skew'
strict\t'The same, and their own clocks are not trusted'"
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l node-timeout -d 'How long one node may take to answer [default: TTL/20, between 5ms and 500ms; with files alone TTL/6, at most 5s]' -r
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l wait -d 'Waits until the nodes, all if none is named, vote again by themselves, and have the locks back that are held'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l all -d 'All of them'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l yes -d 'Does it without asking, whatever locks are still to be seen'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l replace -d 'Takes the nodes from clients with another list of nodes or other times, one by one'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l all-stopped -d 'With --replace: all clients with the other list are stopped, so that it may differ by more'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -s q -l quiet -d 'Says nothing but failures of redlatch itself'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -s v -l verbose -d 'Says what is going on'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -l json -d 'Prints JSON: answers on stdout, events on stderr, one per line'
complete -c redlatch -n "__fish_redlatch_using_subcommand admit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlatch -n "__fish_redlatch_using_subcommand completions" -s h -l help -d 'Print help'
