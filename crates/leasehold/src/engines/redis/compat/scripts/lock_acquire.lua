local misfit = misfit(false)
if misfit then return other(misfit) end
local mine = holds(owner)
local holder = not mine and redis.call('HKEYS', lock)[1]
if holder then return busy(redis.call('PTTL', lock), who(holder)) end
if not mine then redis.call('HSET', lock, owner, 1) end
local left = keep(lock, ttl)
-- The token of a fenced lock: nobody but the holder can have raised it.
local token, fence = KEYS[5], nil
if token then fence = tonumber(mine and redis.call('GET', token) or redis.call('INCR', token)) end
return granted(mine, true, left, fence)
