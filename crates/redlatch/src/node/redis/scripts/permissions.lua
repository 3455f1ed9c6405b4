-- Returns, in quotes, what this user may not run of all that the scripts need; or
-- "unknown " and what the server does not know (rename-command).
-- Nothing is changed: the key is nobody's, and what would write is malformed.
-- Whether the user may touch the key does not matter here.
local key = 'redlatch:permissions'
local needed = {
  {'GET', key}, {'GETRANGE', key, 0, 0}, {'EXISTS', key}, {'PTTL', key}, {'DEL', key},
  {'SET', key, '', 'NX', 'XX'}, {'PEXPIRE', key, 'x'}, {'HMGET', key, 'x'}, {'HSET', key, 'x', 'y', 'z'},
  {'TIME'}, {'SELECT', 'x'},
}
local missing, unknown = {}, {}
for _, command in ipairs(needed) do
  local answer = redis.pcall(unpack(command))
  local name = "'" .. string.lower(command[1]) .. "'"
  local err = type(answer) == 'table' and answer.err or ''
  -- "can't run this command", "no permissions to run the 'get' command"
  if string.find(err, 'run th') then
    missing[#missing + 1] = name
  elseif string.find(err, 'nknown') then
    unknown[#unknown + 1] = name
  end
end
if #unknown > 0 then
  return 'unknown ' .. table.concat(unknown, ', ')
end
return table.concat(missing, ', ')
