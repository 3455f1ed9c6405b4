-- Sets a value, unless a greater fencing token was here before.
-- KEYS: the fence; then the value, or nothing to seal.
-- ARGV: the token in digits; then the value, or nothing to seal.
-- Returns the greatest token seen, in digits: if that is yours, you are in.
local token = tonumber(ARGV[1])
if not token or token < 1 or token >= 2 ^ 53 or token % 1 ~= 0 then
  return redis.error_reply('ERR a fencing token is a whole number from 1 to 2^53 - 1')
end
local greatest = redis.call('GET', KEYS[1])
-- What is not a number counts as greater: it is not for us to overwrite.
if greatest and not (tonumber(greatest) and tonumber(greatest) <= token) then
  return greatest
end
-- The fence first: should the server refuse the value, the fence holds.
local digits = string.format('%.0f', token)
redis.call('SET', KEYS[1], digits)
if KEYS[2] then
  redis.call('SET', KEYS[2], ARGV[2])
end
return digits
