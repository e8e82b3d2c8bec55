-- What the scripts of leases and of records share: numbers that only grow, and
-- records.

local PUBLISH = ARGV[1]

local max, min = math.max, math.min
local pack, unpacked = cmsgpack.pack, cmsgpack.unpack

-- What is stored. That of another layout than ours begins with a byte that
-- nothing packed begins with, and its number; it is nobody's to read or change.
local function check_layout(packed)
  if string.byte(packed) == 193 then error('LAYOUT ' .. tostring(string.byte(packed, 2)), 0) end
end

local function opened(packed)
  check_layout(packed)
  return unpacked(packed)
end

-- Before a value is written over that nobody has asked for.
local function spare(key)
  local there = redis.pcall('GET', key)
  if type(there) == 'string' then check_layout(there) end
end

-- A whole number, in all its digits.
local function text(number)
  return string.format('%.0f', number)
end

-- As in the quick part: larger than all before.
local function draw()
  count = max(count + 1, micros)
  return count
end

-- What came of one verb. What goes wrong with it is its own matter: the other
-- verbs of the call are served all the same, and none is ever sent twice. A
-- server that takes no writes says so at the first of them, to the whole call.
local function outcome(done, answer)
  if done then return answer end
  local why = tostring(type(answer) == 'table' and answer.err or answer)
  for _, word in ipairs({ 'READONLY', 'MISCONF', 'NOREPLICAS' }) do
    if string.find(why, word, 1, true) then return nil, string.match(why, word .. '[^\r\n]*') end
  end
  return '!' .. why
end

-- Writes a value, and tells those who watch.
local function put_value(key, channel, name, value, ttl, lease, id)
  local version = draw()
  local packed = pack({ version, value, lease or false, id or false })
  if ttl > 0 then
    redis.call('SET', key, packed, 'PX', ttl)
  else
    redis.call('SET', key, packed)
  end
  redis.call(PUBLISH, channel, pack({ name, version, value }))
  return version
end

-- Writes a value, packed already, that nobody lists or watches.
local function file(key, value, ttl)
  local version = draw()
  local packed = '\148\207' .. struct.pack('>I8', version) .. value .. '\194\194'
  redis.call('SET', key, packed, 'PX', ttl)
  return version
end

-- Tells those who watch that a record has ended.
local function tell_end(channel, name, version)
  redis.call(PUBLISH, channel, pack({ name, version }))
end

-- Writes or deletes a record. `keys` are its own, the index of records, and what
-- ends by itself. The lease that it goes with has so much time left.
local function write(keys, channel, name, value, ttl, lease, id, left)
  if not value then
    local version = draw()
    if redis.call('DEL', keys[1]) == 1 then tell_end(channel, name, version) end
    redis.call('ZREM', keys[2], name)
    redis.call('ZREM', keys[3], name)
    return version
  end
  redis.call('ZADD', keys[2], '0', name)
  if ttl > 0 or lease then
    redis.call('ZADD', keys[3], now + min(ttl > 0 and ttl or left, left or ttl), name)
  else
    redis.call('ZREM', keys[3], name)
  end
  return put_value(keys[1], channel, name, value, ttl, lease, id)
end

