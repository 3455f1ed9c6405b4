-- Tells what the server says of itself, its clock, and what it keeps for the
-- restart guard. With a fingerprint, a node that is out gets a mark, unless it
-- has one of its present run: `Ledger::watch` in the core does the same.
-- KEYS: the node's hash. ARGV: fingerprint or '', nonce, '1' to replace.
-- Returns {INFO, {seconds, microseconds} or false, admitted, agreement,
-- reserved, watched}; what is not there is false or ''.
local node = KEYS[1]
local info = redis.call('INFO')
local time = redis.pcall('TIME')
time = time[1] and time or false
local kept = redis.pcall('HMGET', node, 'admitted', 'agreement', 'reserved', 'watched')
if kept.err then
  if ARGV[1] ~= '' then
    return kept
  end
  kept = {false, false, false, false}
end
local guard, replace = ARGV[1], ARGV[3] == '1'
if guard == '' or not time then
  return {info, time, unpack(kept)}
end
local run = string.sub(string.match(info, '\nrun_id:(%x+)') or '', 1, 20)
  .. string.sub(string.match(info, '\nmaster_replid:(%x+)') or '', 1, 20)
local marker_run, marker_guard = string.match(kept[1] or '', '^(%S+) (%x+)$')
local disagrees = marker_guard and marker_guard ~= guard
local present = marker_run == run
if replace and (disagrees or not marker_guard) then
  kept[3] = guard
  redis.call('HSET', node, 'reserved', guard)
end
if (disagrees and replace) or (not disagrees and not present) then
  if kept[1] and kept[1] ~= '' then
    redis.call('HSET', node, 'admitted', '')
  end
  kept[1] = false
  if disagrees or string.match(kept[4] or '', '^(%S+) ') ~= run then
    local since = time[1] * 1000000 + time[2]
    local promoted = string.match(info, '\nmaster_replid2:0*[1-9a-f]')
    local uptime = tonumber(string.match(info, '\nuptime_in_seconds:(%-?%d+)') or 0)
    -- A marker of an earlier run: since it began, nobody admitted it.
    if marker_guard and not disagrees and not promoted and uptime > 1 then
      since = since - (uptime - 1) * 1000000
    end
    kept[4] = run .. ' ' .. ARGV[2] .. ' ' .. string.format('%.0f', math.max(since, 0))
    redis.call('HSET', node, 'watched', kept[4])
  end
end
return {info, time, unpack(kept)}
