-- Sets every key to the token, if none of them exists.
-- KEYS: the resources, then the node's hash.
-- ARGV: marker, token, TTL in ms, '1' to plant a lease again that is held.
-- Returns 1, or {value or false, PTTL} of the first key that exists, or
-- {'quarantined', what is kept for the guard} if the node has not the marker.
-- A lease is planted also on a node that is out and marked, but not on one that
-- serves others (`Ledger::refusal`).
local node = KEYS[#KEYS]
if ARGV[1] ~= '' then
  local kept = redis.call('HMGET', node, 'admitted', 'agreement', 'reserved', 'watched')
  local run, ours = string.match(ARGV[1], '^(%S+) (%x+)$')
  -- For whom it is: by its last marker, an operator, or else whoever left the mark.
  local served = string.match(kept[1] or '', ' (%x+)$') or kept[3] or ''
  local since, by = string.match(kept[4] or '', '^(%S+) .* (%x+)$')
  local out = since == run and (served ~= '' and served or by) == ours
  if kept[1] ~= ARGV[1] and not (out and ARGV[4] == '1') then
    return {'quarantined', unpack(kept)}
  end
end
for at = 1, #KEYS - 1 do
  if redis.call('EXISTS', KEYS[at]) == 1 then
    local value = redis.pcall('GETRANGE', KEYS[at], 0, 511)
    return {type(value) == 'string' and value, redis.call('PTTL', KEYS[at])}
  end
end
for at = 1, #KEYS - 1 do
  redis.call('SET', KEYS[at], ARGV[2], 'PX', ARGV[3])
end
return 1
