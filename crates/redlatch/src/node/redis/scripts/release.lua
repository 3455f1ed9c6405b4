-- Deletes each key that holds the token. If somebody waits in line, reserves it for
-- the first of them instead, and wakes that client.
-- KEYS: the resources. ARGV: token, and what becomes of our own place, if any:
-- 'leave', ticket: takes it out of line, and passes on what is reserved for it;
-- 'wait', ticket: if the key was ours, puts it into line before the next is served;
-- 'pass', ticket: if the key was ours, reserves it for this ticket, and tells nobody.
-- Returns 1 if every key held the token, otherwise 0.
local released, lines = 0, nil
for at = 1, #KEYS do
  local key, does = KEYS[at], ARGV[2]
  -- A key of another type answers with an error, which is no token.
  local value = redis.pcall('GET', key)
  local ours, deleted = value == ARGV[1], 0
  -- Deletes first: a server that is out of memory then allows what follows. Usually
  -- nobody waits, and that is all there is to do.
  if ours then
    released = released + 1
    deleted = redis.call('DEL', key, 'redlatch:waits:' .. key)
  elseif does == 'leave' then
    deleted = redis.call('DEL', 'redlatch:waits:' .. key) + 1
  end
  -- A client that leaves has nothing to leave if nobody waits, unless the key is
  -- reserved for it.
  if ours and does == 'pass' and deleted == 1 then
    -- Nobody else waits. As `lines.reserve` does it.
    local patience = math.max(1, tonumber(string.sub(ARGV[3], 33, 36), 16))
    redis.call('SET', key, 'redlatch:next:' .. string.sub(ARGV[3], 1, 36), 'PX', patience)
    ours, does = false, nil
  end
  local waits = deleted == 2 or ours and (does == 'wait' or does == 'pass')
    or does == 'leave' and not ours and value ~= false
  if waits and not lines then
    -- include line.lua
  end
  if waits then
    local line = lines.read(key)
    if does == 'wait' then
      line = lines.join(line, lines.at_node(ARGV[3]))
    elseif does then
      line = lines.leave(line, ARGV[3])
    end
    if does == 'pass' then
      lines.reserve(key, ARGV[3])
      lines.write(key, line)
    elseif ours or lines.is_reserved_for(value, ARGV[3]) then
      lines.serve_next(key, line)
    else
      lines.write(key, line)
    end
  end
end
return released == #KEYS and 1 or 0
