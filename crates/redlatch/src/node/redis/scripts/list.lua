-- Looks at some keys, and returns those that are our locks, or reserved for the next in
-- line: {next cursor, {{name, value, PTTL, how many wait}, …}, how many this user may not
-- read}.
-- ARGV: cursor, pattern, about how many keys to look at.
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string')
local locks, denied = {}, 0
for _, key in ipairs(page[2]) do
  local value = redis.pcall('GETRANGE', key, 0, 511)
  if type(value) == 'table' then
    denied = denied + 1
  elseif string.sub(value, 41, 41) == '@' or string.sub(value, 1, 14) == 'redlatch:next:' then
    local line = redis.pcall('GET', 'redlatch:line:' .. key)
    local waiters = type(line) == 'string' and #line % 37 == 0 and #line / 37 or 0
    locks[#locks + 1] = {key, value, redis.call('PTTL', key), waiters}
  end
end
return {page[1], locks, denied}
