-- Lets every key live for at least the TTL, if all of them hold the token, and
-- moves registers that are behind to the number.
-- KEYS: the resources, then the node's hash.
-- ARGV: token, TTL in ms, number, registers. Returns 1 or 0.
local node = KEYS[#KEYS]
for at = 1, #KEYS - 1 do
  if redis.pcall('GET', KEYS[at]) ~= ARGV[1] then
    return 0
  end
end
for at = 1, #KEYS - 1 do
  if redis.call('PTTL', KEYS[at]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[at], ARGV[2])
  end
end
for at, register in ipairs(redis.call('HMGET', node, unpack(ARGV, 4))) do
  if not register or tonumber(register) < tonumber(ARGV[3]) then
    redis.call('HSET', node, ARGV[3 + at], ARGV[3])
  end
end
return 1
