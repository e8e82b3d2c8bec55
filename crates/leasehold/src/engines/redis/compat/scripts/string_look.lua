local held = redis.pcall('GET', lock)
if type(held) == 'table' then return other(redis.call('TYPE', lock).ok) end
local holders = {}
if held then holders[1] = shown(held, redis.call('PTTL', lock), 'exclusive') end
if id == '' then return {now, holders, line()} end
if not held or not aimed_at(holders[1]) then return {now, {}, {}} end
redis.call('DEL', lock)
leave(held)
return {now, holders, {}}
