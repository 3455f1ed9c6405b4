-- Sets a value unless a greater fencing token came first.
-- KEYS: the fence; then the value, or nothing to seal.
-- ARGV: the token in decimal; then the value, or nothing to seal.
-- Returns the greatest token seen, in decimal. If it is yours, it was accepted.
-- An error means that nothing was written.
local function number(digits)
  local found = string.find(digits, '^%d+$') and tonumber(digits)
  return found and found >= 1 and found < 2 ^ 53 and found
end
local function holds(key)
  return 'holds a ' .. redis.call('TYPE', key).ok
end
local token = number(ARGV[1])
if not token then
  return redis.error_reply('ERR a fencing token is a whole number from 1 to 2^53 - 1')
end
if KEYS[1] == KEYS[2] then
  return redis.error_reply('BADVALUE is also the key of the fence: it needs a key of its own')
end
local greatest = redis.pcall('GET', KEYS[1])
if type(greatest) == 'table' then
  local wrong = string.find(greatest.err, 'WRONGTYPE', 1, true)
  return wrong and redis.error_reply('BADFENCE ' .. holds(KEYS[1])) or greatest
end
if greatest then
  local seen = number(greatest)
  -- Anything that is not a token counts as greater: never overwrite it.
  if not seen or seen > token then
    return greatest
  end
end
if KEYS[2] then
  local head = redis.pcall('GETRANGE', KEYS[2], 0, 40)
  if type(head) == 'table' then
    local wrong = string.find(head.err, 'WRONGTYPE', 1, true)
    return wrong and redis.error_reply('BADVALUE ' .. holds(KEYS[2])) or head
  end
  -- The format of a lock's value.
  if #head == 41 and string.find(head, '^%x+@$') and redis.call('PTTL', KEYS[2]) > 0 then
    return redis.error_reply('BADVALUE holds a lock: the value needs another name than the lock')
  end
end
-- The fence first: if the server then refuses the value, the fence still holds.
local digits = string.format('%.0f', token)
redis.call('SET', KEYS[1], digits)
if KEYS[2] then
  redis.call('SET', KEYS[2], ARGV[2])
end
return digits
