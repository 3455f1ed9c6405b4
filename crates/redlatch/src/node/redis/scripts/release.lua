-- Deletes each key that holds the token. KEYS: the resources. ARGV: token.
-- Returns 1 if every key held it, otherwise 0.
local ours = 0
for _, key in ipairs(KEYS) do
  if redis.pcall('GET', key) == ARGV[1] then
    ours = ours + redis.call('DEL', key)
  end
end
return ours == #KEYS and 1 or 0
