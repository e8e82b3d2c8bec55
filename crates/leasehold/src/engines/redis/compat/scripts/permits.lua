-- An expirable semaphore: how many permits are free, and for each that is taken
-- an id of 16 bytes by the moment it comes back. Several of one lease are
-- numbered in the last four bytes.
local taken = KEYS[5]
local never = 922337203685477

local function bytes(uuid)
  local hex = string.gsub(uuid, '-', '')
  return (string.gsub(hex, '..', function(pair) return string.char(tonumber(pair, 16)) end))
end

local function uuid(permit)
  local hex = string.gsub(permit, '.', function(c) return string.format('%02x', string.byte(c)) end)
  return (string.gsub(hex, '^(%x%x%x%x%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x%x%x%x)', '%1-%2-%3-%4-'))
end

local function permits_of(lease, count)
  local first, all = bytes(lease), {}
  local number = struct.unpack('>I4', string.sub(first, 13))
  for index = 0, count - 1 do
    all[index + 1] = string.sub(first, 1, 12) .. struct.pack('>I4', (number + index) % 4294967296)
  end
  return all
end

-- Gives permits back and tells how many there are.
local function give_back(permits, told)
  local count = 0
  for _, permit in ipairs(permits) do count = count + redis.call('ZREM', taken, permit) end
  if count > 0 then publish(told, redis.call('INCRBY', lock, count)) end
  return count
end

-- Takes back what was not given back in time.
local function reap(told)
  local late = redis.call('ZRANGEBYSCORE', taken, '-inf', now)
  for _, permit in ipairs(late) do redis.call('HDEL', card, uuid(permit)) end
  give_back(late, told)
end

-- Until when this lease has its permits, unless that is over.
local function deadline_of(lease)
  local score = redis.call('ZSCORE', taken, bytes(lease))
  return score and tonumber(score) > now and tonumber(score)
end

local function put(deadline)
  for _, permit in ipairs(permits_of(id, take)) do
    redis.call('ZADD', taken, digits(deadline), permit)
  end
  return deadline - now
end
