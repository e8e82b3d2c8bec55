local held = redis.pcall('GET', lock)
if type(held) == 'table' then return other(redis.call('TYPE', lock).ok) end
local mine = held == id
if held and not mine then
  return busy(redis.call('PTTL', lock), held)
end
if mine then return granted(true, true, keep(lock, ttl)) end
redis.call('SET', lock, id, 'PX', ttl)
return granted(false, true, ttl)
