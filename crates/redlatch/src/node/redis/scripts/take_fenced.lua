-- Sets every key to the token, if none of them exists, and gives the grant a
-- number: greater than every number in its registers, otherwise the one that
-- was proposed, unless that is behind this server's clock or too far ahead.
-- KEYS: the resources, then the node's hash.
-- ARGV: marker, token, TTL in ms, proposed number, skew in µs, registers.
-- Returns the number as text, or {value or false, PTTL} of a key that exists, or
-- {'quarantined', marker, agreement} if the node has not the marker.
local node = KEYS[#KEYS]
local kept = redis.pcall('HMGET', node, 'admitted', unpack(ARGV, 6))
if kept.err then
  return kept
end
if ARGV[1] ~= '' and kept[1] ~= ARGV[1] then
  return {'quarantined', kept[1], redis.call('HMGET', node, 'agreement')[1]}
end
local function held(key)
  local value = redis.pcall('GETRANGE', key, 0, 511)
  return {type(value) == 'string' and value, redis.call('PTTL', key)}
end
if #KEYS == 2 then
  if not redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
    return held(KEYS[1])
  end
else
  for at = 1, #KEYS - 1 do
    if redis.call('EXISTS', KEYS[at]) == 1 then
      return held(KEYS[at])
    end
  end
  for at = 1, #KEYS - 1 do
    redis.call('SET', KEYS[at], ARGV[2], 'PX', ARGV[3])
  end
end
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
local number = math.min(math.max(tonumber(ARGV[4]), clock), clock + ARGV[5])
for at = 2, #kept do
  if kept[at] then
    number = math.max(number, kept[at] + 1)
  end
end
if number > 9007199254740991 then
  redis.call('DEL', unpack(KEYS, 1, #KEYS - 1))
  return redis.error_reply('FENCE no number is left in a register of ' .. node)
end
-- Never tostring or `..` on a number: Lua prints 14 digits.
local text = string.format('%.0f', number)
for at = 6, #ARGV do
  redis.call('HSET', node, ARGV[at], text)
end
return text
