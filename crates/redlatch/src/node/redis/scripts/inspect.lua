-- KEYS: the resources, then the node's hash. ARGV: the register of each resource.
-- Returns, for each resource, false or {value or false, PTTL, number or false}.
-- A value that is longer than any token is not ours. If only one key is asked for, somebody
-- may want to take a lock of another library away, so its value is read up to 64 KiB. A
-- longer one is told like one that is no text.
local most = #KEYS == 2 and 65536 or 512
local numbers = redis.pcall('HMGET', KEYS[#KEYS], unpack(ARGV))
local found = {}
for at = 1, #KEYS - 1 do
  local key = KEYS[at]
  found[at] = false
  if redis.call('EXISTS', key) == 1 then
    local value = redis.pcall('GETRANGE', key, 0, most)
    local is_whole = type(value) == 'string' and #value <= most
    found[at] = {is_whole and value, redis.call('PTTL', key), numbers[at] or false}
  end
end
return found
