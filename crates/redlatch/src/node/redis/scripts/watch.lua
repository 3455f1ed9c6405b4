-- Tells what the server says of itself, its clock, and what it keeps for the
-- restart guard. With a fingerprint, a node that is out gets a mark, unless it
-- has one of its present run: `Ledger::watch` in the core does the same.
-- KEYS: the node's hash. ARGV: fingerprint or '', nonce, '1' to replace.
-- Returns {INFO, {seconds, microseconds} or false, whether it can be seen that
-- nothing was flushed since the server started: 1 or 0, highest, admitted,
-- agreement, reserved, watched}; what is not there is false or ''.
local node = KEYS[1]
local info, stats = redis.call('INFO'), redis.call('INFO', 'commandstats')
-- What empties a database, and what hides that it was done. Servers before 7
-- count all of CONFIG as one.
local intact = string.match(info, '\nevicted_keys:0\r') and 1 or 0
for _, name in ipairs({'flushall', 'flushdb', 'swapdb', 'debug', 'replicaof', 'slaveof', 'config',
    'config|resetstat'}) do
  if string.find(stats, '\ncmdstat_' .. name .. ':', 1, true) then
    intact = 0
  end
end
local time = redis.pcall('TIME')
time = time[1] and time or false
local kept = redis.pcall('HMGET', node, 'highest', 'admitted', 'agreement', 'reserved', 'watched')
if kept.err then
  if ARGV[1] ~= '' then
    return kept
  end
  kept = {false, false, false, false, false}
end
local guard, replace = ARGV[1], ARGV[3] == '1'
if guard == '' or not time then
  return {info, time, intact, unpack(kept)}
end
local run = string.sub(string.match(info, '\nrun_id:(%x+)') or '', 1, 20)
  .. string.sub(string.match(info, '\nmaster_replid:(%x+)') or '', 1, 20)
local marker_run, marker_guard = string.match(kept[2] or '', '^(%S+) (%x+)$')
-- Of an earlier run, the marker of another node of the same agreement (all but the
-- last six digits) only says that its data were copied here.
local disagrees = marker_guard and marker_guard ~= guard
  and (marker_run == run or string.sub(marker_guard, 1, 10) ~= string.sub(guard, 1, 10))
if replace and (disagrees or not marker_guard) then
  kept[4] = guard
  redis.call('HSET', node, 'reserved', guard)
end
if disagrees and replace then
  kept[2] = false
  redis.call('HSET', node, 'admitted', '')
end
if (disagrees and replace) or (not disagrees and marker_run ~= run) then
  if disagrees or string.match(kept[5] or '', '^(%S+) ') ~= run then
    local since = string.format('%.0f', time[1] * 1000000 + time[2])
    local mark = table.concat({run, ARGV[2], since, guard}, ' ')
    kept[5] = mark
    redis.call('HSET', node, 'watched', mark)
    -- What SWAPDB took out of sight must not come back: it has forgotten what was
    -- put here meanwhile. A marker or mark of the same agreement in another database
    -- is taken away, unless the user may not look there.
    local ours, at = nil, 0
    while not redis.pcall('SELECT', at).err do
      local there = redis.pcall('HMGET', node, 'watched', 'admitted')
      if there[1] == mark then
        ours = at
      elseif string.match(there[2] or '', ' (%x+)$') == guard
        or string.match(there[1] or '', ' (%x+)$') == guard then
        redis.call('HSET', node, 'admitted', '', 'watched', '')
      end
      at = at + 1
    end
    if ours then
      redis.call('SELECT', ours)
    end
  end
end
return {info, time, intact, unpack(kept)}
