local left
if holds(writer) then
  left = keep(lock, ttl)
elseif holds(owner) and redis.call('EXISTS', lease) == 1 then
  left = keep(lease, ttl)
  keep(lock, left)
else
  return {0}
end
keep(card, left + linger)
return {1, left}
