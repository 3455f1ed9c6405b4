-- The number of a fenced grant: the proposed one, clamped to this server's clock and the
-- clock plus the skew, or one more than the floor or its registers if that is greater.
-- Included where `proposed`, `skew`, `clock` and `kept` are known: the floor is
-- `kept[3]`, the registers are `kept[from]` to `kept[to]`. Gives `number`, and as text
-- `text`, which is nil if no number is left.
local text, number = proposed, proposed + 0
if number < clock then
  text, number = nil, clock
elseif number > clock + skew then
  text, number = nil, clock + skew
end
if kept[3] and kept[3] + 0 >= number then
  text, number = nil, kept[3] + 1
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
  text = string.format('%.0f', number)
end
if not kept[2] then
  -- The first number here. A server searches a hash from end to end while it is small
  -- and has no value as long as this.
  call('HSET', node, 'about', 'Fencing registers of https://crates.io/crates/redlatch, and what admits this server')
end
