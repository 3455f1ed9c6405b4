-- Sets every key to the token, if none of them exists.
-- KEYS: the resources. ARGV: token, TTL in ms.
-- Returns 1, or {value or false, PTTL} of the first key that exists.
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then
    local value = redis.pcall('GETRANGE', key, 0, 511)
    return {type(value) == 'string' and value, redis.call('PTTL', key)}
  end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return 1
