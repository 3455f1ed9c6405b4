-- Returns, in quotes, the commands our scripts need that this user may not run; or
-- "unknown " and those that the server does not know (rename-command); or "keys" if
-- the user may run all of them, but not on our own keys.
-- Changes nothing: nobody uses the key, and the commands that would write are
-- malformed.
local key = 'redlatch:permissions'
local needed = {
  {'GET', key}, {'GETRANGE', key, 0, 0}, {'EXISTS', key}, {'PTTL', key}, {'DEL', key},
  {'SET', key, '', 'NX', 'XX'}, {'PEXPIRE', key, 'x'}, {'HMGET', key, 'x'}, {'HSET', key, 'x', 'y', 'z'},
  {'TIME'}, {'SELECT', 'x'},
}
local missing, unknown, denied = {}, {}, false
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
  -- "can't access at least one of the keys", "no permissions to access a key"
  denied = denied or string.find(err, 'access') ~= nil
end
if #unknown > 0 then
  return 'unknown ' .. table.concat(unknown, ', ')
end
if #missing == 0 and denied then
  return 'keys'
end
return table.concat(missing, ', ')
