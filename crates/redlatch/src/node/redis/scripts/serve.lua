-- Reserves `key` for the first in `line` whose ticket counts and who hears of it, or
-- deletes it. Nobody hears for a client that is gone, or whose connection has just broken:
-- it keeps its place, and counts for 3 s unless it asks again (`UNHEARD_LIFE`). If we may
-- not PUBLISH, we cannot know.
-- The next in line waits for this. So it uses none of the functions of line.lua: making
-- them costs a server a third of what all of this does.
local unheard, served
for at = 1, #line, 37 do
  local ticket = string.sub(line, at, at + 35)
  local whose = 'redlatch:waiter:' .. string.sub(ticket, 17, 32)
  local channel = 'redlatch:wake:' .. string.sub(ticket, 17, 28)
  -- Nobody waits with what is no ticket of ours.
  local patience, owner = tonumber(string.sub(ticket, 33, 36), 16), redis.pcall('GET', whose)
  owner = patience and owner
  if owner and redis.pcall('PUBLISH', channel, ticket .. key) ~= 0 then
    redis.call('DEL', whose)
    -- The value is cut to what is read of it.
    local value = 'redlatch:next:' .. ticket
      .. (type(owner) == 'string' and owner ~= '' and '@' .. owner or '')
    redis.call('SET', key, string.sub(value, 1, 512), 'PX', math.max(1, patience))
    served = at
    break
  elseif owner then
    local left = redis.call('PTTL', whose)
    if left < 0 or left > 3000 then
      redis.call('PEXPIRE', whose, '3000')
    end
    unheard = unheard or {}
    unheard[#unheard + 1] = ticket .. ' '
  end
end
if not served then
  redis.call('DEL', key)
end
line = (unheard and table.concat(unheard) or '') .. (served and string.sub(line, served + 37) or '')
-- Of those who do not hear, none counts for longer, unless it asks again.
local life = served and '30000' or '3000'
-- include write.lua
