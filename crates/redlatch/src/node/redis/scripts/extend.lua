-- Lets every key live for at least the TTL, if all of them hold the token.
-- KEYS: the resources. ARGV: token, TTL in ms. Returns 1 or 0.
-- A key of another type answers GET with an error, which is not the token.
for _, key in ipairs(KEYS) do
  if redis.pcall('GET', key) ~= ARGV[1] then
    return 0
  end
end
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', key, ARGV[2])
  end
end
return 1
