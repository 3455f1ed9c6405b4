-- Sets `line` to the line for `key`. Anything but tickets is not ours: nobody waits.
local line = redis.pcall('GET', 'redlatch:line:' .. key)
line = type(line) == 'string' and #line % 37 == 0 and line or ''
