-- Whether a lease with this label is held, and as what: the number of its mode,
-- or 0. KEYS are the summary and the details of a name.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local text = redis.call('GET', KEYS[1])
if not text then return 0 end
local form = string.sub(text, 1, 1)
if form == 'P' or form == 'Q' then
  local more = cmsgpack.unpack(string.sub(text, 58))
  return more[2] == ARGV[1] and struct.unpack('>I8', text, 2) > now and more[1] or 0
end
local function mode(seat)
  return seat and seat[5] == ARGV[1] and seat[11] > now and seat[2]
end
local sole = mode(cmsgpack.unpack(text)[1])
if sole then return sole end
local all = redis.call('HGETALL', KEYS[2])
for at = 1, #all, 2 do
  local held = string.sub(all[at], 1, 1) == 'h' and mode(cmsgpack.unpack(all[at + 1]))
  if held then return held end
end
return 0
