-- Lets every key live for at least the TTL, if all of them hold the token, and
-- moves registers that are behind to the number, if there is one.
-- KEYS: the resources, then the node's hash.
-- ARGV: marker, token, TTL in ms, number, registers.
-- Returns 1 or 0, or {'quarantined', what is kept for the guard} if the node has not the
-- marker. A key of another type answers GET with an error, which is no token.
local node = KEYS[#KEYS]
if ARGV[1] ~= '' then
  local kept = redis.call('HMGET', node, 'admitted', 'agreement', 'reserved')
  if kept[1] ~= ARGV[1] then
    return {'quarantined', unpack(kept)}
  end
end
for at = 1, #KEYS - 1 do
  if redis.pcall('GET', KEYS[at]) ~= ARGV[2] then
    return 0
  end
end
for at = 1, #KEYS - 1 do
  if redis.call('PTTL', KEYS[at]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[at], ARGV[3])
  end
end
if ARGV[4] then
  for at, register in ipairs(redis.call('HMGET', node, unpack(ARGV, 5))) do
    if not register or tonumber(register) < tonumber(ARGV[4]) then
      redis.call('HSET', node, ARGV[4 + at], ARGV[4])
    end
  end
end
return 1
