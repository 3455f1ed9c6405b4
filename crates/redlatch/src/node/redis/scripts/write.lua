-- Keeps `line` as the line for `key`, for `life` ms.
if line == '' then
  redis.call('DEL', 'redlatch:line:' .. key, 'redlatch:waits:' .. key)
else
  redis.call('SET', 'redlatch:line:' .. key, line, 'PX', life)
  redis.call('SET', 'redlatch:waits:' .. key, '', 'PX', life)
end
