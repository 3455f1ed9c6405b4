-- Returns, for each key, false or {value or false, PTTL}.
-- A value longer than any token is cut: it is not ours, whatever it is.
local found = {}
for at, key in ipairs(KEYS) do
  found[at] = false
  if redis.call('EXISTS', key) == 1 then
    local value = redis.pcall('GETRANGE', key, 0, 511)
    found[at] = {type(value) == 'string' and value, redis.call('PTTL', key)}
  end
end
return found
