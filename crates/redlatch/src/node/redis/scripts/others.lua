-- Looks at some keys, and returns those that may be locks of other libraries, which we
-- cannot tell from other data: strings and hashes that expire and are not ours.
-- {where to go on, {{name, PTTL}, …}, how many this user may not read}.
-- ARGV: where to begin (the type of the keys and a cursor), about how many keys to look at.
local kind, cursor = string.match(ARGV[1], '(%a+) (%d+)')
local page = redis.call('SCAN', cursor, 'COUNT', ARGV[2], 'TYPE', kind)
local found, denied = {}, 0
for _, key in ipairs(page[2]) do
  local left = string.sub(key, 1, 9) ~= 'redlatch:' and redis.pcall('PTTL', key)
  if type(left) == 'table' then
    denied = denied + 1
  elseif left and left > 0 then
    local value = kind == 'string' and redis.pcall('GETRANGE', key, 0, 40)
    local ours = type(value) == 'string'
      and (string.sub(value, 41, 41) == '@' or string.sub(value, 1, 14) == 'redlatch:next:')
    if not ours then
      found[#found + 1] = {key, left}
    end
  end
end
if page[1] ~= '0' then
  return {kind .. ' ' .. page[1], found, denied}
end
return {kind == 'string' and 'hash 0' or '0', found, denied}
