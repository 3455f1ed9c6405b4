-- Sets every key to the token, if none of them exists. A key that is reserved for our
-- ticket, or for a later one, does not count; the later one is back in line. With a
-- ticket, joins the line for the first key that exists if it is refused.
-- KEYS: the resources, then the node's hash.
-- ARGV: marker, token, TTL in ms, our ticket or '' (with '+' if it may be in line
-- already), '1' to plant a held lease again: that overtakes nobody and joins no line.
-- Returns 1, or {value or false, PTTL, how many are ahead if it joined} of the first
-- key that exists, or {'quarantined', the ledger} if the node lacks the marker.
-- A lease is planted also on a node that is quarantined and marked, but not on one that
-- serves others (`Ledger::refusal`).
local call, KEYS, ARGV = redis.call, KEYS, ARGV -- faster than globals
local node, single = KEYS[#KEYS], #KEYS == 2
local plants = ARGV[5] == '1'
if ARGV[1] ~= '' then
  local kept = call('HMGET', node, 'admitted', 'agreement', 'reserved', 'watched')
  local run, ours = string.match(ARGV[1], '^(%S+) (%x+)$')
  -- Whom it serves: by its last marker, by an operator, or else by its mark.
  local served = string.match(kept[1] or '', ' (%x+)$') or kept[3] or ''
  local since, by = string.match(kept[4] or '', '^(%S+) .* (%x+)$')
  local out = since == run and (served ~= '' and served or by) == ours
  if kept[1] ~= ARGV[1] and not (out and plants) then
    return {'quarantined', unpack(kept)}
  end
end
local place = ARGV[4] or ''
-- include held.lua
-- include settle.lua
return 1
