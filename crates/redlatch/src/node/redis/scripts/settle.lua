-- The second part of a take: sets the keys, unless somebody else has one or it is reserved
-- for somebody ahead of `place`. Then it joins the line and returns the refusal.
-- `plants`: whether a held lease is planted again.
value = held and type(value) == 'string' and value
-- Most who wait in line find the key reserved for them, and are no longer in line.
local reserved = single and value and string.sub(value, 1, 14) == 'redlatch:next:'
local served = reserved and place ~= '' and string.sub(value, 31, 46) == string.sub(place, 17, 32)
if held and single and place ~= '' and not reserved and not plants and value ~= ARGV[2] then
  -- include join.lua
end
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
