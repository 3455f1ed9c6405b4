-- The second part of a take: sets the keys, unless somebody else has one or it is reserved
-- for somebody ahead of `place`. Then it joins the line and returns the refusal.
-- `place`: our ticket or ''. `plants`: whether a held lease is planted again.
local value = held and redis.pcall('GETRANGE', KEYS[held], 0, 511)
value = type(value) == 'string' and value
-- Most who wait in line find the key reserved for them, and are no longer in line.
local served = single and value and place ~= '' and string.sub(value, 1, 14) == 'redlatch:next:'
  and string.sub(value, 31, 46) == string.sub(place, 17, 32)
local lines
if place ~= '' and not served and (held or #place > 36) then
  -- include line.lua
end
if held and not served then
  local answer = {value, call('PTTL', KEYS[held])}
  if not lines or not lines.admits(held, place, plants, answer) then
    return answer
  end
end
if held or not single then
  for at = 1, #KEYS - 1 do
    call('SET', KEYS[at], ARGV[2], 'PX', ARGV[3])
  end
end
if lines and #place > 36 then
  lines.leave_all(place)
end
