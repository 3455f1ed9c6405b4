-- A database hidden by SWAPDB must not come back: it has forgotten everything written
-- here meanwhile. A marker or mark of the same agreement in another database is
-- removed, unless the user may not access it. `mark` is the one in ours.
local function disown(node, guard, mark)
  local ours, at = nil, 0
  while not redis.pcall('SELECT', at).err do
    local there = redis.pcall('HMGET', node, 'watched', 'admitted')
    if there[1] == mark then
      ours = at
    elseif string.match(there[2] or '', ' (%x+)$') == guard
      or string.match(there[1] or '', ' (%x+)$') == guard then
      redis.call('HSET', node, 'admitted', '', 'watched', '')
    end
    at = at + 1
  end
  if ours then
    redis.call('SELECT', ours)
  end
end
