local kind = redis.call('TYPE', lock).ok
if kind ~= 'none' and kind ~= 'string' then return other('a lock') end
local free = redis.call('GET', lock)
if free and not tonumber(free) then return other('a string') end
reap(channel)
local mine = deadline_of(id)
if mine then return granted(true, false, put(math.max(mine, now + ttl))) end
free = tonumber(redis.call('GET', lock))
local used = redis.call('ZCARD', taken)
if free and free + used ~= of and used > 0 then
  return other('a semaphore of ' .. digits(free + used) .. ' permits')
end
if not free or free + used ~= of then
  free = math.max(0, of - used)
  redis.call('SET', lock, free)
  publish(channel, free)
end
if free >= take then
  redis.call('DECRBY', lock, take)
  local left = put(now + ttl)
  local span = redis.call('PTTL', lock)
  if span > 0 then redis.call('PEXPIRE', taken, span) end
  return granted(false, used == 0, left)
end
local first = redis.call('ZRANGE', taken, 0, 0, 'WITHSCORES')
local back = tonumber(first[2] or never)
local left = back < never and back - now or -1
return busy(left, first[1] and uuid(first[1]))
