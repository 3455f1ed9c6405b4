-- Returns {how many wait in line for the key, {{ticket, owner's text or false}, …}}: the
-- first of them. See line.lua. What is no ticket is left out, and so is, of the first,
-- what does not count.
-- KEYS: the resource. ARGV: how many to tell.
local line = redis.pcall('GET', 'redlatch:line:' .. KEYS[1])
if type(line) ~= 'string' or #line % 37 ~= 0 then
  line = ''
end
local most, count, first = tonumber(ARGV[1]), 0, {}
for at = 1, #line, 37 do
  local ticket = string.sub(line, at, at + 35)
  if string.match(ticket, '^%x+$') then
    local told = count < most
    local owner = told and redis.pcall('GET', 'redlatch:waiter:' .. string.sub(ticket, 17, 32))
    if owner or not told then
      count = count + 1
    end
    if owner then
      owner = type(owner) == 'string' and owner ~= '' and string.sub(owner, 1, 512)
      first[count] = {ticket, owner}
    end
  end
end
return {count, first}
