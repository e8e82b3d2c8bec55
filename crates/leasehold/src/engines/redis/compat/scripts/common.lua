-- What the scripts of borrowed layouts share. The lock itself is in the keys of
-- its own software; beside it lie two keys of ours:
--   card     hash: lease id -> "fence since text", and the last fence
--   waiting  sorted set: "lease id, text" by the moment it is forgotten
-- `text` is mode, label and meta, which only the client reads.
local lock, card, waiting, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, ttl, say = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local take, of, queue_wait = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local wait, text, place = tonumber(ARGV[7]), ARGV[8], ARGV[9]

local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
-- How long a card outlives its last lease: fences grow by more than the clock.
local linger = 60000

local function digits(number)
  return string.format('%.0f', number)
end

-- Makes a key last for `span` at least, and says how long it lasts.
local function keep(key, span)
  local left = redis.call('PTTL', key)
  if left >= span then return left end
  redis.call('PEXPIRE', key, span)
  return span
end

local function publish(to, message)
  if say == 'BOTH' then
    redis.call('PUBLISH', to, message)
    redis.call('SPUBLISH', to, message)
  elseif say ~= '' then
    redis.call(say, to, message)
  end
end

-- What the name is in use as, to those who want it as something else.
local function other(what)
  return {-1, what}
end

-- The lease is ours, for `left`. A claim that is repeated keeps its fence.
local function granted(mine, alone, left, fence)
  local known = mine and redis.call('HGET', card, id)
  if known then
    fence = fence or tonumber(string.match(known, '^%d+'))
  else
    fence = fence or math.max(tonumber(redis.call('HGET', card, 'fence') or 0) + 1, micros)
    if alone then redis.call('DEL', card) end
    local entry = digits(fence) .. ' ' .. digits(now) .. ' ' .. text
    redis.call('HSET', card, 'fence', digits(fence), id, entry)
  end
  keep(card, left + linger)
  if wait > 0 then redis.call('ZREM', waiting, place) end
  return {1, digits(fence), left}
end

-- It is not ours; ask again after `left`. `holder` is the id of one who has it.
local function busy(left, holder, holder_left)
  if wait > 0 then
    redis.call('ZADD', waiting, now + wait, place)
    redis.call('ZREMRANGEBYSCORE', waiting, '-inf', now)
    keep(waiting, wait)
  end
  return {0, left, holder and redis.call('HGET', card, holder) or '', holder or '', holder_left or left}
end

-- Forgets a lease; what is left of the card lingers a little.
local function leave(who)
  redis.call('HDEL', card, who)
  if redis.call('HLEN', card) == 1 then redis.call('PEXPIRE', card, linger) end
end

-- Leaves the line; whether it stood there.
local function step_out()
  return place ~= '' and redis.call('ZREM', waiting, place) == 1
end

-- Those who wait and still look again now and then.
local function line()
  return redis.call('ZRANGEBYSCORE', waiting, '(' .. digits(now), '+inf')
end

-- Whether an eviction aims at a holder: `id` says what it goes by, `text` which.
local function aimed_at(holder)
  if id == 'all' then return true end
  if id == 'lease' then return holder[2] == text end
  return id == 'fence' and string.match(holder[1], '^%d+') == text
end

-- One holder as shown: entry on the card, id, how long it has, its mode.
local function shown(who, left, mode)
  return {redis.call('HGET', card, who) or '', who, left, mode}
end
