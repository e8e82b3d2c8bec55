local misfit = misfit(true)
if misfit then return other(misfit) end
local mode = redis.call('HGET', lock, 'mode')
local mine = holds(writer)
if mode and not mine then return busy(redis.call('PTTL', lock), any_holder()) end
if not mine then redis.call('HSET', lock, 'mode', 'write', writer, 1) end
return granted(mine, true, keep(lock, ttl))
