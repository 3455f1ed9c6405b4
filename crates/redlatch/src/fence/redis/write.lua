-- Sets a value, unless a greater fencing token was here before.
-- KEYS: the fence; then the value, or nothing to seal.
-- ARGV: the token in digits; then the value, or nothing to seal.
-- Returns the greatest token seen, in digits: if that is yours, you are in.
local function number(digits)
  return string.find(digits, '^%d+$') and tonumber(digits)
end
local token = number(ARGV[1])
if not token or token < 1 or token >= 2 ^ 53 then
  return redis.error_reply('ERR a fencing token is a whole number from 1 to 2^53 - 1')
end
local greatest = redis.call('GET', KEYS[1])
if greatest then
  local seen = number(greatest)
  -- What is not a number counts as greater: it is not for us to overwrite.
  if not seen or seen > token then
    return greatest
  end
end
-- The fence first: should the server refuse the value, the fence holds.
local digits = string.format('%.0f', token)
redis.call('SET', KEYS[1], digits)
if KEYS[2] then
  redis.call('SET', KEYS[2], ARGV[2])
end
return digits
