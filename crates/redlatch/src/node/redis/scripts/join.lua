-- For a take of one key that somebody holds. Joins the line behind everybody in it, as
-- most do, and returns the refusal: the same as `lines.join`, without its functions, which
-- a server would have to make first. Goes on if there is more to it: our waiter is in line,
-- somebody there came later than us, or the last one no longer counts.
local key, clock = KEYS[1], call('TIME')
clock = clock[1] * 1000000 + clock[2]
local arrived, waiter = tonumber(string.sub(place, 1, 16), 16), string.sub(place, 17, 32)
local near = math.max(clock - 1000000, math.min(clock + 1000000, arrived))
-- include read.lua
local last = tonumber(string.sub(line, -37, -22), 16)
if (line == '' or last and last < near and not string.find(line, waiter, 1, true)
    and redis.pcall('EXISTS', 'redlatch:waiter:' .. string.sub(line, -21, -6)) ~= 0) then
  local answer = {value, call('PTTL', key), #line / 37}
  local owner = string.match(ARGV[2], '^%x+@()') == 42 and string.sub(ARGV[2], 42) or ''
  call('SET', 'redlatch:waiter:' .. waiter, owner, 'PX', '30000')
  line = line .. (near == arrived and string.sub(place, 1, 16) or string.format('%016x', near))
    .. string.sub(place, 17, 36) .. ' '
  local life = '30000'
  -- include write.lua
  return answer
end
