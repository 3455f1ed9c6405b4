-- If all keys hold the token, moves every register to the number, or to the greatest
-- of them if that is more.
-- KEYS: the resources, then the node's hash. ARGV: marker, token, number, registers.
-- Returns the number the registers have now, as text, or 0, or
-- {'quarantined', the ledger} if the node lacks the marker.
local node = KEYS[#KEYS]
local kept = redis.call('HMGET', node, 'admitted', 'highest', 'floor', unpack(ARGV, 4))
if ARGV[1] ~= '' and kept[1] ~= ARGV[1] then
  return {'quarantined', unpack(redis.call('HMGET', node, 'admitted', 'agreement', 'reserved'))}
end
for at = 1, #KEYS - 1 do
  if redis.pcall('GET', KEYS[at]) ~= ARGV[2] then
    return 0
  end
end
local greatest = ARGV[3]
for at = 3, #kept do
  if kept[at] and tonumber(kept[at]) > tonumber(greatest) then
    greatest = kept[at]
  end
end
local highest = kept[2] and tonumber(kept[2]) > tonumber(greatest) and kept[2] or greatest
for at = 4, #ARGV do
  redis.call('HSET', node, ARGV[at], greatest, 'highest', highest)
end
return greatest
