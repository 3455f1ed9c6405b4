-- The line for a key: who waits for it, in order. Included by take, take_fenced and
-- release where they need `lines`: an uncontended lock pays nothing for it. Whoever joins at
-- the end of a line and whoever is served from its front do without: see join and serve.
-- A line is one string, `redlatch:line:<resource>`: tickets in order, each followed by
-- a space. A ticket is 36 hex digits: 16 for the arrival in µs, 16 for the waiter (12
-- for its client, 4 for its line), 4 for the patience in ms.
-- While there is a line there is also `redlatch:waits:<resource>`, so that a release
-- finds out by the DEL that it needs anyway.
-- While a ticket counts, there is also `redlatch:waiter:<waiter>`, with the owner's text
-- for people. What is reserved for it carries that along.
lines = {}

function lines.read(key)
  -- include read.lua
  return line
end

-- Keeps the line for 30 s from now (`LINE_LIFE`).
function lines.write(key, line)
  local life = '30000'
  -- include write.lua
end

-- How many are ahead of the waiter; nil if it is not in line.
local function ahead(line, ticket)
  local waiter, found = string.sub(ticket, 17, 32), 0
  repeat
    found = string.find(line, waiter, found + 1, true)
  until not found or found % 37 == 17
  return found and (found - 17) / 37
end

-- Not `<`: that compares by the server's locale.
local function is_before(ticket, other)
  for at = 1, 36 do
    local digit, its = string.byte(ticket, at), string.byte(other, at)
    if digit ~= its then
      return digit < its
    end
  end
  return false
end

local function owner_key(ticket)
  return 'redlatch:waiter:' .. string.sub(ticket, 17, 32)
end

-- Remembers who waits with this ticket, which counts for 30 s from now (`TICKET_LIFE`).
local function sign(ticket, owner)
  redis.call('SET', owner_key(ticket), owner or '', 'PX', '30000')
end

-- Returns the line without the tickets that end at this byte and do not count, and where
-- the one before them ends.
local function without_dead(line, to)
  local from = to
  while from > 0
    and redis.pcall('EXISTS', owner_key(string.sub(line, from - 36, from - 1))) == 0 do
    from = from - 37
  end
  return from == to and line or string.sub(line, 1, from) .. string.sub(line, to + 1), from
end

-- The owner's text in the token that this script was given: see `Token`.
local function our_owner()
  for _, argument in ipairs(ARGV) do
    if select(2, string.find(argument, '^%x+@')) == 41 then
      return string.sub(argument, 42)
    end
  end
end

-- Returns the line with the ticket, unless its waiter is in it, and how many are ahead.
local function insert(line, ticket)
  local already = ahead(line, ticket)
  if already then
    return line, already
  end
  local at = #line
  while at > 0 and is_before(ticket, string.sub(line, at - 36, at - 1)) do
    at = at - 37
  end
  return string.sub(line, 1, at) .. ticket .. ' ' .. string.sub(line, at + 1), at / 37
end

-- The same for one whose client has just asked. Drops tickets that do not count: those
-- just ahead of it, and the last in line (`Line::join_the_living`).
local function insert_signed(line, ticket, owner)
  sign(ticket, owner)
  local at
  line, at = insert(line, ticket)
  if (at + 1) * 37 < #line then
    line = without_dead(line, #line)
  end
  line, at = without_dead(line, at * 37)
  return line, at / 37
end

-- The same for a ticket of ours.
function lines.join(line, ticket)
  return insert_signed(line, ticket, our_owner())
end

-- Returns the line without the ticket's waiter.
function lines.leave(line, ticket)
  local at = ahead(line, ticket)
  if not at then
    return line
  end
  redis.call('DEL', owner_key(ticket))
  return string.sub(line, 1, at * 37) .. string.sub(line, at * 37 + 38)
end

-- The ticket, brought within a second of this server's clock (`Ticket::at_node`).
function lines.at_node(ticket)
  local time, arrived = redis.call('TIME'), tonumber(string.sub(ticket, 1, 16), 16)
  local clock = time[1] * 1000000 + time[2]
  local near = math.max(clock - 1000000, math.min(clock + 1000000, arrived))
  return (near == arrived and string.sub(ticket, 1, 16) or string.format('%016x', near))
    .. string.sub(ticket, 17, 36)
end

local function is_ticket(text)
  return #text == 36 and string.match(text, '^%x+$')
end

-- The ticket for which a key with this value is reserved, and its owner's text or ''.
local function reserved(value)
  local ticket, owner = string.match(type(value) == 'string' and value or '',
    '^redlatch:next:(%x+)@?(.*)$')
  if ticket and is_ticket(ticket) and (#value == 50 or string.sub(value, 51, 51) == '@') then
    return ticket, owner
  end
end

local function is_same_waiter(ticket, other)
  return string.sub(ticket, 17, 32) == string.sub(other, 17, 32)
end

-- Whether no key from `first` on stops the ticket: each is missing, reserved for its
-- waiter or, if it may overtake, for a later ticket. Those are back in line then.
local function makes_room(first, ticket, may_overtake)
  local later = {}
  for at = first, #KEYS - 1 do
    if redis.call('EXISTS', KEYS[at]) == 1 then
      local other, owner = reserved(redis.pcall('GETRANGE', KEYS[at], '0', '511'))
      if not other then
        return false
      elseif not is_same_waiter(other, ticket) then
        if not (may_overtake and is_before(ticket, other)) then
          return false
        end
        later[KEYS[at]] = {other, owner}
      end
    end
  end
  for key, other in pairs(later) do
    lines.write(key, (insert_signed(lines.read(key), unpack(other))))
  end
  return true
end

-- For a take that found the key at `first`: whether it may set the keys all the same.
-- If not, and unless it plants or the key is its own, it joins the line and adds to its
-- answer how many are ahead.
function lines.admits(first, place, plants, answer)
  local key, ticket = KEYS[first], lines.at_node(place)
  if makes_room(first, ticket, not plants) then
    return true
  end
  if not plants and answer[1] ~= ARGV[2] then
    local line, ahead = lines.join(lines.read(key), ticket)
    lines.write(key, line)
    answer[3] = ahead
  end
  return false
end

-- Takes the ticket out of every key's line.
function lines.leave_all(ticket)
  for at = 1, #KEYS - 1 do
    local line = lines.read(KEYS[at])
    local rest = lines.leave(line, ticket)
    if rest ~= line then
      lines.write(KEYS[at], rest)
    end
  end
end
