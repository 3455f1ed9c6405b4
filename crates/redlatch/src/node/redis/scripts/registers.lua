-- Tells all fencing registers that have ever moved: "register number …".
-- KEYS: the node's hash. ARGV: how many registers there are.
local found = {}
for first = 0, ARGV[1] - 1, 1024 do
  local names = {}
  for at = 1, 1024 do
    names[at] = first + at - 1
  end
  for at, number in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
    if number then
      found[#found + 1] = names[at]
      found[#found + 1] = number
    end
  end
end
return table.concat(found, ' ')
