-- Returns what the server tells of itself, and its clock if we may ask for it:
-- {INFO, {seconds, microseconds} or false}.
local time = redis.pcall('TIME')
return {redis.call('INFO'), time[1] and time or false}
