local waited = step_out()
if redis.pcall('GET', lock) ~= id then return waited and 1 or 0 end
redis.call('DEL', lock)
leave(id)
return 1
