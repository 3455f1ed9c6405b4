-- KEYS: the resources, then the node's hash. ARGV: the register of each resource.
-- Returns, for each resource, false or {value or false, PTTL, number or false}.
-- A value longer than any token is cut: it is not ours, whatever it is.
local numbers = redis.pcall('HMGET', KEYS[#KEYS], unpack(ARGV))
local found = {}
for at = 1, #KEYS - 1 do
  local key = KEYS[at]
  found[at] = false
  if redis.call('EXISTS', key) == 1 then
    local value = redis.pcall('GETRANGE', key, 0, 511)
    found[at] = {type(value) == 'string' and value, redis.call('PTTL', key), numbers[at] or false}
  end
end
return found
