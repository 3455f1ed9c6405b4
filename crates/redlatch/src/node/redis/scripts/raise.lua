-- Moves every register to the number, or to the greatest of them if that is
-- more, if all keys hold the token.
-- KEYS: the resources, then the node's hash. ARGV: token, number, registers.
-- Returns the number the registers have now, as text, or 0.
local node = KEYS[#KEYS]
for at = 1, #KEYS - 1 do
  if redis.pcall('GET', KEYS[at]) ~= ARGV[1] then
    return 0
  end
end
local greatest = ARGV[2]
for _, register in ipairs(redis.call('HMGET', node, unpack(ARGV, 3))) do
  if register and tonumber(register) > tonumber(greatest) then
    greatest = register
  end
end
for at = 3, #ARGV do
  redis.call('HSET', node, ARGV[at], greatest)
end
return greatest
