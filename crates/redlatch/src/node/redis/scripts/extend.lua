-- If all keys hold the token, makes every key live for at least the TTL, and moves
-- registers that are behind to the number, if there is one. A node that is quarantined
-- and marked does so too: it has not forgotten this lock.
-- KEYS: the resources, then the node's hash.
-- ARGV: marker, token, TTL in ms, number, registers.
-- Returns 1 or 0, or {'quarantined', the ledger} if the node lacks the marker and has
-- lost the key, is not marked or serves others (`Ledger::refusal`).
-- A key of another type answers GET with an error, which is no token.
local node, missing = KEYS[#KEYS], 0
if ARGV[1] ~= '' then
  local kept = redis.call('HMGET', node, 'admitted', 'agreement', 'reserved', 'watched')
  if kept[1] ~= ARGV[1] then
    missing = {'quarantined', unpack(kept)}
    local run, ours = string.match(ARGV[1], '^(%S+) (%x+)$')
    -- Whom it serves: by its last marker, by an operator, or else by its mark.
    local served = string.match(kept[1] or '', ' (%x+)$') or kept[3] or ''
    local since, by = string.match(kept[4] or '', '^(%S+) .* (%x+)$')
    if since ~= run or (served ~= '' and served or by) ~= ours then
      return missing
    end
  end
end
for at = 1, #KEYS - 1 do
  if redis.pcall('GET', KEYS[at]) ~= ARGV[2] then
    return missing
  end
end
for at = 1, #KEYS - 1 do
  if redis.call('PTTL', KEYS[at]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[at], ARGV[3])
  end
end
if ARGV[4] then
  local number = tonumber(ARGV[4])
  local kept = redis.call('HMGET', node, 'highest', unpack(ARGV, 5))
  for at = 2, #kept do
    if not kept[at] or tonumber(kept[at]) < number then
      redis.call('HSET', node, ARGV[3 + at], ARGV[4])
    end
  end
  if not kept[1] or tonumber(kept[1]) < number then
    redis.call('HSET', node, 'highest', ARGV[4])
  end
end
return 1
