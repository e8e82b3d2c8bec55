if not holds(owner) then return {0} end
local left = keep(lock, ttl)
keep(card, left + linger)
return {1, left}
