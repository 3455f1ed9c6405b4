-- The number of a fenced grant: the proposed one, clamped to this server's clock and the
-- clock plus the skew, or one more than the floor or its registers if that is greater.
-- Included where the text `proposal` and the numbers `proposed`, `skew`, `clock` and
-- `floor` are known, and `spelled`, the clock as text, if it was needed before; the
-- registers are `kept[from]` to `kept[to]`. Gives `number`, and as text `text`, which is
-- nil if no number is left.
local text, number = proposal, proposed
if number < clock then
  text, number = nil, clock
elseif number > clock + skew then
  text, number = nil, clock + skew
end
if floor >= number then
  text, number = nil, floor + 1
end
for at = from, to do
  if kept[at] and kept[at] + 0 >= number then
    text, number = nil, kept[at] + 1
  end
end
if number > 9007199254740991 then
  text = nil
elseif not text then
  -- Never use tostring or `..` on a number: Lua prints 14 digits.
  text = number == clock and spelled or string.format('%.0f', number)
  spelled = number == clock and text or spelled
end
if not kept[2] then
  -- The first number here. A server searches a hash from end to end while it is small
  -- and has no value as long as this.
  call('HSET', node, 'about', 'Fencing registers of https://crates.io/crates/redlatch, and what admits this server')
end
