local misfit = misfit(true)
if misfit then return other(misfit) end
local mode = redis.call('HGET', lock, 'mode')
if mode == 'write' and not holds(writer) then
  return busy(redis.call('PTTL', lock), any_holder())
end
local mine = holds(owner) and redis.call('EXISTS', lease) == 1
if not mode then redis.call('HSET', lock, 'mode', 'read') end
redis.call('HSET', lock, owner, 1)
if not mine then redis.call('SET', lease, 1, 'PX', ttl) end
local left = keep(lease, ttl)
keep(lock, left)
return granted(mine, not mode, left)
