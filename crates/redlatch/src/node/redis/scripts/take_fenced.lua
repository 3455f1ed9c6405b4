-- Sets every key to the token, if none of them exists, and gives the grant a number:
-- the proposed one, clamped to this server's clock and the clock plus the skew, or one
-- more than the greatest in its registers if that is greater.
-- A key that is reserved for our ticket, or for a later one, does not count; the later
-- one is back in line. With a ticket, joins the line for the first key that exists if
-- it is refused.
-- KEYS: the resources, then the node's hash.
-- ARGV: marker, token, TTL in ms, proposed number, skew in µs, our ticket or '' (with
-- '+' if it may be in line already), registers.
-- Returns the number as text, or {value or false, PTTL, how many are ahead if it
-- joined} of the first key that exists, or {'quarantined', the ledger} if the node
-- lacks the marker.
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- faster than globals
local node, single = KEYS[#KEYS], #KEYS == 2
local kept = redis.pcall('HMGET', node, 'admitted', 'highest', 'floor', ARGV[7], unpack(ARGV, 8))
if kept.err then
  return kept
end
if ARGV[1] ~= '' and kept[1] ~= ARGV[1] then
  return {'quarantined', unpack(call('HMGET', node, 'admitted', 'agreement', 'reserved'))}
end
local place, plants = ARGV[6], false
-- include held.lua
-- include settle.lua
local time = call('TIME')
local clock, skew, floor = time[1] * 1000000 + time[2], ARGV[5] + 0, (kept[3] or -1) + 0
local proposal, proposed, spelled, from, to = ARGV[4], ARGV[4] + 0, nil, 4, #kept
-- include number.lua
if not text then
  call('DEL', unpack(KEYS, 1, #KEYS - 1))
  return redis.error_reply('FENCE no number is left in a register of ' .. node)
end
local highest = kept[2] and tonumber(kept[2]) >= number and kept[2] or text
for at = 7, #ARGV do
  call('HSET', node, ARGV[at], text, 'highest', highest)
end
return text
