-- The first part of a take: sets `held` to the number of the first key that exists.
-- A single key is set if missing; of several, none before all have been checked.
-- `place`: our ticket or ''. `value`: what the key holds, if that was read.
local held, value
if single and place ~= '' and (plants or #place > 36) then
  -- Who waits in line finds the key reserved, or held, and hardly ever missing.
  value = redis.pcall('GETRANGE', KEYS[1], '0', '511')
  held = value ~= '' and 1
end
for at = held and #KEYS or 1, #KEYS - 1 do
  if single and not call('SET', KEYS[at], ARGV[2], 'NX', 'PX', ARGV[3])
    or not single and call('EXISTS', KEYS[at]) == 1 then
    held, value = at, redis.pcall('GETRANGE', KEYS[at], '0', '511')
    break
  end
end
