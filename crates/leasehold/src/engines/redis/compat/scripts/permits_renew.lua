local deadline = redis.call('TYPE', taken).ok == 'zset' and deadline_of(id)
if not deadline then return {0} end
local left = put(math.max(deadline, now + ttl))
keep(card, left + linger)
return {1, left}
