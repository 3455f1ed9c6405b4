-- Sets every key to the token, if none of them exists, and gives the grant a
-- number: greater than every number in its registers, otherwise the one that
-- was proposed, unless that is behind this server's clock or too far ahead.
-- KEYS: the resources, then the node's hash.
-- ARGV: marker, token, TTL in ms, proposed number, skew in µs, registers.
-- Returns the number as text, or {value or false, PTTL} of a key that exists, or
-- {'quarantined', what is kept for the guard} if the node has not the marker.
local call, node, single = redis.call, KEYS[#KEYS], #KEYS == 2
local kept = redis.pcall('HMGET', node, 'admitted', 'highest', 'floor', ARGV[6], unpack(ARGV, 7))
if kept.err then
  return kept
end
if ARGV[1] ~= '' and kept[1] ~= ARGV[1] then
  return {'quarantined', unpack(call('HMGET', node, 'admitted', 'agreement', 'reserved'))}
end
for at = 1, #KEYS - 1 do
  local key = KEYS[at]
  -- One key is set where it is missing; of several, none before all are seen.
  if single and not call('SET', key, ARGV[2], 'NX', 'PX', ARGV[3])
    or not single and call('EXISTS', key) == 1 then
    local value = redis.pcall('GETRANGE', key, 0, 511)
    return {type(value) == 'string' and value, call('PTTL', key)}
  end
end
if not single then
  for at = 1, #KEYS - 1 do
    call('SET', KEYS[at], ARGV[2], 'PX', ARGV[3])
  end
end
local time = call('TIME')
local clock = time[1] * 1000000 + time[2]
-- Nearly always the proposal stands: its text is the number's.
local text, number = ARGV[4], tonumber(ARGV[4])
if number < clock then
  text, number = nil, clock
elseif number > clock + ARGV[5] then
  text, number = nil, clock + ARGV[5]
end
-- The floor is a number that no register is below.
for at = 3, #kept do
  if kept[at] and tonumber(kept[at]) >= number then
    text, number = nil, kept[at] + 1
  end
end
if number > 9007199254740991 then
  call('DEL', unpack(KEYS, 1, #KEYS - 1))
  return redis.error_reply('FENCE no number is left in a register of ' .. node)
end
-- Never tostring or `..` on a number: Lua prints 14 digits.
text = text or string.format('%.0f', number)
local highest = kept[2] and tonumber(kept[2]) >= number and kept[2] or text
for at = 6, #ARGV do
  call('HSET', node, ARGV[at], text, 'highest', highest)
end
return text
