-- Returns {how many wait in line for the key, {{ticket, owner's text or false}, …}}: the
-- first of them. See line.lua. What is no ticket is left out.
-- KEYS: the resource. ARGV: how many to tell.
local line = redis.pcall('GET', 'redlatch:line:' .. KEYS[1])
if type(line) ~= 'string' or #line % 37 ~= 0 then
  line = ''
end
local count, first = 0, {}
for at = 1, #line, 37 do
  local ticket = string.sub(line, at, at + 35)
  if string.match(ticket, '^%x+$') then
    count = count + 1
    if count <= tonumber(ARGV[1]) then
      local owner = redis.pcall('GETRANGE', 'redlatch:waiter:' .. string.sub(ticket, 17, 32), 0, 511)
      first[count] = {ticket, type(owner) == 'string' and owner ~= '' and owner}
    end
  end
end
return {count, first}
