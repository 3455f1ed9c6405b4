-- Looks at some keys, and returns those that are our locks:
-- {next cursor, {{name, value, PTTL}, …}}.
-- ARGV: cursor, pattern, about how many keys to look at.
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string')
local locks = {}
for _, key in ipairs(page[2]) do
  local value = redis.call('GETRANGE', key, 0, 511)
  if string.sub(value, 41, 41) == '@' then
    locks[#locks + 1] = {key, value, redis.call('PTTL', key)}
  end
end
return {page[1], locks}
