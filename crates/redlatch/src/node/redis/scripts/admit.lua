-- If the mark is there, and of the server's current run: makes every register count
-- from the floor on, and replaces the mark by the marker. Returns 1 or 0.
-- KEYS: the node's hash. ARGV: fingerprint, agreement, mark, floor or '', '1' if the
-- server may evict keys.
local node = KEYS[1]
local server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
local run = string.sub(string.match(server, '\nrun_id:(%x+)') or '', 1, 20)
  .. string.sub(string.match(replication, '\nmaster_replid:(%x+)') or '', 1, 20)
local evicted = string.match(redis.call('INFO', 'stats'), '\nevicted_keys:(%d+)')
if evicted and evicted ~= '0' and ARGV[5] ~= '1' then
  run = run .. '+' .. evicted
end
local guard, mark = ARGV[1], ARGV[3]
local kept = redis.call('HMGET', node, 'watched', 'reserved')
local free = not kept[2] or kept[2] == '' or kept[2] == guard
if kept[1] ~= mark or string.match(mark, '^(%S+) ') ~= run or not free then
  return 0
end
disown(node, guard, mark)
for _, name in ipairs({'floor', 'highest'}) do
  local is = redis.call('HMGET', node, name)[1]
  if ARGV[4] ~= '' and (not is or tonumber(is) < tonumber(ARGV[4])) then
    redis.call('HSET', node, name, ARGV[4])
  end
end
redis.call('HSET', node, 'admitted', run .. ' ' .. guard, 'agreement', ARGV[2],
  'reserved', '', 'watched', '')
return 1
