-- Reports the server's INFO, its clock, and its ledger. With a fingerprint, marks a
-- quarantined node, unless it has a mark of its current run: `Ledger::watch` in the
-- core does the same.
-- KEYS: the node's hash. ARGV: fingerprint or '', nonce, '1' to replace, '1' if the
-- server may evict keys, the number of this database.
-- Returns {INFO, {seconds, microseconds} or false, 1 if provably nothing was flushed
-- since the server started, else 0, 1 if this database has no other key, else 0, highest, admitted, agreement, reserved, watched, the
-- error that a write would get, the rules that this user lacks to be woken}; what is
-- missing is false or ''.
local node = KEYS[1]
local info, stats = redis.call('INFO'), redis.call('INFO', 'commandstats')
-- Commands that empty a database, or hide that this was done. Servers before 7
-- count all of CONFIG as one.
local evicted = string.match(info, '\nevicted_keys:(%d+)')
local intact = evicted == '0' and 1 or 0
for _, name in ipairs({'flushall', 'flushdb', 'swapdb', 'debug', 'replicaof', 'slaveof', 'config',
    'config|resetstat'}) do
  if string.find(stats, '\ncmdstat_' .. name .. ':', 1, true) then
    intact = 0
  end
end
local keys = string.match(info, '\ndb' .. ARGV[5] .. ':keys=(%d+)') or 0
local empty = tonumber(keys) == redis.call('EXISTS', node) and 1 or 0
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
if guard == '' then
  -- Nobody has this key, so nothing is written.
  local write = redis.pcall('SET', 'redlatch:none', '', 'XX')
  kept[6] = write and write.err or false
  -- Nobody listens to this channel. Servers before 7 only tell by doing it.
  local channel, check, lacks = 'redlatch:wake:none', redis.acl_check_cmd, {}
  local function may(...)
    local is_known, is_allowed = pcall(check, ...)
    return not is_known or is_allowed
  end
  if not check or not may('PUBLISH', channel, '') then
    local sent = redis.pcall('PUBLISH', channel, '')
    local err = type(sent) == 'table' and sent.err or ''
    if string.find(err, 'channel') then
      lacks[1] = '&redlatch:*'
    elseif string.find(err, 'run th') then
      lacks[1] = '+publish'
    end
  end
  if check and lacks[1] ~= '&redlatch:*' and not may('SUBSCRIBE', channel) then
    lacks[#lacks + 1] = '+subscribe'
  end
  kept[7] = table.concat(lacks, ' ')
end
if guard == '' or not time then
  return {info, time, intact, empty, unpack(kept)}
end
local run = string.sub(string.match(info, '\nrun_id:(%x+)') or '', 1, 20)
  .. string.sub(string.match(info, '\nmaster_replid:(%x+)') or '', 1, 20)
if evicted and evicted ~= '0' and ARGV[4] ~= '1' then
  run = run .. '+' .. evicted
end
local marker_run, marker_guard = string.match(kept[2] or '', '^(%S+) (%x+)$')
-- A marker of an earlier run, from another node of the same agreement (all but the
-- last six digits are equal), only says that its data were copied here.
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
    disown(node, guard, mark)
  end
end
return {info, time, intact, empty, unpack(kept)}
