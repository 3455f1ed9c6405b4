-- Carries out what a client has ready in one turn: takes, extensions and releases of
-- single resources, in order. Each is answered as if its own script had been called; an
-- error is the answer to one command and stops no other.
-- KEYS: the node's hash. Names are no KEYS: a user who may not access one of them is
-- refused only that.
-- ARGV: marker or '', skew in µs, how many commands are fenced, the register of each of
-- those, all different. Then runs of commands of one kind: kind, how many, TTL in ms or
-- '', for 'take_fenced' the number that they propose, and each of them:
--   'take', 'take_fenced': name, token, place
--   'extend': name, token
--   'extend_fenced': name, token, number
--   'release': name, token
--   'leave', 'wait', 'pass': name, token, ticket
-- Returns the answers.
local call, try, ARGV, node = redis.call, redis.pcall, ARGV, KEYS[1]
local marker, skew, at = ARGV[1], ARGV[2] + 0, 4 + ARGV[3]

-- What the node keeps, read once: its marker, the highest number, the floor, and from
-- `kept[4]` on the registers that are named from `ARGV[4]` on.
local kept = (marker ~= '' or at > 4)
  and try('HMGET', node, 'admitted', 'highest', 'floor', unpack(ARGV, 4, at - 1)) or {}
local may_vote = not kept.err and (marker == '' or kept[1] == marker)
local highest, floor = (kept[2] or 0) + 0, (kept[3] or -1) + 0
local fenced, writes, answers, clock, spelled = 3, {}, {}, nil, nil
if at > 4 then
  local time = call('TIME')
  clock = time[1] * 1000000 + time[2]
end

-- The error if we may not access a key. One of another type is merely not ours.
local function forbids(value)
  return type(value) == 'table' and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' and value
end

-- What is not done below, by the command's own script.
local function alone(kind, KEYS, ARGV)
  if kind == 'take' then
    -- include take.lua
  elseif kind == 'extend' then
    -- include extend.lua
  elseif kind == 'serve' then
    local key, leaves = KEYS[1], ARGV[1]
    -- include read.lua
    if leaves and string.find(line, string.sub(leaves, 17, 32), 1, true) then
      local lines
      -- include line.lua
      line = lines.leave(line, leaves)
    end
    -- include serve.lua
    return 1
  else
    -- include release.lua
  end
end
-- Returns its answer or its error.
local function by_itself(kind, keys, arguments)
  local went, answer = pcall(alone, kind, keys, arguments)
  -- Servers before 7 raise the text alone.
  return went and answer or {err = type(answer) == 'table' and answer.err or answer}
end

while ARGV[at] do
  local kind, ttl, last = ARGV[at], ARGV[at + 2], #answers + ARGV[at + 1]
  local proposal = kind == 'take_fenced' and ARGV[at + 3]
  local proposed = proposal and proposal + 0
  at = at + (proposal and 4 or 3)
  for command = #answers + 1, last do
    local name, token, answer = ARGV[at], ARGV[at + 1], nil
    if kind == 'release' or kind == 'leave' then
      local ticket = kind == 'leave' and ARGV[at + 2] or nil
      at, answer = at + (ticket and 3 or 2), try('GET', name)
      if answer == token then
        -- Usually nobody waits, and that is all there is to do.
        answer = try('DEL', name, 'redlatch:waits:' .. name)
        answer = answer == 2 and by_itself('serve', {name}, {ticket}) or answer
      else
        answer = forbids(answer)
          or ticket and by_itself('release', {name}, {token, kind, ticket}) or 0
      end
    elseif kind == 'take_fenced' or kind == 'take' then
      local place = ARGV[at + 2]
      at, fenced = at + 3, fenced + (proposed and 1 or 0)
      if kept.err and (proposed or marker ~= '') then
        answer = kept
      else
        -- Whoever may be in line usually finds the key reserved, and else leaves the line.
        answer = may_vote and #place <= 36 and try('SET', name, token, 'NX', 'PX', ttl)
          or by_itself('take', {name, node}, {may_vote and '' or marker, token, ttl, place})
      end
      if answer == 1 or answer.ok then
        answer = 1
        if proposed then
          local from, to = fenced, fenced
          -- include number.lua
          if text then
            answer = text
            writes[#writes + 1] = ARGV[fenced]
            writes[#writes + 1] = text
            highest = number > highest and number or highest
          else
            call('DEL', name)
            answer = redis.error_reply('FENCE no number is left in a register of ' .. node)
          end
        end
      end
    elseif kind == 'extend' or kind == 'extend_fenced' then
      local text = kind == 'extend_fenced' and ARGV[at + 2]
      at, fenced = at + (text and 3 or 2), fenced + (text and 1 or 0)
      answer = kept.err and (text or marker ~= '') and kept or forbids(try('GET', name))
        or by_itself('extend', {name, node}, {may_vote and '' or marker, token, ttl})
      if answer == 1 and text and (not kept[fenced] or kept[fenced] + 0 < text + 0) then
        writes[#writes + 1] = ARGV[fenced]
        writes[#writes + 1] = text
        highest = text + 0 > highest and text + 0 or highest
      end
    else
      local ticket = ARGV[at + 2]
      at, answer = at + 3, forbids(try('GET', name))
        or by_itself('release', {name}, {token, kind, ticket})
    end
    answers[command] = answer
  end
end
if writes[1] then
  writes[#writes + 1] = 'highest'
  writes[#writes + 1] = string.format('%.0f', highest)
  -- Fails only if no other command has written anything: all may be told.
  local written = try('HSET', node, unpack(writes))
  if type(written) == 'table' then
    return written
  end
end
return answers
