-- Returns, in quotes, what this user may not run of all that the scripts need.
-- Nothing is changed: the key is nobody's, and what would write is malformed.
-- Whether the user may touch the key does not matter here.
local key = 'redlatch:permissions'
local needed = {
  {'GET', key}, {'GETRANGE', key, 0, 0}, {'EXISTS', key}, {'PTTL', key}, {'DEL', key},
  {'SET', key, '', 'NX', 'XX'}, {'PEXPIRE', key, 'x'}, {'HMGET', key, 'x'}, {'HSET', key, 'x', 'y', 'z'},
  {'TIME'},
}
local missing = {}
for _, command in ipairs(needed) do
  local answer = redis.pcall(unpack(command))
  -- "can't run this command", "no permissions to run the 'get' command"
  if type(answer) == 'table' and answer.err and string.find(answer.err, 'run th') then
    missing[#missing + 1] = "'" .. string.lower(command[1]) .. "'"
  end
end
return table.concat(missing, ', ')
