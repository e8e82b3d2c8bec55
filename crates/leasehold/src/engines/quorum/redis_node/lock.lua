-- id, mode (x, r, w), ttl, floor, counter, inscription, quarantine in seconds
local id, mode, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local stamp = digits(time[1] * 1000000 + time[2])

-- A node that has just started may have forgotten leases that still run.
local age = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%-?%d+)'))
if age < tonumber(ARGV[7]) then return {'young', tostring(age), stamp} end

local function draw()
  local last = redis.call('HGET', KEYS[3], ARGV[5])
  local floor = tonumber(ARGV[4])
  -- New, or lost: then the clock has to tell what is above all before.
  if not last then floor = math.max(floor, tonumber(stamp)) end
  local number = digits(math.max(tonumber(last or 0) + 1, floor))
  redis.call('HSET', KEYS[3], ARGV[5], number)
  return number
end

local number, held, owner = mutex(id)
local found = tenants()
-- Whoever has it is not to be understood.
if other_layout then return {'layout', other_layout, stamp} end

if mode == 'x' then
  if next(found) then return {'kind', 'read-write lock', stamp} end
  if number then
    if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl) end
    return {'vote', number, stamp}
  end
  if held and not past(owner, id) then
    return {'busy', held, stamp, redis.call('PTTL', KEYS[1]), digits(now)}
  end
  number = draw()
  redis.call('SET', KEYS[1], marked(id, number, digits(now), ARGV[6]), 'PX', ttl)
  return {'vote', number, stamp}
end

if held then return {'kind', 'mutex', stamp} end
local mine = found[id]
if mine then
  mine.ends = digits(math.max(tonumber(mine.ends), now + ttl))
  settle(found, id, mine)
  return {'vote', mine.number, stamp}
end
for other, it in pairs(found) do
  if past(other, id) then
    redis.call('HDEL', KEYS[2], other)
    found[other] = nil
  elseif mode == 'w' or it.mode == 'w' or past(id, other) then
    local shown = table.concat({other, it.number, it.since, it.text}, ':')
    return {'busy', shown, stamp, tonumber(it.ends) - now, digits(now)}
  end
end
number = draw()
settle(found, id, {mode = mode, number = number, since = digits(now), ends = digits(now + ttl), text = ARGV[6]})
return {'vote', number, stamp}
