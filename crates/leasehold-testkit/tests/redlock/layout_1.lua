-- The lock script of layout 1, as its releases send it to a node.
--
-- What all scripts of a node share.
--
-- KEYS[1] is the lock of a mutex: a string, id:number:since:inscription, with
-- an expiry. Whatever else is stored there belongs to a stranger who locks by
-- the same rule: who sets the key has the lock.
-- KEYS[2] are readers and writer: a hash, id -> mode:number:since:ends:inscription.
-- KEYS[3] are the counters of the namespace: a hash.
--
-- An id has 32 digits: 20 of the ticket, 12 of the round. Rounds of one ticket
-- are different leases, and only its last round is still meant.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function digits(number)
  return string.format('%.0f', number)
end

-- Whether `other` is this lease, or an earlier round of its ticket.
local function past(other, id)
  return #other == 32 and string.sub(other, 1, 20) == string.sub(id, 1, 20)
    and tonumber(string.sub(other, 21), 16) <= tonumber(string.sub(id, 21), 16)
end

-- Number of the mutex, if this lease has it; what is stored there; whose it is.
local function mutex(id)
  local held = redis.call('GET', KEYS[1])
  if not held then return nil, nil, '' end
  local owner, number = string.match(held, '^(%x+):(%d+):')
  if owner == id then return number, held, owner end
  return nil, held, owner or ''
end

-- Readers and writer whose time is not over. What is written in any other way is
-- of another release: it is refused before anything is done.
local function tenants()
  local found, flat = {}, redis.call('HGETALL', KEYS[2])
  for i = 1, #flat, 2 do
    local mode, number, since, ends, text = string.match(flat[i + 1], '^(%a):(%d+):(%d+):(%d+):(.*)$')
    if not mode then error('LAYOUT of a reader or writer', 0) end
    if tonumber(ends) > now then
      found[flat[i]] = {mode = mode, number = number, since = since, ends = ends, text = text}
    else
      redis.call('HDEL', KEYS[2], flat[i])
    end
  end
  return found
end

-- Writes one of them, and lets the key live as long as the last of them.
local function settle(found, id, it)
  found[id] = it
  redis.call('HSET', KEYS[2], id, table.concat({it.mode, it.number, it.since, it.ends, it.text}, ':'))
  local last = 0
  for _, each in pairs(found) do last = math.max(last, tonumber(each.ends)) end
  redis.call('PEXPIREAT', KEYS[2], digits(last))
end
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

if mode == 'x' then
  if next(tenants()) then return {'kind', 'read-write lock', stamp} end
  local number, held, owner = mutex(id)
  if number then
    if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl) end
    return {'vote', number, stamp}
  end
  if held and not past(owner, id) then
    return {'busy', held, stamp, redis.call('PTTL', KEYS[1]), digits(now)}
  end
  number = draw()
  redis.call('SET', KEYS[1], table.concat({id, number, digits(now), ARGV[6]}, ':'), 'PX', ttl)
  return {'vote', number, stamp}
end

if redis.call('EXISTS', KEYS[1]) == 1 then return {'kind', 'mutex', stamp} end
local found = tenants()
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
local number = draw()
settle(found, id, {mode = mode, number = number, since = digits(now), ends = digits(now + ttl), text = ARGV[6]})
return {'vote', number, stamp}
