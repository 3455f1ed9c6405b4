-- The first part of a take: sets `held` to the number of the first key that exists.
-- A single key is set if missing; of several, none before all have been checked.
local held
for at = 1, #KEYS - 1 do
  if single and not call('SET', KEYS[at], ARGV[2], 'NX', 'PX', ARGV[3])
    or not single and call('EXISTS', KEYS[at]) == 1 then
    held = at
    break
  end
end
