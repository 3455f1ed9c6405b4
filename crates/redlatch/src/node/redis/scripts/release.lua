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
  local waits = deleted == 2 or ours and does == 'wait'
  if ours and does == 'pass' then
    local patience = math.max(1, tonumber(string.sub(ARGV[3], 33, 36), 16))
    redis.call('SET', key, 'redlatch:next:' .. string.sub(ARGV[3], 1, 36), 'PX', patience)
  elseif does == 'leave' and not ours then
    -- If nobody waits there is nothing to leave, unless the key is reserved for us.
    waits = waits or value ~= false
  end
  if waits then
    -- include read.lua
    local waiter = does and string.sub(ARGV[3], 17, 32)
    -- Whoever was served is no longer in line.
    if does == 'wait' or does and string.find(line, waiter, 1, true) then
      if not lines then
        -- include line.lua
      end
      if does == 'wait' then
        line = lines.join(line, lines.at_node(ARGV[3]))
      else
        line = lines.leave(line, ARGV[3])
      end
    end
    local is_ours_to_pass_on = does == 'leave' and type(value) == 'string'
      and string.sub(value, 1, 14) == 'redlatch:next:' and string.sub(value, 31, 46) == waiter
    if ours and does ~= 'pass' or is_ours_to_pass_on then
      -- include serve.lua
    else
      local life = '30000'
      -- include write.lua
    end
  end
end
return released == #KEYS and 1 or 0
